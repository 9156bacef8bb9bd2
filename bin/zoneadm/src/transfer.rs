//! `zoneadm export` and `import`: a zone as one file.

use std::path::{Path, PathBuf};

use lexopt::prelude::*;
use zone::attach::Update;
use zone::export::Cipher;
use zone::import::Options;

use crate::call::Call;
use crate::{act, attach, outcome, usage};

/// The task that the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Export(PathBuf, Cipher),
    Import(Options),
}

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let (task, dry_run) = match parse(verb, &call.rest) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    let (mut host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    host.plan_only = dry_run;
    let [zone] = zones.as_slice() else {
        let text = format!("{verb} takes one zone: a file holds one");
        return usage::complain(&text, Some(verb));
    };
    let silent = matches!(&task, Task::Export(path, _) if path == Path::new("-"));
    let done = match &task {
        Task::Export(to, cipher) => {
            zone::export::export(&host, zone, to, cipher, dry_run, &mut |line| {
                say(line, silent);
            })
        }
        Task::Import(options) => {
            let updater = &attach::updater;
            zone::import::import(&host, zone, options, dry_run, updater, &mut |line| {
                say(line, false);
            })
        }
    };
    outcome::show(zone, &done)
}

/// Says how far it is. Standard output may be the archive.
fn say(line: &str, silent: bool) {
    match silent {
        true => eprintln!("{line}"),
        false => println!("{line}"),
    }
}

fn parse(verb: &str, words: &[String]) -> Result<Option<(Task, bool)>, String> {
    let (mut cipher, mut dry_run, mut path) = (Cipher::None, false, None);
    let mut options = Options::default();
    let mut words = lexopt::Parser::from_args(words);
    let export = verb == "export";
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('n') | Long("dry-run") => dry_run = true,
            Long("age") if export => cipher = Cipher::Age(recipient(&mut words)?),
            Long("gpg") if export => cipher = Cipher::Gpg(recipient(&mut words)?),
            Short('i') if !export => options.identity = Some(value(&mut words)?.into()),
            Short('t') if !export => options.trust = true,
            Short('F') if !export => options.force = true,
            Short('u') if !export => options.update = Update::Needed,
            Short('U') if !export => options.update = Update::All,
            Value(word) if path.is_none() => {
                path = Some(PathBuf::from(word));
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    let path = path.ok_or_else(|| format!("{verb} needs a file"))?;
    let piped = export && path == Path::new("-");
    if !piped && !path.is_absolute() {
        return Err(format!("{}: not an absolute path", path.display()));
    }
    let task = match export {
        true => Task::Export(path, cipher),
        false => Task::Import(Options { path, ..options }),
    };
    Ok(Some((task, dry_run)))
}

fn value(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().and_then(|value| value.string());
    value.map_err(|error| error.to_string())
}

/// Whom an archive is encrypted for: never an option of the program that does it.
fn recipient(words: &mut lexopt::Parser) -> Result<String, String> {
    let text = value(words)?;
    match text.starts_with('-') || text.is_empty() {
        true => Err(format!("{text}: not a recipient")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(verb: &str, line: &str) -> Result<Option<(Task, bool)>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(verb, &words)
    }

    #[test]
    fn lines_are_read_as_they_are_described() {
        let (task, dry_run) = read("export", "-n --age age1x /srv/web").unwrap().unwrap();
        assert!(dry_run);
        assert_eq!(
            task,
            Task::Export("/srv/web".into(), Cipher::Age("age1x".into()))
        );
        assert!(read("export", "-").unwrap().is_some());
        let (task, _) = read("import", "-t -u -i /key /srv/web").unwrap().unwrap();
        let Task::Import(options) = task else {
            panic!("{task:?}");
        };
        assert!(options.trust && options.update == Update::Needed);
        assert_eq!(options.identity, Some("/key".into()));
        assert_eq!(read("import", "--help"), Ok(None));
        for (verb, wrong) in [
            ("export", ""),
            ("export", "relative"),
            ("export", "--gpg --yes /x"),
            ("export", "-F /x"),
            ("import", "-"),
            ("import", "/x /y"),
            ("import", "--age a /x"),
        ] {
            assert!(read(verb, wrong).is_err(), "{verb} {wrong}");
        }
    }
}
