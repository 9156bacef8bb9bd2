//! The host as the verbs see it: where state is kept, where programs are.

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
    /// The alternate root.
    pub root: Root,
    /// The control group that all groups of zones lie below, see [`limits::Base::find`].
    pub cgroup: PathBuf,
    /// Folders in which our programs look for each other, in this order.
    pub programs: Vec<PathBuf>,
    /// True where a command only shows its plan: when it looks at a zone, it then clears nothing
    /// away.
    pub plan_only: bool,
    /// A fault to inject, for tests.
    pub fault: Fault,
    /// Starts our programs in the background.
    pub starter: Arc<dyn Starter>,
    /// The index of the root, for verbs that act on many zones.
    pub index: Arc<Reader>,
}

/// The folders in which packages put the programs that users do not call.
const INSTALLED: [&str; 3] = ["/usr/lib/zones", "/usr/sbin", "/usr/bin"];

impl Host {
    /// A host whose programs lie in `beside` or where packages put them.
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

    /// Finds one of our programs.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs
            .iter()
            .map(|dir| dir.join(name))
            .find(|path| path.is_file())
    }

    /// Returns the facts of the host that brands may know.
    #[must_use]
    pub fn facts(&self) -> HostFacts {
        HostFacts::default()
    }
}
