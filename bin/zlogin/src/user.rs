//! Looks up a user in the files of a zone that has no su. The calling process is inside the zone.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Maximum size of /etc/passwd or /etc/group, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of groups of a user: the limit of the kernel (NGROUPS_MAX).
const MAX_GROUPS: usize = 65_536;

/// A user as listed in /etc/passwd and /etc/group of the zone.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: String,
    /// The path of the user's shell.
    pub shell: String,
}

/// Finds a user in the files of the zone that the caller is in.
///
/// # Errors
/// Fails with a message if the user does not exist.
pub fn find(name: &str) -> Result<User, String> {
    let read = |path: &str| -> String {
        let mut bytes = Vec::new();
        let opened = File::open(path);
        // In a zone without /etc/group, users have no supplementary groups.
        let _ = opened.and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    parse(name, &read("/etc/passwd"), &read("/etc/group"))
        .ok_or_else(|| format!("the zone has no su, and no user {name} in its /etc/passwd"))
}

fn parse(name: &str, passwd: &str, group: &str) -> Option<User> {
    let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let line = passwd.lines().map(fields).find(|line| line[0] == name)?;
    let [_, _, uid, gid, _, home, shell] = line.as_slice() else {
        return None;
    };
    let is_member = |line: &Vec<String>| {
        let members = line.get(3).map(String::as_str).unwrap_or_default();
        members.split(',').any(|member| member == name)
    };
    let groups = group.lines().map(fields).filter(is_member);
    let groups = groups.filter_map(|line| line.get(2)?.parse().ok());
    let or = |text: &str, other: &str| match text {
        "" => other.to_owned(),
        own => own.to_owned(),
    };
    Some(User {
        name: name.to_owned(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        groups: groups.take(MAX_GROUPS).collect(),
        home: or(home, "/"),
        shell: or(shell, "/bin/sh"),
    })
}

impl User {
    /// Returns the environment variables of a login of this user.
    pub fn environment(&self) -> Vec<CString> {
        let settings = [
            ("HOME", &self.home),
            ("SHELL", &self.shell),
            ("USER", &self.name),
            ("LOGNAME", &self.name),
        ];
        let text = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        text.filter_map(|text| CString::new(text).ok()).collect()
    }

    /// Drops all privileges of the calling root process beyond those of this user. Changes to the
    /// user's home, or to / if the home does not exist.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn become_it(&self) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let own = [self.gid].into_iter().chain(self.groups.iter().copied());
        let groups: Vec<Gid> = own.map(Gid::from_raw).collect();
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        rustix::process::chdir(self.home.as_str()).or_else(|_| rustix::process::chdir("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_with_their_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/ash\njoe:x:1000:100:Joe,,,:/home/joe:\nbad:x:y:1::/:\nshort:x\n";
        let group = "root:x:0:\nwheel:x:10:root,joe\nusers:x:100:\nvideo:x:27:joe\nodd:x:z:joe\n";
        let joe = parse("joe", passwd, group).unwrap();
        assert_eq!((joe.uid, joe.gid), (1000, 100));
        assert_eq!(joe.groups, [10, 27]);
        assert_eq!(
            (joe.home.as_str(), joe.shell.as_str()),
            ("/home/joe", "/bin/sh")
        );
        assert_eq!(joe.environment()[0].to_bytes(), b"HOME=/home/joe");
        for name in ["bad", "short", "nobody", ""] {
            assert_eq!(parse(name, passwd, group), None, "{name}");
        }
        assert_eq!(parse("root", passwd, "").unwrap().groups, [0; 0]);
    }
}
