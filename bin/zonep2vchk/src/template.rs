//! zonecfg commands for a zone like the system.

use crate::args::Target;
use crate::network::{self, Interface};
use crate::report::{BRAND, harmless};
use crate::storage::{self, Mount};
use crate::system::System;

/// The commands, with comments for who reads them.
pub fn commands(system: &System, target: Target) -> String {
    let host = harmless(&system.host_name());
    let mut out = Commands::default();
    out.comment(&format!(
        "A zone like the system {host}. Replace each change-me with a value of the new host."
    ));
    out.line("create -b");
    out.set("brand", BRAND);
    out.set("zonepath", "/zones/%{zonename}");
    out.set("ip-type", target.ip_type());
    processors(&mut out, system);
    memory(&mut out, system);
    for mount in storage::mounts(system)
        .iter()
        .filter(|mount| mount.is_data())
    {
        file_system(&mut out, mount);
    }
    for (name, interface) in network::interfaces(system) {
        match target {
            Target::S10 => shared(&mut out, &name, &interface),
            Target::S11 => exclusive(&mut out, &name, &interface),
        }
    }
    for finding in network::unread(system) {
        out.comment(&format!("{}: {}", finding.subject, finding.advice));
    }
    // The two names are Solaris'.
    origin(&mut out, "zonep2vchk-info", &format!("p2v of host {host}"));
    let processors = system.processors();
    if processors > 0 {
        let text = format!("original system had {processors} cpus");
        origin(&mut out, "num-cpus", &text);
    }
    origin(&mut out, "p2v-system", &system.release());
    origin(&mut out, "p2v-kernel", &system.kernel());
    out.0
}

#[derive(Default)]
struct Commands(String);

impl Commands {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn comment(&mut self, text: &str) {
        self.line(&format!("# {}", harmless(text)));
    }

    fn set(&mut self, name: &str, value: &str) {
        self.line(&format!("set {name}={}", quoted(value)));
    }
}

/// As zonecfg reads it back. There is no way to write a double quote.
pub fn quoted(value: &str) -> String {
    let value = harmless(value).replace('"', "'");
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:%{}".contains(c);
    if value.chars().all(is_plain) && !value.is_empty() {
        value
    } else {
        format!("\"{value}\"")
    }
}

fn processors(out: &mut Commands, system: &System) {
    let count = system.processors();
    if count == 0 {
        return;
    }
    out.comment(&format!(
        "The system has {count} processor(s). One of these limits the zone to as many:"
    ));
    for (resource, value) in [
        ("capped-cpu", format!("{count}.0")),
        ("dedicated-cpu", count.to_string()),
    ] {
        out.comment(&format!("add {resource}"));
        out.comment(&format!("set ncpus={value}"));
        out.comment("end");
    }
}

fn memory(out: &mut Commands, system: &System) {
    let Some(kib) = system.memory() else { return };
    out.line("add capped-memory");
    out.set("physical", &format!("{}M", (kib / 1024).max(1)));
    out.line("end");
}

fn file_system(out: &mut Commands, mount: &Mount) {
    out.comment(&format!(
        "On the system it is {} ({}).",
        mount.special, mount.kind
    ));
    out.line("add fs");
    out.set("dir", &mount.dir);
    out.set("special", &format!("/change-me{}", mount.dir));
    out.set("type", "lofs");
    out.line("end");
}

fn shared(out: &mut Commands, name: &str, interface: &Interface) {
    if interface.addresses.is_empty() {
        out.comment(&format!(
            "{name} has no fixed address{}: a zone that shares the host's network needs one.",
            if interface.dynamic {
                ", it uses DHCP"
            } else {
                ""
            }
        ));
    }
    for address in &interface.addresses {
        out.comment(&format!("{name} of the system"));
        out.line("add net");
        out.set("physical", "change-me");
        out.set("address", address);
        if let Some(router) = router(interface, address) {
            out.set("defrouter", router);
        }
        out.line("end");
    }
}

fn exclusive(out: &mut Commands, name: &str, interface: &Interface) {
    // A valid name for a link of the zone.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.len() > 15 || !name.chars().all(is_plain) {
        out.comment(&format!("{name}: no name for a link of the zone"));
        return;
    }
    out.line("add anet");
    out.set("linkname", name);
    out.set("lower-link", "auto");
    if interface.dynamic {
        out.comment("It asks a server for its address.");
    } else if !interface.addresses.is_empty() {
        out.set("allowed-address", &interface.addresses.join(","));
        let routers = interface
            .addresses
            .iter()
            .find_map(|address| router(interface, address));
        if let Some(router) = routers {
            out.set("defrouter", router);
        }
    }
    out.line("end");
}

/// The router of the address' family.
fn router<'a>(interface: &'a Interface, address: &str) -> Option<&'a str> {
    let is_6 = address.contains(':');
    let routers = interface.routers.iter().map(String::as_str);
    routers
        .into_iter()
        .find(|router| router.contains(':') == is_6)
}

fn origin(out: &mut Commands, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    out.line("add attr");
    out.set("name", name);
    out.set("type", "string");
    out.set("value", value);
    out.line("end");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_zonecfg_reads_them() {
        assert_eq!(quoted("/a/b_1"), "/a/b_1");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("a\"b;c"), "\"a'b;c\"");
        assert_eq!(quoted("a\nb"), "\"a?b\"");
        assert_eq!(quoted("1,2"), "\"1,2\"");
    }

    #[test]
    fn routers_are_of_the_family() {
        let interface = Interface {
            addresses: vec!["192.0.2.5/24".into()],
            routers: vec!["2001:db8::1".into(), "192.0.2.1".into()],
            ..Interface::default()
        };
        assert_eq!(router(&interface, "192.0.2.5/24"), Some("192.0.2.1"));
        assert_eq!(router(&interface, "2001:db8::5/64"), Some("2001:db8::1"));
    }
}
