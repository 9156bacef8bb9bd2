//! Runs a package manager in a copy of a zone.

use std::fs::{self, File};
use std::path::PathBuf;

use host::Error;
use model::ZoneName;
use storage::{Dataset, Stack};
use zone::job::{self, Job};

use super::{Patch, Ready, Said};
use crate::follow;
use crate::manager::{Mood, SHOWN, Work};
use crate::memory;
use crate::record::{Change, Phase};
use crate::recover;

impl Patch<'_> {
    /// Returns the path of the log of a zone's package manager.
    #[must_use]
    pub fn log(&self, zone: &ZoneName) -> PathBuf {
        let name = format!("zonepatch.{}.{zone}", self.name);
        self.host.root.log().join(name)
    }

    /// Runs the package manager in a copy.
    pub(super) fn run(&self, ready: &Ready, copy: &Dataset, work: &Work) -> Result<Said, Error> {
        let path = self.log(&ready.subject.entry.name);
        let log = job::open_log(&path)?;
        if let Some(status) = self.in_memory(ready, copy, work, &log)? {
            let said = Said::read(&path);
            if status == 0 {
                return Ok(said);
            }
            if !said.lacks_room() && status < 128 {
                return Err(Error::Refused(said.reason(ready.manager.program(), status)));
            }
        }
        // The disk may have more space than the memory.
        log.set_len(0)
            .map_err(Error::io(format!("write {}", path.display())))?;
        let ran = self.job(ready, work, &log, copy.stack()?);
        let said = Said::read(&path);
        match ran? {
            0 => Ok(said),
            status => Err(Error::Refused(said.reason(ready.manager.program(), status))),
        }
    }

    /// Runs the package manager on a copy in memory, and writes the result to the copy on disk.
    /// Returns `None` if a copy in memory is not possible.
    fn in_memory(
        &self,
        ready: &Ready,
        copy: &Dataset,
        work: &Work,
        log: &File,
    ) -> Result<Option<i32>, Error> {
        let Some(grant) = memory::grant(&ready.config, copy, &self.order) else {
            return Ok(None);
        };
        // The process that assembles the root needs the mounts of this process.
        job::aside(|| {
            let top = copy.memory_top(grant.bytes());
            let ran = top.map_err(Error::from).and_then(|top| {
                let status = self.job(ready, work, log, top.stack().clone())?;
                Ok((top, status))
            });
            match ran {
                // The memory is not the cause. On disk, the work would fail in the same way.
                Err(error) if matches!(error, Error::Refused(_)) => Err(error),
                // Before Linux 6.3, a tmpfs cannot be id-mapped.
                Err(_) => Ok(None),
                Ok((top, 0)) => {
                    copy.keep_memory(&top)?;
                    Ok(Some(0))
                }
                Ok((_, status)) => Ok(Some(status)),
            }
        })
    }

    fn job(&self, ready: &Ready, work: &Work, log: &File, stack: Stack) -> Result<i32, Error> {
        let volatile = !stack.lowers.is_empty();
        let shown = self.files.clone();
        job::run(
            self.host,
            &ready.subject,
            &Job {
                stack: Stack { volatile, ..stack },
                script: work.script,
                words: &work.words,
                shown: shown.map(|folder| (folder, PathBuf::from(SHOWN))),
                log,
                bounds: self.bounds(),
            },
        )
    }

    /// Returns the changes that the package manager would make.
    ///
    /// # Errors
    /// Fails with the reason why the changes cannot be determined.
    pub fn try_out(&self, ready: &Ready) -> Result<Vec<Change>, Error> {
        let subject = &ready.subject;
        if ready.is_sparse()? {
            follow::refuse_order(&self.order)?;
            return follow::lacks(&ready.before);
        }
        let work = ready.manager.work(&self.order, Mood::Try)?;
        let name = self.start_of(subject)?;
        let journal = self.begin(subject, name.as_str(), Phase::Working)?;
        let copy = |()| Ok(ready.dataset.clone_snapshot_to(&name, &journal.copy)?);
        let tried = self
            .start(ready, &name)
            .and_then(copy)
            .and_then(|copy| self.run(ready, &copy, &work));
        let tells = ready.manager.tells();
        let said = tried.map(|said| match tells {
            true => said.changes(),
            false => said.planned,
        });
        recover::zone(self.host, subject)?;
        let _ = fs::remove_file(self.log(&subject.entry.name));
        said
    }
}
