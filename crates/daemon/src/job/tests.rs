//! Tests of a job on a kernel in memory: the starter of the job is killed at any moment.

use std::cell::{Cell, RefCell};

use model::config::IpType;
use model::plan::PlatformStep;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};

use super::{JobError, Kernel, run};

/// Panic payload that ends a killed process without any undo.
struct Killed;

/// A kernel in memory with three processes, each of which ends when the process above it ends.
///
/// | process | ends with |
/// |---|---|
/// | whoever started the job | what the test says |
/// | the job | its starter, while it is bound |
/// | the program in the zone | the job, as the first process of its namespace does |
struct Memory {
    steps: Vec<PlatformStep>,
    /// Number of moments until the starter is killed.
    left: Cell<u32>,
    starter_lives: Cell<bool>,
    /// True while the kernel ends the job with its starter (PR_SET_PDEATHSIG).
    is_bound: Cell<bool>,
    /// The actions of the program after the end of the starter.
    too_late: RefCell<Vec<String>>,
}

/// Number of moments for which the package manager works.
const WORK: u32 = 5;

impl Memory {
    fn new(steps: Vec<PlatformStep>, killed_at: u32) -> Self {
        Self {
            steps,
            left: Cell::new(killed_at),
            starter_lives: Cell::new(true),
            is_bound: Cell::new(false),
            too_late: RefCell::default(),
        }
    }

    /// Advances the time by one moment, and kills the starter if its time is over.
    fn moment(&self) {
        match self.left.get() {
            0 => self.starter_lives.set(false),
            left => self.left.set(left - 1),
        }
        if !self.starter_lives.get() && self.is_bound.get() {
            std::panic::resume_unwind(Box::new(Killed));
        }
    }

    /// Changes the user ids or the ids for file access: commit_creds() of the kernel then clears
    /// the parent-death signal of the process.
    fn change_ids(&self) {
        self.is_bound.set(false);
    }
}

impl Kernel for Memory {
    type Zone = ();

    fn end_with_starter(&self) -> Result<(), JobError> {
        self.moment();
        self.is_bound.set(true);
        match self.starter_lives.get() {
            true => Ok(()),
            false => Err(JobError::NotWanted),
        }
    }

    fn build(&self) -> Result<(), JobError> {
        for step in &self.steps {
            self.moment();
            match step {
                // These steps make the user namespace, mount the overlay, and make a file under the
                // ids of the zone.
                PlatformStep::FirstProcess
                | PlatformStep::Root { .. }
                | PlatformStep::HostId { .. } => self.change_ids(),
                _ => {}
            }
        }
        Ok(())
    }

    fn start(&self, (): &mut ()) -> Result<(), JobError> {
        self.moment();
        Ok(())
    }

    /// Waits for the program, without a check of the starter.
    fn attend(&self, (): &()) -> Result<i32, JobError> {
        for work in 1..=WORK {
            self.moment();
            if !self.starter_lives.get() {
                let text = format!("the package manager did piece {work} of its work");
                self.too_late.borrow_mut().push(text);
            }
        }
        Ok(0)
    }

    fn take_down(&self, (): ()) -> Vec<JobError> {
        Vec::new()
    }
}

fn steps() -> impl Strategy<Value = Vec<PlatformStep>> {
    let root = PlatformStep::Root {
        zonepath: "/zones/web".into(),
        top: "/zones/web/root".into(),
        work: "/zones/web/work".into(),
        lowers: Vec::new(),
        volatile: true,
    };
    let network = PlatformStep::Network {
        ip_type: IpType::Shared,
        pings: false,
    };
    let all = vec![
        PlatformStep::Clocks,
        network,
        PlatformStep::FirstProcess,
        root,
        PlatformStep::HostId { id: 7 },
        PlatformStep::Sysfs,
        PlatformStep::Console,
    ];
    prop::sample::subsequence(all, 0..=7)
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_program_of_a_job_outlives_the_starter_of_the_job(steps in steps(), killed_at in 0..20_u32) {
        let kernel = Memory::new(steps, killed_at);
        let ran = std::panic::AssertUnwindSafe(|| run(&kernel));
        if let Err(other) = std::panic::catch_unwind(ran) {
            prop_assert!(other.is::<Killed>());
        }
        let too_late = kernel.too_late.borrow().join("; ");
        if !too_late.is_empty() {
            return Err(TestCaseError::fail(format!("after the kill {too_late}")));
        }
    }
}
