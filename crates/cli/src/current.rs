//! The zone in which this process runs. The data about the zone is in a file that zoneadmd writes
//! into the zone.
//!
//! zoneadmd writes the file before the first process of the zone runs. The file has the name of the
//! zone, then lines `id=`, `uuid=`, `brand=` and `ip-type=`, and in an immutable zone
//! `file-mac-profile=` and `read-only=`. Root of the zone can change the file.
//! Therefore programs may display the values in the file, but no access decision may depend on the
//! file.

use std::fmt;
use std::fs::File;
use std::io::Read;

use model::config::IpType;
use model::immutable::{PROPERTY, Profile};
use model::{Uuid, brands, name};

/// Maximum size of the file, in bytes. The file has at most seven short lines.
const MAX_SIZE: u64 = 4096;

/// A zone as a process inside the zone sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentZone {
    /// The name of the zone.
    pub name: String,
    /// The numeric id of the zone.
    pub id: Option<u32>,
    /// The UUID of the zone, which the installation assigns.
    pub uuid: Option<Uuid>,
    /// The brand of the zone, as configured.
    pub brand: String,
    /// The network type of the zone: shared with the host, or exclusive.
    pub ip_type: IpType,
    /// True if the root of the zone is read-only.
    pub read_only: bool,
    /// The profile of an immutable zone; `none` for other zones.
    pub profile: String,
}

impl fmt::Display for CurrentZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// Returns the zone in which this process runs, or `None` in the global zone.
#[must_use]
pub fn current_zone() -> Option<CurrentZone> {
    let file = File::open(platform::NAME_FILE).ok()?;
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).ok()?;
    parse(&text)
}

/// Parses the file. A field that is missing or not understood gets the default value, because an
/// older or newer zoneadmd may have written the file.
fn parse(text: &str) -> Option<CurrentZone> {
    let mut lines = text.lines().map(str::trim);
    let name = lines.next().filter(|name| name::is_well_formed(name))?;
    let mut zone = CurrentZone {
        name: name.to_owned(),
        id: None,
        uuid: None,
        brand: brands::DEFAULT.to_owned(),
        ip_type: IpType::Shared,
        read_only: false,
        profile: "none".to_owned(),
    };
    for (key, value) in lines.filter_map(|line| line.split_once('=')) {
        match key {
            "id" => zone.id = value.parse().ok(),
            "uuid" => zone.uuid = value.parse().ok(),
            "brand" if brands::find(value).is_some() => value.clone_into(&mut zone.brand),
            "ip-type" if value == "exclusive" => zone.ip_type = IpType::Exclusive,
            "read-only" => zone.read_only = value == "true",
            PROPERTY if Profile::ALL.iter().any(|one| one.name() == value) => {
                value.clone_into(&mut zone.profile);
            }
            _ => {}
        }
    }
    Some(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_zone_is_told() {
        let uuid = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";
        let text = format!(
            "web1\nid=7\nuuid={uuid}\nbrand=lx\nip-type=exclusive\nfile-mac-profile=strict\nread-only=true\n"
        );
        let zone = parse(&text).unwrap();
        assert_eq!(
            zone,
            CurrentZone {
                name: "web1".to_owned(),
                id: Some(7),
                uuid: uuid.parse().ok(),
                brand: "lx".to_owned(),
                ip_type: IpType::Exclusive,
                read_only: true,
                profile: "strict".to_owned(),
            }
        );
        assert_eq!(zone.to_string(), "web1");
    }

    #[test]
    fn missing_and_invalid_fields_are_none() {
        let plain = parse("web1\n").unwrap();
        assert_eq!((plain.id, plain.uuid), (None, None));
        assert_eq!(
            (plain.brand.as_str(), plain.ip_type),
            ("native", IpType::Shared)
        );
        let odd = "web1\nid=-1\nuuid=x\nbrand=\u{1b}[2J\nip-type=odd\nnew=1\n\nid\n";
        assert_eq!(parse(odd), Some(plain));
        for none in ["", "\n", "a b\n", "../x\nid=1\n"] {
            assert_eq!(parse(none), None, "{none:?}");
        }
    }
}
