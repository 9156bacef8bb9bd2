//! The errors of jobs, and of the boot plans that a zoneadmd gets.

use std::io;

use host::flatten;
use subject::network::NetworkError;

/// Why a boot plan cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The descriptor of the plan cannot be read.
    #[error("could not read the boot plan")]
    Read(#[source] io::Error),
    /// The text is no plan.
    #[error("could not understand the boot plan")]
    Parse(#[source] serde_json::Error),
}

/// Why a job did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The boot plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernel does not end this process with the one that started it.
    #[error("could not be bound to the process that started it")]
    Bind(#[source] io::Error),
    /// The command that asked for the job is gone, or has given the job up.
    #[error("whoever started this is gone")]
    NotWanted,
    /// The program of the zone's first process is missing.
    #[error("could not find the program zinit")]
    NoZinit,
    /// The platform of the zone.
    #[error(transparent)]
    Platform(#[from] platform::Error),
    /// The program cannot be waited for.
    #[error("could not wait for the program")]
    Wait(#[source] io::Error),
    /// The kernel reported an end that was none.
    #[error("the program has not ended")]
    NotEnded,
    /// zoneadmd is still in the namespaces of the zone.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// The network of the zone was not released.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The job failed, or its platform was not taken down; all errors are listed.
    #[error("{}", .0.iter().map(|one| flatten(one)).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}
