//! Maps user ids to user names.
//!
//! An `admin` resource names a user, but the kernel reports a user id. A name belongs to a user if
//! the accounts of the host now map the name to this id. zoneauthd looks first in /etc/passwd. For
//! a name that /etc/passwd lacks, it runs getent(1), which asks NSS (LDAP, SSSD, ...), because a
//! statically linked program cannot. The accounts are always those of the host, even with an
//! alternate root.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// The file of local accounts.
const PASSWD: &str = "/etc/passwd";

/// Paths of getent(1), the program that queries NSS.
const GETENT: [&str; 2] = ["/usr/bin/getent", "/bin/getent"];

/// Maximum number of bytes that are read of /etc/passwd or of the output of getent.
const MAX_SIZE: u64 = 16 << 20;

/// A user who sends a request.
#[derive(Debug)]
pub struct User {
    /// The user id that the kernel reports.
    pub uid: u32,
    /// The user name to show; the user id if /etc/passwd has no name for it.
    pub name: String,
}

impl User {
    /// Returns the user with this id.
    pub fn of(uid: u32) -> Self {
        let text = read(Path::new(PASSWD));
        let name = accounts(&text).find(|account| account.uid == uid);
        let name = name.map_or_else(|| uid.to_string(), |account| account.name.to_owned());
        Self { uid, name }
    }

    /// Returns true if `name` is a name of this user.
    pub fn is(&self, name: &str) -> bool {
        if !is_name(name) {
            return false;
        }
        let text = read(Path::new(PASSWD));
        match uid_of(&text, name) {
            Some(uid) => uid == self.uid,
            None => uid_of(&ask_nss(name), name) == Some(self.uid),
        }
    }
}

/// Returns true if getent can only read the text as a user name. getent looks up a number as a user
/// id, and reads a leading dash as an option.
fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-@\\$+".contains(&b);
    text.bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.bytes().all(legal)
        && !text.bytes().all(|b| b.is_ascii_digit())
}

struct Account<'a> {
    name: &'a str,
    uid: u32,
}

/// Returns the accounts in a text in the format of passwd(5); malformed lines are skipped.
fn accounts(text: &str) -> impl Iterator<Item = Account<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid) = (fields.next()?, fields.next()?, fields.next()?);
        // Group, comment, home and shell make it a line of passwd(5).
        (fields.count() == 4 && is_name(name)).then_some(Account {
            name,
            uid: uid.parse().ok()?,
        })
    })
}

/// Returns the user id of the first account with that name, as getpwnam(3) does.
fn uid_of(text: &str, name: &str) -> Option<u32> {
    accounts(text)
        .find(|account| account.name == name)
        .map(|account| account.uid)
}

/// Reads the file. Returns an empty text if that fails: without accounts all users are refused.
fn read(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE).read_to_string(&mut text));
    read.map_or_else(|_| String::new(), |_| text)
}

/// Returns the entry of a name in NSS, in the form of passwd(5).
fn ask_nss(name: &str) -> String {
    let Some(getent) = GETENT.iter().find(|path| Path::new(path).exists()) else {
        return String::new();
    };
    let child = Command::new(getent)
        .args(["passwd", name])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return String::new();
    };
    let mut text = String::new();
    let read = child
        .stdout
        .take()
        .map(|out| out.take(MAX_SIZE).read_to_string(&mut text));
    let ended = child.wait().is_ok_and(|status| status.success());
    match read {
        Some(Ok(_)) if ended => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "root:x:0:0:root:/root:/bin/bash\n\
                        joe:x:1000:1000::/home/joe:/bin/sh\n\
                        joe:x:1001:1001::/home/joe:/bin/sh\n\
                        1002:x:1002:1002::/:/bin/sh\n\
                        short:x:1003\n\
                        odd:x:-1:1::/:/bin/sh\n\
                        big:x:4294967296:1::/:/bin/sh\n\
                        +nis:x:5:5::/:\n";

    #[test]
    fn a_name_has_the_number_of_its_first_account() {
        assert_eq!(uid_of(TEXT, "joe"), Some(1000));
        assert_eq!(uid_of(TEXT, "root"), Some(0));
        for none in ["jo", "JOE", "1002", "short", "odd", "big", "+nis", "", "x"] {
            assert_eq!(uid_of(TEXT, none), None, "{none}");
        }
    }

    #[test]
    fn invalid_user_names_have_no_account() {
        for good in [
            "joe",
            "_apt",
            "www-data",
            "j.doe@example.org",
            "DOM\\joe",
            "pc$",
            "9lives",
        ] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "", "0", "1000", "-h", "--help", "+", "a b", "a:b", "a\nb", "a/b", "\u{e9}",
        ] {
            assert!(!is_name(bad), "{bad}");
            assert!(!User::of(0).is(bad), "{bad}");
        }
    }

    #[test]
    fn the_accounts_of_this_host() {
        let root = User::of(0);
        assert_eq!(root.name, "root");
        assert!(root.is("root"));
        assert!(!root.is("no-such-user-here"));
        assert!(!User::of(4_000_000_000).is("root"));
        assert_eq!(User::of(4_000_000_000).name, "4000000000");
    }
}
