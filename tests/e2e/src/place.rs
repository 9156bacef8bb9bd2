//! Creates the folder of a test host's files, and its cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::run::start;

/// Prefix of the folder and of the cgroup of every test host.
const PREFIX: &str = "zones-e2e-";

/// `f_type` of overlayfs, which cannot hold the upper directory of another overlay.
const OVERLAYFS: i64 = 0x794c_7630;

/// The folder and the cgroup of a test host.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub root: PathBuf,
    pub cgroup: String,
}

impl Place {
    /// Returns a new, empty place. The first call passes the places of killed test programs to
    /// `clear`.
    pub fn new(clear: fn(Self)) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        let place = Self {
            root: folder(clear).join(&name),
            cgroup: name,
        };
        fs::create_dir(&place.root).expect("a new folder for the host");
        place
    }

    /// Removes the folder.
    pub fn remove(&self) {
        remove(&self.root);
    }
}

/// Removes a folder or file, but no other file system in it.
pub(crate) fn remove(path: &Path) {
    let mut rm = Command::new("rm");
    rm.args(["-rf", "--one-file-system", "--"]).arg(path);
    let status = start(&mut rm).wait();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{} cannot be removed",
        path.display()
    );
}

/// Returns the folder of the workspace, also if the checkout was moved after the build.
fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let folder = manifest.join("../..");
    folder.canonicalize().unwrap_or(folder)
}

/// Returns the folder of the programs under test.
pub(crate) fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let named = std::env::var_os("ZONES_BIN").map(PathBuf::from);
        let folder = named.unwrap_or_else(|| workspace().join("target/release"));
        assert!(
            folder.join("zoneadm").exists(),
            "no zoneadm in {}: run tools/build, or set ZONES_BIN",
            folder.display()
        );
        folder
    })
}

/// Returns a folder on a file system that can hold the upper directories of zones. The first call
/// removes the folders that earlier test programs left there.
fn folder(clear: fn(Place)) -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = workspace().join("target");
        let _ = fs::create_dir_all(&target);
        let can_hold = |path: &PathBuf| {
            #[allow(clippy::unnecessary_cast, reason = "not i64 everywhere")]
            rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as i64 != OVERLAYFS)
        };
        let folders = [
            target.clone(),
            "/var/tmp".into(),
            "/tmp".into(),
            "/dev/shm".into(),
        ];
        let folder = folders.into_iter().find(can_hold).unwrap_or(target);
        clear_stale(&folder, clear);
        folder
    })
}

/// Removes the test hosts of killed test programs. One program at a time does so, because many start
/// together.
fn clear_stale(folder: &Path, clear: fn(Place)) {
    let lock = fs::File::open(folder).expect("the folder of test hosts");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock on it");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        let Some(pid) = owner else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            clear(Place {
                root: entry.path(),
                cgroup: name,
            });
        }
    }
}
