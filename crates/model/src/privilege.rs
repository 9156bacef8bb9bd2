//! The privileges of Solaris (`limitpriv`) and the Linux capabilities that implement them.
//!
//! A capability of a zone is valid only for objects of the zone's own user namespace. A privilege
//! without a capability is either one that every Linux process has (`proc_fork`) or one that Linux
//! does not have (`contract_event`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of Linux capabilities, with one bit per capability number (capabilities(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities(pub u64);

/// The errors of a `limitpriv` list, with the texts of zoneadm verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No privilege of this name exists.
    #[error("privilege \"{0}\" is unknown")]
    Unknown(String),
    /// No zone may have this privilege.
    #[error("privilege \"{0}\" is not permitted within the zone's privilege set")]
    Prohibited(String),
    /// Every zone needs this privilege.
    #[error("required privilege \"{0}\" is missing from the zone's privilege set")]
    Missing(&'static str),
}

/// The use of a privilege in a zone: default, optional, required or prohibited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Default,
    Optional,
    Required,
    Prohibited,
    /// The privilege is default and required if the zone has its own network, otherwise prohibited.
    ExclusiveIp,
    /// The privilege is default if the zone has its own network, otherwise optional.
    DefaultOfExclusiveIp,
    /// The privilege is default if the zone has its own userland, otherwise optional.
    OwnUserland,
}

struct Privilege {
    name: &'static str,
    capabilities: &'static [&'static str],
    allowed: Use,
}

const fn row(name: &'static str, allowed: Use, capabilities: &'static [&'static str]) -> Privilege {
    Privilege {
        name,
        capabilities,
        allowed,
    }
}

/// Names of the capabilities, in the order of their numbers.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// Capabilities that root of every zone has. Root could not do its usual work without these
/// capabilities, and no privilege of Solaris includes them.
const ALWAYS: &[&str] = &[
    "setpcap",
    "setfcap",
    "mknod",
    "lease",
    "sys_boot",
    "sys_tty_config",
    "linux_immutable",
];

/// The privilege to run without the filter of system calls. Solaris has no filter of system calls,
/// and so neither this privilege nor the next two.
const UNFILTERED: &str = "sys_unfiltered";

/// The privilege that ping(8) needs on Solaris.
///
/// Distributions give ping the file capability `cap_net_raw`, and the kernel refuses to execute a
/// program whose file capabilities are not in the bounding set. Therefore the privilege
/// `net_icmpaccess` includes the capability `net_raw` in a zone of shared IP. In such a zone
/// `net_raw` gives no power over the network, because the network belongs to the host's user
/// namespace. A zone with its own network gets `net_raw` from `net_rawaccess`, and in that zone
/// `net_raw` is effective.
const ICMP: &str = "net_icmpaccess";

/// The privilege to use io_uring(7).
const IO_URING: &str = "proc_io_uring";

/// The privilege to create sockets with socketcall(2), as 32-bit programs for i386 do.
const SOCKETCALL: &str = "net_socketcall";

#[rustfmt::skip]
const TABLE: &[Privilege] = &[
    row("contract_event", Use::Default, &[]),
    row("contract_identity", Use::Default, &[]),
    row("contract_observer", Use::Default, &[]),
    row("cpc_cpu", Use::Optional, &["perfmon"]),
    row("dtrace_kernel", Use::Prohibited, &[]),
    row("dtrace_proc", Use::Optional, &[]),
    row("dtrace_user", Use::Optional, &[]),
    row("file_chown", Use::Default, &["chown"]),
    row("file_chown_self", Use::Default, &["chown"]),
    row("file_dac_execute", Use::Default, &["dac_override"]),
    row("file_dac_read", Use::Default, &["dac_read_search"]),
    row("file_dac_search", Use::Default, &["dac_read_search"]),
    row("file_dac_write", Use::Default, &["dac_override"]),
    row("file_downgrade_sl", Use::Optional, &[]),
    row("file_link_any", Use::Default, &[]),
    row("file_owner", Use::Default, &["fowner"]),
    row("file_read", Use::Default, &[]),
    row("file_setid", Use::Default, &["fsetid"]),
    row("file_upgrade_sl", Use::Optional, &[]),
    row("file_write", Use::Default, &[]),
    row("graphics_access", Use::Optional, &[]),
    row("graphics_map", Use::Optional, &[]),
    row("ipc_dac_read", Use::Default, &["ipc_owner"]),
    row("ipc_dac_write", Use::Default, &["ipc_owner"]),
    row("ipc_owner", Use::Default, &["ipc_owner"]),
    row("net_access", Use::Default, &[]),
    row("net_bindmlp", Use::Default, &[]),
    row(ICMP, Use::Default, &[]),
    row("net_mac_aware", Use::Default, &[]),
    row("net_observability", Use::Default, &[]),
    row("net_privaddr", Use::Default, &["net_bind_service"]),
    row("net_rawaccess", Use::DefaultOfExclusiveIp, &["net_raw"]),
    row(SOCKETCALL, Use::OwnUserland, &[]),
    row("proc_audit", Use::Default, &["audit_write"]),
    row("proc_chroot", Use::Default, &["sys_chroot"]),
    row("proc_clock_highres", Use::Optional, &["wake_alarm"]),
    row("proc_exec", Use::Required, &[]),
    row("proc_fork", Use::Required, &[]),
    row("proc_info", Use::Default, &[]),
    row(IO_URING, Use::Optional, &[]),
    row("proc_lock_memory", Use::Default, &["ipc_lock"]),
    row("proc_owner", Use::Default, &["kill", "sys_ptrace"]),
    row("proc_priocntl", Use::Optional, &["sys_nice"]),
    row("proc_session", Use::Default, &[]),
    row("proc_setid", Use::Default, &["setuid", "setgid"]),
    row("proc_taskid", Use::Default, &[]),
    row("proc_zone", Use::Prohibited, &[]),
    row("sys_acct", Use::Default, &[]),
    row("sys_admin", Use::Default, &["sys_admin"]),
    row("sys_audit", Use::Default, &["audit_control"]),
    row("sys_config", Use::Prohibited, &[]),
    row("sys_devices", Use::Prohibited, &[]),
    row("sys_ip_config", Use::ExclusiveIp, &["net_admin"]),
    row("sys_iptun_config", Use::ExclusiveIp, &["net_admin"]),
    row("sys_linkdir", Use::Prohibited, &[]),
    row("sys_mount", Use::Required, &["sys_admin"]),
    row("sys_net_config", Use::Prohibited, &[]),
    row("sys_nfs", Use::Default, &[]),
    row("sys_ppp_config", Use::ExclusiveIp, &["net_admin"]),
    row("sys_res_config", Use::Prohibited, &[]),
    row("sys_resource", Use::Default, &["sys_resource", "sys_nice"]),
    row("sys_suser_compat", Use::Prohibited, &[]),
    row("sys_time", Use::Optional, &["sys_time"]),
    row(UNFILTERED, Use::Optional, &[]),
    row("virt_manage", Use::Prohibited, &[]),
    row("xvm_control", Use::Prohibited, &[]),
];

/// The properties of a zone on which its default privileges depend.
#[derive(Clone, Copy)]
struct Kind {
    exclusive: bool,
    own_userland: bool,
}

impl Kind {
    /// Returns the kind for a zone that runs the host's programs.
    fn of_host(ip: crate::config::IpType) -> Self {
        Self {
            exclusive: ip == crate::config::IpType::Exclusive,
            own_userland: false,
        }
    }
}

/// Returns, for each row of the table, true if a `limitpriv` list includes the privilege.
fn choose(limitpriv: &str, kind: Kind) -> Result<Vec<bool>, Error> {
    let standard = |one: &Privilege| match one.allowed {
        Use::Default | Use::Required => true,
        Use::ExclusiveIp | Use::DefaultOfExclusiveIp => kind.exclusive,
        Use::OwnUserland => kind.own_userland,
        Use::Optional | Use::Prohibited => false,
    };
    let mut chosen = vec![limitpriv.trim().is_empty(); TABLE.len()];
    if limitpriv.trim().is_empty() {
        chosen = TABLE.iter().map(standard).collect();
    }
    for word in limitpriv
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let bare = word.strip_prefix(['!', '-']);
        let name = bare.unwrap_or(word).to_ascii_lowercase();
        let name = name.strip_prefix("priv_").unwrap_or(&name);
        if name == "default" || name == "basic" || name == "zone" {
            for (mark, one) in chosen.iter_mut().zip(TABLE) {
                *mark = if standard(one) { bare.is_none() } else { *mark };
            }
            continue;
        }
        let at = TABLE.iter().position(|one| one.name == name);
        let at = at.ok_or_else(|| Error::Unknown(word.to_owned()))?;
        chosen[at] = bare.is_none();
    }
    Ok(chosen)
}

/// The system calls that the filter admits because of the zone's privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// True if the zone has no filter of system calls.
    pub unfiltered: bool,
    /// True if the filter admits io_uring(7).
    pub io_uring: bool,
    /// True if the filter admits sockets by socketcall(2) of i386.
    pub socketcall: bool,
}

/// Returns the system calls that the filter admits in a zone with this `limitpriv` list.
/// `own_userland` is true if the zone's programs are its own, not the host's.
///
/// # Errors
/// Fails with the first unknown privilege.
pub fn openings(
    limitpriv: &str,
    ip: crate::config::IpType,
    own_userland: bool,
) -> Result<Openings, Error> {
    let kind = Kind {
        exclusive: ip == crate::config::IpType::Exclusive,
        own_userland,
    };
    let chosen = choose(limitpriv, kind)?;
    let has = |name: &str| {
        let mut rows = TABLE.iter().zip(&chosen);
        rows.any(|(one, chosen)| *chosen && one.name == name)
    };
    Ok(Openings {
        unfiltered: has(UNFILTERED),
        io_uring: has(IO_URING),
        socketcall: has(SOCKETCALL),
    })
}

/// Returns true if a zone with this `limitpriv` list runs without the filter of system calls.
///
/// # Errors
/// Fails with the first unknown privilege.
pub fn is_unfiltered(limitpriv: &str, ip: crate::config::IpType) -> Result<bool, Error> {
    Ok(openings(limitpriv, ip, false)?.unfiltered)
}

/// Returns true if the processes of a zone with this `limitpriv` list may send ICMP requests.
///
/// # Errors
/// Fails with the first unknown privilege.
pub fn may_ping(limitpriv: &str, ip: crate::config::IpType) -> Result<bool, Error> {
    let mut rows = TABLE.iter().zip(choose(limitpriv, Kind::of_host(ip))?);
    Ok(rows.any(|(one, chosen)| chosen && one.name == ICMP))
}

/// Returns true if a `limitpriv` list names raw network access, and the network of the zone belongs
/// to the host. Solaris allows raw access in a zone of shared IP, Linux does not.
///
/// # Errors
/// Fails with the first unknown privilege.
pub fn wants_raw_of_host(limitpriv: &str, ip: crate::config::IpType) -> Result<bool, Error> {
    if ip == crate::config::IpType::Exclusive {
        return Ok(false);
    }
    let mut rows = TABLE.iter().zip(choose(limitpriv, Kind::of_host(ip))?);
    Ok(rows.any(|(one, chosen)| chosen && one.allowed == Use::DefaultOfExclusiveIp))
}

/// Converts a `limitpriv` list to capabilities. An empty list means `default`. A name may begin
/// with `priv_` in upper or lower case. `!name` and `-name` remove a privilege.
///
/// # Errors
/// Fails with the first privilege that is unknown, prohibited or missing.
pub fn capabilities(limitpriv: &str, ip: crate::config::IpType) -> Result<Capabilities, Error> {
    let exclusive = ip == crate::config::IpType::Exclusive;
    // No capability depends on the userland of the zone.
    let chosen = choose(limitpriv, Kind::of_host(ip))?;
    let mut set = Capabilities::default();
    for name in ALWAYS {
        set.insert(name);
    }
    for (one, chosen) in TABLE.iter().zip(chosen) {
        let needed = match one.allowed {
            Use::Required => true,
            Use::ExclusiveIp => exclusive && one.name == "sys_ip_config",
            _ => false,
        };
        let prohibited = match one.allowed {
            Use::Prohibited => true,
            Use::ExclusiveIp => !exclusive,
            _ => false,
        };
        match (chosen, needed, prohibited) {
            (true, _, true) => return Err(Error::Prohibited(one.name.to_owned())),
            (false, true, _) => return Err(Error::Missing(one.name)),
            (true, _, _) if one.name == ICMP && !exclusive => set.insert("net_raw"),
            (true, _, _) => one.capabilities.iter().for_each(|name| set.insert(name)),
            (false, ..) => {}
        }
    }
    Ok(set)
}

impl Capabilities {
    /// Returns true if the set has the capability with that number.
    #[must_use]
    pub const fn has(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }

    /// Adds a capability by its name in lower case. An unknown name changes nothing.
    fn insert(&mut self, name: &str) {
        if let Some(number) = NAMES.iter().position(|known| *known == name) {
            self.0 |= 1 << number;
        }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = NAMES
            .iter()
            .zip(0u32..)
            .filter(|(_, n)| self.has(*n))
            .map(|(name, _)| *name)
            .collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IpType::{Exclusive, Shared};

    fn names(limitpriv: &str) -> String {
        capabilities(limitpriv, Shared).unwrap().to_string()
    }

    #[test]
    fn the_default_set_has_nothing_over_the_machine() {
        let default = names("");
        assert_eq!(default, names("default"));
        for dangerous in [
            "sys_module",
            "sys_rawio",
            "sys_time",
            "syslog",
            "mac_admin",
            "bpf",
        ] {
            assert!(
                !default.split(',').any(|name| name == dangerous),
                "{dangerous}"
            );
        }
        assert!(default.contains("sys_admin") && default.contains("setuid"));
        assert!(!default.contains("net_admin"));
        let own_network = capabilities("", Exclusive).unwrap().to_string();
        assert!(own_network.contains("net_admin") && own_network.contains("net_raw"));
    }

    #[test]
    fn net_raw_is_there_for_ping_and_for_raw_access() {
        let has = |list, ip| {
            let set = capabilities(list, ip).unwrap();
            set.has(13)
        };
        for (list, shared, exclusive) in [
            ("", true, true),
            ("default,!net_icmpaccess", false, true),
            // The zone owns its network in this row of the test, so only raw access gives net_raw.
            ("default,!net_rawaccess", true, false),
            ("default,net_rawaccess", true, true),
            ("default,net_rawaccess,!net_icmpaccess", true, true),
            ("default,!net_rawaccess,!net_icmpaccess", false, false),
        ] {
            assert_eq!(has(list, Shared), shared, "{list}");
            assert_eq!(has(list, Exclusive), exclusive, "{list}");
        }
        let pings = |list| may_ping(list, Shared).unwrap();
        assert!(pings("") && pings("default") && !pings("default,!net_icmpaccess"));
        let wants = |list, ip| wants_raw_of_host(list, ip).unwrap();
        assert!(wants("default,net_rawaccess", Shared));
        assert!(!wants("default,net_rawaccess", Exclusive) && !wants("", Shared));
    }

    #[test]
    fn a_zone_is_without_a_filter_only_where_that_is_said() {
        let is = |limitpriv: &str| is_unfiltered(limitpriv, Shared).unwrap();
        assert!(!is("") && !is("default") && !is("default,sys_unfiltered,!sys_unfiltered"));
        assert!(is("default,sys_unfiltered") && is("default,PRIV_SYS_UNFILTERED"));
        assert_eq!(names("default,sys_unfiltered"), names(""));
        assert!(is_unfiltered("nonsense", Shared).is_err());
    }

    #[test]
    fn openings_are_given_by_name() {
        let of = |limitpriv: &str, own| openings(limitpriv, Shared, own).unwrap();
        assert_eq!(of("", false), Openings::default());
        assert!(of("", true).socketcall && of("default,sys_time", true).socketcall);
        assert!(!of("default,!net_socketcall", true).socketcall);
        assert!(of("default,net_socketcall", false).socketcall);
        assert!(of("default,proc_io_uring", false).io_uring && !of("", true).io_uring);
    }

    #[test]
    fn every_capability_of_the_tables_is_known() {
        let used = TABLE.iter().flat_map(|one| one.capabilities).chain(ALWAYS);
        for name in used {
            assert!(NAMES.contains(name), "{name}");
        }
        assert!(TABLE.is_sorted_by_key(|one| one.name));
    }

    #[test]
    fn words_add_and_take_away() {
        assert!(names("default,PRIV_SYS_TIME").contains("sys_time"));
        assert!(!names("default,!proc_chroot").contains("sys_chroot"));
        assert!(!names("default,-file_chown,-file_chown_self").contains("chown,"));
        assert!(names("proc_exec,proc_fork,sys_mount").contains("sys_admin"));
    }

    #[test]
    fn refusals_name_the_privilege() {
        let text = |list| capabilities(list, Shared).unwrap_err().to_string();
        assert_eq!(text("default,fly"), "privilege \"fly\" is unknown");
        assert_eq!(
            text("default,sys_config"),
            "privilege \"sys_config\" is not permitted within the zone's privilege set"
        );
        assert_eq!(
            text("default,!sys_mount"),
            "required privilege \"sys_mount\" is missing from the zone's privilege set"
        );
        assert!(text("default,sys_ip_config").contains("not permitted"));
        let missing = capabilities("default,!sys_ip_config", Exclusive).unwrap_err();
        assert!(missing.to_string().contains("missing"));
    }
}
