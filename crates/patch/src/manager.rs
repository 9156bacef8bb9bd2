//! Package managers: finds the one of a root, and makes its commands.

mod apk;
mod dnf;

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::order::Order;

/// The folder in a zone where package files of the host are mounted.
pub const SHOWN: &str = "/mnt";

/// The prefix of a script's messages to us.
pub const TOLD: &str = "zonepatch: ";

/// The script's exit status when the result is not as it must be.
pub const NOT_SOUND: i32 = 64;

/// The script's exit status when it could not be begun, and no package was touched.
pub const NOT_BEGUN: i32 = 13;

/// Its exit statuses in this case, except for interrupted earlier operations.
pub const NOT_READY: [i32; 2] = [10, 11];

/// A script for the zone's /bin/sh and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The script.
    pub script: &'static str,
    /// `$1` and so on.
    pub words: Vec<String>,
}

impl Work {
    /// A script with three arguments: the order, the mode, and the packages.
    fn new(script: &'static str, what: &str, how: Mood, more: Vec<String>) -> Self {
        let words = [what.to_owned(), mood(how).to_owned()];
        Self {
            script,
            words: words.into_iter().chain(more).collect(),
        }
    }
}

/// The kind of run: real, or a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It is done, in a copy of a zone that is halted or goes on without it.
    Do,
    /// It is done in a zone that runs, whose services are started anew.
    Live,
    /// It is done on the host, which has no way back: everything is written to disk in time.
    Host,
    /// It is shown: lines `Inst` and `Remv` as apt-get prints them.
    Try,
}

/// The reason why a package manager does not carry out an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It is known by name only.
    #[error(
        "its packages are managed by {0}, which zonepatch cannot drive yet; boot the zone and update it inside"
    )]
    Unsupported(&'static str),
    /// Its updates are not marked as those of security.
    #[error("{0} has no security archive: name the packages, or update everything")]
    NoSecurity(&'static str),
    /// The former versions of packages are gone.
    #[error("{0} keeps no former versions: roll the zone back")]
    NoFormer(&'static str),
    /// It goes back by transactions.
    #[error("{0} takes whole transactions back, not packages: roll the zone back")]
    WholeTransactions(&'static str),
    /// The name of a package file cannot be a word of a command.
    #[error("the name of a package file is not valid UTF-8: rename it")]
    FileName,
}

impl From<Unfit> for host::Error {
    fn from(error: Unfit) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A package manager.
pub trait Manager: std::fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The program that people know it by.
    fn program(&self) -> &'static str {
        self.name()
    }

    /// Returns the calls that carry out the order.
    ///
    /// # Errors
    /// [`Unfit`] for an order that it cannot carry out.
    fn work(&self, order: &Order, mood: Mood) -> Result<Work, Unfit>;

    /// Returns true if the installed packages are read from the output of its script, in lines `was
    /// NAME ARCHITECTURE VERSION` before and `is ...` after the work, as its database is not read
    /// here.
    fn tells(&self) -> bool {
        false
    }

    /// Files and folders below the root that determine its result, for managers whose script lists
    /// the packages; those of dpkg are in [`crate::inventory`].
    fn decides(&self) -> &'static [&'static str] {
        &[]
    }
}

/// apt-get on dpkg.
#[derive(Debug)]
struct Apt;

/// A package manager that is known by name only.
#[derive(Debug)]
struct Unsupported(&'static str);

/// The package managers, by a file that only they have.
const KNOWN: [(&str, &dyn Manager); 7] = [
    ("var/lib/dpkg/status", &Apt),
    ("usr/bin/dnf", &dnf::Dnf),
    ("usr/bin/microdnf", &dnf::Dnf),
    ("usr/bin/zypper", &Unsupported("zypper")),
    ("lib/apk/db/installed", &apk::Apk),
    ("usr/lib/apk/db/installed", &apk::Apk),
    ("var/lib/pacman/local", &Unsupported("pacman")),
];

/// The package manager of the system at `root`.
#[must_use]
pub fn of(root: &Path) -> Option<&'static dyn Manager> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let folder = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let is_there = |path: &str| sys::root::open(&folder, path, OFlags::PATH).is_ok();
    KNOWN
        .iter()
        .find(|(path, _)| is_there(path))
        .map(|(_, manager)| *manager)
}

impl Manager for Unsupported {
    fn name(&self) -> &'static str {
        self.0
    }

    fn work(&self, _: &Order, _: Mood) -> Result<Work, Unfit> {
        Err(Unfit::Unsupported(self.0))
    }
}

/// The word for a script.
const fn mood(mood: Mood) -> &'static str {
    match mood {
        Mood::Do => "do",
        Mood::Live => "live",
        Mood::Host => "host",
        Mood::Try => "try",
    }
}

/// Returns the paths of package files in a zone.
fn shown(files: &[PathBuf]) -> Result<Vec<String>, Unfit> {
    let shown = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        Some(format!("{SHOWN}/{name}"))
    };
    let files: Option<Vec<String>> = files.iter().map(shown).collect();
    files.ok_or(Unfit::FileName)
}

impl Manager for Apt {
    fn name(&self) -> &'static str {
        "apt"
    }

    fn program(&self) -> &'static str {
        "apt-get"
    }

    fn work(&self, order: &Order, how: Mood) -> Result<Work, Unfit> {
        let (what, more): (&str, Vec<String>) = match order {
            Order::Upgrade => ("upgrade", Vec::new()),
            Order::DistUpgrade => ("dist-upgrade", Vec::new()),
            Order::Security => ("security", Vec::new()),
            Order::Packages(names) => ("packages", names.clone()),
            Order::Files(files) => ("files", shown(files)?),
            Order::Back { packages, .. } => ("back", packages.clone()),
        };
        Ok(Work::new(APT, what, how, more))
    }
}

/// Nothing is asked, changed configuration files stay as they are (the new ones come
/// beside them). In a copy no service is started, and nothing is written to disk in time.
/// (A shell ends where a redirection of `:` fails, but not one of `true`.)
/// In a zone that runs there is a file until dpkg is called: it says whether a failure came
/// before that.
const APT: &str = r#"
export DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical APT_LISTCHANGES_FRONTEND=none
export NEEDRESTART_SUSPEND=1 UCF_FORCE_CONFFOLD=1 LC_ALL=C.UTF-8 HOME=/root
what=$1 mood=$2 unsafe=--force-unsafe-io idle=
shift 2
[ "$mood" != host ] || unsafe=
apt() {
    apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Color=0 -o APT::Update::Error-Mode=any \
        ${idle:+-o "DPkg::Pre-Invoke::=rm -f $idle"} \
        ${unsafe:+-o Dpkg::Options::=$unsafe} -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold "$@"
}
identity() {
    for file in /etc/hostname /etc/hosts /etc/hostid /etc/machine-id /etc/resolv.conf; do
        [ -f $file ] && cksum $file
    done
}
services=/usr/sbin/policy-rc.d made=
case $mood in live | host) keep=1 ;; *) keep= ;; esac
if [ ! "$keep" ] && [ ! -e $services ] && [ ! -L $services ] && { true >$services; } 2>/dev/null; then
    printf '#!/bin/sh\n[ "$1" = --quiet ] && shift\necho "zonepatch: service $1 $2" >&2\nexit 101\n' >$services
    chmod 755 $services
    made=1
fi
end() {
    [ -z "$made" ] || rm -f $services
    [ -z "$idle" ] || rm -f "$idle"
    exit "$1"
}
who=$(identity)
# What was left half done counts as a reason to stop if it cannot be finished.
[ "$mood" = try ] || dpkg --force-confdef --force-confold $unsafe --configure -a || end 10
[ "$what" = files ] || apt update || end 11
go() {
    if [ "$mood" = try ]; then apt -s "$@"; else apt "$@"; fi
}
[ "$mood" != live ] || idle=$(mktemp)
case $what in
upgrade) go --with-new-pkgs upgrade ;;
dist-upgrade) go dist-upgrade ;;
security)
    list=$(apt -s dist-upgrade | sed -n 's/^Inst \([^ ]*\) \[.*[Ss]ecurity.*/\1/p')
    # shellcheck disable=SC2086
    [ -z "$list" ] || go --only-upgrade install $list
    ;;
packages) go --only-upgrade install "$@" ;;
files) go install "$@" ;;
back) go --allow-downgrades install "$@" ;;
esac || { [ -n "$idle" ] && [ -e "$idle" ] && end 13; end 12; }
[ "$mood" != try ] || end 0
apt check || end 64
# Packages without checksums are complained of, and no fault of the patch.
bad=$(dpkg --audit | grep '^The following' | grep -v 'control file')
if [ -n "$bad" ]; then
    dpkg --audit
    end 64
fi
apt clean
[ "$mood" != do ] || [ "$who" = "$(identity)" ] || echo "zonepatch: identity changed"
end 0
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn root(file: &str) -> &'static dyn Manager {
        let root = tempfile::tempdir().unwrap();
        assert!(of(root.path()).is_none());
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
        of(root.path()).unwrap()
    }

    #[test]
    fn others_are_refused_by_name() {
        let zypper = root("usr/bin/zypper");
        assert_eq!(zypper.name(), "zypper");
        let error = zypper.work(&Order::Upgrade, Mood::Do).unwrap_err();
        assert_eq!(error, Unfit::Unsupported("zypper"));
        let text = error.to_string();
        assert!(text.contains("managed by zypper"), "{text}");
    }

    #[test]
    fn each_is_told_in_its_words() {
        let named = Order::Packages(vec!["a=1".into(), "b".into()]);
        for (file, name, words) in [
            ("var/lib/dpkg/status", "apt", ["packages", "do", "a=1", "b"]),
            (
                "lib/apk/db/installed",
                "apk",
                ["packages", "do", "a=1", "b"],
            ),
            ("usr/bin/microdnf", "dnf", ["packages", "do", "a-1", "b"]),
        ] {
            let manager = root(file);
            assert_eq!(manager.name(), name);
            let work = manager.work(&named, Mood::Do).unwrap();
            assert_eq!(work.words, words);
            assert!(work.script.len() < 4096);
        }
        let apk = root("lib/apk/db/installed");
        assert!(apk.work(&Order::Security, Mood::Do).is_err());
    }

    #[test]
    fn files_are_named_by_where_the_zone_sees_them() {
        let order = Order::Files(vec!["/some/where/a_1_all.deb".into()]);
        let work = Apt.work(&order, Mood::Do).unwrap();
        assert_eq!(work.words, ["files", "do", "/mnt/a_1_all.deb"]);
        // With room for the words: the channel to the first process has a limit.
        assert!(APT.len() < 4096, "{}", APT.len());
    }

    /// Returns the exit status of the script for a running zone, with an apt-get that fails before
    /// or after it has called dpkg.
    fn live(fails: &str) -> i32 {
        use std::os::unix::fs::PermissionsExt;
        let programs = tempfile::tempdir().unwrap();
        let apt = format!(
            "for word; do case $word in DPkg::Pre-Invoke::=*) hook=${{word#*=}} ;;\n\
             install) {fails} ;; esac; done"
        );
        for (name, text) in [("dpkg", "exit 0"), ("apt-get", apt.as_str())] {
            let path = programs.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", programs.path().display());
        let named = Order::Packages(vec!["a".into()]);
        let work = Apt.work(&named, Mood::Live).unwrap();
        let kept = tempfile::tempdir().unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        shell
            .args(["-c", work.script, "sh"])
            .args(work.words)
            .env("PATH", path)
            .env("TMPDIR", kept.path())
            .stdout(std::process::Stdio::null());
        let status = shell.status().unwrap();
        assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 0);
        status.code().unwrap()
    }

    #[test]
    fn the_script_tells_whether_packages_were_touched() {
        assert_eq!(live("exit 100"), NOT_BEGUN);
        assert_eq!(live("sh -c \"$hook\"; exit 100"), 12);
    }
}
