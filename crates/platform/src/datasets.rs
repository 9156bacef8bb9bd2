//! Delegates ZFS datasets to a zone.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use host::flatten;

/// The delegated datasets, and the namespace by which ZFS identifies the zone.
#[derive(Debug)]
pub struct Delegated {
    /// The zone's user namespace. ZFS keeps the namespace while it has a dataset. When the zone's
    /// processes are gone, only a process that has the namespace open can end the delegation.
    users: OwnedFd,
    datasets: Vec<String>,
}

impl Delegated {
    /// The datasets that the namespace has, or will have.
    pub fn new(users: OwnedFd, datasets: Vec<String>) -> Self {
        Self { users, datasets }
    }

    /// Returns the path by which zfs(8), a child process, finds the namespace.
    fn namespace(&self) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.users.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
    }

    /// Delegates the datasets to the zone: all or none.
    pub(crate) fn give(&self) -> Result<(), storage::Error> {
        for (given, dataset) in self.datasets.iter().enumerate() {
            if let Err(error) = storage::delegate(dataset, &self.namespace()) {
                for dataset in &self.datasets[..given] {
                    let _ = storage::take_back(dataset, &self.namespace());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the delegation of all datasets. Continues after errors and returns them.
    pub(crate) fn take_back(&self) -> Vec<String> {
        let back = |dataset: &String| storage::take_back(dataset, &self.namespace()).err();
        let errors = self.datasets.iter().filter_map(back);
        errors.map(|error| flatten(&error)).collect()
    }
}
