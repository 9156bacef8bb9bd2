//! The accounts of a new zone: the host's system accounts, without any personal data.
//!
//! The ids must agree with the host's, because files in the inherited directories have them as
//! owners. Only the name and the ids of an account are copied. Password, description, shell and
//! home have one of the forms in this module.

use std::collections::HashSet;

use crate::install::Error;
use crate::tree::{Meta, Tree};

/// The first id of personal accounts (`UID_MIN` of login.defs).
const FIRST_PERSON: u32 = 1000;

/// The id of the user `nobody`.
const NOBODY: u32 = 65534;

/// Maximum number of accounts, and of groups, that are copied.
const MAX_ENTRIES: usize = 4096;

/// Maximum size of an account file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Shells that an account may keep. The first one replaces all others.
const SHELLS: &[&str] = &[
    "/usr/sbin/nologin",
    "/sbin/nologin",
    "/bin/false",
    "/usr/bin/false",
    "/bin/sync",
    "/bin/sh",
    "/bin/bash",
];

/// The folders in which an account's home may be. Any other home becomes `/nonexistent`.
const HOMES: &[&str] = &["/var/", "/run/", "/usr/"];
const EXACT_HOMES: &[&str] = &["/", "/bin", "/dev", "/nonexistent"];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
    shell: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

/// The system accounts of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    accounts: Vec<Account>,
    groups: Vec<Group>,
}

impl Accounts {
    /// Reads the accounts of the host; without them, the list of the distribution; without that,
    /// the users `root` and `nobody`.
    pub fn of(host: &Tree) -> Result<Self, Error> {
        let read = |names: [&str; 2]| -> Result<Vec<u8>, Error> {
            for name in names {
                if let Some((content, _)) = host.read(name.as_ref(), MAX_FILE)? {
                    return Ok(content);
                }
            }
            Ok(Vec::new())
        };
        let has_bash = ["bin/bash", "usr/bin/bash"]
            .iter()
            .any(|bash| host.stat(bash.as_ref()).is_ok_and(|stat| stat.is_some()));
        Ok(Self::parse(
            &read(["etc/passwd", "usr/share/base-passwd/passwd.master"])?,
            &read(["etc/group", "usr/share/base-passwd/group.master"])?,
            if has_bash { "/bin/bash" } else { "/bin/sh" },
        ))
    }

    /// Reads the system accounts from the text of passwd(5) and group(5). Ignores lines that are
    /// not plain entries.
    fn parse(passwd: &[u8], group: &[u8], root_shell: &str) -> Self {
        let mut accounts = vec![Account {
            name: "root".to_owned(),
            uid: 0,
            gid: 0,
            home: "/root".to_owned(),
            shell: root_shell.to_owned(),
        }];
        for fields in entries::<7>(passwd) {
            let [name, _, uid, gid, _, home, shell] = fields;
            let (Some(uid), Some(gid)) = (system_id(uid), system_id(gid)) else {
                continue;
            };
            // A second account with the id of root would be a second way to become root.
            if uid != 0 && is_name(name) && accounts.iter().all(|known| known.name != name) {
                accounts.push(Account {
                    name: name.to_owned(),
                    uid,
                    gid,
                    home: home_of(home).to_owned(),
                    shell: shell_of(shell).to_owned(),
                });
            }
        }
        if accounts.iter().all(|account| account.uid != NOBODY) {
            accounts.push(Account {
                name: "nobody".to_owned(),
                uid: NOBODY,
                gid: NOBODY,
                home: "/nonexistent".to_owned(),
                shell: SHELLS[0].to_owned(),
            });
        }
        let known: HashSet<&str> = accounts.iter().map(|known| known.name.as_str()).collect();
        let mut groups: Vec<Group> = Vec::new();
        for fields in entries::<4>(group) {
            let [name, _, gid, members] = fields;
            let Some(gid) = system_id(gid) else {
                continue;
            };
            if is_name(name) && groups.iter().all(|known| known.name != name) {
                let members = members.split(',').filter(|member| known.contains(member));
                groups.push(Group {
                    name: name.to_owned(),
                    gid,
                    members: members.map(str::to_owned).collect(),
                });
            }
        }
        for (name, gid) in [("root", 0), ("nogroup", NOBODY)] {
            if groups
                .iter()
                .all(|group| group.gid != gid && group.name != name)
            {
                groups.push(Group {
                    name: name.to_owned(),
                    gid,
                    members: Vec::new(),
                });
            }
        }
        Self { accounts, groups }
    }

    /// Returns true if an account has this id.
    pub fn has_uid(&self, uid: u32) -> bool {
        self.accounts.iter().any(|account| account.uid == uid)
    }

    /// Returns true if a group has this id.
    pub fn has_gid(&self, gid: u32) -> bool {
        self.groups.iter().any(|group| group.gid == gid)
    }

    /// Returns the id of an account.
    pub fn uid(&self, name: &str) -> Option<u32> {
        let found = self.accounts.iter().find(|account| account.name == name);
        found.map(|account| account.uid)
    }

    /// Returns the id of a group.
    pub fn gid(&self, name: &str) -> Option<u32> {
        let found = self.groups.iter().find(|group| group.name == name);
        found.map(|group| group.gid)
    }

    /// Returns the four account files with all passwords locked: name below `/etc`, owner and mode,
    /// text.
    pub fn files(&self) -> [(&'static str, Meta, String); 4] {
        let hidden = Meta {
            gid: self.gid("shadow").unwrap_or(0),
            ..Meta::root(0o640)
        };
        let (mut passwd, mut shadow) = (String::new(), String::new());
        for Account {
            name,
            uid,
            gid,
            home,
            shell,
        } in &self.accounts
        {
            let gecos = if *uid == 0 { "root" } else { "" };
            passwd += &format!("{name}:x:{uid}:{gid}:{gecos}:{home}:{shell}\n");
            // The field for the last change is empty, so no password expires.
            shadow += &format!("{name}:*::0:99999:7:::\n");
        }
        let (mut group, mut gshadow) = (String::new(), String::new());
        for Group { name, gid, members } in &self.groups {
            let members = members.join(",");
            group += &format!("{name}:x:{gid}:{members}\n");
            gshadow += &format!("{name}:*::{members}\n");
        }
        [
            ("passwd", Meta::root(0o644), passwd),
            ("group", Meta::root(0o644), group),
            ("shadow", hidden, shadow),
            ("gshadow", hidden, gshadow),
        ]
    }
}

/// Returns the lines with exactly `N` fields, up to a maximum number.
fn entries<const N: usize>(text: &[u8]) -> impl Iterator<Item = [&str; N]> {
    text.split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let mut fields = std::str::from_utf8(line).ok()?.split(':');
            let mut entry = [""; N];
            for field in &mut entry {
                *field = fields.next()?;
            }
            fields.next().is_none().then_some(entry)
        })
        .take(MAX_ENTRIES)
}

fn system_id(text: &str) -> Option<u32> {
    let id = text.parse().ok()?;
    (id < FIRST_PERSON || id == NOBODY).then_some(id)
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && name.len() <= 32
        && bytes.all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
        })
}

fn home_of(home: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let allowed =
        EXACT_HOMES.contains(&home) || HOMES.iter().any(|prefix| home.starts_with(prefix));
    if allowed && home.bytes().all(plain) && !home.contains("..") {
        home
    } else {
        "/nonexistent"
    }
}

fn shell_of(shell: &str) -> &str {
    if SHELLS.contains(&shell) {
        shell
    } else {
        SHELLS[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:$6$SECRET:0:0:The Admin:/root:/bin/zsh\n\
        daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
        toor:x:0:0::/root:/bin/sh\n\
        postgres:x:101:104:Ann Other,,,:/var/lib/postgresql:/bin/bash\n\
        backup2:x:102:104:Ann:/home/ann:/opt/shell\n\
        ann:x:1000:1000:Ann Other:/home/ann:/bin/bash\n\
        +nis::::::\n\
        short:x:5\n\
        nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    const GROUP: &str = "root:x:0:\nshadow:x:42:\nsudo:SECRET:27:ann,postgres\nann:x:1000:\n\
        postgres:x:104:\nnogroup:x:65534:\n";

    #[test]
    fn people_and_secrets_stay_out() {
        let accounts = Accounts::parse(PASSWD.as_bytes(), GROUP.as_bytes(), "/bin/bash");
        let [
            (_, _, passwd),
            (_, _, group),
            (_, shadow_meta, shadow),
            (_, _, gshadow),
        ] = accounts.files();
        assert_eq!(
            passwd,
            "root:x:0:0:root:/root:/bin/bash\n\
             daemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
             postgres:x:101:104::/var/lib/postgresql:/bin/bash\n\
             backup2:x:102:104::/nonexistent:/usr/sbin/nologin\n\
             nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        );
        assert_eq!(
            group,
            "root:x:0:\nshadow:x:42:\nsudo:x:27:postgres\npostgres:x:104:\nnogroup:x:65534:\n"
        );
        assert!(shadow.starts_with("root:*::0:99999:7:::\n"));
        assert_eq!(shadow.lines().count(), passwd.lines().count());
        assert!(gshadow.contains("sudo:*::postgres\n"));
        assert_eq!((shadow_meta.mode, shadow_meta.gid), (0o640, 42));
    }

    #[test]
    fn an_empty_host_gives_root_and_nobody() {
        let accounts = Accounts::parse(b"", b"", "/bin/sh");
        assert!(accounts.has_uid(0) && accounts.has_uid(NOBODY) && !accounts.has_uid(1));
        assert_eq!(accounts.gid("root"), Some(0));
    }
}
