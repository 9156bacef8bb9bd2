//! Programs that were asked for.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use vm::base64;

/// Most bytes of each output that are kept.
const MOST_KEPT: u64 = 8 << 20;

/// Most programs at a time, those among them whose end nobody has asked for.
const MOST_JOBS: usize = 256;

type Reader = JoinHandle<(Vec<u8>, bool)>;

#[derive(Debug)]
struct Job {
    child: Child,
    output: Option<Reader>,
    errors: Option<Reader>,
}

/// All of them, by the number of their process.
#[derive(Debug, Default)]
pub struct Jobs(BTreeMap<u32, Job>);

impl Jobs {
    /// guest-exec
    pub fn start(&mut self, arguments: &Value) -> Result<Value, String> {
        if self.0.len() >= MOST_JOBS {
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
            // It may not read all of it.
            std::thread::spawn(move || to.write_all(&input));
        }
        let job = Job {
            output: child.stdout.take().map(reader),
            errors: child.stderr.take().map(reader),
            child,
        };
        let number = job.child.id();
        self.0.insert(number, job);
        Ok(json!({ "pid": number }))
    }

    /// guest-exec-status
    pub fn status(&mut self, arguments: &Value) -> Result<Value, String> {
        let number = arguments["pid"]
            .as_u64()
            .and_then(|n| u32::try_from(n).ok());
        let number = number.ok_or("no pid")?;
        let job = self.0.get_mut(&number).ok_or("no such process")?;
        let status = job.child.try_wait().map_err(|error| error.to_string())?;
        let streams = [&job.output, &job.errors];
        let read = streams
            .into_iter()
            .flatten()
            .all(std::thread::JoinHandle::is_finished);
        let (Some(status), true) = (status, read) else {
            return Ok(json!({ "exited": false }));
        };
        let mut said = json!({ "exited": true });
        if let Some(code) = status.code() {
            said["exitcode"] = json!(code);
        }
        if let Some(signal) = status.signal() {
            said["signal"] = json!(signal);
        }
        let job = self.0.remove(&number).ok_or("no such process")?;
        for (reader, data, cut) in [
            (job.output, "out-data", "out-truncated"),
            (job.errors, "err-data", "err-truncated"),
        ] {
            let Some(Ok((bytes, more))) = reader.map(JoinHandle::join) else {
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

/// Keeps the begin of a stream and reads all of it: the program must not wait.
fn reader(stream: impl Read + Send + 'static) -> Reader {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut begin = stream.take(MOST_KEPT);
        let _ = begin.read_to_end(&mut kept);
        let more = std::io::copy(&mut begin.into_inner(), &mut std::io::sink());
        (kept, more.is_ok_and(|more| more > 0))
    })
}
