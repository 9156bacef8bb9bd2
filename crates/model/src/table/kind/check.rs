//! Checks the values of each kind.

use label::Label;

use super::forms::{
    MAX_LINK, check_path, cpu_range, hundredths, is_bandwidth, is_dataset, is_fs_type, is_host_id,
    is_link, is_user, mac, port_range,
};
use super::{BadValue, Kind, MAX_VALUE};
use crate::brands;
use crate::name::{ZoneName, is_well_formed};
use crate::table::{Address, size};

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

/// Start of the attribute names that zonep2vchk(8) of Solaris writes. All other names that begin
/// with "zone" are reserved.
const P2V: &str = "zonep2vchk-";

/// Maximum length of a resource control's name, in bytes.
const MAX_RCTL: usize = 64;

/// Returns true for a resource control that this program supports for zones.
#[must_use]
pub fn is_known_rctl(name: &str) -> bool {
    RCTLS.contains(&name)
}

/// Returns true for a name that can be a resource control of zones in any release.
fn is_rctl_name(name: &str) -> bool {
    let rest = name.strip_prefix("zone.").unwrap_or_default();
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !rest.is_empty() && name.len() <= MAX_RCTL && rest.bytes().all(is_legal)
}

impl Kind {
    /// Checks a simple value of `property`, or one element of its list of texts, and returns the
    /// canonical form.
    // This function is long because it is a table with one arm for each kind. No arm of this
    // function depends on another.
    pub fn check(self, property: &str, value: &str) -> Result<String, BadValue> {
        let bad = |why: &str| Err(BadValue::new(property, value, why));
        if value.len() > MAX_VALUE {
            return bad(&format!("is longer than {MAX_VALUE} bytes"));
        }
        // The zonecfg language has no escape for these characters, so export could not write them.
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
            Self::Ports => {
                return port_range(value).map_or_else(
                    || bad("is not a port from 1 to 65535, or a range such as 8000-8010"),
                    |(first, last)| {
                        Ok(if first == last {
                            first.to_string()
                        } else {
                            format!("{first}-{last}")
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
                if !is_host_id(value) {
                    return bad("is not hexadecimal from 0 to fffffffe");
                }
            }
            Self::Label => {
                return match value.parse::<Label>() {
                    Ok(label) if label.is_administrative() => {
                        bad("is a label of the host, and no zone has it")
                    }
                    Ok(label) => Ok(label.to_string()),
                    Err(_) => bad("is not a label in hexadecimal, such as 0x0004-08-68"),
                };
            }
            Self::FsType => {
                if !is_fs_type(value) {
                    return bad("is not a file system type");
                }
            }
            Self::Address => return Address::check(value).or_else(|why| bad(&why.to_string())),
            Self::Addresses => {
                for one in value.split(',') {
                    if let Err(why) = one.parse::<Address>() {
                        return bad(&why.to_string());
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
                if !is_link(value) {
                    return bad(&format!("is not a link name of up to {MAX_LINK} bytes"));
                }
            }
            Self::Dataset => {
                if !is_dataset(value) {
                    return bad("is not a dataset name such as pool/data");
                }
            }
            Self::RctlName => {
                // Unknown resource controls of other releases are stored, and verify warns about
                // them.
                if !is_rctl_name(value) {
                    return bad(&format!(
                        "is not the name of a resource control: use {}",
                        RCTLS.join(", ")
                    ));
                }
            }
            Self::User => {
                if !is_user(value) {
                    return bad("is not a user name");
                }
            }
            Self::Bandwidth => {
                if !is_bandwidth(value) {
                    return bad("is not a number of bits a second, with K, M or G after it");
                }
            }
            Self::AttrName => {
                let is_reserved = value.starts_with("zone") && !value.starts_with(P2V);
                if !is_well_formed(value) || is_reserved {
                    return bad(
                        "is not an attribute name: letters, digits, '-', '_' and '.', a letter or digit first, and no name that begins with zone but not with zonep2vchk-",
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
