//! `zoneadm logs`: the messages, the console and the journal of zones.

pub mod tail;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use host::Host;
use lexopt::prelude::*;
use model::ZoneName;
use tail::Tail;

use crate::call::Call;
use crate::{act, usage};

/// Number of lines of each source that are printed without `-n`.
const DEFAULT_LINES: usize = 20;

/// Interval between two looks at the files with `-f`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// A source of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The messages of the zone's zoneadmd.
    Messages,
    /// The output on the zone's console.
    Console,
    /// The journal of systemd in the zone.
    Journal,
}

impl Source {
    const ALL: [Self; 3] = [Self::Messages, Self::Console, Self::Journal];

    const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Console => "console",
            Self::Journal => "journal",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    follow: bool,
    json: bool,
    lines: usize,
    sources: Vec<Source>,
}

impl Options {
    fn wants_only_journals(&self) -> bool {
        *self.sources == [Source::Journal]
    }
}

/// A line, and the zone and source from which it comes.
#[derive(serde::Serialize)]
struct Line<'a> {
    zone: &'a str,
    source: &'a str,
    text: &'a str,
}

pub fn run(call: &Call) -> u8 {
    let options = match parse(&call.rest) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some("logs")),
        Err(text) => return usage::complain(&text, Some("logs")),
    };
    cli::output::only_prints();
    let (host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    match show(&host, &zones, &options) {
        Ok(()) => cli::status::OK,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options {
        follow: false,
        json: false,
        lines: DEFAULT_LINES,
        sources: Vec::new(),
    };
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('f') => options.follow = true,
            Short('j') | Long("json") => options.json = true,
            Short('n') => {
                let number = words.value().and_then(|value| value.string());
                let number = number.map_err(|error| error.to_string())?;
                let lines = number.parse();
                options.lines = lines.map_err(|_| format!("-n {number}: expected a number"))?;
            }
            Short('?' | 'h') | Long("help") => return Ok(None),
            Value(name) => {
                let name = name.to_string_lossy();
                let found = Source::ALL.into_iter().find(|one| one.name() == name);
                let found = found
                    .ok_or_else(|| format!("{name}: expected messages, console or journal"))?;
                if !options.sources.contains(&found) {
                    options.sources.push(found);
                }
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if options.sources.is_empty() {
        options.sources = Source::ALL.to_vec();
    }
    Ok(Some(options))
}

fn show(host: &Host, zones: &[ZoneName], options: &Options) -> Result<(), String> {
    let names = Names {
        zone: zones.len() > 1,
        source: options.sources.len() > 1,
        json: options.json,
    };
    let (mut tails, mut journals) = (Vec::new(), Vec::new());
    let (to, lines_of_journals) = channel();
    for zone in zones {
        for source in &options.sources {
            let path = match source {
                Source::Messages => host.root.messages(zone),
                Source::Console => host.root.console(zone),
                Source::Journal => {
                    journals.push((zone, journal(host, zone, options, to.clone())?));
                    continue;
                }
            };
            let mut tail = opened(zone, &path, *source, options, &names)?;
            if !options.follow {
                if let Some(text) = tail.end() {
                    names.print(zone, *source, &text);
                }
            }
            tails.push((zone.clone(), *source, path, tail));
        }
    }
    drop(to);
    if options.follow {
        follow(&mut tails, &lines_of_journals, &names)?;
    }
    for (zone, text) in lines_of_journals {
        names.print(&zone, Source::Journal, &text);
    }
    for (zone, journal) in journals {
        let has_ended_well = journal.join().unwrap_or(false);
        if !has_ended_well && options.wants_only_journals() {
            return Err(format!("zone '{zone}': it has no journal, or does not run"));
        }
    }
    Ok(())
}

fn opened(
    zone: &ZoneName,
    path: &Path,
    source: Source,
    options: &Options,
    names: &Names,
) -> Result<Tail, String> {
    let (tail, lines) = Tail::open(path, options.lines)
        .map_err(|error| format!("zone '{zone}': could not read {}: {error}", path.display()))?;
    for text in lines {
        names.print(zone, source, &text);
    }
    Ok(tail)
}

type Followed = (ZoneName, Source, std::path::PathBuf, Tail);

/// Prints new lines until a signal ends the program, or until its output is closed. Without files,
/// returns when the last journalctl(1) has ended.
fn follow(
    tails: &mut [Followed],
    journals: &Receiver<(ZoneName, String)>,
    names: &Names,
) -> Result<(), String> {
    loop {
        for (zone, source, path, tail) in &mut *tails {
            let lines = tail.more().map_err(|error| {
                format!("zone '{zone}': could not read {}: {error}", path.display())
            })?;
            for text in lines {
                names.print(zone, *source, &text);
            }
        }
        loop {
            match journals.try_recv() {
                Ok((zone, text)) => names.print(&zone, Source::Journal, &text),
                Err(TryRecvError::Disconnected) if tails.is_empty() => return Ok(()),
                Err(_) => break,
            }
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
}

/// Runs journalctl(1) in a zone, and sends its lines. The thread returns true if journalctl
/// succeeded; it fails in a zone without a journal, or that does not run.
fn journal(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    to: Sender<(ZoneName, String)>,
) -> Result<JoinHandle<bool>, String> {
    let program = host
        .program("zlogin")
        .ok_or("could not find the program zlogin")?;
    let follow = if options.follow { " -f" } else { "" };
    let lines = options.lines;
    let command = format!(
        "command -v journalctl >/dev/null || exit 127; exec journalctl --no-pager -q -n {lines}{follow}"
    );
    let mut child = Command::new(program)
        .args(["-Q", "-S", "-n", zone.as_str(), &command])
        .env("ZONES_ROOT", host.root.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("zone '{zone}': could not start zlogin: {error}"))?;
    let zone = zone.clone();
    Ok(std::thread::spawn(move || {
        let Some(mut output) = child.stdout.take() else {
            return false;
        };
        let (mut rest, mut piece) = (Vec::new(), [0; 8192]);
        while let Ok(length @ 1..) = output.read(&mut piece) {
            rest.extend(&piece[..length]);
            for text in tail::take_lines(&mut rest) {
                // The receiver exists until this thread has ended, or the program ends.
                let _ = to.send((zone.clone(), text));
            }
        }
        child.wait().is_ok_and(|status| status.success())
    }))
}

/// The words before each line.
struct Names {
    zone: bool,
    source: bool,
    json: bool,
}

impl Names {
    fn print(&self, zone: &ZoneName, source: Source, text: &str) {
        let (zone, source) = (zone.as_str(), source.name());
        if self.json {
            let line = Line { zone, source, text };
            println!("{}", serde_json::to_string(&line).unwrap_or_default());
            return;
        }
        match (self.zone, self.source) {
            (true, true) => println!("{zone} {source}: {text}"),
            (true, false) => println!("{zone}: {text}"),
            (false, true) => println!("{source}: {text}"),
            (false, false) => println!("{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn options_select_lines_and_sources() {
        let options = read("-f -n 5 journal console journal").unwrap().unwrap();
        assert!(options.follow && options.lines == 5);
        assert_eq!(options.sources, [Source::Journal, Source::Console]);
        assert_eq!(read("").unwrap().unwrap().sources, Source::ALL);
        assert_eq!(read("--help").unwrap(), None);
        for wrong in ["-n", "-n x", "syslog", "-x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
