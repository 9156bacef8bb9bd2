//! The authorizations of the caller on zones, for `list -j`.

use std::process::{Command, Stdio};

use authority::{Auth, Auths};
use model::config::Admin;
use zone::list::Row;

/// The word that root has beside all authorizations.
const ROOT: &str = "root";

/// The user who runs this program.
#[derive(Debug)]
pub enum Caller {
    /// root, who may do everything.
    Root,
    /// Another user, and all names that the host's accounts have for the user.
    User(Vec<String>),
}

impl Caller {
    /// Returns the user who runs this program.
    pub fn find() -> Self {
        let uid = rustix::process::getuid().as_raw();
        if cli::is_root() {
            return Self::Root;
        }
        let local = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut names = names_of(&local, uid);
        if names.is_empty() {
            names = names_of(&ask_nss(uid), uid);
        }
        Self::User(names)
    }

    /// Returns the words for the actions that the caller may do with a zone: the words of the
    /// property `auths`, and `root` for root. zoneauthd checks again.
    pub fn may(&self, row: &Row) -> Vec<&'static str> {
        let all = Auth::ALL.into_iter();
        let names = match self {
            Self::Root => return all.map(Auth::as_str).chain([ROOT]).collect(),
            Self::User(names) => names,
        };
        let admins = row.details.iter().flat_map(|details| &details.admins);
        let given = admins.filter(|admin: &&Admin| names.contains(&admin.user));
        let given: Vec<String> = given.map(|admin| admin.auths.join(",")).collect();
        let auths = Auths::of_list(&given.join(","));
        all.filter(|auth| auths.has(*auth))
            .map(Auth::as_str)
            .collect()
    }
}

/// Returns the names that lines like those of /etc/passwd have for a user id.
fn names_of(accounts: &str, uid: u32) -> Vec<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    accounts.lines().filter_map(name).collect()
}

/// Returns the account of a user id that /etc/passwd lacks. A static program cannot load the
/// modules of NSS, so getent(1) asks them.
fn ask_nss(uid: u32) -> String {
    let asked = Command::new("getent")
        .args(["passwd", &uid.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    asked.map_or_else(
        |_| String::new(),
        |asked| String::from_utf8_lossy(&asked.stdout).into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use zone::list::Details;

    #[test]
    fn users_have_the_authorizations_of_all_their_names() {
        let admin = |user: &str, auths: &str| Admin {
            user: user.to_owned(),
            auths: auths.split(',').map(str::to_owned).collect(),
        };
        let mut row = super::super::tests::row();
        row.details = Some(Details {
            admins: vec![
                admin("anna", "login"),
                admin("bert", "manage,unknown"),
                admin("carla", "config"),
            ],
            ..Details::default()
        });
        let names = ["anna", "bert"].map(str::to_owned).to_vec();
        assert_eq!(Caller::User(names).may(&row), ["login", "manage"]);
        assert!(Caller::User(Vec::new()).may(&row).is_empty());
        let root = Caller::Root.may(&row);
        assert!(root.contains(&"root") && root.contains(&"migrate"));
    }

    #[test]
    fn names_are_found_by_the_user_id() {
        let accounts = "root:x:0:0::/:\nanna:x:1000:1000::/:\nalso:x:1000:1000::/:\nbad\n";
        assert_eq!(names_of(accounts, 1000), ["anna", "also"]);
        assert!(names_of(accounts, 1001).is_empty());
    }
}
