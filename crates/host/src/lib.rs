//! The host as the verbs see it: the paths of its state and of its programs.

pub mod devices;
pub mod error;
pub mod fault;
pub mod init_ready;
pub mod outcome;
pub mod parallel;
pub mod pools;
pub mod progress;
pub mod spawn;
pub mod undo;
pub mod unix_socket;
pub mod uuid;
pub mod volumes;

pub use error::{Error, flatten};
pub use fault::Fault;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brand::HostFacts;
use spawn::{Programs, Starter};
use store::Root;
use store::index::Reader;

/// The paths and options of the host that every verb uses.
#[derive(Clone, Debug)]
pub struct Host {
    /// The alternate root, or `/`.
    pub root: Root,
    /// The control group above the groups of all zones; see [`limits::Base::find`].
    pub cgroup: PathBuf,
    /// The folders in which programs of this project look for each other, in the order of the
    /// search.
    pub programs: Vec<PathBuf>,
    /// True if the command only shows its plan (`-n`). A command with `-n` also leaves the remains
    /// of a crash in place.
    pub plan_only: bool,
    /// A fault to inject in tests.
    pub fault: Fault,
    /// Starts programs of this project in the background.
    pub starter: Arc<dyn Starter>,
    /// The zone index of the root, for verbs that act on many zones.
    pub index: Arc<Reader>,
}

/// The folders in which packages install the programs that users do not call.
const INSTALLED: [&str; 3] = ["/usr/lib/zones", "/usr/sbin", "/usr/bin"];

impl Host {
    /// Returns a host whose programs are in the folder `beside` or in the folders of the packages.
    #[must_use]
    pub fn new(root: Root, cgroup: PathBuf, beside: Option<&Path>) -> Self {
        let programs = beside.into_iter().chain(INSTALLED.iter().map(Path::new));
        Self {
            root,
            cgroup,
            programs: programs.map(Path::to_owned).collect(),
            plan_only: false,
            fault: Fault::default(),
            starter: Arc::new(Programs),
            index: Arc::default(),
        }
    }

    /// Returns the path of a program of this project.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs
            .iter()
            .map(|dir| dir.join(name))
            .find(|path| path.is_file())
    }

    /// Returns the facts about the host that a brand may know.
    #[must_use]
    pub fn facts(&self) -> HostFacts {
        HostFacts::default()
    }
}
