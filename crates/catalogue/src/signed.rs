//! Clear-signed documents, and the answers of gpgv.

use std::fmt;

const BEGIN_MESSAGE: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const BEGIN_SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const END_SIGNATURE: &str = "-----END PGP SIGNATURE-----";

/// Returns true if a document is one clear-signed message, without text before or after it. gpgv
/// accepts such text and does not say that it is unsigned. The lines of the armour must not be in the
/// document a second time, not even as a part of another line.
#[must_use]
pub fn is_one_message(document: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(document) else {
        return false;
    };
    let marks = [BEGIN_MESSAGE, BEGIN_SIGNATURE, END_SIGNATURE];
    let armour: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| line.starts_with("-----"))
        .collect();
    let first = text.lines().next().map(str::trim_end);
    let last = text.trim_end().lines().next_back();
    armour == marks
        && marks.iter().all(|mark| text.matches(mark).count() == 1)
        && first == Some(BEGIN_MESSAGE)
        && last == Some(END_SIGNATURE)
}

/// A valid signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The fingerprint of the key.
    pub key: String,
    /// The time of the signature, in seconds since 1970.
    pub time: u64,
}

/// The reason why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsigned {
    /// The text or the signature was changed.
    Changed,
    /// The keyring does not have the key with this id.
    UnknownKey(String),
    /// The signature or its key has expired or was revoked.
    Ended(&'static str),
    /// gpgv found no valid signature.
    Missing,
}

impl fmt::Display for Unsigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => write!(
                f,
                "bad signature: the text is not what the owner of the key signed"
            ),
            Self::UnknownKey(key) => write!(
                f,
                "signed by the key {}, which is not in the keyring",
                oci::shown(key)
            ),
            Self::Ended(reason) => f.write_str(reason),
            Self::Missing => f.write_str("no valid signature"),
        }
    }
}

/// Reads the status lines that gpgv prints with `--status-fd`. All signatures of the document must
/// be valid. Of several signatures, returns the oldest.
///
/// # Errors
/// Fails with the reason if a signature is not valid, or if there is none.
pub fn status(lines: &str) -> Result<Signature, Unsigned> {
    let mut valid: Option<Signature> = None;
    for line in lines.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("[GNUPG:]") {
            continue;
        }
        match words.next() {
            Some("BADSIG") => return Err(Unsigned::Changed),
            Some("NO_PUBKEY") => {
                let key = words.next().unwrap_or_default();
                return Err(Unsigned::UnknownKey(key.to_owned()));
            }
            Some("EXPSIG") => return Err(Unsigned::Ended("the signature has expired")),
            Some("EXPKEYSIG") => {
                return Err(Unsigned::Ended("the key of the signature has expired"));
            }
            Some("REVKEYSIG") => {
                return Err(Unsigned::Ended("the key of the signature was revoked"));
            }
            Some("VALIDSIG") => {
                let key = words.next().unwrap_or_default().to_owned();
                let time = words.nth(1).and_then(|word| word.parse().ok());
                let Some(time) = time else {
                    return Err(Unsigned::Missing);
                };
                if valid.as_ref().is_none_or(|valid| time < valid.time) {
                    valid = Some(Signature { key, time });
                }
            }
            _ => {}
        }
    }
    valid.ok_or(Unsigned::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}\n\
        -----BEGIN PGP SIGNATURE-----\n\niHUE\n-----END PGP SIGNATURE-----\n";

    #[test]
    fn text_around_a_signed_message_is_refused() {
        assert!(is_one_message(MESSAGE.as_bytes()));
        assert!(is_one_message(MESSAGE.replace('\n', "\r\n").as_bytes()));
        for bad in [
            format!("{{}}\n{MESSAGE}"),
            format!("{MESSAGE}{{}}\n"),
            format!("{MESSAGE}{MESSAGE}"),
            MESSAGE.replace("iHUE", "s-----BEGIN PGP SIGNED MESSAGE-----\niHUE"),
            MESSAGE.replace("{}", "{} -----BEGIN PGP SIGNATURE-----"),
            MESSAGE.replace("-----END PGP SIGNATURE-----\n", ""),
            "{}".to_owned(),
            String::new(),
        ] {
            assert!(!is_one_message(bad.as_bytes()), "{bad}");
        }
        assert!(!is_one_message(b"\xff"));
    }

    #[test]
    fn status_lines_give_the_time_of_a_valid_signature() {
        let valid =
            "[GNUPG:] GOODSIG D4F8 mirror\n[GNUPG:] VALIDSIG 4E7D 2026-11-25 1795578016 0 4\n";
        let signature = status(valid).unwrap();
        assert_eq!(
            (signature.key.as_str(), signature.time),
            ("4E7D", 1_795_578_016)
        );
        for (line, why) in [
            ("[GNUPG:] BADSIG D4F8 mirror", "bad signature"),
            (
                "[GNUPG:] ERRSIG D4F8 22 8\n[GNUPG:] NO_PUBKEY D4F8",
                "the key D4F8",
            ),
            (
                "[GNUPG:] EXPKEYSIG D4F8 mirror",
                "the key of the signature has expired",
            ),
            ("[GNUPG:] REVKEYSIG D4F8 mirror", "revoked"),
            ("[GNUPG:] EXPSIG D4F8 mirror", "the signature has expired"),
        ] {
            let why_not = status(&format!("{valid}{line}\n")).unwrap_err();
            assert!(why_not.to_string().contains(why), "{why_not}");
        }
        for missing in [
            "",
            "VALIDSIG 4E7D 2026-11-25 1",
            "[GNUPG:] VALIDSIG 4E7D",
            "[GNUPG:] NODATA 4",
        ] {
            assert_eq!(status(missing), Err(Unsigned::Missing), "{missing}");
        }
    }
}
