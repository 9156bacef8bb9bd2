//! Faults on request, which test that every step can fail and that a process can be killed before
//! every step.

use std::str::FromStr;

/// The effect of a fault at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The step returns an error and does not run.
    Fail,
    /// The process is killed before the step.
    Kill,
    /// The process is stopped before the step, until a test continues it.
    Stop,
}

/// A fault at one step of one verb. By default there is no fault.
///
/// The text form is `verb:step:fail`, `verb:step:kill` or `verb:step:stop`. The steps of a verb are
/// counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    at: Option<(String, usize, Kind)>,
    step: usize,
}

/// The error for a text that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: expected verb:step:fail, verb:step:kill or verb:step:stop")]
pub struct BadFault(String);

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Self, BadFault> {
        let bad = || BadFault(text.to_owned());
        let mut parts = text.split(':');
        let (Some(verb), Some(step), Some(kind), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let kind = match kind {
            "fail" => Kind::Fail,
            "kill" => Kind::Kill,
            "stop" => Kind::Stop,
            _ => return Err(bad()),
        };
        let step = step.parse().map_err(|_| bad())?;
        Ok(Self {
            at: Some((verb.to_owned(), step, kind)),
            step: 0,
        })
    }
}

impl Fault {
    /// Returns the text form that [`Fault::from_str`] reads, or `None` if no fault is set.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        self.at.as_ref().map(|(verb, step, kind)| {
            let kind = match kind {
                Kind::Fail => "fail",
                Kind::Kill => "kill",
                Kind::Stop => "stop",
            };
            format!("{verb}:{step}:{kind}")
        })
    }

    /// Counts a step of `verb`, and returns true if the step must fail. If the fault is a kill,
    /// this function does not return.
    #[must_use]
    pub fn strikes(&mut self, verb: &str) -> bool {
        let Some((chosen, step, kind)) = &self.at else {
            return false;
        };
        if chosen != verb {
            return false;
        }
        self.step += 1;
        if self.step != *step {
            return false;
        }
        match kind {
            Kind::Fail => true,
            Kind::Stop => {
                let me = rustix::process::getpid();
                let _ = rustix::process::kill_process(me, rustix::process::Signal::STOP);
                false
            }
            Kind::Kill => {
                let me = rustix::process::getpid();
                let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
                // The kernel is about to deliver the signal, so this process must do nothing more.
                loop {
                    std::thread::park();
                }
            }
        }
    }

    /// Returns the error of a step that must fail.
    #[must_use]
    pub fn error() -> Box<dyn std::error::Error + Send + Sync> {
        "a fault was asked for".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strikes_once_at_its_step() {
        let mut fault: Fault = "boot:2:fail".parse().unwrap();
        assert!(!fault.strikes("boot"));
        assert!(!fault.strikes("halt"));
        assert!(fault.strikes("boot"));
        assert!(!fault.strikes("boot"));
        assert!(!Fault::default().strikes("boot"));
        for bad in [
            "",
            "boot",
            "boot:x:fail",
            "boot:1:explode",
            "boot:1:fail:more",
        ] {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
    }
}
