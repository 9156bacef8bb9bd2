//! `zoneadm attach`: its options, and the check of a manifest alone.

use std::path::{Path, PathBuf};

use lexopt::prelude::*;
use patch::Order;
use patch::manager::{self, Mood};
use zone::attach::{Options, Script, Update, UpdaterError, check as compare, read_manifest};

use crate::call::Call;
use crate::report;

/// Reads the options. Returns `None` if the user asked for help. The returned path is the manifest
/// of `-n`.
pub fn parse(words: &[String]) -> Result<Option<(Options, Option<PathBuf>)>, String> {
    let mut options = Options::default();
    let mut manifest = None;
    let mut words = lexopt::Parser::from_args(words);
    let update = |options: &mut Options, what| match options.update {
        Update::No => {
            options.update = what;
            Ok(())
        }
        _ => Err("give one of -u and -U, once".to_owned()),
    };
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('F') => options.force = true,
            Long("take-over") => options.take_over = true,
            Short('u') => update(&mut options, Update::Needed)?,
            Short('U') => update(&mut options, Update::All)?,
            Short('n') | Long("dry-run") => manifest = Some(value(&mut words)?.into()),
            Short(letter @ ('a' | 'd')) => {
                let path = value(&mut words)?;
                if !Path::new(&path).is_absolute() {
                    return Err(format!("-{letter} {path}: not an absolute path"));
                }
                if options
                    .source
                    .replace([format!("-{letter}"), path])
                    .is_some()
                {
                    return Err("give one of -a and -d, once".to_owned());
                }
            }
            Short('b') => {
                let patch = value(&mut words)?;
                return Err(format!(
                    "-b {patch}: patches are not backed out here; attach the zone and use zonepatch"
                ));
            }
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    if options.force && manifest.is_some() {
        return Err("-F does not go with -n".to_owned());
    }
    if options.take_over && (manifest.is_some() || options.source.is_some()) {
        return Err("--take-over does not go with -a, -d and -n".to_owned());
    }
    if options.force && options.update != Update::No {
        return Err("-F does not go with -u and -U".to_owned());
    }
    Ok(Some((options, manifest)))
}

/// Returns the script with which the package manager of a root updates packages.
pub fn updater(root: &Path, wanted: &[String]) -> Result<Script, UpdaterError> {
    let manager = manager::of(root).ok_or("it has no package manager that is known")?;
    let order = match wanted {
        [] => Order::Upgrade,
        names => Order::Packages(names.to_vec()),
    };
    let work = manager.work(&order, Mood::Do)?;
    Ok((work.script, work.words))
}

fn value(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().and_then(|value| value.string());
    value.map_err(|error| error.to_string())
}

/// `attach -n`: checks whether the zone of a manifest could be attached here. The zone need not be
/// configured.
pub fn check(call: &Call, path: &Path) -> u8 {
    let read = read_manifest(path, &mut std::io::stdin().lock());
    let named = call.zones.first().cloned();
    let (zone, checked) = match read {
        Ok(manifest) => {
            let own = manifest.config.name().to_string();
            (named.unwrap_or(own), compare(&manifest))
        }
        Err(error) => (named.unwrap_or_default(), Err(error)),
    };
    match checked {
        Ok(()) => cli::status::OK,
        Err(error) => report::error(&zone, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<(Options, Option<PathBuf>)>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn options_are_those_of_solaris() {
        let (options, manifest) = read("-u").unwrap().unwrap();
        assert_eq!((options.update, manifest), (Update::Needed, None));
        let (options, _) = read("-U -a /tmp/x.tar").unwrap().unwrap();
        assert_eq!(options.update, Update::All);
        assert_eq!(options.source.unwrap(), ["-a", "/tmp/x.tar"]);
        let (_, manifest) = read("-n -").unwrap().unwrap();
        assert_eq!(manifest, Some("-".into()));
        assert!(read("-?").unwrap().is_none());
        let (options, _) = read("--take-over -u").unwrap().unwrap();
        assert!(options.take_over && options.update == Update::Needed);
        for wrong in [
            "--take-over -n -",
            "--take-over -a /x",
            "-F -n -",
            "-F -u",
            "-u -U",
            "-n",
            "-a relative",
            "-a /x -d /y",
            "-b 119254-66",
            "-x",
            "operand",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
