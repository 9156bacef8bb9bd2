//! Reads `/etc/zones/pools`: named sets of CPUs, which zones share by the property `pool`.
//!
//! ```text
//! # pool   CPUs                  who comes first when they are short
//! batch    cpus=2-3,6
//! web      ncpus=1-4             importance=10
//! numa1    sockets=1
//! ```
//!
//! The file has one line for each pool. A line of the file has the name of the pool, the CPUs
//! (`cpus`, `cores` or `sockets` with their numbers, or `ncpus` with a count of any CPUs), and
//! `importance`, which is 1 by default. A pool keeps its CPUs while at least one of its zones is
//! up. The administrator writes /etc/zones/pools. A line `# format: 2` would mean that only newer
//! programs understand the file.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::controls::{Controls, Dedicated, Pool};
use model::table;
use store::format;

use crate::{Error, Host};

/// The newest format that this program reads. A file without a format line has format 1.
const FORMAT: u64 = 1;

/// Maximum size of the file, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Reads the CPUs of the pool that `controls` names from the file. A zone with an unknown pool runs
/// without a pool: it shares the CPUs that are not dedicated to other zones.
///
/// # Errors
/// Fails with [`Error::Refused`], which names the line that cannot be understood.
pub fn resolve(host: &Host, controls: &mut Controls) -> Result<(), Error> {
    // On Solaris, `pool_default` is the pool of zones without a configured pool.
    controls.pool.take_if(|pool| pool.name == "pool_default");
    let Some(wanted) = &mut controls.pool else {
        return Ok(());
    };
    let path = host.root.etc().join("pools");
    if let Some(pool) = load(&path)?
        .into_iter()
        .find(|pool| pool.name == wanted.name)
    {
        *wanted = pool;
    }
    Ok(())
}

fn load(path: &Path) -> Result<Vec<Pool>, Error> {
    let text = fs::metadata(path).and_then(|meta| match meta.len() > MAX_SIZE {
        true => Err(std::io::Error::other("too large for a list of pools")),
        false => fs::read_to_string(path),
    });
    match text {
        Ok(text) => {
            // Any other comment in the first line belongs to the administrator, and states no
            // format.
            let first = text.lines().next().unwrap_or_default();
            let said = first.strip_prefix(format::LINE);
            if said.is_some_and(|said| said.trim().parse::<u64>().is_ok()) {
                format::check_lines(path, first, FORMAT)?;
            }
            parse(&text).map_err(|why| Error::Refused(format!("{}: {why}", path.display())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::Io(format!("read {}", path.display()), error)),
    }
}

/// The problem in a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("{0} is no name for a pool")]
    Name(String),
    #[error("pool {0} is there already")]
    Twice(String),
    #[error("importance is a number")]
    Importance,
    #[error(
        "{0}: expected ncpus=N or N-M, cpus=, cores= or sockets= with a list as in 0-2,5, or importance=N"
    )]
    Word(String),
    #[error("a pool has its CPUs in one way")]
    TwoWays,
    #[error("which CPUs pool {0} has is missing")]
    NoCpus(String),
}

/// A line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
struct BadLine {
    /// The number of the line, from 1.
    line: usize,
    problem: Problem,
}

fn parse(text: &str) -> Result<Vec<Pool>, BadLine> {
    let mut pools: Vec<Pool> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.split('#').next().unwrap_or_default();
        let pool = parse_line(words, &pools).map_err(|problem| BadLine { line, problem })?;
        pools.extend(pool);
    }
    Ok(pools)
}

/// Parses one line and returns its pool. `pools` are the pools of the earlier lines.
fn parse_line(line: &str, pools: &[Pool]) -> Result<Option<Pool>, Problem> {
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else {
        return Ok(None);
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.starts_with("SUNW") || !name.chars().all(plain) {
        return Err(Problem::Name(name.to_owned()));
    }
    if pools.iter().any(|pool| pool.name == name) {
        return Err(Problem::Twice(name.to_owned()));
    }
    let mut pool = Pool {
        name: name.to_owned(),
        ..Pool::default()
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let set = match key {
            "importance" => {
                let importance = value.parse();
                pool.importance = Some(importance.map_err(|_| Problem::Importance)?);
                continue;
            }
            "ncpus" => table::cpu_range(value).map(|(least, most)| Dedicated::Count(least, most)),
            "cpus" => list(value).map(Dedicated::Cpus),
            "cores" => list(value).map(Dedicated::Cores),
            "sockets" => list(value).map(Dedicated::Sockets),
            _ => None,
        };
        let set = set.ok_or_else(|| Problem::Word(word.to_owned()))?;
        if pool.wanted.replace(set).is_some() {
            return Err(Problem::TwoWays);
        }
    }
    match pool.wanted {
        None => Err(Problem::NoCpus(pool.name)),
        Some(_) => Ok(Some(pool)),
    }
}

/// Returns the text if it is a list of numbers and ranges.
fn list(text: &str) -> Option<String> {
    let is_part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        ends.is_some_and(|(first, last)| first <= last)
    };
    text.split(',').all(is_part).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pools");
        let tried = |text: &str| {
            fs::write(&path, text).unwrap();
            load(&path).map_err(|error| error.to_string())
        };
        for text in [
            "web cpus=1\n",
            "# format: 1\nweb cpus=1\n",
            "# format: name cpus\n",
        ] {
            tried(text).unwrap();
        }
        let error = tried("# format: 2\nweb: {cpus: [1]}\n").unwrap_err();
        assert!(
            error.contains("pools has format 2") && error.contains("use newer programs"),
            "{error}"
        );
    }

    #[test]
    fn a_line_is_a_pool() {
        let text = "# pools of this host\n\n\
            batch cpus=2-3,6\n\
            web  ncpus=1-4 importance=10 # the shop\n\
            one\tncpus=1\n\
            numa sockets=1\n";
        let pools = parse(text).unwrap();
        let shown: Vec<String> = pools
            .iter()
            .map(|pool| {
                format!(
                    "{} {} {:?}",
                    pool.name,
                    pool.wanted.as_ref().unwrap(),
                    pool.importance
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "batch cpus[2-3,6] None",
                "web 1-4 Some(10)",
                "one 1 None",
                "numa sockets[1] None"
            ]
        );
    }

    #[test]
    fn other_lines_are_named() {
        for (text, why) in [
            ("a cpus=1\na cpus=2", "line 2: pool a is there already"),
            ("SUNWx cpus=1", "line 1: SUNWx is no name for a pool"),
            ("a/b cpus=1", "line 1: a/b is no name for a pool"),
            ("\na", "line 2: which CPUs pool a has is missing"),
            ("a cpus=1 ncpus=2", "line 1: a pool has its CPUs in one way"),
            ("a importance=x cpus=1", "line 1: importance is a number"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), why);
        }
        for set in [
            "cpus=",
            "cpus=3-1",
            "cpus=x",
            "ncpus=0",
            "ncpus=3-2",
            "ncpus",
            "size=1",
        ] {
            let why = parse(&format!("a {set}")).unwrap_err().to_string();
            assert!(
                why.starts_with(&format!("line 1: {set}: expected ")),
                "{why}"
            );
        }
    }
}
