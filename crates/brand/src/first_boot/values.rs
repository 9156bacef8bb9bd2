//! The legal values of the properties of a profile.
//!
//! The values are written into files of the root, so none may add a line or a field to such a file.

/// Maximum length of a host name, in bytes (the kernel's bound).
const MAX_HOST_NAME_BYTES: usize = 64;

/// Maximum length of a user name, in bytes (that of useradd).
const MAX_LOGIN_BYTES: usize = 32;

/// Returns true for text without control characters, such as a line feed.
pub(super) fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Returns true for text of letters, digits and `others`.
fn made_of(text: &str, others: &[u8]) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

/// Returns true for a host name.
pub(super) fn is_host_name(text: &str) -> bool {
    text.len() <= MAX_HOST_NAME_BYTES && made_of(text, b"-.") && !text.starts_with(['-', '.'])
}

/// Returns true for a domain of DNS.
pub(super) fn is_domain(text: &str) -> bool {
    made_of(text, b"-._") && !text.starts_with('-')
}

/// Returns true for the name of a user other than root.
pub(super) fn is_login(text: &str) -> bool {
    text != "root"
        && text.len() <= MAX_LOGIN_BYTES
        && made_of(text, b"_-.")
        && text.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
}

/// Returns true for a crypted password as shadow(5) holds it, or a word that locks the account.
pub(super) fn is_crypted(text: &str) -> bool {
    let locked = matches!(text, "NP" | "*LK*" | "*" | "!");
    locked
        || (text.starts_with('$')
            && text.len() <= 512
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && !text.contains(':'))
}

/// Returns true for a line of authorized_keys(5) with a public key.
pub(super) fn is_key(text: &str) -> bool {
    let kinds = ["ssh-", "ecdsa-", "sk-"];
    let has_kind = text
        .split(' ')
        .any(|word| kinds.iter().any(|kind| word.starts_with(kind)));
    has_kind && is_line(text) && !text.starts_with('#')
}

/// Returns true for the name of a time zone, which leads out of no folder.
pub(super) fn is_time_zone(text: &str) -> bool {
    text.split('/')
        .all(|part| made_of(part, b"_+-") && !part.starts_with('-'))
}

/// Returns true for the name of a category of the locale, such as LC_TIME.
pub(super) fn is_category(name: &str) -> bool {
    name.strip_prefix("LC_")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// Returns true for the name of a locale.
pub(super) fn is_locale_name(text: &str) -> bool {
    made_of(text, b"_.@:-")
}

/// Returns true for the sources of a line of nsswitch.conf(5).
pub(super) fn is_sources(text: &str) -> bool {
    made_of(text, b" _[]=!") && !text.trim().is_empty()
}

/// Returns true for the name of a package, which no package manager takes for an option.
pub(super) fn is_package(text: &str) -> bool {
    made_of(text, b"+-._:=~") && !text.starts_with(['-', '.', '+'])
}
