//! Runs an operation under strace: once to record its calls, and then with kills.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::run::run;
use e2e::{Host, Ran, start, wait_for};

use crate::bench::Bench;
use crate::calls::{self, CHANGING, ORIGINS, Site};

/// Timeout for strace to detach from the processes that it traces.
const STRACE_END_TIMEOUT: Duration = Duration::from_secs(5);

/// The process of an operation that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The command itself, and its children until they execute other programs.
    Command,
    /// A zoneadmd that the command starts.
    Started,
    /// The zoneadmd that the zone has already.
    Running,
    /// The zoneadm that sshd starts on the other host.
    Far,
}

impl Who {
    /// Returns the name in the table of results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Started => "zoneadmd, started",
            Self::Running => "zoneadmd, running",
            Self::Far => "zoneadm, far",
        }
    }
}

/// Returns the path of the file with the options for the wrapper of a program; see
/// [`crate::wrapper`].
#[must_use]
pub fn orders(root: &Path, program: &str) -> PathBuf {
    root.join(format!("trace-{program}"))
}

/// The task of strace.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// Record all calls that change state.
    Record,
    /// Kill the process at one of these calls.
    Kill(&'a Site),
}

/// The result of a traced run.
#[derive(Debug)]
pub struct Struck {
    /// The exit status and the output of the command.
    pub ran: Ran,
    /// The output of strace.
    pub trace: String,
}

impl Struck {
    /// Returns true if the process was killed.
    #[must_use]
    pub fn was_hit(&self) -> bool {
        self.trace.contains("+++ killed by SIGKILL +++")
    }

    /// Returns true if the killed process was the QEMU of a kernel zone.
    #[must_use]
    pub fn hit_machine(&self) -> bool {
        calls::killed_machine(&self.trace)
    }
}

fn words(ask: Ask<'_>, out: &Path, root: &Path) -> Vec<String> {
    let mut words = vec!["-f".to_owned(), "-y".to_owned(), "-o".to_owned()];
    words.push(out.display().to_string());
    match ask {
        Ask::Record => {
            // A name of a call that this machine's processor does not have is not an error.
            let names = CHANGING.iter().chain(ORIGINS);
            let names: Vec<String> = names.map(|name| format!("?{name}")).collect();
            words.extend(["-s".to_owned(), "4096".to_owned()]);
            words.extend(["-e".to_owned(), format!("trace={}", names.join(","))]);
        }
        Ask::Kill(site) => {
            let mut names: Vec<String> = ORIGINS.iter().map(|name| format!("?{name}")).collect();
            names.push(site.call.clone());
            words.extend(["-e".to_owned(), format!("trace={}", names.join(","))]);
            let inject = format!("inject={}:signal=KILL:when={}", site.call, site.n);
            words.extend(["-e".to_owned(), inject]);
            if let Some(path) = &site.path {
                let path = path.replace(calls::ROOT, &root.display().to_string());
                words.extend(["-P".to_owned(), path]);
            }
        }
    }
    words
}

/// Runs `command` while one of the processes of its operation on zone `web` is traced.
///
/// # Panics
/// Fails if strace fails.
#[must_use]
pub fn traced(bench: &Bench, who: Who, ask: Ask<'_>, command: &mut Command) -> Struck {
    let host = match &bench.far {
        Some((far, _)) if who == Who::Far => far,
        _ => &bench.host,
    };
    let out = host.path("/trace.out");
    let _ = fs::remove_file(&out);
    let words = words(ask, &out, host.root());
    let ran = match who {
        Who::Command => run(&mut wrapped(command, &words), b""),
        Who::Started | Who::Far => {
            let program = if who == Who::Far {
                "zoneadm"
            } else {
                "zoneadmd"
            };
            let orders = orders(host.root(), program);
            fs::write(&orders, words.join("\n")).expect("orders for the wrapper");
            let ran = run(command, b"");
            fs::remove_file(orders).expect("the orders");
            ran
        }
        Who::Running => {
            let pid = host
                .zoneadmd("web")
                .expect("the zoneadmd of a running zone");
            let mut strace = attach(pid, &words);
            let ran = run(command, b"");
            finish(&mut strace);
            ran
        }
    };
    // The strace of a wrapper ends a moment after the processes that it traces.
    if matches!(who, Who::Started | Who::Far) {
        detach(host, &out);
    }
    let trace = fs::read_to_string(&out).unwrap_or_default();
    let _ = fs::remove_file(&out);
    Struck { ran, trace }
}

/// Returns `command` under strace, which detaches from children when they execute a program.
fn wrapped(command: &Command, words: &[String]) -> Command {
    let mut strace = Command::new("/usr/bin/strace");
    strace
        .args(["--seccomp-bpf", "-b", "execve"])
        .args(words)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            strace.env(name, value);
        }
    }
    strace
}

fn attach(pid: i32, words: &[String]) -> Child {
    let mut strace = Command::new("/usr/bin/strace");
    strace
        .args(["-b", "execve"])
        .args(words)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = start(&mut strace);
    wait_for("strace that is attached", || is_traced(pid).then_some(()));
    child
}

/// Returns true when all threads of a process are traced.
fn is_traced(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    })
}

/// Makes strace end: the processes that it still traces continue without it.
fn finish(strace: &mut Child) {
    let pid = strace.id();
    end(pid, || matches!(strace.try_wait(), Ok(Some(_))));
}

/// Ends a strace. A strace ignores SIGTERM while it waits for a thread that never comes, because
/// the other threads of its process were killed; if strace is killed, that thread ends, too.
fn end(pid: u32, mut has_ended: impl FnMut() -> bool) {
    for signal in ["-TERM", "-KILL"] {
        let _ = run(Command::new("kill").args([signal, &pid.to_string()]), b"");
        let end = Instant::now() + STRACE_END_TIMEOUT;
        while Instant::now() < end {
            if has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    panic!("strace {pid} does not end");
}

/// Makes the strace that a wrapper started end.
fn detach(host: &Host, out: &Path) {
    let out = out.display().to_string();
    for pid in host.processes() {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> = line
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        if words.first().is_some_and(|name| name.ends_with("strace")) && words.contains(&out) {
            let proc = format!("/proc/{pid}");
            end(pid.unsigned_abs(), || !Path::new(&proc).exists());
        }
    }
}
