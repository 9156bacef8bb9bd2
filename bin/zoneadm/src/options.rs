//! The options and operands of the subcommands that act on zones.

use std::path::PathBuf;

use host::Error;
use lexopt::prelude::*;
use model::ZoneName;
use model::immutable::Access;
use zone::boot::BootOptions;
use zone::snapshot::{BadName, Name};
use zone::uninstall::{Configuration, Data, Unlisted};

use crate::{attach, space};

/// The options and operands of a subcommand.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) dry_run: bool,
    pub(crate) quiet: bool,
    pub(crate) force: bool,
    pub(crate) create: bool,
    /// Delete the configuration of each zone that is uninstalled.
    pub(crate) delete: bool,
    /// Uninstall only zones that have no data in their zonepaths.
    pub(crate) shared_disks: bool,
    /// The names and patterns of `-z`.
    pub(crate) words: Vec<String>,
    /// Boot again after shutdown.
    pub(crate) again: bool,
    /// The source of a clone, the state for mark, or a snapshot.
    pub(crate) operand: Option<String>,
    /// The snapshot of the source that is cloned.
    pub(crate) snapshot: Option<Name>,
    /// A folder of files to copy into each clone.
    pub(crate) profile: Option<PathBuf>,
    /// The quota to set; `None` removes the quota.
    pub(crate) quota: Option<u64>,
    pub(crate) boot: BootOptions,
    pub(crate) attach: zone::attach::Options,
    /// The manifest that `attach -n` checks.
    pub(crate) manifest: Option<PathBuf>,
    /// The options for the brand, after `--`.
    pub(crate) brand: Vec<String>,
}

impl Options {
    /// Returns the treatment of the configuration of a zone that is uninstalled.
    pub(crate) fn configuration(&self, zone: &ZoneName) -> Configuration {
        let is_named = self.words.iter().any(|word| word == zone.as_str());
        match (self.delete, is_named) {
            (true, true) => Configuration::Deleted(Unlisted::Deleted),
            (true, false) => Configuration::Deleted(Unlisted::Kept),
            (false, _) => Configuration::Kept,
        }
    }

    /// Returns the treatment of data in the zonepaths of zones that are uninstalled.
    pub(crate) const fn data(&self) -> Data {
        match self.shared_disks {
            true => Data::Refused {
                gives_up: self.force,
            },
            false => Data::Removed,
        }
    }

    /// Parses the snapshot name in the operand, which was checked when the command line was read.
    pub(crate) fn named(&self) -> Result<Name, Error> {
        let name = self.operand.as_deref().unwrap_or_default();
        name.parse()
            .map_err(|error: BadName| Error::Usage(error.to_string()))
    }
}

pub(crate) enum Parsed {
    Options(Box<Options>),
    Help,
}

// Long because it is a table with one arm for each option.
pub(crate) fn parse(verb: &str, words: &[String]) -> Result<Parsed, String> {
    let mut options = Options::default();
    if verb == "install" {
        // The options of install belong to the brand, except -n and help, which every verb has.
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-n" => options.dry_run = true,
                "-?" | "--help" => return Ok(Parsed::Help),
                // Automation passes its own options on, even if they are empty strings.
                "" => {}
                // On illumos, `-x nodataset` installs a zone without a ZFS dataset of its own. No
                // zone here needs one, so the option is ignored.
                "-x" if words.as_slice().first().is_some_and(|x| x == "nodataset") => {
                    words.next();
                }
                other => options.brand.push(other.to_owned()),
            }
        }
        return Ok(Parsed::Options(Box::new(options)));
    }
    if verb == "attach" {
        return Ok(match attach::parse(words)? {
            Some((attach, manifest)) => Parsed::Options(Box::new(Options {
                attach,
                manifest,
                ..options
            })),
            None => Parsed::Help,
        });
    }
    let (ours, theirs) = match words.iter().position(|word| word == "--") {
        Some(at) if matches!(verb, "boot" | "reboot" | "shutdown") => {
            (&words[..at], &words[at + 1..])
        }
        _ => (words, [].as_slice()),
    };
    let mut access = Access::default();
    let mut parser = lexopt::Parser::from_args(ours);
    while let Some(word) = parser.next().map_err(|error| error.to_string())? {
        match word {
            Short('n') | Long("dry-run") => options.dry_run = true,
            Short('?' | 'h') | Long("help") => return Ok(Parsed::Help),
            Short('F') if matches!(verb, "uninstall" | "rollback" | "detach") => {
                options.force = true;
            }
            Long("lost") if verb == "detach" => options.force = true,
            Short('s') if verb == "clone" => {
                let value = parser.value().and_then(|value| value.string());
                options.snapshot = Some(snapshot(&value.map_err(|error| error.to_string())?)?);
            }
            Short('c') if verb == "clone" => {
                let value = parser.value().map_err(|error| error.to_string())?;
                options.profile = Some(value.into());
            }
            Short('q') if verb == "apply" => options.quiet = true,
            Short('r') if verb == "shutdown" => options.again = true,
            Long("create") if verb == "clone" => options.create = true,
            Long("delete") if verb == "uninstall" => options.delete = true,
            Long("shared-disks") if verb == "uninstall" => options.shared_disks = true,
            Short('m') if verb == "clone" => {
                let value = parser.value().map_err(|error| error.to_string())?;
                if value != "copy" {
                    return Err("the only method of clone -m is copy".to_owned());
                }
                // A clone that shares layers is as independent as a copy and costs nothing, so `-m
                // copy` is ignored.
            }
            // Both options are ignored for zones that are not immutable, as on Solaris.
            Short('w') if boots(verb) => access = Access::Writable,
            Short('W') if boots(verb) => access = Access::Assembling,
            Value(value) if takes_operand(verb) && options.operand.is_none() => {
                options.operand = Some(value.string().map_err(|error| error.to_string())?);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (verb, options.operand.as_deref()) {
        ("clone", None) => return Err("clone needs the name of a source zone".to_owned()),
        ("snapshot" | "rollback" | "destroy-snapshot", None) => {
            return Err(format!("{verb} needs the name of a snapshot"));
        }
        ("snapshot" | "rollback" | "destroy-snapshot", Some(name)) => {
            snapshot(name)?;
        }
        ("move", None) => return Err("move needs the new zonepath".to_owned()),
        ("move", Some(path)) if !path.starts_with('/') => {
            return Err(format!("{path}: the new zonepath must be absolute"));
        }
        ("quota", operand) => {
            let operand = operand.ok_or("quota needs a size, or none")?;
            options.quota = space::quota(operand)?;
        }
        ("uninstall", _) if options.delete && options.shared_disks => {
            return Err("uninstall takes --delete or --shared-disks, not both".to_owned());
        }
        ("mark", Some("incomplete")) => {}
        ("mark", _) => return Err("mark takes the state incomplete".to_owned()),
        _ => {}
    }
    let (boot, unknown) = BootOptions::parse(theirs).map_err(|error| error.to_string())?;
    if !unknown.is_empty() {
        eprintln!(
            "zoneadm: WARNING: unused or invalid boot arguments: {}",
            unknown.join(" ")
        );
    }
    options.boot = BootOptions { access, ..boot };
    Ok(Parsed::Options(Box::new(options)))
}

/// Returns true if the subcommand boots a halted zone, or halts and boots it.
fn boots(verb: &str) -> bool {
    matches!(verb, "boot" | "reboot")
}

pub(crate) fn takes_operand(verb: &str) -> bool {
    matches!(
        verb,
        "clone" | "mark" | "move" | "snapshot" | "rollback" | "destroy-snapshot" | "quota"
    )
}

pub(crate) fn snapshot(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error: BadName| error.to_string())
}
