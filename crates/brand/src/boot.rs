//! Chooses the program of a zone's init, and the signals that shut it down.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use model::Config;
use model::plan::{Interpreter, Kernel};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::platform::{Mount, Platform};
use crate::sparse;

/// The inputs of a boot.
#[derive(Debug)]
pub struct BootRequest<'a> {
    /// The configuration of the zone.
    pub config: &'a Config,
    /// The zone's complete root, with layers and inherited directories.
    pub root: BorrowedFd<'a>,
    /// The init of `boot -i`, which replaces the zone's own: a path in the zone.
    pub init: Option<&'a str>,
    /// Arguments for init from the boot arguments (after `--`, or `bootargs`).
    pub arguments: &'a [String],
}

/// The program that becomes process 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitProgram {
    /// Our own small init, which is started from an open file of the host.
    Zinit,
    /// A program in the zone's root.
    Root(PathBuf),
}

/// The signals that tell process 1 to shut the zone down, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownSignals {
    /// The signal to stop all services and power off.
    pub poweroff: i32,
    /// The signal to stop all services and reboot.
    pub reboot: i32,
}

/// The program of process 1 and its signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSpec {
    /// The program to run.
    pub init: InitProgram,
    /// The arguments, with the program's own name first.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The signals that shut the program down.
    pub shutdown: ShutdownSignals,
    /// Mounts in addition to `/proc`, `/sys` and `/dev`.
    pub mounts: &'static [Mount],
    /// The kernel version that the zone sees instead of the host's.
    pub kernel: Option<Kernel>,
    /// The interpreter for the zone's programs, if the host's processor cannot run them.
    pub interpreter: Option<Interpreter>,
}

/// The reason why the zone has no usable init.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// The path of the init is not absolute.
    #[error("init {0}: not an absolute path")]
    NotAbsolute(String),
    /// The init cannot be opened.
    #[error("init {path}")]
    Lookup {
        /// The path in the zone.
        path: String,
        /// The reason of the failure.
        source: io::Error,
    },
    /// The init is not an executable file.
    #[error("init {0}: not an executable file")]
    NotExecutable(String),
    /// The programs are for another processor, and the host has no interpreter for them.
    #[error(
        "the programs of the zone are for {0}, and this host has no qemu-{0}-static (package qemu-user-static) to run them"
    )]
    Foreign(String),
    /// The configuration names no init, and the root has none.
    #[error(
        "no init in the zone's root: looked for {0}; name one with 'boot -i PATH' or the attribute 'init'"
    )]
    None(String),
}

/// The name that selects our own init in `boot -i` and in the attribute `init`.
const NAME_OF_OURS: &str = "zinit";

/// Maximum number of links between the path of init and its file.
const MAX_LINKS: usize = 16;

const SIGINT: i32 = 2;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;
const SIGPWR: i32 = 30;
/// The value of `SIGRTMIN` in glibc, from which systemd counts.
const SIGRTMIN: i32 = 34;

/// sysvinit, openrc-init and Debian's runit treat SIGPWR as "power is failing, shut down" and
/// SIGINT as ctrl-alt-del. Our own init does the same.
const CLASSIC: ShutdownSignals = ShutdownSignals {
    poweroff: SIGPWR,
    reboot: SIGINT,
};

/// systemd(1): `SIGRTMIN+4` starts poweroff.target, `SIGRTMIN+5` reboot.target.
const SYSTEMD: ShutdownSignals = ShutdownSignals {
    poweroff: SIGRTMIN + 4,
    reboot: SIGRTMIN + 5,
};

/// The halt, poweroff and reboot commands of Busybox send USR1, USR2 and TERM.
const BUSYBOX: ShutdownSignals = ShutdownSignals {
    poweroff: SIGUSR2,
    reboot: SIGTERM,
};

/// Chooses the init. The rule is the same for every brand: `boot -i`, else the attribute `init`,
/// else our own init for sparse zones, and the root's own init for other zones.
pub(crate) fn spec(platform: &Platform, request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
    let named = request.init.or_else(|| request.config.attr("init"));
    let (init, shutdown) = match named {
        Some(NAME_OF_OURS) => (InitProgram::Zinit, CLASSIC),
        Some(path) => named_init(request.root, path)?,
        None if sparse::is_sparse(request.config) => (InitProgram::Zinit, CLASSIC),
        None => own_init(request.root, platform.inits)?,
    };
    let name: OsString = match &init {
        InitProgram::Zinit => NAME_OF_OURS.into(),
        InitProgram::Root(path) => path.into(),
    };
    let argv = std::iter::once(name)
        .chain(request.arguments.iter().map(OsString::from))
        .collect();
    let environment = platform
        .environment
        .iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    Ok(BootSpec {
        init,
        argv,
        environment,
        shutdown,
        mounts: platform.mounts,
        kernel: None,
        interpreter: None,
    })
}

/// Returns the errors of the configured init that are visible without a root.
pub(crate) fn verify(config: &Config) -> Vec<String> {
    match config.attr("init") {
        Some(init) if init != NAME_OF_OURS && !init.starts_with('/') => {
            vec![format!(
                "could not verify attr init: {init}: not an absolute path"
            )]
        }
        _ => Vec::new(),
    }
}

fn named_init(
    root: BorrowedFd<'_>,
    path: &str,
) -> Result<(InitProgram, ShutdownSignals), BootError> {
    if !path.starts_with('/') {
        return Err(BootError::NotAbsolute(path.to_owned()));
    }
    let lookup = |errno: Errno| BootError::Lookup {
        path: path.to_owned(),
        source: errno.into(),
    };
    if !is_program(root, Path::new(path)).map_err(lookup)? {
        return Err(BootError::NotExecutable(path.to_owned()));
    }
    let name = final_name(root, Path::new(path)).map_err(lookup)?;
    Ok((InitProgram::Root(path.into()), signals(&name)))
}

fn own_init(
    root: BorrowedFd<'_>,
    inits: &[&str],
) -> Result<(InitProgram, ShutdownSignals), BootError> {
    let runs_one = Path::new("/").join(crate::init::FILE);
    if lookup(root, &runs_one, OFlags::NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        // The zone runs the command of its image, which zinit starts.
        return Ok((InitProgram::Zinit, CLASSIC));
    }
    for &path in inits {
        let found = is_program(root, Path::new(path));
        match found {
            Ok(true) => return named_init(root, path),
            Ok(false) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => {
                return Err(BootError::Lookup {
                    path: path.to_owned(),
                    source: errno.into(),
                });
            }
        }
    }
    Err(BootError::None(inits.join(", ")))
}

/// Returns the shutdown signals of an init whose file has this name.
fn signals(name: &Path) -> ShutdownSignals {
    match name.file_name().and_then(|name| name.to_str()) {
        Some("systemd") => SYSTEMD,
        Some("busybox" | "busybox.static") => BUSYBOX,
        _ => CLASSIC,
    }
}

/// Opens `path` as the zone would, with its links, and never leaves `root`.
fn lookup(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> rustix::io::Result<rustix::fs::Stat> {
    rustix::fs::fstat(sys::root::open(root, path, OFlags::PATH | flags)?)
}

fn is_program(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<bool> {
    let stat = lookup(root, path, OFlags::empty())?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(regular && stat.st_mode & 0o111 != 0)
}

/// Follows the links in the last component of the path, and returns the name of the file itself.
fn final_name(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let fd = sys::root::open(root, &path, OFlags::PATH | OFlags::NOFOLLOW)?;
        // With an empty name, readlinkat(2) reads the link that the descriptor itself is.
        let target = match rustix::fs::readlinkat(&fd, "", Vec::new()) {
            Ok(target) => OsString::from_vec(target.into_bytes()),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(path),
            Err(errno) => return Err(errno),
        };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    Err(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn root(files: &[&str], links: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (link, target) in links {
            let path = root.path().join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }
        root
    }

    fn config(properties: &[(&str, &str)], inherited: &[&str]) -> Config {
        use model::config::Resource;
        let mut config = Config::new("web1".parse().unwrap());
        for (name, value) in properties {
            let mut attr = Resource::new(model::table::resource("attr").unwrap());
            attr.set("name", name).unwrap();
            attr.set("type", "string").unwrap();
            attr.set("value", value).unwrap();
            config.add(attr).unwrap();
        }
        for dir in inherited {
            let spec = model::table::resource("inherit-pkg-dir").unwrap();
            let mut resource = Resource::new(spec);
            resource.set("dir", dir).unwrap();
            config.add(resource).unwrap();
        }
        config
    }

    fn boot(root: &Path, config: &Config, init: Option<&str>) -> Result<BootSpec, BootError> {
        let root = fs::File::open(root).unwrap();
        crate::by_name("native").unwrap().boot(&BootRequest {
            config,
            root: root.as_fd(),
            init,
            arguments: &["single".to_owned()],
        })
    }

    #[test]
    fn the_order_is_option_attribute_brand() {
        let root = root(&["sbin/init", "a", "b"], &[]);
        let whole = config(&[], &[]);
        let sparse = config(&[], &["/usr"]);
        let attribute = config(&[("init", "/a")], &["/usr"]);
        let init = |config, option| boot(root.path(), config, option).unwrap().init;
        assert_eq!(init(&whole, None), InitProgram::Root("/sbin/init".into()));
        assert_eq!(init(&sparse, None), InitProgram::Zinit);
        assert_eq!(init(&attribute, None), InitProgram::Root("/a".into()));
        assert_eq!(init(&attribute, Some("/b")), InitProgram::Root("/b".into()));
        assert_eq!(init(&whole, Some("zinit")), InitProgram::Zinit);
    }

    #[test]
    fn arguments_and_environment_are_ours_alone() {
        let root = root(&["sbin/init"], &[]);
        let spec = boot(root.path(), &config(&[], &[]), None).unwrap();
        assert_eq!(spec.argv, ["/sbin/init", "single"]);
        let names: Vec<_> = spec.environment.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "TERM", "container"]);
    }

    #[test]
    fn the_kind_of_init_shows_in_the_file_it_leads_to() {
        for (files, links, expected) in [
            (
                ["usr/lib/systemd/systemd"],
                vec![
                    ("sbin", "usr/sbin"),
                    ("usr/sbin/init", "../lib/systemd/systemd"),
                ],
                SYSTEMD,
            ),
            (
                ["bin/busybox"],
                vec![("sbin/init", "/bin/busybox")],
                BUSYBOX,
            ),
            (
                ["sbin/openrc-init"],
                vec![("sbin/init", "openrc-init")],
                CLASSIC,
            ),
            (["sbin/init"], vec![], CLASSIC),
        ] {
            let root = root(&files, &links);
            let spec = boot(root.path(), &config(&[], &[]), None).unwrap();
            assert_eq!(spec.shutdown, expected, "{files:?}");
        }
    }

    #[test]
    fn links_do_not_lead_out_of_the_root() {
        // In a sparse zone /bin/sh is a file of the host, and not in this root.
        let root = root(
            &["etc/x"],
            &[("sbin/init", "../../../../../bin/sh"), ("loop", "loop")],
        );
        let none = boot(root.path(), &config(&[], &[]), None).unwrap_err();
        assert!(none.to_string().contains("/sbin/init"), "{none}");
        let outside = boot(root.path(), &config(&[], &[]), Some("/sbin/init"));
        assert!(matches!(outside, Err(BootError::Lookup { .. })));
        let looped = boot(root.path(), &config(&[], &[]), Some("/loop"));
        assert!(matches!(looped, Err(BootError::Lookup { .. })));
    }

    #[test]
    fn errors_name_an_init_that_is_not_a_program() {
        let root = root(&["sbin/init"], &[]);
        let file = root.path().join("sbin/init");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let config = config(&[], &[]);
        for (init, expected) in [
            ("sbin/init", "init sbin/init: not an absolute path"),
            ("/sbin/init", "init /sbin/init: not an executable file"),
            ("/sbin", "init /sbin: not an executable file"),
        ] {
            let error = boot(root.path(), &config, Some(init)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
