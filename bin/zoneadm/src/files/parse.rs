//! The command line of `zoneadm files`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use copy::Existing;
use lexopt::prelude::*;
use zone::moments::When;

/// The subcommands of `files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Ls,
    Cat,
    Restore,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) task: Task,
    pub(super) dry_run: bool,
    pub(super) json: bool,
    /// True if control characters of a file are escaped.
    pub(super) escapes: bool,
    pub(super) existing: Existing,
    pub(super) snapshot: When,
    pub(super) paths: Vec<PathBuf>,
}

/// Parses the words after `files`. Returns `None` if they ask for help.
pub(super) fn parse(words: &[String]) -> Result<Option<Parsed>, String> {
    let Some((task, words)) = words.split_first() else {
        return Err("files needs a subcommand: ls, cat or restore".to_owned());
    };
    let task = match task.as_str() {
        "ls" => Task::Ls,
        "cat" => Task::Cat,
        "restore" => Task::Restore,
        "-?" | "-h" | "--help" => return Ok(None),
        other => return Err(format!("files {other}: expected ls, cat or restore")),
    };
    let (mut dry_run, mut json, mut escapes, mut is_base64) = (false, false, false, false);
    let (mut existing, mut operands) = (Existing::Replace, Vec::new());
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('b') => is_base64 = true,
            Short('j') | Long("json") if task == Task::Ls => json = true,
            Short('e') if task == Task::Cat => escapes = true,
            Short('n') | Long("dry-run") if task == Task::Restore => dry_run = true,
            Short('k') if task == Task::Restore => existing = Existing::Keep,
            Short('?' | 'h') | Long("help") => return Ok(None),
            Value(word) => operands.push(word.string().map_err(|error| error.to_string())?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let mut operands = operands.into_iter();
    let snapshot = operands
        .next()
        .ok_or("files needs the name of a snapshot")?;
    let snapshot = snapshot.parse().map_err(|error| format!("{error}"))?;
    let paths = operands
        .map(|word| path(word, is_base64))
        .collect::<Result<Vec<_>, _>>()?;
    match (task, paths.len()) {
        (_, 0) => return Err("files needs an absolute path in the zone".to_owned()),
        (Task::Ls | Task::Cat, 2..) => return Err("ls and cat need exactly one path".to_owned()),
        _ => {}
    }
    Ok(Some(Parsed {
        task,
        dry_run,
        json,
        escapes,
        existing,
        snapshot: When::Named(snapshot),
        paths,
    }))
}

/// Returns the path that a word names: its text, or the bytes of its base64.
fn path(word: String, is_base64: bool) -> Result<PathBuf, String> {
    let path = match is_base64 {
        true => {
            let bytes = vm::base64::decode(&word).filter(|bytes| !bytes.contains(&0));
            let bytes = bytes.ok_or_else(|| format!("{word}: expected a path in base64"))?;
            PathBuf::from(OsString::from_vec(bytes))
        }
        false => PathBuf::from(word),
    };
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!(
            "{}: expected an absolute path in the zone",
            copy::name::shown(&path)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Parsed>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn a_line_names_a_task_a_snapshot_and_paths() {
        let ls = read("ls -j monday /etc").unwrap().unwrap();
        assert!(ls.task == Task::Ls && ls.json && ls.paths == [PathBuf::from("/etc")]);
        let restore = read("restore -n -k monday /etc/a /b").unwrap().unwrap();
        assert!(restore.dry_run && restore.existing == Existing::Keep);
        assert_eq!(restore.paths.len(), 2);
        let bytes = read("cat -b monday L/8=").unwrap().unwrap();
        assert_eq!(
            bytes.paths,
            [PathBuf::from(OsString::from_vec(b"/\xff".to_vec()))]
        );
        assert_eq!(read("ls --help"), Ok(None));
        for wrong in [
            "",
            "rm monday /a",
            "ls",
            "ls monday",
            "ls monday etc",
            "ls monday /a /b",
            "cat -j monday /a",
            "ls -n monday /a",
            "restore -j monday /a",
            "restore monday",
            "cat -b monday /etc",
            "cat -b monday YQ==",
            "cat -b monday LwA=",
            "ls ../x /a",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
