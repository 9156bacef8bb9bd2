//! Runs an operation once for each of its system calls, and kills it at that call.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use e2e::{Host, Random, WAIT_TIMEOUT};

use crate::bench::Bench;
use crate::calls::{self, Site};
use crate::face::Face;
use crate::layers;
use crate::operations::{self, Operation};
use crate::strike::{Ask, Who, traced};

/// Default number of sites of one operation in a sample.
pub const SAMPLE: usize = 6;

/// Maximum number of times that a value is read until it does not change any more.
const LOOKS: usize = 100;

/// Interval between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// The options of an enumeration.
#[derive(Debug)]
pub struct Extent<'a> {
    /// The end of a run that tries samples; `None` to try all sites.
    pub until: Option<Instant>,
    /// The number of sites of each operation and process in a sample.
    pub sample: usize,
    /// The only site to try, as `call:n`. `list` prints all sites and tries none; `@` tries those
    /// that are identified by their path.
    pub site: Option<&'a str>,
}

/// The result for one operation and one of its processes.
#[derive(Debug)]
pub struct Tally {
    /// The name of the operation.
    pub name: &'static str,
    /// The process that was killed.
    pub who: &'static str,
    /// Number of calls that change state, in a run without a kill.
    pub calls: usize,
    /// Number of these calls that were tried.
    pub tried: usize,
    /// The number of processes that were killed.
    pub kills: usize,
    /// Number of kills that left objects behind.
    pub leaks: usize,
    /// Number of kills after which the zone was in a wrong state, or the next command failed.
    pub broken: usize,
    /// The failures, each with its site.
    pub problems: Vec<String>,
    /// The duration of the whole enumeration.
    pub took: Duration,
}

thread_local! {
    /// The text and the source line of the last panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Calls a function, and returns the text of its panic as an error.
fn tried<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("a panic").to_owned();
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            SAID.with(|said| *said.borrow_mut() = format!("{text} ({place})"));
        }));
    });
    catch_unwind(AssertUnwindSafe(act)).map_err(|_| SAID.with(|said| said.borrow().clone()))
}

/// The test hosts of an operation, and their state between two runs.
struct Stand<'a> {
    operation: &'a Operation,
    bench: Bench,
    face: Face,
}

fn hosts(bench: &Bench) -> impl Iterator<Item = &Host> {
    let far = bench.far.as_ref().map(|(host, _)| host);
    std::iter::once(&bench.host).chain(far)
}

/// Returns the state of all hosts of a bench.
fn face(bench: &Bench) -> Face {
    Face::joined(&hosts(bench).map(Face::of).collect::<Vec<_>>())
}

impl<'a> Stand<'a> {
    /// Returns `None` if this machine cannot run the operation.
    fn new(operation: &'a Operation) -> Option<Self> {
        let bench = (operation.bench)()?;
        let mut stand = Self {
            operation,
            bench,
            face: Face::default(),
        };
        // A run without a kill creates the objects that are created only once.
        (operation.begin)(&stand.bench);
        let _ = e2e::run::run(&mut (operation.command)(&stand.bench), b"");
        (operation.after)(&stand.bench);
        (operation.end)(&stand.bench);
        stand.face = stand.quiet_face();
        Some(stand)
    }

    /// Returns the state of the bench when it does not change any more.
    fn quiet_face(&self) -> Face {
        let mut last = face(&self.bench);
        e2e::wait_for("a host on which nothing changes", || {
            std::thread::sleep(Duration::from_millis(50));
            let now = face(&self.bench);
            let same = now == last;
            last = now;
            same.then_some(())
        });
        last
    }

    /// Returns the objects that a kill left behind. Waits until processes have ended.
    fn leaks(&mut self) -> Vec<String> {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let now = self.quiet_face();
            let found = now.differences(&self.face);
            if found.is_empty() {
                return found;
            }
            // The kernel removes the link of an ended zone together with the zone's network
            // namespace, some time after the last process of the zone.
            let is_link = |one: &String| one.starts_with("more: link ");
            let has_ended = now.processes() <= self.face.processes();
            if has_ended && !found.iter().any(is_link) || Instant::now() > end {
                // The next state is compared with the present one.
                self.face = now;
                return found;
            }
        }
    }
}

/// Kills `who` at each call of `operation`, or at a sample of them. Returns `None` if the operation
/// cannot run on this machine.
pub fn enumerate(
    operation: &Operation,
    who: Who,
    extent: &Extent<'_>,
    random: &mut Random,
) -> Option<Tally> {
    let began = Instant::now();
    let mut tally = Tally {
        name: operation.name,
        who: who.name(),
        calls: 0,
        tried: 0,
        kills: 0,
        leaks: 0,
        broken: 0,
        problems: Vec::new(),
        took: Duration::ZERO,
    };
    let mut stand = match tried(|| Stand::new(operation)) {
        Ok(stand) => stand?,
        Err(why) => {
            tally.broken += 1;
            tally.problems.push(format!("could not be prepared: {why}"));
            print!("{}", crate::report::failures(std::slice::from_ref(&tally)));
            return Some(tally);
        }
    };
    let recorded = tried(|| record(&stand, who));
    let sites = recorded.unwrap_or_else(|why| {
        tally.broken += 1;
        tally.problems.push(format!("without a kill: {why}"));
        Vec::new()
    });
    tally.calls = sites.len();
    let mut chosen = calls::thinned(&sites, operation.most);
    if extent.site == Some("list") {
        sites.iter().for_each(|site| println!("  {site}"));
    }
    if let Some(site) = extent.site {
        chosen = if site == "@" { chosen } else { sites };
        chosen.retain(|one| one.key() == site || site == "@" && one.path.is_some());
    }
    if extent.until.is_some() {
        while chosen.len() > extent.sample {
            chosen.remove(random.index(chosen.len()));
        }
    }
    let mut told = Instant::now();
    for site in &chosen {
        if extent.until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        tally.tried += 1;
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            println!(
                "  {} ({}): {} of {}",
                tally.name,
                tally.who,
                tally.tried,
                chosen.len()
            );
        }
        let mut hit = false;
        let went = tried(|| strike(&stand, who, site, &mut hit));
        tally.kills += usize::from(hit);
        match went {
            Ok(()) => {
                let leaks = stand.leaks();
                if !leaks.is_empty() {
                    tally.leaks += 1;
                    tally
                        .problems
                        .push(format!("{site}\n      left: {}", leaks.join("\n      ")));
                }
            }
            Err(why) => {
                tally.broken += 1;
                tally
                    .problems
                    .push(format!("{site}\n      {}", why.replace('\n', "\n      ")));
                // The state of these hosts is unknown now: the operation gets new hosts.
                match tried(|| Stand::new(operation)) {
                    Ok(Some(new)) => {
                        let old = std::mem::replace(&mut stand, new);
                        let _ = tried(|| operations::clear(&old.bench.host));
                        let _ = tried(|| drop(old));
                    }
                    _ => break,
                }
            }
        }
    }
    let left = tried(|| {
        hosts(&stand.bench).for_each(operations::clear);
        stand.quiet_face().leftovers()
    });
    match left {
        Ok(left) if left.is_empty() => {}
        Ok(left) => {
            tally.leaks += 1;
            tally.problems.push(format!(
                "after uninstalling everything\n      {}",
                left.join("\n      ")
            ));
        }
        Err(why) => {
            tally.broken += 1;
            tally
                .problems
                .push(format!("uninstalling everything: {why}"));
        }
    }
    if let Err(why) = tried(|| drop(stand)) {
        tally.leaks += 1;
        tally.problems.push(format!("at the end: {why}"));
    }
    tally.took = began.elapsed();
    println!("{}", crate::report::line(&tally));
    print!("{}", crate::report::failures(std::slice::from_ref(&tally)));
    Some(tally)
}

/// Records the calls of a run without a kill.
fn record(stand: &Stand<'_>, who: Who) -> Vec<Site> {
    let operation = stand.operation;
    (operation.begin)(&stand.bench);
    let mut command = (operation.command)(&stand.bench);
    let struck = traced(&stand.bench, who, Ask::Record, &mut command);
    assert_eq!(struck.ran.code(), Some(0), "{:?}", struck.ran);
    let host = match &stand.bench.far {
        Some((far, _)) if who == Who::Far => far,
        _ => &stand.bench.host,
    };
    let sites = calls::sites(&struck.trace, &host.root().display().to_string());
    assert!(!sites.is_empty(), "strace saw nothing");
    (operation.after)(&stand.bench);
    (operation.end)(&stand.bench);
    sites
}

fn strike(stand: &Stand<'_>, who: Who, site: &Site, hit: &mut bool) {
    let operation = stand.operation;
    (operation.begin)(&stand.bench);
    let mut command = (operation.command)(&stand.bench);
    let struck = traced(&stand.bench, who, Ask::Kill(site), &mut command);
    *hit = struck.was_hit();
    stand.bench.lost_memory.set(struck.hit_machine());
    hosts(&stand.bench).for_each(nothing_lacks);
    (operation.after)(&stand.bench);
    hosts(&stand.bench).for_each(nothing_is_left);
    (operation.end)(&stand.bench);
}

/// Expects that every user of a layer has the layer, and a reference to it, before the next command
/// runs.
fn nothing_lacks(host: &Host) {
    let zones = host.path("/zones");
    let mut last = Vec::new();
    // Processes that were not killed continue meanwhile, and may be seen in the middle of a change.
    let lacks = (0..LOOKS).all(|_| {
        last = layers::lacking(&zones);
        if !last.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        !last.is_empty()
    });
    assert!(!lacks, "after the kill {}", last.join(", "));
}

/// Expects that the programs find no remains either.
fn nothing_is_left(host: &Host) {
    let mut ran = host.zoneadm(&["check"]);
    for _ in 0..LOOKS {
        if ran.code() == Some(0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
        ran = host.zoneadm(&["check"]);
    }
    panic!("zoneadm check finds {}", ran.out);
}
