//! The variables of a UEFI firmware, in a file that is the guest's flash memory.
//!
//! The layout is that of EDK II: a volume contains a store of variables. Each change appends a
//! variable and marks the old one as deleted. After the store follow the areas with which the
//! firmware survives a power failure. This module always writes the variables into the empty volume
//! of a template, so that the firmware cannot complete an interrupted change over them.
//!
//! The guest can write to this file, so every length in it is checked.

use crate::Error;

/// Maximum size of the file, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Page size in bytes: the size of a file is a multiple of it.
pub const PAGE: u64 = 4096;

/// A GUID in the byte order of the file.
pub type Guid = [u8; 16];

/// Returns the GUID whose text has these parts.
const fn guid(a: u32, b: u16, c: u16, rest: [u8; 8]) -> Guid {
    let (a, b, c, r) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes(), rest);
    [
        a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], r[0], r[1], r[2], r[3], r[4], r[5], r[6],
        r[7],
    ]
}

/// The type of a volume that holds variables.
const VOLUME: Guid = guid(
    0xfff1_2b8d,
    0x7696,
    0x4c8b,
    [0xa9, 0x85, 0x27, 0x47, 0x07, 0x5b, 0x4f, 0x50],
);
/// The type of a store whose variables have data to authenticate changes.
const STORE: Guid = guid(
    0xaaf3_2c78,
    0x947b,
    0x439a,
    [0xa1, 0x80, 0x2e, 0x14, 0x4e, 0xc3, 0x77, 0x92],
);
/// The owner GUID of the variables PK and KEK.
const GLOBAL: Guid = guid(
    0x8be4_df61,
    0x93ca,
    0x11d2,
    [0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c],
);
/// The owner GUID of the variables db and dbx.
const SECURITY: Guid = guid(
    0xd719_b2cb,
    0x3d3a,
    0x4596,
    [0xa3, 0xbc, 0xda, 0xd0, 0x0e, 0x67, 0x65, 0x6f],
);
/// The owner GUID of the variable `SecureBootEnable`.
const ENABLE: Guid = guid(
    0xf0a3_0bc7,
    0xaf08,
    0x4556,
    [0x99, 0xc4, 0x00, 0x10, 0x09, 0xc9, 0x3a, 0x44],
);
/// The type of a list of X.509 certificates.
const X509: Guid = guid(
    0xa5c0_59a1,
    0x94e4,
    0x4aa7,
    [0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0, 0x72],
);
/// The owner GUID of the certificates that this module adds.
const OURS: Guid = guid(
    0x5a6f_6e65,
    0x7346,
    0x4c69,
    [0xa6, 0x75, 0x78, 0x6b, 0x65, 0x79, 0x73, 0x01],
);

/// Lengths in bytes of the header of a store, and of the header of a variable.
const STORE_HEAD: usize = 28;
const VARIABLE_HEAD: usize = 60;
/// The first bytes of a variable's header.
const BEGIN: [u8; 2] = [0xaa, 0x55];
/// The states of a variable: ADDED is valid; LEAVING is valid until a newer variable is complete.
const ADDED: u8 = 0x3f;
const LEAVING: u8 = 0x3e;
/// Attributes of a key: non-volatile, visible before and while the system runs, and changeable only
/// with the owner's key.
const KEY_ATTRIBUTES: u32 = 0x27;
/// Attributes of a boot setting: non-volatile, and visible before the system runs.
const BOOT_ATTRIBUTES: u32 = 3;

/// Maximum size of a variable in bytes that every firmware accepts.
const MAX_VARIABLE_BYTES: usize = 32 << 10;

/// A variable of the firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    owner: Guid,
    attributes: u32,
    /// The counter, time and key index with which the firmware authenticates changes of the
    /// variable.
    authentic: [u8; 28],
    data: Vec<u8>,
}

/// The variables of a firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvram {
    /// The bytes of the volume, from which only the variables are replaced.
    volume: Vec<u8>,
    /// The offset of the first variable, and the offset of the end of the space for variables.
    begin: usize,
    end: usize,
    variables: Vec<Variable>,
}

/// The keys of secure boot: the list of permitted programs, and the keys whose owners may change
/// this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<Variable>);

fn odd(why: &str) -> Error {
    Error::Odd {
        what: "the memory of the UEFI firmware",
        why: why.to_owned(),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(four))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

/// Returns a length in the form that [`number`] reads; callers have already refused longer data.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// Reads a variable's name, which is UTF-16 with a final zero.
fn name(bytes: &[u8]) -> Option<String> {
    let pairs = bytes.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    let units: Vec<u16> = pairs
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let (last, units) = units.split_last()?;
    (is_whole && *last == 0).then(|| String::from_utf16(units).ok())?
}

impl Nvram {
    /// Reads the variables from the content of a file.
    ///
    /// # Errors
    /// Fails with [`Error::Odd`] if the content is no volume of variables.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let is = |at: usize, what: &[u8]| bytes.get(at..at + what.len()) == Some(what);
        if !is(16, &VOLUME) || !is(40, b"_FVH") {
            return Err(odd("no volume of variables"));
        }
        let head = number(bytes, 48).unwrap_or(0) & 0xffff;
        let size = number(bytes, head + 16);
        let size = size.filter(|size| *size >= STORE_HEAD && head + size <= bytes.len());
        let (Some(size), true) = (size, head >= 56 && is(head, &STORE)) else {
            return Err(odd("no store of variables that are authenticated"));
        };
        let mut found = Self {
            volume: bytes.to_vec(),
            begin: head + STORE_HEAD,
            end: head + size,
            variables: Vec::new(),
        };
        found.variables = found
            .read()
            .ok_or_else(|| odd("a variable that ends beyond it"))?;
        Ok(found)
    }

    fn read(&self) -> Option<Vec<Variable>> {
        let place = self.volume.get(..self.end)?;
        let mut found: Vec<(u8, Variable)> = Vec::new();
        let mut at = self.begin;
        while place.get(at..at + 2) == Some(&BEGIN) {
            let head = place.get(at..at + VARIABLE_HEAD)?;
            let names = at + VARIABLE_HEAD;
            let data = names.checked_add(number(head, 36)?)?;
            let end = data.checked_add(number(head, 40)?)?;
            let content = place.get(data..end)?;
            let state = head[2];
            if matches!(state, ADDED | LEAVING) {
                let one = Variable {
                    name: name(place.get(names..data)?)?,
                    owner: head[44..60].try_into().ok()?,
                    attributes: word(head, 4)?,
                    authentic: head[8..36].try_into().ok()?,
                    data: content.to_vec(),
                };
                // A variable in the state LEAVING counts only if no newer one exists.
                let same =
                    |other: &(u8, Variable)| other.1.name == one.name && other.1.owner == one.owner;
                match found.iter().position(same) {
                    Some(old) if found[old].0 == LEAVING => found[old] = (state, one),
                    Some(_) => {}
                    None => found.push((state, one)),
                }
            }
            at = end.next_multiple_of(4);
        }
        Some(found.into_iter().map(|(_, one)| one).collect())
    }

    fn get(&self, name: &str, owner: &Guid) -> Option<&Variable> {
        let is_it = |one: &&Variable| one.name == name && one.owner == *owner;
        self.variables.iter().find(is_it)
    }

    fn set(&mut self, new: Variable) {
        self.remove(&new.name, &new.owner);
        self.variables.push(new);
    }

    fn remove(&mut self, name: &str, owner: &Guid) {
        self.variables
            .retain(|one| one.name != name || one.owner != *owner);
    }

    /// Replaces the keys of secure boot, and turns the check of signatures on. Programs that the
    /// guest has forbidden stay forbidden.
    pub fn enrol(&mut self, keys: &Keys) {
        for key in &keys.0 {
            let there = self.get(&key.name, &key.owner);
            let longer = there.is_some_and(|one| one.data.len() > key.data.len());
            if key.name != "dbx" || !longer {
                self.set(key.clone());
            }
        }
        self.set(Variable {
            name: "SecureBootEnable".to_owned(),
            owner: ENABLE,
            attributes: BOOT_ATTRIBUTES,
            authentic: [0; 28],
            data: vec![1],
        });
    }

    /// Returns true if the firmware checks signatures: a platform key exists, and the check was not
    /// turned off at the console.
    #[must_use]
    pub fn checks(&self) -> bool {
        let enabled = self.get("SecureBootEnable", &ENABLE);
        self.get("PK", &GLOBAL).is_some() && enabled.is_none_or(|one| one.data == [1])
    }

    /// Returns the content of a file with these variables, in the volume of `template`.
    ///
    /// # Errors
    /// Fails with [`Error::Odd`] if the variables do not fit into the volume.
    pub fn to_bytes(&self, template: &Self) -> Result<Vec<u8>, Error> {
        let mut bytes = template.volume.clone();
        let mut place = Vec::new();
        for one in &self.variables {
            let name: Vec<u8> = one
                .name
                .encode_utf16()
                .chain([0])
                .flat_map(u16::to_le_bytes)
                .collect();
            place.extend(BEGIN);
            place.extend([ADDED, 0]);
            place.extend(one.attributes.to_le_bytes());
            place.extend(one.authentic);
            place.extend(length(name.len()));
            place.extend(length(one.data.len()));
            place.extend(one.owner);
            place.extend(name);
            place.extend(&one.data);
            place.resize(place.len().next_multiple_of(4), 0xff);
        }
        let (begin, end) = (template.begin, template.end);
        // Padding is relative to the first variable, whose offset is a multiple of four.
        if place.len() > end - begin {
            return Err(odd("more variables than there is place for"));
        }
        place.resize(end - begin, 0xff);
        bytes[begin..end].copy_from_slice(&place);
        Ok(bytes)
    }
}

impl Keys {
    /// Returns the keys of a template that contains them.
    ///
    /// # Errors
    /// Fails with [`Error::Odd`] if the template lacks a key.
    pub fn of(template: &Nvram) -> Result<Self, Error> {
        let needed = [("PK", GLOBAL), ("KEK", GLOBAL), ("db", SECURITY)];
        let mut keys = Vec::new();
        for (name, owner) in needed {
            let key = template.get(name, &owner);
            keys.push(key.ok_or_else(|| odd("a template without keys"))?.clone());
        }
        keys.extend(template.get("dbx", &SECURITY).cloned());
        Ok(Self(keys))
    }

    /// Returns keys that consist of one certificate, for an administrator without other keys: this
    /// certificate decides about all programs.
    ///
    /// # Errors
    /// Fails with [`Error::Odd`] if the certificate is too long.
    pub fn of_certificate(certificate: &[u8]) -> Result<Self, Error> {
        let keys = [("PK", GLOBAL), ("KEK", GLOBAL), ("db", SECURITY)];
        let mut keys = Self(keys.map(|(name, owner)| key(name, owner)).to_vec());
        for one in &mut keys.0 {
            one.data = list(certificate)?;
        }
        Ok(keys)
    }

    /// Also permits programs that are signed with a certificate (DER).
    ///
    /// # Errors
    /// Fails with [`Error::Odd`] if the list has too many certificates.
    pub fn trust(&mut self, certificate: &[u8]) -> Result<(), Error> {
        let list = list(certificate)?;
        for one in self.0.iter_mut().filter(|one| one.name == "db") {
            let there = one.data.windows(list.len()).any(|part| part == list);
            if !there {
                one.data.extend(&list);
            }
            if one.data.len() > MAX_VARIABLE_BYTES {
                return Err(odd("more certificates than the firmware has place for"));
            }
        }
        Ok(())
    }

    /// Returns all keys as bytes: equal keys give equal bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for one in &self.0 {
            bytes.extend(one.name.as_bytes());
            bytes.extend((one.data.len() as u64).to_le_bytes());
            bytes.extend(&one.data);
        }
        bytes
    }
}

fn key(name: &str, owner: Guid) -> Variable {
    let mut authentic = [0; 28];
    // After the counter follows the time of the key. It is the beginning of 2020, so that a later
    // signed change is newer.
    authentic[8..12].copy_from_slice(&[0xe4, 0x07, 1, 1]);
    Variable {
        name: name.to_owned(),
        owner,
        attributes: KEY_ATTRIBUTES,
        authentic,
        data: Vec::new(),
    }
}

/// Returns a signature list with one certificate.
fn list(certificate: &[u8]) -> Result<Vec<u8>, Error> {
    if certificate.len() > MAX_VARIABLE_BYTES / 2 {
        return Err(odd("a certificate that is too long"));
    }
    let mut list = X509.to_vec();
    list.extend(length(28 + 16 + certificate.len()));
    list.extend(length(0));
    list.extend(length(16 + certificate.len()));
    list.extend(OURS);
    list.extend(certificate);
    Ok(list)
}

/// Returns the certificate in a file: DER unchanged, or the one certificate of a PEM file. Returns
/// `None` if the content is no certificate.
#[must_use]
pub fn certificate(content: &[u8]) -> Option<Vec<u8>> {
    let der = match content.first()? {
        0x30 => content.to_vec(),
        _ => {
            let text = std::str::from_utf8(content).ok()?;
            let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
            let (body, rest) = rest.split_once("-----END CERTIFICATE-----")?;
            if rest.contains("-----BEGIN") {
                return None;
            }
            let body: String = body.split_ascii_whitespace().collect();
            crate::base64::decode(&body)?
        }
    };
    // A certificate is a sequence of a sequence, a sequence and a bit string, without trailing
    // data.
    let (0x30, inner, []) = element(&der)? else {
        return None;
    };
    let (0x30, _, rest) = element(inner)? else {
        return None;
    };
    let (0x30, _, rest) = element(rest)? else {
        return None;
    };
    let (3, _, []) = element(rest)? else {
        return None;
    };
    Some(der)
}

/// Returns the first element of DER data: its tag, its content, and the rest of the data.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
            (bytes.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    let (inner, rest) = rest.split_at_checked(length)?;
    Some((tag, inner, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An empty volume of one page.
    fn empty() -> Vec<u8> {
        let mut bytes = vec![0xff; 4096];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, &[0; 16]);
        put(16, &VOLUME);
        put(40, b"_FVH");
        put(48, &[72, 0]);
        put(72, &STORE);
        put(72 + 16, &2048_u32.to_le_bytes());
        put(72 + 20, &[0x5a, 0xfe, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn variable(name: &str, data: &[u8]) -> Variable {
        Variable {
            data: data.to_vec(),
            ..key(name, GLOBAL)
        }
    }

    #[test]
    fn variables_go_there_and_back() {
        let template = Nvram::parse(&empty()).unwrap();
        assert_eq!(template.variables, []);
        let mut nvram = template.clone();
        nvram.set(variable("Boot0000", b"first"));
        nvram.set(variable("BootOrder", b"12"));
        nvram.set(variable("Boot0000", b"second"));
        let bytes = nvram.to_bytes(&template).unwrap();
        assert_eq!(bytes.len(), 4096);
        let again = Nvram::parse(&bytes).unwrap();
        assert_eq!(again.variables, nvram.variables);
        assert_eq!(again.get("Boot0000", &GLOBAL).unwrap().data, b"second");
        nvram.set(variable("large", &[0; 2048]));
        assert!(nvram.to_bytes(&template).is_err());
    }

    #[test]
    fn deleted_variables_do_not_count() {
        let template = Nvram::parse(&empty()).unwrap();
        let mut nvram = template.clone();
        nvram.variables = ["old", "new", "gone"]
            .map(|data| variable("x", data.as_bytes()))
            .to_vec();
        let mut bytes = nvram.to_bytes(&template).unwrap();
        let length = (VARIABLE_HEAD + 4 + 3usize).next_multiple_of(4);
        let begin = template.begin;
        bytes[begin + 2] = LEAVING;
        bytes[begin + 2 * length + 4 + 2] = 0x3c;
        let found = Nvram::parse(&bytes).unwrap();
        assert_eq!(found.variables, [variable("x", b"new")]);
    }

    #[test]
    fn keys_are_enrolled_in_place_of_others() {
        let template = Nvram::parse(&empty()).unwrap();
        let mut nvram = template.clone();
        nvram.set(variable("Boot0000", b"stays"));
        assert!(!nvram.checks());
        let mut keys = Keys::of_certificate(b"mine").unwrap();
        keys.trust(b"other").unwrap();
        keys.trust(b"other").unwrap();
        nvram.enrol(&keys);
        assert!(nvram.checks());
        assert_eq!(Keys::of(&nvram).unwrap().bytes(), keys.bytes());
        let db = nvram.get("db", &SECURITY).unwrap();
        assert_eq!(db.data.len(), 2 * 44 + "mine".len() + "other".len());
        let mut off = nvram.clone();
        off.variables.last_mut().unwrap().data = vec![0];
        assert!(!off.checks());
        nvram.enrol(&Keys::of_certificate(b"another").unwrap());
        assert!(nvram.get("Boot0000", &GLOBAL).is_some());
        assert_eq!(nvram.variables.len(), 5);
        assert!(Keys::of(&template).is_err());
        keys.trust(&[7; 16 << 10]).unwrap();
        assert!(keys.trust(&[8; 16 << 10]).is_err());
        assert!(keys.trust(&[9; 17 << 10]).is_err());
    }

    #[test]
    fn certificates_are_der_or_pem() {
        let der = [0x30, 8, 0x30, 1, 5, 0x30, 0, 3, 1, 0];
        assert_eq!(certificate(&der), Some(der.to_vec()));
        let pem = |der: &[u8]| {
            let text = crate::base64::encode(der);
            format!("x\n-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        assert_eq!(certificate(pem(&der).as_bytes()), Some(der.to_vec()));
        let twice = pem(&der) + &pem(&der);
        for bad in [
            &b""[..],
            b"text",
            twice.as_bytes(),
            &der[..9],
            &[0x30, 0x84, 0, 0, 0, 0],
            &[0x30, 5, 0x30, 0, 0x30, 0, 3],
        ] {
            assert_eq!(certificate(bad), None, "{bad:?}");
        }
        let mut longer = der.to_vec();
        longer.push(0);
        assert_eq!(certificate(&longer), None);
    }

    proptest! {
        #[test]
        fn any_variable_store_is_read_without_a_panic(
            at in 0usize..2100, bytes in prop::collection::vec(any::<u8>(), 1..80)
        ) {
            let mut content = empty();
            let mut nvram = Nvram::parse(&content).unwrap();
            nvram.set(variable("Boot0000", b"first"));
            let template = nvram.clone();
            content = nvram.to_bytes(&template).unwrap();
            content[at..at + bytes.len()].copy_from_slice(&bytes);
            if let Ok(found) = Nvram::parse(&content) {
                let _ = found.to_bytes(&template);
            }
            let _ = Nvram::parse(&bytes);
            let _ = certificate(&bytes);
        }
    }
}
