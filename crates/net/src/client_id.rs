//! Reads the identifiers of DHCP clients in the property allowed-dhcp-cids.
//!
//! | written | is |
//! |---|---|
//! | `1.HARDWARE.TIME.LINK-ADDRESS` | a DUID-LLT (RFC 8415, section 11) |
//! | `2.ENTERPRISE.HEX` | a DUID-EN |
//! | `3.HARDWARE.LINK-ADDRESS` | a DUID-LL |
//! | `0xHEX` | these bytes |
//! | anything else | the bytes of the text |

use model::plan::network::Mac;

/// Maximum number of client ids of a link.
pub const MAX_IDS: usize = 16;

/// Maximum length in bytes of a client id, which is that of a DUID (RFC 8415).
pub const MAX_ID_BYTES: usize = 130;

/// The problem of a list of client ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A client id in the list is malformed.
    #[error("{0} is not a DHCP client id")]
    Malformed(String),
    /// The list has more client ids than a link can have.
    #[error("{0} DHCP client ids; a link has at most {MAX_IDS}")]
    TooMany(usize),
}

/// Reads a list of client ids that are separated by commas.
///
/// # Errors
/// Fails with the problem of the first id that is malformed.
pub fn parse_all(text: &str) -> Result<Vec<Vec<u8>>, Error> {
    let parts = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    let mut all: Vec<Vec<u8>> = Vec::new();
    for part in parts {
        let id = parse(part).ok_or_else(|| Error::Malformed(part.to_owned()))?;
        if !all.contains(&id) {
            all.push(id);
        }
    }
    match all.len() > MAX_IDS {
        true => Err(Error::TooMany(all.len())),
        false => Ok(all),
    }
}

fn parse(text: &str) -> Option<Vec<u8>> {
    let id = if let Some(digits) = text.strip_prefix("0x") {
        hex(digits)?
    } else if let Some(id) = duid(text) {
        id?
    } else {
        text.as_bytes().to_vec()
    };
    (1..=MAX_ID_BYTES).contains(&id.len()).then_some(id)
}

/// Parses a DUID in text form. Returns `None` if the text does not begin like a DUID, and
/// `Some(None)` for an invalid DUID.
fn duid(text: &str) -> Option<Option<Vec<u8>>> {
    let (kind, rest) = text.split_once('.')?;
    let kind: u16 = match kind {
        "1" | "2" | "3" => kind.parse().ok()?,
        _ => return None,
    };
    let mut parts = rest.split('.');
    let mut read = || {
        let mut id = kind.to_be_bytes().to_vec();
        match kind {
            2 => {
                id.extend(parts.next()?.parse::<u32>().ok()?.to_be_bytes());
                id.extend(hex(parts.next()?)?);
            }
            _ => {
                id.extend(parts.next()?.parse::<u16>().ok()?.to_be_bytes());
                if kind == 1 {
                    id.extend(parts.next()?.parse::<u32>().ok()?.to_be_bytes());
                }
                id.extend(parts.next()?.parse::<Mac>().ok()?.0);
            }
        }
        parts.next().is_none().then_some(id)
    };
    Some(read())
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|one| u8::try_from(one).ok())
    };
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_client_id_is_parsed() {
        let ids = parse_all("web1, 0x01ff, 3.1.2:0:0:0:0:1,1.1.7.2:0:0:0:0:1,2.9.abcd").unwrap();
        let mac = [2, 0, 0, 0, 0, 1];
        assert_eq!(
            ids,
            [
                b"web1".to_vec(),
                vec![1, 0xff],
                [&[0, 3, 0, 1][..], &mac].concat(),
                [&[0, 1, 0, 1, 0, 0, 0, 7][..], &mac].concat(),
                vec![0, 2, 0, 0, 0, 9, 0xab, 0xcd],
            ]
        );
        assert_eq!(parse_all("").unwrap(), [[0_u8; 0]; 0]);
        // A duplicate id in the list is dropped.
        assert_eq!(parse_all("a,0x61").unwrap().len(), 1);
        // An id that is a name, but begins like a number.
        assert_eq!(parse_all("10.web").unwrap(), [b"10.web"]);
    }

    #[test]
    fn invalid_client_ids_are_refused() {
        let long = format!("0x{}", "00".repeat(MAX_ID_BYTES + 1));
        for bad in [
            "0x",
            "0x0",
            "0xgg",
            "1.1",
            "2.1.x",
            "3.1.2:0:0:0:0:1.9",
            &long,
        ] {
            assert!(parse_all(bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..=MAX_IDS).map(|number| number.to_string()).collect();
        assert!(parse_all(&many.join(",")).is_err());
    }
}
