//! Finds the package manager of a root, and makes its commands.

mod apk;
mod dnf;

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::order::Order;

/// The folder in a zone where package files of the host are mounted.
pub const SHOWN: &str = "/mnt";

/// The prefix of lines that a script writes for zonepatch.
pub const TOLD: &str = "zonepatch: ";

/// The exit status of a script whose result is wrong.
pub const NOT_SOUND: i32 = 64;

/// The exit status of a script that could not start its work, and changed no package.
pub const NOT_BEGUN: i32 = 13;

/// The exit statuses of scripts that changed no package, except that they may have completed
/// earlier, interrupted operations.
pub const NOT_READY: [i32; 2] = [10, 11];

/// A script for the zone's /bin/sh, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The text of the script.
    pub script: &'static str,
    /// The arguments of the script: `$1` and so on.
    pub words: Vec<String>,
}

impl Work {
    /// Returns a script with three arguments: the order, the mode, and the packages.
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
    /// The order is carried out in a copy of a zone. The zone itself is halted, or runs without the
    /// copy.
    Do,
    /// The order is carried out in a running zone, and restarts the services of the zone.
    Live,
    /// The order is carried out on the host, where no snapshot can undo it. Therefore every file is
    /// synced to disk.
    Host,
    /// The order is only simulated: the script prints lines `Inst` and `Remv` as apt-get does.
    Try,
}

/// The reason why a package manager cannot carry out an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Only the name of the package manager is known.
    #[error(
        "its packages are managed by {0}, which zonepatch cannot drive yet; boot the zone and update it inside"
    )]
    Unsupported(&'static str),
    /// The package manager does not mark security updates.
    #[error("{0} has no security archive: name the packages, or update everything")]
    NoSecurity(&'static str),
    /// The package manager cannot get former versions of packages.
    #[error("{0} keeps no former versions: roll the zone back")]
    NoFormer(&'static str),
    /// The package manager undoes patches by its own transactions.
    #[error("{0} takes whole transactions back, not packages: roll the zone back")]
    WholeTransactions(&'static str),
    /// The name of a package file has characters that are not allowed in a command.
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
    /// Returns the name of the package manager.
    fn name(&self) -> &'static str;

    /// Returns the name of the program, as people know it.
    fn program(&self) -> &'static str {
        self.name()
    }

    /// Returns the calls that carry out the order.
    ///
    /// # Errors
    /// Fails with [`Unfit`] if the package manager cannot carry out the order.
    fn work(&self, order: &Order, mood: Mood) -> Result<Work, Unfit>;

    /// Returns true if the script itself prints the installed packages, because this crate does not
    /// read their database: lines `was NAME ARCHITECTURE VERSION` before the work and `is ...`
    /// after it.
    fn tells(&self) -> bool {
        false
    }

    /// Returns files and folders below the root that affect the result, for managers whose script
    /// lists the packages. Those of dpkg are in [`crate::inventory`].
    fn decides(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The package manager apt-get on dpkg.
#[derive(Debug)]
struct Apt;

/// A package manager that is known by name only.
#[derive(Debug)]
struct Unsupported(&'static str);

/// The package managers, each with a file by which its systems are recognized.
const KNOWN: [(&str, &dyn Manager); 7] = [
    ("var/lib/dpkg/status", &Apt),
    ("usr/bin/dnf", &dnf::Dnf),
    ("usr/bin/microdnf", &dnf::Dnf),
    ("usr/bin/zypper", &Unsupported("zypper")),
    ("lib/apk/db/installed", &apk::Apk),
    ("usr/lib/apk/db/installed", &apk::Apk),
    ("var/lib/pacman/local", &Unsupported("pacman")),
];

/// Returns the package manager of the system at `root`.
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

/// Returns the word that stands for the order in a script.
const fn mood(mood: Mood) -> &'static str {
    match mood {
        Mood::Do => "do",
        Mood::Live => "live",
        Mood::Host => "host",
        Mood::Try => "try",
    }
}

/// Returns the paths of package files inside a zone.
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

/// The script asks no question. Changed configuration files stay, and the new versions are written
/// beside them. In a copy, the script starts no service and does not sync files to disk. (A shell
/// exits if a redirection of `:` fails, but not if one of `true` fails.) In a running zone, a
/// marker file exists until dpkg is called: it tells if a failure came before that call.
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
        // The test leaves room for the arguments, because the channel to the first process has a
        // limit.
        assert!(APT.len() < 4096, "{}", APT.len());
    }

    /// Returns the exit status of the script for a running zone. Its apt-get is a stand-in that
    /// fails before or after it has called dpkg.
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
