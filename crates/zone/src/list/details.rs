//! The facts about a zone that only `zoneadm list -j` prints.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;

use model::Config;
use model::config::Admin;
use model::controls::Control;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use store::index::Entry;
use store::runtime::Runtime;

use host::Host;
use subject::network::Records;

/// The folder of the zonepath with a folder for each snapshot.
const SNAPSHOTS: &str = "snapshots";

/// The type of a ZFS file system in statfs(2).
const ZFS_MAGIC: rustix::fs::FsWord = 0x2fc1_2fc1;

/// Facts about a zone that are cheap to find.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// True if the zone boots with the host.
    pub autoboot: bool,
    /// The time of the zone's boot, in seconds since 1970; `None` for a zone that is not active.
    pub booted: Option<u64>,
    /// The addresses of the zone's links: those of the kernel for an active zone with links of its
    /// own, otherwise those of the configuration.
    pub addresses: Vec<String>,
    /// The configured limits, by the name of their resource control, in bytes, in hundredths of a
    /// CPU (`zone.cpu-cap`), or as a number.
    pub caps: BTreeMap<&'static str, u64>,
    /// Number of snapshots; `None` if the caller cannot see them, and on ZFS.
    pub snapshots: Option<usize>,
    /// The users who may administer the zone, with their authorizations.
    #[serde(skip)]
    pub admins: Vec<Admin>,
}

impl Details {
    /// Returns the facts about a zone.
    #[must_use]
    pub fn of(host: &Host, entry: &Entry, config: &Config, runtime: Option<&Runtime>) -> Self {
        Self {
            autoboot: config.autoboot(),
            booted: runtime.map(|runtime| boot_time(runtime.init.started)),
            addresses: addresses(host, entry, config, runtime.is_some()),
            caps: caps(config),
            snapshots: snapshots(host, entry),
            admins: config.admins().collect(),
        }
    }
}

/// Returns the time at which a process started, in seconds since 1970. `ticks` is field 22 of
/// proc_pid_stat(5).
fn boot_time(ticks: u64) -> u64 {
    let millis = |clock| {
        let now = clock_gettime(clock);
        u64::try_from(now.tv_sec).unwrap_or_default() * 1000
            + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000
    };
    let host_boot = millis(ClockId::Realtime).saturating_sub(millis(ClockId::Boottime));
    (host_boot + ticks * 1000 / rustix::param::clock_ticks_per_second()) / 1000
}

fn addresses(host: &Host, entry: &Entry, config: &Config, is_active: bool) -> Vec<String> {
    if is_active {
        // Users without root cannot read the records.
        let record = Records::of(&host.root).load(&entry.name);
        if let Some(record) = record.ok().flatten() {
            let links = record.links.iter();
            let given = links.flat_map(|link| link.addresses.iter().map(ToString::to_string));
            return given.collect();
        }
    }
    let mut all = Vec::new();
    for net in config.resources_of("net") {
        all.extend(Some(net.get("address").to_owned()));
    }
    for anet in config.resources_of("anet") {
        let allowed = anet.get("allowed-address").split(',').map(str::trim);
        all.extend(allowed.map(str::to_owned));
    }
    all.retain(|address| !address.is_empty() && address != "auto");
    all
}

fn caps(config: &Config) -> BTreeMap<&'static str, u64> {
    let limit = |control: Control| match control {
        Control::MaxPhysicalMemory => config.capped_memory_physical(),
        other => config.rctl_limit(other.as_str()),
    };
    let all = Control::ALL.into_iter();
    all.filter_map(|control| Some((control.as_str(), limit(control)?)))
        .collect()
}

fn snapshots(host: &Host, entry: &Entry) -> Option<usize> {
    let zonepath = host.root.path(&entry.zonepath);
    let system = rustix::fs::statfs(&zonepath).ok()?;
    if system.f_type == ZFS_MAGIC {
        return None;
    }
    if let Ok(Some(count)) = crate::kept_disks::count(&zonepath) {
        return Some(count);
    }
    match std::fs::read_dir(zonepath.join(SNAPSHOTS)) {
        Ok(names) => {
            let names = names.filter_map(|name| Some(name.ok()?.file_name()));
            // A name with a dot is a snapshot that is being made or removed.
            let is_whole = |name: &OsString| !name.as_encoded_bytes().starts_with(b".");
            Some(names.filter(is_whole).count())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some(0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ZoneName;
    use model::config::Resource;
    use model::table;

    #[test]
    fn caps_are_those_of_the_configuration() {
        let name: ZoneName = "web".parse().unwrap();
        let mut config = Config::new(name);
        assert!(caps(&config).is_empty());
        config.set("max-lwps", "500").unwrap();
        let mut memory = Resource::new(table::resource("capped-memory").unwrap());
        memory.set("physical", "1g").unwrap();
        config.add(memory).unwrap();
        // A limit of threads also limits processes, as on Solaris.
        let expected = [
            ("zone.max-lwps", 500),
            ("zone.max-physical-memory", 1 << 30),
            ("zone.max-processes", 500),
        ];
        assert_eq!(caps(&config), BTreeMap::from(expected));
    }

    #[test]
    fn this_process_started_after_the_host_and_before_now() {
        let own = std::process::id().try_into().unwrap();
        let started = store::runtime::Process::find(own).unwrap().started;
        let now = u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap();
        let found = boot_time(started);
        assert!(found <= now + 1 && found + 3600 > now, "{found} {now}");
    }

    #[test]
    fn only_whole_snapshots_count() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(store::Root::new(folder.path()), "/none".into(), None);
        let entry = Entry::configured("web".parse().unwrap(), "/zones/web".into());
        assert_eq!(snapshots(&host, &entry), None);
        let all = folder.path().join("zones/web").join(SNAPSHOTS);
        for (name, count) in [("", 0), ("monday", 1), (".half", 1), ("tuesday", 2)] {
            std::fs::create_dir_all(all.join(name)).unwrap();
            assert_eq!(snapshots(&host, &entry), Some(count), "{name}");
        }
    }
}
