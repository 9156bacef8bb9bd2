//! Prints zonecfg commands for a zone like a container of LXC, systemd-nspawn or Incus. Settings
//! with an equivalent are translated; the other settings are listed in a comment.

use crate::report::{BRAND, harmless};
use crate::template::quoted;

/// Maximum size of a configuration that is read, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The properties of a container.
#[derive(Debug, Default)]
struct Found {
    /// Properties of the zone.
    properties: Vec<(&'static str, String)>,
    /// Resources: the type, and its properties.
    resources: Vec<(&'static str, Vec<(&'static str, String)>)>,
    /// The settings that were not translated.
    left: Vec<String>,
}

/// Translates the configuration of a container of any supported tool.
///
/// # Errors
/// Fails if the text is not the configuration of a supported tool.
pub fn commands(text: &str) -> Result<String, String> {
    let (tool, found) = if text
        .lines()
        .any(|line| line.trim_start().starts_with("lxc."))
    {
        ("LXC", lxc(text))
    } else if text
        .lines()
        .any(|line| matches!(line.trim(), "[Exec]" | "[Files]" | "[Network]"))
    {
        ("systemd-nspawn", nspawn(text))
    } else if text
        .lines()
        .any(|line| matches!(line.trim_end(), "container:" | "instance:"))
    {
        ("Incus", incus(text))
    } else {
        return Err(
            "neither a configuration of LXC, nor of systemd-nspawn, nor of Incus".to_owned(),
        );
    };
    let mut out = format!(
        "# A zone like a container of {tool}. Replace each change-me with a value of the host.\ncreate -b\n\
         set brand={BRAND}\nset zonepath=/zones/%{{zonename}}\nset ip-type=exclusive\n"
    );
    for (name, value) in found.properties {
        out.push_str(&format!("set {name}={}\n", quoted(&value)));
    }
    for (kind, properties) in found.resources {
        out.push_str(&format!("add {kind}\n"));
        for (name, value) in properties {
            let value = if name == "options" {
                value
            } else {
                quoted(&value)
            };
            out.push_str(&format!("set {name}={value}\n"));
        }
        out.push_str("end\n");
    }
    for line in found.left {
        out.push_str(&format!("# not taken over: {}\n", harmless(&line)));
    }
    Ok(out)
}

impl Found {
    fn leave(&mut self, key: &str, value: &str) {
        // The values of environment variables may be secrets.
        match key.to_lowercase().contains("environment") {
            true => self.left.push(key.to_owned()),
            false => self.left.push(format!("{key} = {value}")),
        }
    }

    fn memory(&mut self, key: &str, value: &str) {
        match bytes(value) {
            Some(bytes) if bytes >= 1 << 20 => {
                let physical = format!("{}M", bytes >> 20);
                self.resources
                    .push(("capped-memory", vec![("physical", physical)]));
            }
            _ => self.leave(key, value),
        }
    }

    fn processors(&mut self, key: &str, value: &str, count: Option<f64>) {
        match count {
            Some(count) if (0.01..=4096.0).contains(&count) => {
                self.resources
                    .push(("capped-cpu", vec![("ncpus", format!("{count:.2}"))]));
            }
            _ => self.leave(key, value),
        }
    }

    fn processes(&mut self, key: &str, value: &str) {
        match value.parse::<u32>() {
            Ok(count) if count > 0 => self.properties.push(("max-lwps", count.to_string())),
            _ => self.leave(key, value),
        }
    }

    fn bind(&mut self, special: &str, dir: &str, read_only: bool) {
        let mut all = vec![
            ("dir", format!("/{}", dir.trim_start_matches('/'))),
            ("special", special.to_owned()),
            ("type", "lofs".to_owned()),
        ];
        if read_only {
            all.push(("options", "[ro]".to_owned()));
        }
        self.resources.push(("fs", all));
    }
}

/// Parses a number of bytes with a decimal unit (1000) or a binary unit (1024).
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match &text[end..] {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A link of the zone, and its settings.
#[derive(Debug, Default)]
struct Link {
    index: String,
    properties: Vec<(&'static str, String)>,
}

impl Link {
    fn resource(mut self) -> (&'static str, Vec<(&'static str, String)>) {
        let has = |all: &[(&str, String)], name: &str| all.iter().any(|(one, _)| *one == name);
        if !has(&self.properties, "linkname") {
            let name = format!("net{}", self.index);
            self.properties.insert(0, ("linkname", name));
        }
        if !has(&self.properties, "lower-link") {
            self.properties.push(("lower-link", "auto".to_owned()));
        }
        ("anet", self.properties)
    }
}

/// Adds a setting lxc.net.INDEX.NAME to its link; the first setting of a link creates the link.
/// Returns false for a setting that links of a zone do not have.
fn add_to_link(links: &mut Vec<Link>, index: &str, name: &str, value: &str) -> bool {
    if !links.iter().any(|link| link.index == index) {
        links.push(Link {
            index: index.to_owned(),
            ..Link::default()
        });
    }
    let place = links.iter_mut().find(|link| link.index == index);
    let property = match name {
        "link" => Some("lower-link"),
        "name" => Some("linkname"),
        "hwaddr" => Some("mac-address"),
        "ipv4.address" => Some("allowed-address"),
        "ipv4.gateway" if value != "auto" => Some("defrouter"),
        "type" | "flags" => return true,
        _ => None,
    };
    match (place, property) {
        (Some(link), Some(property)) => link.properties.push((property, value.to_owned())),
        _ => return false,
    }
    true
}

fn lxc(text: &str) -> Found {
    let mut found = Found::default();
    let mut links: Vec<Link> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if key.starts_with('#') || !key.starts_with("lxc.") {
            continue;
        }
        if let Some((index, name)) = key
            .strip_prefix("lxc.net.")
            .and_then(|rest| rest.split_once('.'))
        {
            if !add_to_link(&mut links, index, name, value) {
                found.leave(key, value);
            }
            continue;
        }
        match key {
            "lxc.rootfs.path" => {
                let path = value.strip_prefix("dir:").unwrap_or(value);
                found
                    .left
                    .push(format!("the root: zoneadm install -d {path}"));
            }
            "lxc.uts.name" => found
                .left
                .push(format!("host name {value}: it is the zone's name")),
            "lxc.start.auto" => {
                let auto = if value == "1" { "true" } else { "false" };
                found.properties.push(("autoboot", auto.to_owned()));
            }
            "lxc.cgroup2.memory.max" | "lxc.cgroup.memory.limit_in_bytes" => {
                found.memory(key, value);
            }
            "lxc.cgroup2.pids.max" | "lxc.cgroup.pids.max" => found.processes(key, value),
            "lxc.cgroup2.cpu.max" => {
                let count = value.split_once(' ').and_then(|(quota, period)| {
                    Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?)
                });
                found.processors(key, value, count);
            }
            "lxc.mount.entry" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                match words.as_slice() {
                    [special, dir, _, options, ..]
                        if options.contains("bind") && special.starts_with('/') =>
                    {
                        found.bind(
                            special,
                            dir,
                            options.split(',').any(|option| option == "ro"),
                        );
                    }
                    _ => found.leave(key, value),
                }
            }
            _ => found.leave(key, value),
        }
    }
    found
        .resources
        .extend(links.into_iter().map(Link::resource));
    found
}

fn nspawn(text: &str) -> Found {
    let mut found = Found::default();
    let mut section = "";
    let mut links = 0;
    let mut link = |found: &mut Found, lower: &str| {
        let name = format!("net{links}");
        links += 1;
        found.resources.push((
            "anet",
            vec![("linkname", name), ("lower-link", lower.to_owned())],
        ));
    };
    let mut ethernet = false;
    let mut bridged = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
            continue;
        }
        let Some((key, value)) = line
            .split_once('=')
            .filter(|_| !line.starts_with(['#', ';']))
        else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let yes = matches!(value, "yes" | "true" | "on" | "1");
        match (section, key) {
            // Every zone boots, and has user ids of its own, so these settings need no translation.
            ("[Exec]", "Boot" | "PrivateUsers") if yes || value == "pick" => {}
            ("[Exec]", "Hostname") => found
                .left
                .push(format!("host name {value}: it is the zone's name")),
            ("[Files]", "Bind" | "BindReadOnly") => {
                let mut parts = value.split(':');
                let special = parts.next().unwrap_or_default();
                let dir = parts
                    .next()
                    .filter(|dir| !dir.is_empty())
                    .unwrap_or(special);
                match special.starts_with('/') {
                    true => found.bind(special, dir, key == "BindReadOnly"),
                    false => found.leave(key, value),
                }
            }
            ("[Network]", "VirtualEthernet") if yes => ethernet = true,
            ("[Network]", "Bridge" | "MACVLAN") => {
                bridged = true;
                value
                    .split_whitespace()
                    .for_each(|lower| link(&mut found, lower));
            }
            ("[Network]", "Interface") => {
                for physical in value.split_whitespace() {
                    found
                        .resources
                        .push(("net", vec![("physical", physical.to_owned())]));
                }
            }
            ("[Network]", "Private") if yes => {}
            _ => found.leave(key, value),
        }
    }
    if ethernet && !bridged {
        link(&mut found, "auto");
    }
    found
}

/// Returns the lines of block mappings as `a.b.c` and a value; items of lists are skipped.
fn flat(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut way: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '-']) {
            continue;
        }
        let Some((key, value)) = line
            .split_once(": ")
            .or_else(|| Some((line.strip_suffix(':')?, "")))
        else {
            continue;
        };
        way.retain(|(outer, _)| *outer < indent);
        let value = value.trim().trim_matches(['"', '\'']);
        way.push((indent, key.trim_matches(['"', '\'']).to_owned()));
        if !value.is_empty() && way.len() < 16 {
            let path: Vec<&str> = way.iter().map(|(_, key)| key.as_str()).collect();
            all.push((path.join("\n"), value.to_owned()));
        }
    }
    all
}

fn incus(text: &str) -> Found {
    let mut found = Found::default();
    let mut devices: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for (path, value) in flat(text) {
        let parts: Vec<&str> = path.split('\n').collect();
        match parts.as_slice() {
            // The keys of a mapping on one line are not read. Its values may be secret.
            [
                "container" | "instance",
                "config" | "devices" | "expanded_devices",
                ..,
            ] if value != "{}" && value.starts_with(['{', '*', '&']) => {
                found.left.push(format!(
                    "{}: a mapping on one line is not read: write each key on a line of its own",
                    parts[1..].join(" ")
                ));
            }
            ["container" | "instance", "config", key] => match *key {
                "limits.memory" => found.memory(key, &value),
                "limits.cpu" => found.processors(key, &value, value.parse().ok()),
                "limits.processes" => found.processes(key, &value),
                "boot.autostart" => found.properties.push(("autoboot", value)),
                // Internal keys of Incus, and keys that are only descriptions.
                _ if key.starts_with("volatile.") || key.starts_with("image.") => {}
                _ => found.leave(key, &value),
            },
            [
                "container" | "instance",
                "devices" | "expanded_devices",
                device,
                key,
            ] => match devices.iter_mut().find(|(name, _)| name == device) {
                Some((_, all)) => all.push(((*key).to_owned(), value)),
                None => devices.push(((*device).to_owned(), vec![((*key).to_owned(), value)])),
            },
            ["container" | "instance", "name"] => found
                .left
                .push(format!("host name {value}: it is the zone's name")),
            _ => {}
        }
    }
    for (name, all) in devices {
        let of = |key: &str| {
            all.iter()
                .find(|(one, _)| one == key)
                .map(|(_, value)| value.clone())
        };
        match of("type").as_deref() {
            Some("nic") => {
                let mut link = vec![("linkname", of("name").unwrap_or_else(|| name.clone()))];
                let lower = of("parent").or_else(|| of("network"));
                link.push(("lower-link", lower.unwrap_or_else(|| "auto".to_owned())));
                link.extend(of("hwaddr").map(|address| ("mac-address", address)));
                link.extend(of("ipv4.address").map(|address| ("allowed-address", address)));
                found.resources.push(("anet", link));
            }
            Some("disk") if of("path").as_deref() == Some("/") => {}
            Some("disk") => match (of("source"), of("path")) {
                (Some(source), Some(path)) if source.starts_with('/') => {
                    found.bind(&source, &path, of("readonly").as_deref() == Some("true"));
                }
                _ => found.left.push(format!("device {name}")),
            },
            _ => found.left.push(format!("device {name}")),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_lxc() {
        let text = commands(
            "# comment\nlxc.include = /usr/share/lxc/config/common.conf\nlxc.rootfs.path = dir:/var/lib/lxc/web/rootfs\n\
             lxc.uts.name = web\nlxc.net.0.type = veth\nlxc.net.0.link = lxcbr0\nlxc.net.0.hwaddr = 00:16:3e:00:00:01\n\
             lxc.net.0.ipv4.address = 10.0.3.5/24\nlxc.start.auto = 1\nlxc.cgroup2.memory.max = 512M\n\
             lxc.cgroup2.cpu.max = 150000 100000\nlxc.cgroup2.pids.max = 200\n\
             lxc.mount.entry = /srv/data srv/data none bind,ro,create=dir 0 0\nlxc.environment = SECRET=1\n",
        )
        .unwrap();
        assert_eq!(
            text,
            "# A zone like a container of LXC. Replace each change-me with a value of the host.\ncreate -b\nset brand=lx\n\
             set zonepath=/zones/%{zonename}\nset ip-type=exclusive\nset autoboot=true\nset max-lwps=200\n\
             add capped-memory\nset physical=512M\nend\nadd capped-cpu\nset ncpus=1.50\nend\n\
             add fs\nset dir=/srv/data\nset special=/srv/data\nset type=lofs\nset options=[ro]\nend\n\
             add anet\nset linkname=net0\nset lower-link=lxcbr0\nset mac-address=00:16:3e:00:00:01\n\
             set allowed-address=10.0.3.5/24\nend\n\
             # not taken over: lxc.include = /usr/share/lxc/config/common.conf\n\
             # not taken over: the root: zoneadm install -d /var/lib/lxc/web/rootfs\n\
             # not taken over: host name web: it is the zone's name\n\
             # not taken over: lxc.environment\n"
        );
    }

    #[test]
    fn a_container_of_nspawn() {
        let text = commands(
            "[Exec]\nBoot=yes\nPrivateUsers=pick\nCapability=CAP_NET_ADMIN\n[Files]\nBindReadOnly=/srv/a:/b\nBind=/c\n\
             [Network]\nVirtualEthernet=yes\nPort=tcp:80\n",
        )
        .unwrap();
        for part in [
            "add fs\nset dir=/b\nset special=/srv/a\nset type=lofs\nset options=[ro]\nend\n",
            "add fs\nset dir=/c\nset special=/c\nset type=lofs\nend\n",
            "add anet\nset linkname=net0\nset lower-link=auto\nend\n",
            "# not taken over: Capability = CAP_NET_ADMIN\n",
            "# not taken over: Port = tcp:80\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_container_of_incus() {
        let text = commands(
            "container:\n  architecture: x86_64\n  config:\n    image.os: Debian\n    limits.cpu: \"2\"\n    limits.memory: 1GiB\n\
             \x20   security.nesting: \"true\"\n    volatile.uuid: x\n  devices:\n    eth0:\n      name: eth0\n      network: incusbr0\n\
             \x20     type: nic\n    data:\n      path: /data\n      source: /srv/data\n      type: disk\n    root:\n      path: /\n\
             \x20     pool: default\n      type: disk\n  name: web\n  profiles:\n  - default\n",
        )
        .unwrap();
        for part in [
            "add capped-cpu\nset ncpus=2.00\nend\n",
            "add capped-memory\nset physical=1024M\nend\n",
            "add anet\nset linkname=eth0\nset lower-link=incusbr0\nend\n",
            "add fs\nset dir=/data\nset special=/srv/data\nset type=lofs\nend\n",
            "# not taken over: security.nesting = true\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("volatile") && !text.contains("pool"),
            "{text}"
        );
    }

    #[test]
    fn a_mapping_on_one_line_is_told() {
        let text = commands(
            "instance:\n  config: {}\n  devices:\n    eth0: {type: nic, network: incusbr0}\n  name: web\n",
        )
        .unwrap();
        assert!(
            text.contains("# not taken over: devices eth0: a mapping on one line is not read"),
            "{text}"
        );
        assert!(!text.contains("config:"), "{text}");
    }

    #[test]
    fn anything_else_is_refused_and_nothing_is_a_surprise() {
        assert!(commands("hello").is_err());
        for text in [
            "lxc.=",
            "lxc.net.=x",
            "lxc.net.0.=",
            "[Exec]\n=\n",
            "container:\n:\n: \n",
            "container:\n  config:\n    limits.cpu: inf\n",
        ] {
            let _ = commands(text).unwrap();
        }
        let evil = commands("lxc.uts.name = a\x1b[2J\"; delete -F\n").unwrap();
        assert!(!evil.contains('\x1b'));
    }
}
