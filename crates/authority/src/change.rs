//! Decides which changes of a configuration can be delegated.
//!
//! A user with the authorization `config` must not become root of the host by a change of the
//! configuration. So only settings that affect the zone alone may differ; the table marks them as
//! `delegable`. Paths, devices, networks, privileges, names and users of the host are not
//! delegable. The whole configuration at commit is compared with the stored one, whatever commands
//! changed it.

use model::Config;
use model::table::{self, GLOBAL};

/// Attributes that a delegated user may not change, although `attr` is delegable, and the text that
/// names each one in a message. `net-force` gives the zone addresses that the host otherwise
/// refuses. `hosts` shows the zone the names of other zones.
const ATTRIBUTES_OF_THE_HOST: &[(&str, &str)] = &[
    ("hosts", "attr name=hosts"),
    ("net-force", "attr name=net-force"),
];

/// Returns the properties, resource types and attributes that differ between `base` and `new` and
/// that a delegated user may not change, in the order of the table. The list is empty if the change
/// can be delegated.
#[must_use]
pub fn forbidden(base: &Config, new: &Config) -> Vec<&'static str> {
    let globals = GLOBAL
        .iter()
        .filter(|spec| !spec.delegable && base.get(spec.name) != new.get(spec.name))
        .map(|spec| spec.name);
    let same = |kind: &str| {
        let of = |config: &Config| -> Vec<_> { config.resources_of(kind).cloned().collect() };
        of(base) == of(new)
    };
    let kinds = table::RESOURCES
        .iter()
        .filter(|spec| !spec.delegable && !same(spec.name))
        .map(|spec| spec.name);
    let attributes = ATTRIBUTES_OF_THE_HOST
        .iter()
        .filter(|(name, _)| base.attr(name) != new.attr(name))
        .map(|(_, shown)| *shown);
    globals.chain(kinds).chain(attributes).collect()
}

#[cfg(test)]
mod tests {
    use model::config::{Resource, Value};

    use super::*;

    fn base() -> Config {
        let mut config = Config::new("web".parse().unwrap());
        config.set("zonepath", "/zones/%{zonename}").unwrap();
        config.set("limitpriv", "default,!sys_admin").unwrap();
        config
            .add(resource(
                "fs",
                &[("dir", "/data"), ("special", "/srv/web"), ("type", "lofs")],
            ))
            .unwrap();
        config
            .add(resource("admin", &[("user", "joe"), ("auths", "config")]))
            .unwrap();
        config
    }

    fn resource(kind: &str, properties: &[(&str, &str)]) -> Resource {
        let mut resource = Resource::new(table::resource(kind).unwrap());
        for (name, value) in properties {
            resource.set(name, value).unwrap();
        }
        resource
    }

    /// The test has the whole list of delegable properties, so that a new row of the table becomes
    /// delegable only if it is added to this list, too. No delegable property names or protects an
    /// object of the host.
    #[test]
    fn the_delegable_properties_are_exactly_these() {
        let globals = GLOBAL
            .iter()
            .filter(|spec| spec.delegable)
            .map(|spec| spec.name);
        assert_eq!(
            globals.collect::<Vec<_>>(),
            [
                "autoboot",
                "autoshutdown",
                "bootargs",
                "hostid",
                "max-lwps",
                "max-processes",
                "max-shm-memory",
                "max-shm-ids",
                "max-msg-ids",
                "max-sem-ids",
                "cpu-shares",
                "zfs-io-priority",
                "boot-priority",
            ]
        );
        let kinds = table::RESOURCES
            .iter()
            .filter(|spec| spec.delegable)
            .map(|spec| spec.name);
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_unstable();
        assert_eq!(
            kinds,
            ["attr", "capped-cpu", "capped-memory", "rctl", "snapshots"]
        );
    }

    #[test]
    fn properties_of_the_zone_alone_may_change() {
        let mut new = base();
        new.set("autoboot", "true").unwrap();
        new.set("bootargs", "-s").unwrap();
        new.set("max-lwps", "100").unwrap();
        new.add(resource(
            "attr",
            &[("name", "owner"), ("type", "string"), ("value", "joe")],
        ))
        .unwrap();
        new.add(resource(
            "capped-memory",
            &[("physical", "100M"), ("swap", "200M")],
        ))
        .unwrap();
        assert_eq!(forbidden(&base(), &new), [""; 0]);
        assert_eq!(forbidden(&new, &base()), [""; 0]);
        assert_eq!(forbidden(&base(), &base()), [""; 0]);
    }

    #[test]
    fn attributes_that_reach_beyond_the_zone_may_not_change() {
        for (name, kind, value, other) in [
            ("net-force", "boolean", "true", "false"),
            ("hosts", "string", "zones", "none"),
        ] {
            let with = |value| {
                let mut config = base();
                let properties = [("name", name), ("type", kind), ("value", value)];
                config.add(resource("attr", &properties)).unwrap();
                config
            };
            let refused = [format!("attr name={name}")];
            assert_eq!(forbidden(&base(), &with(value)), refused, "added");
            assert_eq!(forbidden(&with(value), &base()), refused, "removed");
            assert_eq!(forbidden(&with(other), &with(value)), refused, "changed");
            assert_eq!(forbidden(&with(value), &with(value)), [""; 0]);
        }
    }

    #[test]
    fn properties_that_reach_the_host_may_not_change() {
        type Edit = fn(&mut Config);
        let edits: &[(&str, Edit)] = &[
            ("zonename", |config| config.rename("db".parse().unwrap())),
            ("zonepath", |config| config.set("zonepath", "/etc").unwrap()),
            ("brand", |config| config.set("brand", "lx").unwrap()),
            ("limitpriv", |config| config.set("limitpriv", "").unwrap()),
            ("ip-type", |config| {
                config.set("ip-type", "exclusive").unwrap();
            }),
            ("fs-allowed", |config| {
                config.set("fs-allowed", "ext4").unwrap();
            }),
            ("pool", |config| config.set("pool", "web").unwrap()),
            ("global-time", |config| {
                config.set("global-time", "true").unwrap();
            }),
            ("file-mac-profile", |config| {
                config.set("file-mac-profile", "none").unwrap();
            }),
            ("inherit-pkg-dir", |config| {
                config
                    .add(resource("inherit-pkg-dir", &[("dir", "/root")]))
                    .unwrap();
            }),
            ("fs", |config| {
                config
                    .add(resource(
                        "fs",
                        &[("dir", "/h"), ("special", "/"), ("type", "lofs")],
                    ))
                    .unwrap();
            }),
            ("fs", |config| config.retain(|one| one.spec().name != "fs")),
            ("device", |config| {
                config
                    .add(resource("device", &[("match", "/dev/sda")]))
                    .unwrap();
            }),
            ("net", |config| {
                config
                    .add(resource(
                        "net",
                        &[("physical", "eth0"), ("address", "192.0.2.1/24")],
                    ))
                    .unwrap();
            }),
            ("anet", |config| {
                config
                    .add(resource(
                        "anet",
                        &[("linkname", "net0"), ("lower-link", "eth0")],
                    ))
                    .unwrap();
            }),
            ("dataset", |config| {
                config
                    .add(resource("dataset", &[("name", "rpool/export")]))
                    .unwrap();
            }),
            ("dedicated-cpu", |config| {
                config
                    .add(resource("dedicated-cpu", &[("ncpus", "2")]))
                    .unwrap();
            }),
            ("admin", |config| {
                config
                    .add(resource("admin", &[("user", "eve"), ("auths", "login")]))
                    .unwrap();
            }),
            ("admin", |config| {
                config.retain(|one| one.spec().name != "admin");
            }),
        ];
        for (name, edit) in edits {
            let mut new = base();
            edit(&mut new);
            assert_eq!(forbidden(&base(), &new), [*name]);
            assert_eq!(forbidden(&new, &base()), [*name], "and back");
        }
        // Another host folder as the source of an existing file system, and additional
        // authorizations for the user who makes the change.
        for (kind, property, value) in [("fs", "special", "/"), ("admin", "auths", "config,login")]
        {
            let mut new = base();
            let mut changed = new.resources_of(kind).next().unwrap().clone();
            changed.set(property, value).unwrap();
            let old = new.resources_of(kind).next().unwrap().clone();
            new.replace(&old, changed).unwrap();
            assert_eq!(forbidden(&base(), &new), [kind]);
        }
        let mut new = base();
        let old = new.resources_of("fs").next().unwrap().clone();
        let mut changed = old.clone();
        changed
            .add_value("options", Value::Simple("suid".to_owned()))
            .unwrap();
        new.replace(&old, changed).unwrap();
        assert_eq!(forbidden(&base(), &new), ["fs"]);
    }
}
