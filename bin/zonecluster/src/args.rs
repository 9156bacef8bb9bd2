//! The command line.

use anyhow::{Context as _, bail};
use cluster::{Failover, Guest};
use lexopt::prelude::*;

/// The help.
pub const USAGE: &str = "\
usage: zonecluster add [-n] {-d DEVICE [-t TYPE] [-o OPTIONS] | -s RESOURCE} [-p PROBE] [-H HOST,...]
                   [--guest NAME [--guest-address ADDRESS]] ZONE
       zonecluster add [-n] --shared-disks [-p PROBE] [-H HOST,...] ZONE
       zonecluster update ZONE
       zonecluster remove ZONE
       zonecluster status
       zonecluster move ZONE [HOST]
       zonecluster evacuate HOST
       zonecluster return HOST

Has Pacemaker run zones that fail over between the hosts of a cluster.

  add       put an installed, halted zone under Pacemaker. Its zonepath is the mount point
            of its storage on this host. Refuses without a fence device that answers for each host
    -n      print the resources and constraints, and change nothing
    -d      device of the zonepath's file system; each host can mount it
    -s      resource of Pacemaker that provides the storage, such as a ZFS pool: it mounts the
            zonepath; with -d, such as the clone of DRBD: it provides the device
    -t      type of the file system (ext4)
    -o      options of the mount
    -p      command that Pacemaker runs in the zone; the zone is healthy if it ends with 0
    -H      hosts on which the zone may run, the preferred first (all)
    --guest NAME
            make the zone a guest node of Pacemaker, in which it runs resources. Only where access
            control lists are on (enable-acl=true) and give NAME no right to write
    --guest-address ADDRESS
            address of the zone, if the hosts cannot look NAME up
    --shared-disks
            the zone is a kernel zone, and every host has all its disks at the same paths. It moves live,
            and its zonepath has no data. Root of each host must be able to log in on the others by ssh
  update    have the cluster use the zone's configuration of this host, on which it runs
  remove    stop the zone and take it out of the cluster; its storage stays as it is
  status    print the zones of the cluster, where they run, and their state on this host
  move      stop the zone and start it on HOST, or on any other host; move it live with shared disks
  evacuate  move every zone off HOST, which takes none until 'return'
  return    let HOST take zones again

Exit status: 0 done, 1 failed or refused, 2 usage.

example: zonecluster add -d /dev/disk/by-id/wwn-0x5000c500 -p 'pg_isready -q' web
";

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `add`; `dry` is -n.
    Add {
        /// The zone and its storage. The path is empty, and so is the name of the file of a shared
        /// configuration: the zone's configuration has both.
        failover: Box<Failover>,
        /// -s: the id of the resource below the zone.
        storage: Option<String>,
        /// Print, and change nothing.
        dry: bool,
    },
    /// `update`.
    Update {
        /// Name of the zone.
        zone: String,
    },
    /// `remove`.
    Remove {
        /// Name of the zone.
        zone: String,
    },
    /// `status`.
    Status,
    /// `move`.
    Move {
        /// Name of the zone.
        zone: String,
        /// The host that gets it.
        host: Option<String>,
    },
    /// `evacuate`.
    Evacuate {
        /// Name of the host.
        host: String,
    },
    /// `return`.
    Return {
        /// Name of the host.
        host: String,
    },
}

/// Reads the command line. Returns `None` if it asks for help.
///
/// # Errors
/// Fails if it is not as the help says.
pub fn parse(mut parser: lexopt::Parser) -> anyhow::Result<Option<Command>> {
    let mut words = Vec::new();
    let mut options: Vec<(char, String)> = Vec::new();
    let mut dry = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('n') => dry = true,
            Short(option @ ('d' | 's' | 't' | 'o' | 'p' | 'H')) => {
                options.push((option, parser.value()?.string()?));
            }
            Long("shared-disks") => options.push(('S', String::new())),
            Long("guest") => options.push(('g', parser.value()?.string()?)),
            Long("guest-address") => options.push(('a', parser.value()?.string()?)),
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (verb, operands) = words
        .split_first()
        .context("expected a command, found none")?;
    if *verb != "add" && (dry || !options.is_empty()) {
        bail!("{verb}: takes no option");
    }
    let command = match (*verb, operands) {
        ("add", [zone]) => Command::Add {
            failover: Box::new(failover(zone, &options)?),
            storage: value_of('s', &options).map(|id| name(&id)).transpose()?,
            dry,
        },
        ("update", [zone]) => Command::Update { zone: name(zone)? },
        ("remove", [zone]) => Command::Remove { zone: name(zone)? },
        ("status", []) => Command::Status,
        ("move", [zone]) => Command::Move {
            zone: name(zone)?,
            host: None,
        },
        ("move", [zone, host]) => Command::Move {
            zone: name(zone)?,
            host: Some(name(host)?),
        },
        ("evacuate", [host]) => Command::Evacuate { host: name(host)? },
        ("return", [host]) => Command::Return { host: name(host)? },
        ("add" | "update" | "remove" | "status" | "move" | "evacuate" | "return", _) => {
            bail!("{verb}: the operands are not as expected")
        }
        _ => bail!("{verb}: no such command"),
    };
    Ok(Some(command))
}

fn failover(zone: &str, options: &[(char, String)]) -> anyhow::Result<Failover> {
    let of = |wanted| value_of(wanted, options);
    let device = of('d').unwrap_or_default();
    let is_shared = of('S').is_some();
    if is_shared
        && (['d', 's', 't', 'o', 'g']
            .into_iter()
            .any(|option| of(option).is_some()))
    {
        bail!("add: --shared-disks does not go with -d, -s, -t, -o and --guest");
    }
    if device.is_empty() && of('s').is_none() && !is_shared {
        bail!(
            "add: expected -d DEVICE or -s RESOURCE, the storage of the zonepath, or --shared-disks for a kernel zone"
        );
    }
    if device.is_empty() && (of('t').is_some() || of('o').is_some()) {
        bail!("add: -t and -o need -d DEVICE: the resource of -s mounts the file system itself");
    }
    let guest = match (of('g'), of('a')) {
        (Some(guest), address) => Some(Guest {
            name: name(&guest)?,
            address: address
                .map(|text| is_address(&text))
                .transpose()?
                .unwrap_or_default(),
        }),
        (None, Some(_)) => bail!("add: --guest-address needs --guest NAME"),
        (None, None) => None,
    };
    let hosts = of('H').unwrap_or_default();
    Ok(Failover {
        zone: name(zone)?,
        path: String::new(),
        device,
        base: None,
        fstype: of('t').unwrap_or_else(|| "ext4".to_owned()),
        options: of('o').unwrap_or_default(),
        probe: of('p').unwrap_or_default(),
        hosts: hosts
            .split(',')
            .filter(|host| !host.is_empty())
            .map(name)
            .collect::<anyhow::Result<_>>()?,
        guest,
        shared_config: of('S'),
    })
}

/// Returns the last value of an option.
fn value_of(wanted: char, options: &[(char, String)]) -> Option<String> {
    let mut values = options.iter().filter(|(option, _)| *option == wanted);
    values.next_back().map(|(_, value)| value.clone())
}

/// Checks the address of a guest: a name, or an address of IPv4 or IPv6.
fn is_address(word: &str) -> anyhow::Result<String> {
    match word.parse::<std::net::IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => name(word),
    }
}

/// Checks the name of a zone, host or resource: it becomes part of ids, and an operand of other programs.
fn name(word: &str) -> anyhow::Result<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(good) {
        return Ok(word.to_owned());
    }
    bail!("'{word}': expected the name of a zone, host or resource: letters, digits, - _ and .")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> anyhow::Result<Option<Command>> {
        parse(lexopt::Parser::from_args(words))
    }

    #[test]
    fn reads_the_storage_of_a_zone() {
        let words = [
            "add", "-n", "-d", "/dev/x", "-H", "b,a", "-p", "true x", "web",
        ];
        let Some(Command::Add { failover, dry, .. }) = parsed(&words).unwrap() else {
            panic!("expected add");
        };
        assert!(dry);
        assert_eq!(
            (failover.fstype.as_str(), failover.probe.as_str()),
            ("ext4", "true x")
        );
        assert_eq!(failover.hosts, ["b", "a"]);
    }

    #[test]
    fn reads_the_resource_below_a_zone() {
        let read = |words: &[&str]| match parsed(words).unwrap() {
            Some(Command::Add {
                failover, storage, ..
            }) => (failover.device, storage),
            other => panic!("expected add, found {other:?}"),
        };
        assert_eq!(
            read(&["add", "-s", "pool", "web"]),
            (String::new(), Some("pool".into()))
        );
        assert_eq!(
            read(&["add", "-s", "drbd-clone", "-d", "/dev/drbd0", "web"]).0,
            "/dev/drbd0"
        );
        for words in [
            &["add", "-s", "a b", "web"][..],
            &["add", "-s", "pool", "-t", "xfs", "web"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn shared_disks_need_no_storage_of_the_zonepath() {
        let words = ["add", "--shared-disks", "-H", "a,b", "web"];
        let Some(Command::Add { failover, .. }) = parsed(&words).unwrap() else {
            panic!("expected add");
        };
        assert!(failover.shared_config.is_some() && failover.device.is_empty());
    }

    #[test]
    fn reads_a_guest() {
        let words = [
            "add",
            "-d",
            "/dev/x",
            "--guest",
            "gweb",
            "--guest-address",
            "fd00::1",
            "web",
        ];
        let Some(Command::Add { failover, .. }) = parsed(&words).unwrap() else {
            panic!("expected add");
        };
        let guest = failover.guest.unwrap();
        assert_eq!(
            (guest.name.as_str(), guest.address.as_str()),
            ("gweb", "fd00::1")
        );
    }

    #[test]
    fn refuses_what_is_no_name() {
        for word in ["", "-x", "a b", "a\"b", "../x"] {
            assert!(parsed(&["remove", "--", word]).is_err(), "{word}");
        }
    }

    #[test]
    fn refuses_wrong_operands() {
        let wrong: [&[&str]; 12] = [
            &["add", "--shared-disks", "-d", "/dev/x", "web"],
            &["add", "--shared-disks", "--guest", "g", "web"],
            &["move", "--shared-disks", "web"],
            &["add", "-d", "/dev/x", "--guest-address", "10.0.0.1", "web"],
            &["add", "-d", "/dev/x", "--guest", "a b", "web"],
            &["move", "--guest", "g", "web"],
            &[],
            &["add", "web"],
            &["status", "x"],
            &["move"],
            &["move", "-n", "web"],
            &["fly"],
        ];
        for words in wrong {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
