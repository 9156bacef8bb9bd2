//! The errors of jobs, and of the boot plans that a zoneadmd gets.

use std::io;

use host::flatten;
use subject::network::NetworkError;

/// The reason why a boot plan cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The descriptor of the plan cannot be read.
    #[error("could not read the boot plan")]
    Read(#[source] io::Error),
    /// The text of the descriptor is not a valid boot plan.
    #[error("could not understand the boot plan")]
    Parse(#[source] serde_json::Error),
}

/// The reason why a job did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The boot plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernel refused to end this process when its starter ends.
    #[error("could not be bound to the process that started it")]
    Bind(#[source] io::Error),
    /// The command that started the job has ended, or no longer waits for the job.
    #[error("whoever started this is gone")]
    NotWanted,
    /// The program of the zone's first process is missing.
    #[error("could not find the program zinit")]
    NoZinit,
    /// The zone's platform was not built or taken down.
    #[error(transparent)]
    Platform(#[from] platform::Error),
    /// The wait for the program failed.
    #[error("could not wait for the program")]
    Wait(#[source] io::Error),
    /// The kernel reported a status that is not the end of the program.
    #[error("the program has not ended")]
    NotEnded,
    /// zoneadmd could not return from the zone's namespaces to those of the host.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// The network of the zone was not released.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The job failed, or its platform was not taken down; this lists all errors.
    #[error("{}", .0.iter().map(|one| flatten(one)).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}
