//! Runs the exact calls of configuration management tools, and parses the output as they do:
//! Puppet's provider `solaris` of the type `zone`, and Salt's modules `zoneadm` and `zonecfg`.
//! Ansible itself runs in tests/ansible.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use e2e::run::run;
use e2e::{Host, Ran};

/// The properties of one resource.
type Properties = BTreeMap<String, String>;

/// A configuration as such a tool reads it from `info`.
#[derive(Debug, Default)]
struct Info {
    global: Properties,
    resources: BTreeMap<String, Vec<Properties>>,
}

impl Info {
    fn of(&self, resource: &str) -> &[Properties] {
        self.resources.get(resource).map_or(&[], Vec::as_slice)
    }
}

/// Runs a shell line with our programs first on PATH, as these tools do.
fn shell(host: &Host, line: &str) -> Ran {
    let program = host.command("zoneadm", &[]);
    let folder = std::path::Path::new(program.get_program())
        .parent()
        .unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display());
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env_clear()
        .env("PATH", path)
        .env("ZONES_ROOT", host.root())
        .env("ZONES_CGROUP", host.cgroup());
    run(&mut command, b"")
}

mod puppet {
    use super::{Host, Info, Properties, Ran, shell};

    /// Reads the fields of a line of `zoneadm list -cp`, and ignores all others.
    pub fn line(line: &str) -> Properties {
        let names = ["id", "name", "ensure", "path", "uuid", "brand", "iptype"];
        let fields = names.iter().zip(line.split(':'));
        let pair = |(name, value): (&&str, &str)| ((*name).to_owned(), value.to_owned());
        fields.map(pair).collect()
    }

    /// Joins commands and pipes them to zonecfg, as the provider's flush does.
    pub fn configure(host: &Host, zone: &str, commands: &[&str]) -> Ran {
        let input = [commands, &["commit", "exit"]].concat().join("\n");
        let ran = shell(
            host,
            &format!("echo \"{input}\" | zonecfg -z {zone} -f - 2>&1"),
        );
        assert!(!ran.out.contains("not allowed"), "{ran:?}");
        ran.ok()
    }

    /// There are three kinds of lines: `word:`, `word: word`, and below a `word:` the line `blank
    /// word: text`.
    pub fn info(text: &str) -> Info {
        let mut info = Info::default();
        let (mut resource, mut is_new) = (String::new(), true);
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            if line.starts_with(char::is_whitespace) {
                if value.is_empty() || resource.is_empty() {
                    continue;
                }
                let list = info.resources.entry(resource.clone()).or_default();
                if is_new {
                    list.push(Properties::new());
                    is_new = false;
                }
                if let Some(last) = list.last_mut() {
                    last.insert(name.trim().to_owned(), value.to_owned());
                }
            } else if value.is_empty() {
                name.clone_into(&mut resource);
                is_new = true;
            } else if !value.contains(char::is_whitespace) {
                info.global.insert(name.to_owned(), value.to_owned());
            }
        }
        info
    }
}

mod salt {
    use super::{Host, Info, Properties, Ran, fs, shell};

    /// The resources that the provider knows. It treats all others as properties.
    const KNOWN: [&str; 9] = [
        "rctl",
        "net",
        "fs",
        "device",
        "dedicated-cpu",
        "dataset",
        "attr",
        "capped-cpu",
        "capped-memory",
    ];

    /// Runs `zonecfg -z zone -f file` with these commands in a file.
    pub fn configure(host: &Host, zone: &str, commands: &str) -> Ran {
        let file = host.path("salt.cfg");
        fs::write(&file, commands).unwrap();
        shell(host, &format!("zonecfg -z {zone} -f {}", file.display()))
    }

    /// Reads all lines of `info`, with calculated values in brackets.
    pub fn info(text: &str) -> Info {
        let mut info = Info::default();
        let mut resource: Option<(String, Properties)> = None;
        for line in text.lines().filter(|line| line.contains(':')) {
            let inner = line.trim();
            let inner = inner
                .strip_prefix('[')
                .map_or(inner, |rest| rest.trim_end_matches(']'));
            let (key, value) = inner.split_once(':').unwrap();
            let value = value.trim().trim_matches('"').to_owned();
            let is_known = KNOWN.contains(&key);
            match &mut resource {
                Some((_, properties)) if line.starts_with('\t') && !is_known => {
                    properties.insert(key.to_owned(), value);
                    continue;
                }
                _ => {}
            }
            if let Some((name, properties)) = resource.take() {
                info.resources.entry(name).or_default().push(properties);
            }
            if is_known {
                resource = Some((key.to_owned(), Properties::new()));
            } else {
                info.global.insert(key.to_owned(), value);
            }
        }
        if let Some((name, properties)) = resource {
            info.resources.entry(name).or_default().push(properties);
        }
        info
    }

    /// Returns the result of a command: true if it succeeded, and its output.
    pub fn result(ran: &Ran) -> (bool, String) {
        let status = ran.code() == Some(0);
        let words = if status { &ran.out } else { &ran.err };
        (status, words.trim_end().replace("zoneadm: ", ""))
    }
}

#[test]
fn puppet_lists_zones() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.configure("new", "");
    let listed = shell(&host, "zoneadm list -cp").ok();
    let zones: Vec<Properties> = listed.out.lines().map(puppet::line).collect();
    let zone = |name: &str| zones.iter().find(|zone| zone["name"] == name).unwrap();
    assert_eq!(zones[0]["name"], "global");
    assert_eq!(
        (&*zone("web")["ensure"], &*zone("web")["path"]),
        ("running", "/zones/web")
    );
    assert!(zone("web")["id"].parse::<u32>().is_ok());
    assert_eq!(zone("web")["iptype"], "shared");
    assert_eq!(
        (&*zone("master")["ensure"], &*zone("master")["id"]),
        ("installed", "-")
    );
    assert_eq!(
        (&*zone("new")["ensure"], &*zone("new")["uuid"]),
        ("configured", "")
    );

    // For this module, a command that fails means that the zone does not exist.
    assert_eq!(shell(&host, "zoneadm -z nobody list -p").code(), Some(1));
    let one = shell(&host, "zoneadm -z web list -p").ok();
    assert_eq!(puppet::line(one.text()), *zone("web"));
}

#[test]
fn puppet_makes_a_zone_and_takes_it_away() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let ran = puppet::configure(
        &host,
        "web",
        &[
            "create -b ",
            "set ip-type=shared",
            "set autoboot=true",
            "set zonepath=/zones/web",
            "set pool=web",
            "add rctl\nset name=zone.cpu-shares\nadd value (priv=privileged,limit=10,action=none)\nend",
            "add net\nset physical=eth0\nset address=192.0.2.1/24\nset defrouter=192.0.2.254\nend\n\
             add net\nset physical=eth1\nset address=192.0.2.129/25\nend",
            "add inherit-pkg-dir\nset dir=/usr\nend",
        ],
    );
    assert_eq!(ran.text(), "");

    let info = puppet::info(&shell(&host, "zonecfg -z web info").ok().out);
    let global = |name: &str| info.global.get(name).map(String::as_str);
    assert_eq!(global("zonename"), Some("web"));
    assert_eq!(global("zonepath"), Some("/zones/web"));
    assert_eq!(global("autoboot"), Some("true"));
    assert_eq!(global("ip-type"), Some("shared"));
    assert_eq!(global("pool"), Some("web"));
    let nets = info.of("net");
    assert_eq!(nets.len(), 2, "{info:?}");
    assert_eq!(nets[0]["physical"], "eth0");
    assert_eq!(nets[0]["address"], "192.0.2.1/24");
    assert_eq!(nets[0]["defrouter"], "192.0.2.254");
    assert_eq!(nets[1].get("defrouter"), None);
    assert_eq!(info.of("inherit-pkg-dir")[0]["dir"], "/usr");
    assert_eq!(
        info.of("rctl")[0]["value"],
        "(priv=privileged,limit=10,action=none)"
    );

    puppet::configure(
        &host,
        "web",
        &[
            "remove net address=192.0.2.1/24\nremove net physical=eth1",
            "set pool=",
        ],
    );
    let info = puppet::info(&shell(&host, "zonecfg -z web info").ok().out);
    assert_eq!(info.of("net"), []);
    assert_eq!(info.global.get("pool"), None);

    for (verb, state) in [
        // Other tests check installs, which take as long as the disk needs.
        ("install -n", "configured"),
        ("clone master", "installed"),
        ("ready", "ready"),
        ("boot", "running"),
        ("halt", "installed"),
        ("uninstall -F", "configured"),
    ] {
        let _ = shell(&host, &format!("zoneadm -z web {verb}")).ok();
        let line = shell(&host, "zoneadm -z web list -p").ok();
        assert_eq!(puppet::line(line.text())["ensure"], state, "{verb}");
    }
    shell(&host, "zonecfg -z web delete -F").quiet();
    assert_eq!(shell(&host, "zoneadm -z web list -p").code(), Some(1));
}

/// The module does not use the exit status alone: a refused operation must print "not allowed".
#[test]
fn puppet_hears_what_is_not_allowed() {
    let Some(host) = Host::with_web() else { return };
    let line = "echo \"set zonepath=/zones/elsewhere\ncommit\nexit\" | zonecfg -z web -f - 2>&1";
    let ran = shell(&host, line);
    assert!(
        ran.code() != Some(0) && ran.out.contains("not allowed"),
        "{ran:?}"
    );
    let info = puppet::info(&shell(&host, "zonecfg -z web info").ok().out);
    assert_eq!(info.global["zonepath"], "/zones/web");
}

#[test]
fn salt_configures_a_zone() {
    let Some(host) = Host::new() else { return };
    assert_eq!(shell(&host, "zonename").ok().text(), "global");
    // The tool creates the zonepath itself, before the zone.
    shell(
        &host,
        &format!("mkdir -p -m 0700 {}", host.path("zones/web").display()),
    )
    .quiet();
    salt::configure(
        &host,
        "web",
        "create -b -F\nset brand=native\nset zonepath=/zones/web\n",
    )
    .quiet();
    for commands in [
        "set autoboot=true\n",
        "set bootargs=\"-m verbose\"\n",
        "set cpu-shares=10\n",
        "add inherit-pkg-dir\nset dir=/usr\nend\n",
        "add net\nset physical=eth0\nset address=192.0.2.1/24\nend\n",
        "add fs\nset dir=/data\nset special=/srv\nset type=lofs\nset options=[nodevices,ro]\nend\n",
        "add attr\nset name=comment\nset type=string\nset value=\"made by Salt\"\nend\n",
        "add capped-memory\nset physical=512M\nset swap=1G\nend\n",
        "add rctl\nset name=zone.max-locked-memory\n\
         set value=(priv=privileged,limit=33554432,action=deny)\nend\n",
    ] {
        salt::configure(&host, "web", commands).quiet();
    }
    let read = || salt::info(&shell(&host, "zonecfg -z web info").ok().out);
    let info = read();
    let global = |name: &str| info.global.get(name).map(String::as_str);
    assert_eq!(global("autoboot"), Some("true"));
    assert_eq!(global("bootargs"), Some("-m verbose"));
    assert_eq!(global("brand"), Some("native"));
    assert_eq!(global("cpu-shares"), Some("10"));
    assert_eq!(info.of("net")[0]["address"], "192.0.2.1/24");
    assert_eq!(info.of("fs")[0]["options"], "[nodevices,ro]");
    assert_eq!(info.of("attr")[0]["value"], "made by Salt");
    let memory = &info.of("capped-memory")[0];
    assert_eq!(
        (&*memory["physical"], &*memory["swap"], &*memory["locked"]),
        ("512M", "1G", "32M")
    );
    let value = |info: &Info, name: &str| {
        let rctl = info.of("rctl").iter().find(|rctl| rctl["name"] == name);
        rctl.map(|rctl| rctl["value"].clone())
    };
    assert_eq!(
        value(&info, "zone.max-locked-memory").as_deref(),
        Some("(priv=privileged,limit=33554432,action=deny)")
    );

    salt::configure(
        &host,
        "web",
        "select net physical=eth0\nset address=192.0.2.2/24\nend\n",
    )
    .quiet();
    salt::configure(&host, "web", "select capped-memory\nset physical=1G\nend\n").quiet();
    salt::configure(&host, "web", "remove attr name=comment\n").quiet();
    salt::configure(&host, "web", "remove rctl name=zone.max-locked-memory\n").quiet();
    salt::configure(&host, "web", "clear bootargs\n").quiet();
    let info = read();
    assert_eq!(info.of("net")[0]["address"], "192.0.2.2/24");
    assert_eq!(info.of("capped-memory")[0]["physical"], "1G");
    assert_eq!(info.of("attr"), []);
    assert_eq!(value(&info, "zone.max-locked-memory"), None);
    assert_eq!(info.global["bootargs"], "");

    // A refused operation prints one line.
    let ran = salt::configure(&host, "web", "set nonsense=1\n");
    assert!(!salt::result(&ran).0, "{ran:?}");
    assert!(ran.err.starts_with("On line 1 of "), "{ran:?}");
    assert!(ran.err.lines().count() > 1, "{ran:?}");

    let file = host.path("web.cfg");
    shell(
        &host,
        &format!("zonecfg -z web export -f {}", file.display()),
    )
    .quiet();
    assert_eq!(
        shell(&host, "zonecfg -z web export").ok().out,
        fs::read_to_string(&file).unwrap()
    );
    shell(&host, &format!("zonecfg -z copy -f {}", file.display())).quiet();
    shell(&host, "zonecfg -z other create -t SUNWdefault -F").quiet();
    for zone in ["copy", "other", "web"] {
        shell(&host, &format!("zonecfg -z {zone} delete -F")).quiet();
    }
    // Files from before the zone are not removed.
    fs::remove_dir(host.path("zones/web")).unwrap();
    assert_eq!(
        shell(&host, "zoneadm list -p -c").ok().out.lines().count(),
        1
    );
}

#[test]
fn salt_runs_a_zone() {
    let Some(host) = Host::with_web() else { return };
    let state = || {
        let ran = shell(&host, "zoneadm list -p -c").ok();
        let fields: Vec<Vec<String>> = ran
            .out
            .lines()
            .map(|line| line.split(':').map(str::to_owned).collect())
            .collect();
        assert!(fields.iter().all(|fields| fields.len() >= 7), "{ran:?}");
        let web = fields.iter().find(|fields| fields[1] == "web").unwrap();
        (web[2].clone(), web[4].clone())
    };
    let act = |words: &str, expected: &str| {
        let ran = shell(&host, &format!("zoneadm {words}"));
        assert!(salt::result(&ran).0, "{ran:?}");
        assert_eq!(state().0, expected, "{words}");
    };
    let uuid = state().1;
    act("-z web verify", "installed");
    act("-z web ready", "ready");
    act("-z web boot", "running");
    act("-z web reboot -- -m verbose", "running");
    act("-z web shutdown", "installed");
    act(&format!("-u {uuid} boot -- -m verbose -s"), "running");
    act(&format!("-u {uuid} halt"), "installed");
    act("-z web uninstall -F", "configured");
    // Without a separate data set, this option has no effect.
    act("-z web install -n -x nodataset", "configured");
    act("-z web clone master", "installed");
    let refused = salt::result(&shell(&host, "zoneadm -z web halt -x"));
    assert!(
        !refused.0 && !refused.1.starts_with("zoneadm"),
        "{refused:?}"
    );
    let unknown = salt::result(&shell(&host, "zoneadm -z nobody boot"));
    assert_eq!(
        unknown,
        (false, "nobody: No such zone configured".to_owned())
    );
}
