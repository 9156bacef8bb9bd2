//! The forms of values: functions that check paths, numbers and names.

use super::MAX_PATH;

/// Maximum number of CPUs in a property.
const MAX_CPUS: u32 = 65_535;

/// Maximum length of a network link's name in bytes (IFNAMSIZ less the NUL).
pub(super) const MAX_LINK: usize = 15;

/// Maximum length of a user name in bytes (LOGIN_NAME_MAX is 256 with the NUL; useradd(8) allows
/// 255).
const MAX_USER: usize = 255;

/// Maximum length of a dataset name in bytes (ZFS_MAX_DATASET_NAME_LEN less the NUL).
const MAX_DATASET: usize = 255;

/// Returns the path without doubled and trailing slashes, so that equal paths have equal texts.
pub(super) fn check_path(value: &str, zonepath: bool) -> Result<String, &'static str> {
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

/// Converts a number of CPUs to hundredths of a CPU. Fails for less than a hundredth of a CPU.
pub(super) fn hundredths(value: &str) -> Option<u64> {
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // Further decimals are allowed only if they are zeros.
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

/// Returns the lower and the upper end of a range of CPU counts: `2` or `1-4`.
#[must_use]
pub fn cpu_range(value: &str) -> Option<(u32, u32)> {
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

/// Returns the first and the last port of `80` or `8000-8010`, or `None` for other text.
#[must_use]
pub fn port_range(value: &str) -> Option<(u16, u16)> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = plain.then(|| text.parse::<u16>().ok()).flatten()?;
        (number > 0).then_some(number)
    };
    let (first, last) = match value.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(value)?, number(value)?),
    };
    (first <= last).then_some((first, last))
}

/// Returns the canonical form of an Ethernet address. Fails for a multicast address and for six
/// zero bytes.
pub(super) fn mac(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(6);
    for part in value.split([':', '-']) {
        let legal = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        bytes.push(legal.then(|| u8::from_str_radix(part, 16).ok()).flatten()?);
    }
    let legal = bytes.len() == 6 && bytes[0] & 1 == 0 && bytes.iter().any(|byte| *byte != 0);
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    legal.then(|| parts.join(":"))
}

/// Returns true for a dataset name that zfs(8) accepts, or that has tokens: components of letters,
/// digits and `-_.:`, none of them empty, without `@`.
pub(super) fn is_dataset(value: &str) -> bool {
    let component = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.:%{}".contains(&b))
    };
    value.len() <= MAX_DATASET && value.split('/').all(component)
}

/// Returns true for a host id as hostid(1) prints it, except for ffffffff, which means no host id.
pub(super) fn is_host_id(value: &str) -> bool {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    (1..=8).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && u32::from_str_radix(digits, 16).is_ok_and(|id| id != u32::MAX)
}

pub(super) fn is_fs_type(value: &str) -> bool {
    (1..=15).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

/// Returns true for the name of a link, or for a text with tokens that may expand to such a name.
pub(super) fn is_link(value: &str) -> bool {
    let legal = (1..=MAX_LINK).contains(&value.len())
        && value
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/:".contains(&b))
        && !matches!(value, "." | "..");
    // The token in the name expands to a number of at most four digits.
    legal || value.contains("%{") && value.len() <= MAX_LINK + 1
}

pub(super) fn is_user(value: &str) -> bool {
    (1..=MAX_USER).contains(&value.len())
        && value
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b":/,".contains(&b))
        && !value.starts_with('-')
}

pub(super) fn is_bandwidth(value: &str) -> bool {
    let digits = value
        .strip_suffix(['K', 'M', 'G', 'k', 'm', 'g'])
        .unwrap_or(value);
    digits.bytes().all(|b| b.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|number| number > 0)
}
