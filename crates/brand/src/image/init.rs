//! Writes the command of a container image to the file that zinit reads.
//!
//! `/etc/zone.init` in the zone's root holds strings that end in a zero byte: the mark; the numbers
//! of the user, the group, the further groups (with commas) and the signal that ends the program;
//! its working directory; the number of settings of the environment, and the settings; and then the
//! words of the command. zinit(8) starts the command after `/etc/rc.zone`, and the zone ends with
//! it.

use std::path::{Path, PathBuf};

use oci::Command;

use crate::Error;
use crate::identity::Stack;
use crate::tree::Meta;

/// The path of the file in the zone.
pub const FILE: &str = "etc/zone.init";

/// The first line of the file.
const MARK: &str = "zone-init 1";

/// Maximum size of a file of accounts, in bytes.
const MAX_ACCOUNTS: u64 = 4 << 20;

/// The default PATH of a login, for an image that sets none.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Signals by the names that images use.
const SIGNALS: &[(&str, u8)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("STOP", 19),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("RTMIN+3", 37),
];

const SIGTERM: u8 = 15;

/// The user that runs a command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: String,
}

/// Writes `command` for the zone's init to the top of a root with the layers `lowers`, the
/// uppermost first.
///
/// # Errors
/// Fails with [`Error::Refused`] if the image names no program, or a user that it does not have.
pub fn write(top: &Path, lowers: &[PathBuf], command: &Command) -> Result<(), Error> {
    let mut stack = Stack::open(top, lowers)?;
    let read = |name: &str| -> Result<String, Error> {
        let text = stack.read(Path::new(name), MAX_ACCOUNTS)?;
        Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    };
    let user = user(&command.user, &read("etc/passwd")?, &read("etc/group")?)?;
    let text = text(command, &user)?;
    stack.replace(Path::new(FILE), Meta::root(0o600), &text)
}

fn text(command: &Command, user: &User) -> Result<Vec<u8>, Error> {
    if command.words.is_empty() {
        return Err(Error::Refused(
            "the image names no program to run; install it without -x image-init".to_owned(),
        ));
    }
    let signal = signal(&command.stop_signal)?;
    let mut environment = command.environment.clone();
    for (name, default) in [
        ("PATH=", PATH.to_owned()),
        ("HOME=", format!("HOME={}", user.home)),
    ] {
        if !environment.iter().any(|setting| setting.starts_with(name)) {
            environment.push(default);
        }
    }
    let groups: Vec<String> = user.groups.iter().map(ToString::to_string).collect();
    let mut strings = vec![
        MARK.to_owned(),
        user.uid.to_string(),
        user.gid.to_string(),
        groups.join(","),
        signal.to_string(),
        command.folder.clone(),
        environment.len().to_string(),
    ];
    strings.extend(environment);
    strings.extend(command.words.iter().cloned());
    let mut bytes = strings.join("\0").into_bytes();
    bytes.push(0);
    Ok(bytes)
}

fn signal(name: &str) -> Result<u8, Error> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    if name.is_empty() {
        return Ok(SIGTERM);
    }
    let known = SIGNALS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number);
    let number = known.or_else(|| name.parse().ok().filter(|number| (1..=64).contains(number)));
    number.ok_or_else(|| {
        Error::Refused(format!(
            "the image ends by signal {}, which is none",
            oci::shown(name)
        ))
    })
}

/// Returns the fields of the lines of a file of accounts.
fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

/// Finds the user of `name`, `number`, `name:group` or `number:number`.
fn user(text: &str, passwd: &str, group: &str) -> Result<User, Error> {
    let missing = |what: &str, name: &str| {
        Error::Refused(format!(
            "the image runs as {what} {}, which it does not have",
            oci::shown(name)
        ))
    };
    let id = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|id| *id <= super::unpack::MAX_ID)
    };
    let (name, of_group) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    };
    let name = if name.is_empty() { "0" } else { name };
    let entry = fields(passwd).find(|line| {
        line.len() >= 6 && (line[0] == name || id(name).is_some() && id(line[2]) == id(name))
    });
    let uid = match (&entry, id(name)) {
        (Some(line), _) => id(line[2]).ok_or_else(|| missing("user", name))?,
        (None, Some(uid)) => uid,
        (None, None) => return Err(missing("user", name)),
    };
    let mut groups = Vec::new();
    let gid = match of_group {
        Some(wanted) => {
            let named = fields(group).find(|line| line.len() >= 3 && line[0] == wanted);
            match (named.and_then(|line| id(line[2])), id(wanted)) {
                (Some(gid), _) | (None, Some(gid)) => gid,
                (None, None) => return Err(missing("group", wanted)),
            }
        }
        None => {
            if let Some(line) = &entry {
                groups = fields(group)
                    .filter(|of| of.len() >= 4 && of[3].split(',').any(|member| member == line[0]))
                    .filter_map(|of| id(of[2]))
                    .take(64)
                    .collect();
            }
            entry.as_ref().and_then(|line| id(line[3])).unwrap_or(0)
        }
    };
    // The groups include the user's own group, because a permission that a file denies to its group
    // is denied to the user.
    groups.retain(|group| *group != gid);
    groups.insert(0, gid);
    let home = entry
        .as_ref()
        .map(|line| line[5])
        .filter(|home| home.starts_with('/'));
    Ok(User {
        uid,
        gid,
        groups,
        home: home.unwrap_or("/").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/false\nbad:x:99999999:0::/:\nshort:x\n";
    const GROUP: &str = "root:x:0:\nweb:x:34:\nlogs:x:40:web,other\nnone:x\n";

    fn found(text: &str) -> Result<(u32, u32, Vec<u32>, String), String> {
        user(text, PASSWD, GROUP)
            .map(|user| (user.uid, user.gid, user.groups, user.home))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn users_are_found_as_the_image_has_them() {
        let root = Ok((0, 0, vec![0], "/root".to_owned()));
        assert_eq!(found(""), root);
        assert_eq!(found("root"), root);
        assert_eq!(found("web"), Ok((33, 34, vec![34, 40], "/srv".to_owned())));
        assert_eq!(found("33"), Ok((33, 34, vec![34, 40], "/srv".to_owned())));
        assert_eq!(found("web:logs"), Ok((33, 40, vec![40], "/srv".to_owned())));
        assert_eq!(
            found("1000:1001"),
            Ok((1000, 1001, vec![1001], "/".to_owned()))
        );
        for bad in ["nobody", "bad", "web:nobody", "70000", "-1"] {
            assert!(found(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_file_is_strings() {
        let command = Command {
            words: vec!["/bin/a".into(), "b c".into()],
            environment: vec!["X=1".into()],
            folder: "/w".into(),
            stop_signal: "SIGQUIT".into(),
            ..Command::default()
        };
        let user = user("web", PASSWD, GROUP).unwrap();
        let written = super::text(&command, &user).unwrap();
        let text = String::from_utf8(written).unwrap();
        let strings: Vec<&str> = text.split('\0').collect();
        assert_eq!(
            strings,
            [
                "zone-init 1",
                "33",
                "34",
                "34,40",
                "3",
                "/w",
                "3",
                "X=1",
                PATH,
                "HOME=/srv",
                "/bin/a",
                "b c",
                ""
            ]
        );
        assert!(super::text(&Command::default(), &user).is_err());
        assert!(signal("SIGFOO").is_err() && signal("99").is_err());
        assert_eq!(signal("9").unwrap(), 9);
    }
}
