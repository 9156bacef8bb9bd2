//! Runs the programs that the host asks for with guest-exec.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use vm::base64;

/// Maximum number of bytes that are kept of each output stream of a program.
const MAX_KEPT_BYTES: u64 = 8 << 20;

/// Maximum number of programs that run at a time.
const MAX_JOBS: usize = 256;

/// Maximum number of ended programs that are kept until their result is asked for; the oldest are
/// dropped.
const MAX_ENDED: usize = 32;
/// Maximum number of bytes of all outputs of ended programs; the oldest are dropped.
const MAX_ENDED_BYTES: usize = 64 << 20;

#[derive(Debug)]
struct Job {
    child: Child,
    /// The reader of the program's output; `None` if the output is not wanted.
    output: Option<Reader>,
    errors: Option<Reader>,
    /// The number of this program in the order of starts. A process id is no such number, because
    /// the kernel reuses it.
    turn: u64,
}

impl Job {
    /// Returns the exit status, once the program has ended and all of its output is read. The
    /// process is reaped then.
    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        let mut streams = [&self.output, &self.errors].into_iter().flatten();
        Ok(status.filter(|_| streams.all(Reader::is_finished)))
    }

    fn printed(&self) -> usize {
        let streams = [&self.output, &self.errors].into_iter().flatten();
        streams.map(Reader::kept).sum()
    }
}

/// The thread that reads a program's output.
#[derive(Debug)]
struct Reader {
    thread: JoinHandle<(Vec<u8>, bool)>,
    kept: Arc<AtomicUsize>,
}

impl Reader {
    /// Starts a thread that keeps the start of a stream and reads the whole stream, so that the
    /// program never blocks.
    fn new(stream: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&kept);
        let thread = std::thread::spawn(move || {
            let mut kept = Vec::new();
            let mut begin = stream.take(MAX_KEPT_BYTES);
            let _ = begin.read_to_end(&mut kept);
            kept.shrink_to_fit();
            count.store(kept.len(), Ordering::Relaxed);
            let more = std::io::copy(&mut begin.into_inner(), &mut std::io::sink());
            (kept, more.is_ok_and(|more| more > 0))
        });
        Self { thread, kept }
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }
}

/// All programs, by their process ids.
#[derive(Debug, Default)]
pub struct Jobs {
    jobs: BTreeMap<u32, Job>,
    turns: u64,
}

impl Jobs {
    /// Finds ended programs, and drops the oldest ones whose result nobody asked for.
    fn tidy(&mut self) {
        let mut ended: Vec<(u64, u32, usize)> = Vec::new();
        for (number, job) in &mut self.jobs {
            // A program whose status cannot be read counts as running.
            if job.ended().is_ok_and(|status| status.is_some()) {
                ended.push((job.turn, *number, job.printed()));
            }
        }
        ended.sort_unstable();
        let mut printed: usize = ended.iter().map(|(.., bytes)| bytes).sum();
        let mut count = ended.len();
        for (_, number, bytes) in ended {
            if count <= MAX_ENDED && printed <= MAX_ENDED_BYTES {
                break;
            }
            self.jobs.remove(&number);
            count -= 1;
            printed -= bytes;
        }
    }

    /// Carries out `guest-exec`.
    pub fn start(&mut self, arguments: &Value) -> Result<Value, String> {
        self.tidy();
        if self.jobs.len() >= MAX_JOBS {
            return Err("too many programs run already".to_owned());
        }
        let path = arguments["path"].as_str().ok_or("no path")?;
        let words = arguments["arg"].as_array().cloned().unwrap_or_default();
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let input = match &arguments["input-data"] {
            Value::Null => None,
            Value::String(text) => Some(base64::decode(text).ok_or("input-data: not base64")?),
            _ => return Err("input-data: no text".to_owned()),
        };
        let kept = arguments["capture-output"] == true;
        let stream = || if kept { Stdio::piped() } else { Stdio::null() };
        let mut child = Command::new(path)
            .args(words.ok_or("arg: not texts")?)
            .stdin(match input {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .map_err(|error| format!("{path}: {error}"))?;
        if let (Some(input), Some(mut to)) = (input, child.stdin.take()) {
            // The program may end before it has read all of its input.
            std::thread::spawn(move || to.write_all(&input));
        }
        self.turns += 1;
        let job = Job {
            output: child.stdout.take().map(Reader::new),
            errors: child.stderr.take().map(Reader::new),
            child,
            turn: self.turns,
        };
        let number = job.child.id();
        self.jobs.insert(number, job);
        Ok(json!({ "pid": number }))
    }

    /// Carries out `guest-exec-status`.
    pub fn status(&mut self, arguments: &Value) -> Result<Value, String> {
        let number = arguments["pid"]
            .as_u64()
            .and_then(|n| u32::try_from(n).ok());
        let number = number.ok_or("no pid")?;
        let job = self.jobs.get_mut(&number).ok_or("no such process")?;
        let Some(status) = job.ended()? else {
            return Ok(json!({ "exited": false }));
        };
        let mut said = json!({ "exited": true });
        if let Some(code) = status.code() {
            said["exitcode"] = json!(code);
        }
        if let Some(signal) = status.signal() {
            said["signal"] = json!(signal);
        }
        let job = self.jobs.remove(&number).ok_or("no such process")?;
        for (reader, data, cut) in [
            (job.output, "out-data", "out-truncated"),
            (job.errors, "err-data", "err-truncated"),
        ] {
            let Some(Ok((bytes, more))) = reader.map(|reader| reader.thread.join()) else {
                continue;
            };
            if !bytes.is_empty() {
                said[data] = json!(base64::encode(&bytes));
            }
            if more {
                said[cut] = json!(true);
            }
        }
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(jobs: &mut Jobs, script: &str) -> u64 {
        let call = json!({ "path": "/bin/sh", "arg": ["-c", script], "capture-output": true });
        let said = jobs.start(&call).unwrap();
        said["pid"].as_u64().unwrap()
    }

    /// Waits until `count` programs have ended.
    fn wait_for(jobs: &mut Jobs, count: usize) {
        while jobs
            .jobs
            .values_mut()
            .filter_map(|job| job.ended().unwrap())
            .count()
            < count
        {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn ends_that_nobody_asks_for_are_forgotten() {
        let mut jobs = Jobs::default();
        let runs = start(&mut jobs, "exec sleep 60");
        for _ in 0..MAX_ENDED {
            start(&mut jobs, ":");
        }
        wait_for(&mut jobs, MAX_ENDED);
        let first = start(&mut jobs, ":");
        wait_for(&mut jobs, MAX_ENDED + 1);
        // The test starts more programs in total than may run at a time.
        for _ in 0..MAX_JOBS {
            start(&mut jobs, ":");
            wait_for(&mut jobs, MAX_ENDED + 1);
        }
        assert!(jobs.jobs.len() <= MAX_ENDED + 2, "{}", jobs.jobs.len());
        let status = |pid: u64| json!({ "pid": pid });
        assert_eq!(jobs.status(&status(runs)).unwrap()["exited"], false);
        assert!(jobs.status(&status(first)).is_err());
        let number = u32::try_from(runs).unwrap();
        jobs.jobs.get_mut(&number).unwrap().child.kill().unwrap();
        wait_for(&mut jobs, MAX_ENDED + 2);
        assert_eq!(jobs.status(&status(runs)).unwrap()["signal"], 9);
    }

    #[test]
    fn kept_output_of_ended_commands_is_bounded() {
        let mut jobs = Jobs::default();
        let most = MAX_ENDED_BYTES / usize::try_from(MAX_KEPT_BYTES).unwrap();
        for _ in 0..=most {
            start(
                &mut jobs,
                &format!("head -c {} /dev/zero", MAX_KEPT_BYTES + 1),
            );
        }
        wait_for(&mut jobs, most + 1);
        jobs.tidy();
        assert_eq!(jobs.jobs.len(), most);
    }
}
