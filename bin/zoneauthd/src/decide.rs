//! Decides whether a request is granted.
//!
//! The decision uses only the stored configurations below the root that zoneauthd was started with.
//! No second copy of the rights exists, so no copy can be out of date.

use authority::request::Malformed;
use authority::{Program, Request, Task, auth};
use host::flatten;
use model::ZoneName;
use store::index::Index;
use store::{Root, xml};

use crate::users::User;

/// A request that is not granted.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    /// The subject of the request, as far as zoneauthd understood it: program, subcommand, zones.
    pub what: What,
    /// The reason for the refusal, for the log.
    pub why: String,
    /// The message for the user.
    pub told: String,
}

/// The subject of a request, for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct What {
    /// The program.
    pub program: String,
    /// The subcommand.
    pub verb: String,
    /// The zones of the request; a clone also names its source.
    pub zones: String,
}

impl What {
    /// Returns the subject of a task.
    pub fn of(task: &Task) -> Self {
        let names: Vec<&str> = task.zones().iter().map(ZoneName::as_str).collect();
        let mut zones = names.join(",");
        if let Some(source) = task.source() {
            zones.push_str(&format!(",from:{source}"));
        }
        Self {
            program: task.program().to_string(),
            verb: task.verb().to_owned(),
            zones,
        }
    }
}

/// Decides on a request packet.
///
/// # Errors
/// [`Denied`], for every request that is not expressly allowed.
pub fn decide(root: &Root, user: &User, packet: &[u8]) -> Result<(Request, Task), Denied> {
    let request = Request::decode(packet).map_err(malformed)?;
    let task = Task::parse(request.program, &request.words).map_err(|refusal| {
        let why = refusal.to_string();
        Denied {
            what: What {
                program: request.program.to_string(),
                ..What::default()
            },
            told: why.clone(),
            why,
        }
    })?;
    allowed(root, user, &task)?;
    Ok((request, task))
}

fn malformed(malformed: Malformed) -> Denied {
    Denied {
        what: What::default(),
        why: malformed.to_string(),
        told: malformed.to_string(),
    }
}

/// Refuses the task unless the user is allowed every part of it.
fn allowed(root: &Root, user: &User, task: &Task) -> Result<(), Denied> {
    let denied = |zone: &ZoneName, why: String| Denied {
        what: What::of(task),
        why,
        // The message is the same for a zone that does not exist.
        told: not_authorized(task, user, zone),
    };
    let index = match Index::load(root) {
        Ok(index) => index,
        Err(error) => {
            return Err(Denied {
                what: What::of(task),
                why: flatten(&error),
                told: "the index of zones cannot be read".to_owned(),
            });
        }
    };
    let auths = |zone: &ZoneName| {
        // A zone file without an entry in the index is a template, or a leftover of a deleted zone.
        if index.find(zone).is_none() {
            return Err(format!("{zone}: no such zone"));
        }
        let config = xml::load(root, zone).map_err(|error| flatten(&error))?;
        Ok(auth::given(&config, |name| user.is(name)))
    };
    for zone in task.zones() {
        let auths = auths(zone).map_err(|why| denied(zone, why))?;
        if !task.is_allowed_by(auths) {
            return Err(denied(
                zone,
                format!("no auth for {} of {zone}", task.verb()),
            ));
        }
    }
    if let Some(source) = task.source() {
        let auths = auths(source).map_err(|why| denied(source, why))?;
        if !Task::may_clone_from(auths) {
            return Err(denied(source, format!("no auth to clone from {source}")));
        }
    }
    Ok(())
}

/// Returns the message that Solaris prints for the same refusal.
fn not_authorized(task: &Task, user: &User, zone: &ZoneName) -> String {
    let name = &user.name;
    match task.program() {
        Program::Zoneadm => {
            let verb = task.verb();
            format!("zone '{zone}': User {name} is not authorized to {verb} this zone.")
        }
        Program::Zlogin => format!("user {name} is not authorized to log in to zone '{zone}'."),
        Program::Zonecfg => {
            format!("{zone}: User {name} is not authorized to configure this zone.")
        }
    }
}

#[cfg(test)]
mod tests {
    use authority::request::Stream;
    use store::index::{self, Entry};

    use super::*;

    /// Creates a root with zones `name: user: auths`; the zone `gone` has a file but no index
    /// entry.
    fn root(zones: &[(&str, &str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (name, user, auths) in zones {
            let zone: ZoneName = name.parse().unwrap();
            let mut config = model::Config::new(zone.clone());
            config.set("zonepath", "/zones/%{zonename}").unwrap();
            let mut admin = model::config::Resource::new(model::table::resource("admin").unwrap());
            admin.set("user", user).unwrap();
            admin.set("auths", auths).unwrap();
            config.add(admin).unwrap();
            xml::save(&root, &config).unwrap();
            if *name != "gone" {
                index::update(&root, |index| {
                    index.put(Entry::configured(zone, config.zonepath()));
                    Ok::<(), store::Error>(())
                })
                .unwrap();
            }
        }
        (folder, root)
    }

    fn ask(root: &Root, uid: u32, line: &str) -> Result<Vec<String>, String> {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let request = Request {
            streams: [Stream::Nothing, Stream::Pipe, Stream::Pipe],
            size: (0, 0),
            term: String::new(),
            lang: String::new(),
            program: Program::find(&words.remove(0)).unwrap(),
            words,
        };
        decide(root, &User::of(uid), &request.encode().unwrap())
            .map(|(_, task)| task.words())
            .map_err(|denied| denied.why)
    }

    #[test]
    fn a_user_may_act_only_on_the_zones_that_name_the_user() {
        let (_folder, root) = root(&[
            ("a", "daemon", "login,manage"),
            ("b", "bin", "manage,config"),
            ("m", "daemon", "clonefrom"),
            ("gone", "daemon", "login,manage,config"),
        ]);
        let uid = |name: &str| {
            let text = std::fs::read_to_string("/etc/passwd").unwrap();
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{name}:")))
                .unwrap();
            line.split(':').nth(2).unwrap().parse::<u32>().unwrap()
        };
        let (daemon, bin, nobody) = (uid("daemon"), uid("bin"), uid("nobody"));
        for (who, line, granted) in [
            (daemon, "zoneadm -z a boot", true),
            (daemon, "zlogin a id", true),
            (daemon, "zoneadm -z a clone m", true),
            (bin, "zoneadm -z b halt", true),
            (bin, "zonecfg -z b info", true),
            // Requests for another zone, for one of several zones, and for another verb.
            (daemon, "zoneadm -z b boot", false),
            (daemon, "zoneadm -z a -z b boot", false),
            (daemon, "zoneadm -z b -z a boot", false),
            (daemon, "zlogin b id", false),
            (daemon, "zonecfg -z a info", false),
            (daemon, "zoneadm -z a clone b", false),
            (daemon, "zoneadm -z m clone a", false),
            (bin, "zlogin b", false),
            (daemon, "zoneadm -z b apply", false),
            (bin, "zoneadm -z b clone m", false),
            // Requests for a zone that is not in the index, and for a zone that does not exist.
            (daemon, "zoneadm -z gone boot", false),
            (daemon, "zoneadm -z other boot", false),
            (nobody, "zoneadm -z a boot", false),
            (nobody, "zlogin a", false),
            (4_000_000_000, "zlogin a", false),
        ] {
            assert_eq!(ask(&root, who, line).is_ok(), granted, "{who} {line}");
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_read_gives_nothing() {
        let (_folder, root) = root(&[("a", "daemon", "manage")]);
        let zone: ZoneName = "a".parse().unwrap();
        std::fs::write(root.xml(&zone), "<zone").unwrap();
        assert!(ask(&root, 1, "zoneadm -z a boot").is_err());
        std::fs::remove_file(root.xml(&zone)).unwrap();
        assert!(ask(&root, 1, "zoneadm -z a boot").is_err());
    }
}
