//! The request of a copy, and its plan.

use std::fmt;
use std::path::PathBuf;

use copy::{Owner, Rules, name, target::Naming};
use model::{Config, State, Verb, ZoneName};
use platform::kind;
use storage::{Stack, driver_at};

use host::{Error, Host};
use subject::{Start, Subject};

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host into the zone.
    Push,
    /// From the zone to the host.
    Pull,
}

/// The side of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostSide {
    /// Files and folders, by their paths.
    Files,
    /// A tar stream on standard input or output.
    Stream,
}

/// A copy that was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The direction.
    pub direction: Direction,
    /// The host's side.
    pub host_side: HostSide,
    /// The absolute paths of the sources; empty if a stream is pushed.
    pub sources: Vec<PathBuf>,
    /// The absolute path of the destination; `-` if a stream is pulled.
    pub to: PathBuf,
    /// The owner and mode of new files.
    pub rules: Rules,
    /// True if a destination that is no folder may be the new name of the only source.
    pub may_rename: bool,
}

impl Request {
    /// Returns the verb of the request.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self.direction {
            Direction::Push => Verb::Push,
            Direction::Pull => Verb::Pull,
        }
    }

    /// Returns the meaning of a destination that is no folder.
    #[must_use]
    pub const fn naming(&self) -> Naming {
        match self.may_rename {
            true => Naming::Rename,
            false => Naming::Keep,
        }
    }
}

/// The way to the files of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A process in the running zone.
    Running,
    /// The root of the halted zone, mounted for this copy.
    Halted,
}

/// A copy that is admitted. A halted zone stays locked until it is dropped.
#[derive(Debug)]
pub struct Prepared {
    pub(super) zone: ZoneName,
    pub(super) request: Request,
    pub(super) way: Way,
    pub(super) config: Config,
    /// The layers of a halted zone.
    pub(super) stack: Option<Stack>,
    _locked: Option<Box<Subject>>,
}

/// Checks whether the zone's state and kind admit the copy.
///
/// # Errors
/// Fails with the reason and the remedy if not.
pub fn prepare(host: &Host, zone: &ZoneName, request: Request) -> Result<Prepared, Error> {
    let subject = match Subject::admit(host, zone, request.verb())? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Err(Error::State(notice.to_owned())),
    };
    let config = subject.config(host)?;
    kind::admit(host, &subject, request.verb())?;
    let way = match subject.state {
        State::Running => Way::Running,
        _ => Way::Halted,
    };
    let (mut stack, mut locked) = (None, None);
    if way == Way::Halted {
        if !host.plan_only {
            crate::settle::settle(host, zone)?;
        }
        stack = Some(driver_at(&subject.zonepath)?.stack(&subject.zonepath)?);
        // The root of a halted zone must not be mounted twice. A running zone needs no lock, so
        // that a long copy does not delay its halt.
        locked = Some(subject);
    }
    Ok(Prepared {
        zone: zone.clone(),
        request,
        way,
        config,
        stack,
        _locked: locked,
    })
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request {
            direction,
            host_side,
            sources,
            to,
            rules,
            may_rename,
        } = &self.request;
        writeln!(f, "{} zone {}:", self.request.verb(), self.zone)?;
        let (from, into) = match direction {
            Direction::Push => ("of the host", "the zone"),
            Direction::Pull => ("of the zone", "the host"),
        };
        match self.way {
            Way::Running => writeln!(f, "  enter the running zone as its root")?,
            Way::Halted => writeln!(f, "  mount the root of the halted zone, for this copy only")?,
        }
        if sources.is_empty() {
            writeln!(f, "  read a tar stream from standard input")?;
        }
        for source in sources {
            writeln!(f, "  read {} {from}", name::shown(source))?;
        }
        if (*host_side, *direction) == (HostSide::Stream, Direction::Pull) {
            return writeln!(f, "  write a tar stream to standard output");
        }
        let to = name::shown(to);
        match may_rename {
            true => writeln!(
                f,
                "  write to {to} in {into}: into this folder, or with this name"
            )?,
            false => writeln!(f, "  write into the folder {to} in {into}")?,
        }
        match &rules.owner {
            Owner::Caller => writeln!(f, "  give new files to the caller")?,
            Owner::Kept => writeln!(f, "  keep the owner ids")?,
            Owner::Named(owner) => writeln!(f, "  give new files to {owner}")?,
        }
        if rules.set_id {
            writeln!(f, "  keep set-id bits")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(request: Request, way: Way) -> Prepared {
        let zone: ZoneName = "web".parse().unwrap();
        Prepared {
            config: Config::new(zone.clone()),
            zone,
            request,
            way,
            stack: None,
            _locked: None,
        }
    }

    #[test]
    fn the_plan_names_both_sides_and_escapes_names() {
        let push = Request {
            direction: Direction::Push,
            host_side: HostSide::Files,
            sources: vec!["/srv/a\nb".into(), "/srv/c".into()],
            to: "/var/www".into(),
            rules: Rules {
                owner: Owner::Named("www".to_owned()),
                set_id: true,
                restore: None,
            },
            may_rename: false,
        };
        assert_eq!(
            prepared(push, Way::Halted).to_string(),
            "push zone web:\n  \
               mount the root of the halted zone, for this copy only\n  \
               read /srv/a\\nb of the host\n  \
               read /srv/c of the host\n  \
               write into the folder /var/www in the zone\n  \
               give new files to www\n  \
               keep set-id bits\n"
        );
        let pull = Request {
            direction: Direction::Pull,
            host_side: HostSide::Stream,
            sources: vec!["/etc".into()],
            to: "-".into(),
            rules: Rules {
                owner: Owner::Caller,
                set_id: false,
                restore: None,
            },
            may_rename: false,
        };
        assert_eq!(
            prepared(pull, Way::Running).to_string(),
            "pull zone web:\n  enter the running zone as its root\n  \
               read /etc of the zone\n  write a tar stream to standard output\n"
        );
    }
}
