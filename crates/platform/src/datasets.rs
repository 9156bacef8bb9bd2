//! ZFS datasets in the hands of a zone.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use host::flatten;

/// A delegated dataset and the name by which ZFS knows the zone.
#[derive(Debug)]
pub struct Delegated {
    /// The zone's user namespace. ZFS keeps it as long as it has a dataset, and only a process that
    /// has it open can undo that when the zone's processes are gone.
    users: OwnedFd,
    datasets: Vec<String>,
}

impl Delegated {
    /// Datasets that the namespace has, or will have.
    pub fn new(users: OwnedFd, datasets: Vec<String>) -> Self {
        Self { users, datasets }
    }

    /// As zfs(8), a child of ours, finds the namespace.
    fn namespace(&self) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.users.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
    }

    /// Gives the zone its datasets: all or none.
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

    /// Takes all back, continuing after errors. Returns the errors.
    pub(crate) fn take_back(&self) -> Vec<String> {
        let back = |dataset: &String| storage::take_back(dataset, &self.namespace()).err();
        let errors = self.datasets.iter().filter_map(back);
        errors.map(|error| flatten(&error)).collect()
    }
}
