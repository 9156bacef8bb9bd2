//! The owner of new files.

use std::io::Read;
use std::os::fd::BorrowedFd;

use rustix::fs::{Gid, Uid};

use crate::Error;

/// Maximum size of /etc/passwd and /etc/group, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The owner of new files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user of the process that unpacks.
    Caller,
    /// The owner that the stream names, by number.
    Kept,
    /// A user of the root, as `USER` or `USER:GROUP`: names or numbers.
    Named(String),
}

/// The numbers of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Caller,
    Kept,
    Fixed(Uid, Gid),
}

impl Owner {
    /// Looks an owner up in /etc/passwd and /etc/group of a root.
    pub(crate) fn ids(&self, root: BorrowedFd<'_>) -> Result<Ids, Error> {
        let text = match self {
            Self::Caller => return Ok(Ids::Caller),
            Self::Kept => return Ok(Ids::Kept),
            Self::Named(text) => text,
        };
        let (passwd, group) = (read(root, "etc/passwd"), read(root, "etc/group"));
        let (uid, gid) = find(text, &passwd, &group).map_err(Error::Target)?;
        Ok(Ids::Fixed(Uid::from_raw(uid), Gid::from_raw(gid)))
    }
}

/// Reads a file of a root; a missing one is empty.
fn read(root: BorrowedFd<'_>, path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(Some(file)) = sys::root::file(root, path) {
        let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn find(text: &str, passwd: &str, group: &str) -> Result<(u32, u32), String> {
    let (user, group_name) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    // Fields of both files: name, password, number; in passwd then the number of the group.
    let field = |file: &str, by: usize, key: &str, wanted: usize| {
        file.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.get(by) == Some(&key)).then(|| fields.get(wanted)?.parse().ok())?
        })
    };
    // The number 4294967295 means "do not change" to chown(2).
    let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    let uid = field(passwd, 0, user, 2)
        .or_else(|| number(user))
        .ok_or_else(|| format!("-o {text}: no user {user} in /etc/passwd there"))?;
    let gid = match group_name {
        Some(name) => field(group, 0, name, 2)
            .or_else(|| number(name))
            .ok_or_else(|| format!("-o {text}: no group {name} in /etc/group there"))?,
        None => field(passwd, 2, &uid.to_string(), 3).unwrap_or(uid),
    };
    Ok((uid, gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers_of_the_root() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/var/www:\nbad:x:y:1::/:\n";
        let group = "root:x:0:\nstaff:x:50:\n";
        let find = |text: &str| find(text, passwd, group);
        assert_eq!(find("www"), Ok((33, 34)));
        assert_eq!(find("www:staff"), Ok((33, 50)));
        assert_eq!(find("33"), Ok((33, 34)));
        assert_eq!(find("1000"), Ok((1000, 1000)));
        assert_eq!(find("1000:7"), Ok((1000, 7)));
        for wrong in ["joe", "bad", "", "www:", "www:nogroup", "-1", "4294967295"] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
