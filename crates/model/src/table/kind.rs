//! The kinds of property values: what each accepts and its canonical form.

use super::{Address, size};
use crate::brands;
use crate::name::{ZoneName, is_well_formed};

/// Longest value of any property in bytes.
pub const MAX_VALUE: usize = 2048;

/// Longest path in bytes (PATH_MAX less the terminating NUL and room for a
/// name below the zone's root).
pub const MAX_PATH: usize = 1023;

/// Most CPUs that can be asked for.
const MAX_CPUS: u32 = 65_535;

/// Longest name of a network link (IFNAMSIZ less the NUL).
const MAX_LINK: usize = 15;

/// Longest user name (LOGIN_NAME_MAX is 256 with the NUL; useradd(8) allows this).
const MAX_USER: usize = 255;

/// Longest dataset name (ZFS_MAX_DATASET_NAME_LEN less the NUL).
const MAX_DATASET: usize = 255;

/// The resource controls of zones (resource_controls(7) of Solaris).
const RCTLS: &[&str] = &[
    "zone.cpu-cap",
    "zone.cpu-shares",
    "zone.max-locked-memory",
    "zone.max-lofi",
    "zone.max-lwps",
    "zone.max-msg-ids",
    "zone.max-processes",
    "zone.max-sem-ids",
    "zone.max-shm-ids",
    "zone.max-shm-memory",
    "zone.max-swap",
    "zone.zfs-io-priority",
];

/// What values a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// An absolute path without `.` and `..`.
    Path,
    /// An absolute path that is not `/`.
    ZonePath,
    /// A whole number within these bounds, both included.
    Int {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// Bytes, with an optional suffix K, M, G or T (powers of 1024); canonical is the
    /// plain number.
    Size,
    /// CPUs to the hundredth, such as `1.5` or `.75`; canonical has both decimals.
    Cpus,
    /// A number of CPUs, or a range of such numbers: `2`, `1-4`.
    CpuRange,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// One or more of these words, with commas between them.
    Words(&'static [&'static str]),
    /// One of these words or what another kind takes.
    OneOf(&'static [&'static str], &'static Self),
    /// A list of texts.
    List,
    /// A list of complex values, each with these fields.
    Complex(&'static [&'static str]),
    /// A zone name.
    ZoneName,
    /// A brand name.
    Brand,
    /// A host id: hexadecimal, 0 to fffffffe, `0x` optional.
    HostId,
    /// A file system type: a word without `/`.
    FsType,
    /// The name of an attr resource.
    AttrName,
    /// An IP address with its prefix length (optional for IPv4), or the name of a host.
    Address,
    /// The same without names, one or more, with commas between them.
    Addresses,
    /// An IP address without a prefix length.
    Router,
    /// An Ethernet address, six hexadecimal numbers; canonical has two digits each.
    Mac,
    /// The name of a network link: up to 15 bytes.
    Link,
    /// The name of a ZFS dataset.
    Dataset,
    /// A resource control of a zone.
    RctlName,
    /// The name of a user.
    User,
    /// Bits a second, with an optional suffix K, M or G (powers of 1000); M when none.
    Bandwidth,
}

/// A value that its property does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Not one of the few words that are allowed.
    #[error("{property} value must be {choices}.")]
    Choice {
        /// The property.
        property: String,
        /// The words, quoted and joined.
        choices: String,
    },
    /// Anything else.
    #[error("{property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The property.
        property: String,
        /// The value, shortened when it is very long.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

impl BadValue {
    pub(crate) fn new(property: &str, value: &str, why: impl Into<String>) -> Self {
        let mut shown: String = value.chars().take(80).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self::Invalid {
            property: property.to_owned(),
            value: shown.escape_debug().to_string(),
            why: why.into(),
        }
    }
}

impl Kind {
    /// Checks a simple value, or one element of a list of texts, of `property`
    /// and gives it in canonical form.
    pub fn check(self, property: &str, value: &str) -> Result<String, BadValue> {
        let bad = |why: &str| Err(BadValue::new(property, value, why));
        if value.len() > MAX_VALUE {
            return bad(&format!("is longer than {MAX_VALUE} bytes"));
        }
        // The language has no escape for these, so export could not write them.
        if value.chars().any(|c| c.is_control() || c == '"') {
            return bad("has a control character or a double quote");
        }
        match self {
            Self::Text | Self::List => {}
            Self::Bool => return choice(property, value, &["true", "false"]),
            Self::Enum(words) => return choice(property, value, words),
            Self::Path | Self::ZonePath => {
                return check_path(value, self == Self::ZonePath).or_else(bad);
            }
            Self::Int { min, max } => {
                let number = value.parse::<u64>().ok();
                let in_range = number.filter(|number| (min..=max).contains(number));
                return in_range.map_or_else(
                    || bad(&format!("is not a whole number from {min} to {max}")),
                    |number| Ok(number.to_string()),
                );
            }
            Self::Size => {
                return size::parse(value).map_or_else(
                    || bad("is not a number of bytes, with K, M, G or T after it"),
                    |bytes| Ok(bytes.to_string()),
                );
            }
            Self::Cpus => {
                return hundredths(value).map_or_else(
                    || bad("is not a number of CPUs from 0.01, with up to two decimals"),
                    |cpus| Ok(format!("{}.{:02}", cpus / 100, cpus % 100)),
                );
            }
            Self::CpuRange => {
                return cpu_range(value).map_or_else(
                    || bad("is not a number of CPUs, or a range such as 1-4"),
                    |(min, max)| {
                        Ok(if min == max {
                            min.to_string()
                        } else {
                            format!("{min}-{max}")
                        })
                    },
                );
            }
            Self::Words(words) => {
                let unknown = value.split(',').find(|word| !words.contains(word));
                if let Some(word) = unknown {
                    return choice(property, word, words);
                }
            }
            Self::OneOf(words, _) if words.contains(&value) => {}
            Self::OneOf(words, other) => {
                return other.check(property, value).map_err(|error| match error {
                    BadValue::Invalid {
                        property,
                        value,
                        why,
                    } => BadValue::Invalid {
                        property,
                        value,
                        why: format!("{why}, and not {}", words.join(" or ")),
                    },
                    choice @ BadValue::Choice { .. } => choice,
                });
            }
            Self::Complex(_) => return bad("is not a complex value (name=value,...)"),
            Self::ZoneName => {
                if let Err(error) = value.parse::<ZoneName>() {
                    return bad(&format!("is a bogus zone name: {error}"));
                }
            }
            Self::Brand => {
                if brands::find(value).is_none() {
                    return bad("is not a known brand");
                }
            }
            Self::HostId => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                let legal = (1..=8).contains(&digits.len())
                    && digits.bytes().all(|b| b.is_ascii_hexdigit())
                    && u32::from_str_radix(digits, 16).is_ok_and(|id| id != u32::MAX);
                if !legal {
                    return bad("is not hexadecimal from 0 to fffffffe");
                }
            }
            Self::FsType => {
                let legal = (1..=15).contains(&value.len())
                    && value.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
                if !legal {
                    return bad("is not a file system type");
                }
            }
            Self::Address => return Address::check(value).or_else(|why| bad(&why)),
            Self::Addresses => {
                for one in value.split(',') {
                    if let Err(why) = one.parse::<Address>() {
                        return bad(&why);
                    }
                }
            }
            Self::Router => {
                if let Err(error) = value.parse::<std::net::IpAddr>() {
                    return bad(&format!("is not an address without a prefix: {error}"));
                }
            }
            Self::Mac => {
                return mac(value).map_or_else(
                    || bad("is not an Ethernet address of one host, such as 2:8:20:0:1:a"),
                    Ok,
                );
            }
            Self::Link => {
                let legal = (1..=MAX_LINK).contains(&value.len())
                    && value
                        .bytes()
                        .all(|b| b.is_ascii_graphic() && !b"/:".contains(&b))
                    && !matches!(value, "." | "..");
                // A token becomes a number of at most four digits.
                let template = value.contains("%{") && value.len() <= MAX_LINK + 1;
                if !legal && !template {
                    return bad(&format!("is not a link name of up to {MAX_LINK} bytes"));
                }
            }
            Self::Dataset => {
                if !is_dataset(value) {
                    return bad("is not a dataset name such as pool/data");
                }
            }
            Self::RctlName => {
                if !RCTLS.contains(&value) {
                    return bad(&format!(
                        "is not a known resource control: use {}",
                        RCTLS.join(", ")
                    ));
                }
            }
            Self::User => {
                let legal = (1..=MAX_USER).contains(&value.len())
                    && value
                        .bytes()
                        .all(|b| b.is_ascii_graphic() && !b":/,".contains(&b))
                    && !value.starts_with('-');
                if !legal {
                    return bad("is not a user name");
                }
            }
            Self::Bandwidth => {
                let digits = value
                    .strip_suffix(['K', 'M', 'G', 'k', 'm', 'g'])
                    .unwrap_or(value);
                let legal = digits.bytes().all(|b| b.is_ascii_digit())
                    && digits.parse::<u32>().is_ok_and(|number| number > 0);
                if !legal {
                    return bad("is not a number of bits a second, with K, M or G after it");
                }
            }
            Self::AttrName => {
                let legal = is_well_formed(value) && !value.starts_with("zone");
                if !legal {
                    return bad(
                        "is not an attribute name: letters, digits, '-', '_' and '.', a letter or digit first, and no name that begins with zone",
                    );
                }
            }
        }
        Ok(value.to_owned())
    }
}

fn choice(property: &str, value: &str, words: &[&str]) -> Result<String, BadValue> {
    if words.contains(&value) {
        return Ok(value.to_owned());
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let choices = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    Err(BadValue::Choice {
        property: property.to_owned(),
        choices,
    })
}

/// The path without doubled and trailing slashes, so that equal paths are equal.
fn check_path(value: &str, zonepath: bool) -> Result<String, &'static str> {
    if value.len() > MAX_PATH {
        return Err("is too long for a path");
    }
    if !value.starts_with('/') {
        return Err("is not an absolute path");
    }
    let mut path = String::with_capacity(value.len());
    for part in value.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return Err("has a '.' or '..' in it");
        }
        path.push('/');
        path.push_str(part);
    }
    match (path.is_empty(), zonepath) {
        (true, true) => Err("is not allowed as a zonepath"),
        (true, false) => Ok("/".to_owned()),
        (false, _) => Ok(path),
    }
}

/// Hundredths of a CPU; at least one.
fn hundredths(value: &str) -> Option<u64> {
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // More decimals only where they say nothing.
    let (part, rest) = part.split_at_checked(2).unwrap_or((part, ""));
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) {
        return None;
    }
    if !rest.bytes().all(|b| b == b'0') {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let part: u64 = format!("{part:0<2}").parse().ok()?;
    let all = whole.checked_mul(100)?.checked_add(part)?;
    (all >= 1 && whole <= u64::from(MAX_CPUS)).then_some(all)
}

/// The ends of a range of CPU counts.
pub(crate) fn cpu_range(value: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = plain.then(|| text.parse::<u32>().ok()).flatten()?;
        (1..=MAX_CPUS).contains(&number).then_some(number)
    };
    let (min, max) = match value.split_once('-') {
        Some((min, max)) => (number(min)?, number(max)?),
        None => (number(value)?, number(value)?),
    };
    (min <= max).then_some((min, max))
}

/// Six bytes, of which the first does not say "many hosts".
fn mac(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(6);
    for part in value.split([':', '-']) {
        let legal = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        bytes.push(legal.then(|| u8::from_str_radix(part, 16).ok()).flatten()?);
    }
    let legal = bytes.len() == 6 && bytes[0] & 1 == 0 && bytes.iter().any(|byte| *byte != 0);
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    legal.then(|| parts.join(":"))
}

/// As zfs(8) has it: components of letters, digits and `-_.: `, none empty, no `@`.
fn is_dataset(value: &str) -> bool {
    let component = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.:%{}".contains(&b))
    };
    value.len() <= MAX_DATASET && value.split('/').all(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_canonicalises() {
        for (kind, given, canonical) in [
            (Kind::Text, "a b=c", "a b=c"),
            (Kind::Bool, "true", "true"),
            (Kind::Path, "/", "/"),
            (Kind::Path, "/a..b/.c", "/a..b/.c"),
            (Kind::Path, "//usr//local/", "/usr/local"),
            (Kind::ZonePath, "/zones/%{zonename}", "/zones/%{zonename}"),
            (Kind::Int { min: 1, max: 9 }, "007", "7"),
            (Kind::Size, "50m", "52428800"),
            (Kind::Cpus, "3", "3.00"),
            (Kind::Cpus, ".75", "0.75"),
            (Kind::Cpus, "1.500", "1.50"),
            (Kind::CpuRange, "1-4", "1-4"),
            (Kind::CpuRange, "2-2", "2"),
            (Kind::Words(&["a", "b"]), "b,a", "b,a"),
            (Kind::OneOf(&["auto"], &Kind::Mac), "auto", "auto"),
            (
                Kind::OneOf(&["auto"], &Kind::Mac),
                "2:8:20:0:1:A",
                "02:08:20:00:01:0a",
            ),
            (Kind::Address, "192.168.0.1/24", "192.168.0.1/24"),
            (Kind::Address, "fe80::1/10", "fe80::1/10"),
            (Kind::Address, "web.example.org", "web.example.org"),
            (
                Kind::Addresses,
                "10.0.0.1/24,fd00::1/64",
                "10.0.0.1/24,fd00::1/64",
            ),
            (Kind::Router, "10.0.0.254", "10.0.0.254"),
            (Kind::Link, "eth0", "eth0"),
            (Kind::Link, "net%{id}", "net%{id}"),
            (Kind::Dataset, "tank/a-b_c.d:e", "tank/a-b_c.d:e"),
            (Kind::RctlName, "zone.max-lwps", "zone.max-lwps"),
            (Kind::User, "anna", "anna"),
            (Kind::Bandwidth, "100M", "100M"),
            (Kind::Enum(&["x", "y"]), "y", "y"),
            (Kind::Brand, "ipkg", "ipkg"),
            (Kind::HostId, "0xFFFFFFFE", "0xFFFFFFFE"),
            (Kind::HostId, "0", "0"),
            (Kind::FsType, "fuse.sshfs", "fuse.sshfs"),
            (Kind::AttrName, "kernel-version", "kernel-version"),
        ] {
            assert_eq!(kind.check("p", given).as_deref(), Ok(canonical), "{given}");
        }
    }

    #[test]
    fn refuses_what_is_illegal() {
        let long = "x".repeat(MAX_VALUE + 1);
        let long_path = format!("/{}", "x".repeat(MAX_PATH));
        for (kind, given) in [
            (Kind::Text, long.as_str()),
            (Kind::Text, "a\nb"),
            (Kind::Text, "a\"b"),
            (Kind::Bool, "TRUE"),
            (Kind::Path, "usr"),
            (Kind::Path, ""),
            (Kind::Path, "/a/../b"),
            (Kind::Path, &long_path),
            (Kind::ZonePath, "//"),
            (Kind::Int { min: 1, max: 9 }, "10"),
            (Kind::Int { min: 1, max: 9 }, "-1"),
            (Kind::Size, "K"),
            (Kind::Size, "1.5G"),
            (Kind::Size, "99999999999T"),
            (Kind::Size, "5é"),
            (Kind::Cpus, "0"),
            (Kind::Cpus, "."),
            (Kind::Cpus, "1.005"),
            (Kind::Cpus, "-1"),
            (Kind::CpuRange, "0"),
            (Kind::CpuRange, "4-1"),
            (Kind::CpuRange, "1-"),
            (Kind::CpuRange, "+1"),
            (Kind::Words(&["a", "b"]), "a,"),
            (Kind::OneOf(&["auto"], &Kind::Mac), "manual"),
            (Kind::Mac, "1:2:3:4:5:6"),
            (Kind::Mac, "0:0:0:0:0:0"),
            (Kind::Mac, "2:8:20:0:1"),
            (Kind::Address, "192.168.0.1/33"),
            (Kind::Address, "fe80::1"),
            (Kind::Address, "fe80::1/129"),
            (Kind::Address, "a b"),
            (Kind::Addresses, "10.0.0.1/24,"),
            (Kind::Router, "10.0.0.1/24"),
            (Kind::Link, "eth0:1"),
            (Kind::Link, "a-name-of-16-byt"),
            (Kind::Dataset, "/tank"),
            (Kind::Dataset, "tank@snap"),
            (Kind::RctlName, "process.max-file-size"),
            (Kind::User, "a:b"),
            (Kind::Bandwidth, "0"),
            (Kind::Bandwidth, "1T"),
            (Kind::Enum(&["x"]), "z"),
            (Kind::ZoneName, "global"),
            (Kind::Brand, "hurd"),
            (Kind::HostId, "ffffffff"),
            (Kind::HostId, "0x"),
            (Kind::HostId, "+1"),
            (Kind::HostId, "123456789"),
            (Kind::FsType, "a/b"),
            (Kind::AttrName, "zonefoo"),
            (Kind::AttrName, "-x"),
        ] {
            assert!(kind.check("p", given).is_err(), "{kind:?} {given}");
        }
    }

    #[test]
    fn no_path_can_end_a_line_or_a_quote() {
        for kind in [Kind::Path, Kind::ZonePath, Kind::List, Kind::Text] {
            for bad in ["\n", "\r", "\t", "\0", "\u{7f}", "\u{85}", "\""] {
                let path = format!("/zones/a{bad}evil:installed:/etc");
                assert!(kind.check("zonepath", &path).is_err(), "{kind:?} {bad:?}");
            }
        }
    }

    #[test]
    fn names_the_choices() {
        let text = |words| {
            Kind::Enum(words)
                .check("p", "z")
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            text(&["a", "b", "c"]),
            Err("p value must be 'a', 'b' or 'c'.".to_owned())
        );
        assert_eq!(text(&["a"]), Err("p value must be 'a'.".to_owned()));
    }
}
