//! Runs a program with a time limit, and passes its lines on.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clzc::{Outcome, Stream};

/// Maximum size of the output that is kept, in bytes: a configuration has at most 4 MiB.
const MAX_KEPT: usize = 8 << 20;
/// Maximum size of a line that is passed on, in bytes.
const MAX_LINE: u64 = 4096;
/// Maximum number of lines that wait to be passed on. A program that prints faster has to wait.
const MAX_WAITING_LINES: usize = 64;
/// Interval between two looks at a program that runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the last lines after the end of the program. A background process may hold the streams open.
const LAST_LINES_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs a program. Returns [`Outcome::Unreachable`] if it cannot be started, and [`Outcome::Late`] if it
/// runs longer than `limit`, even if it prints all the time.
pub fn run(
    mut command: Command,
    input: &str,
    limit: Duration,
    said: &(dyn Fn(Stream, &str) + Sync),
) -> Outcome {
    let started = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return Outcome::Unreachable(format!("{program} cannot be started: {error}")),
    };
    let (sender, lines) = sync_channel(MAX_WAITING_LINES);
    if let Some(output) = child.stdout.take() {
        read(output, Stream::Output, sender.clone());
    }
    if let Some(errors) = child.stderr.take() {
        read(errors, Stream::Errors, sender);
    }
    if let Some(mut pipe) = child.stdin.take() {
        let input = input.to_owned();
        // The program may write before it has read all, and may end before it has read all.
        thread::spawn(move || {
            let _ = pipe.write_all(input.as_bytes());
        });
    }
    let (mut output, mut errors) = (String::new(), String::new());
    let mut keep = |(stream, line): (Stream, String)| {
        said(stream, line.trim_end_matches('\n'));
        let kept = match stream {
            Stream::Output => &mut output,
            Stream::Errors => &mut errors,
        };
        if kept.len() + line.len() <= MAX_KEPT {
            kept.push_str(&line);
        }
    };
    let end = Instant::now() + limit;
    let mut next_look = Instant::now();
    let status = loop {
        let next = lines.recv_timeout(LOOK_INTERVAL);
        let are_closed = next == Err(RecvTimeoutError::Disconnected);
        if let Ok(line) = next {
            keep(line);
        }
        if !are_closed && Instant::now() < next_look {
            continue;
        }
        next_look = Instant::now() + LOOK_INTERVAL;
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() > end => {
                // Both fail only if the program has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return Outcome::Late(limit);
            }
            // Nothing is left to wait for but the end of the program.
            Ok(None) if are_closed => thread::sleep(LOOK_INTERVAL),
            Ok(None) => {}
            Err(error) => return Outcome::Unreachable(format!("{program}: {error}")),
        }
    };
    let end = Instant::now() + LAST_LINES_TIMEOUT;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        match lines.recv_timeout(left) {
            Ok(line) => keep(line),
            Err(_) => break,
        }
    }
    Outcome::Ended {
        status: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        output,
        errors,
    }
}

fn read(stream: impl Read + Send + 'static, kind: Stream, lines: SyncSender<(Stream, String)>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            if lines.send((kind, line)).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, "in\n", limit, &|_, _| {})
    }

    #[test]
    fn a_program_gets_its_input_and_its_status_is_known() {
        let outcome = sh("cat; echo bad >&2; exit 3", Duration::from_secs(10));
        let expected = Outcome::Ended {
            status: 3,
            output: "in\n".to_owned(),
            errors: "bad\n".to_owned(),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn a_program_that_does_not_end_is_given_up() {
        let limit = Duration::from_millis(200);
        assert_eq!(sh("exec sleep 60", limit), Outcome::Late(limit));
    }

    #[test]
    fn a_program_that_prints_without_end_is_given_up() {
        let limit = Duration::from_millis(200);
        // The reader of the lines is slower than the program.
        let slowly = |_, _: &str| thread::sleep(Duration::from_millis(1));
        let outcome = run(Command::new("yes"), "", limit, &slowly);
        assert_eq!(outcome, Outcome::Late(limit));
    }

    #[test]
    fn a_background_process_that_prints_without_end_does_not_hold_the_command() {
        let script =
            "yes 2>/dev/null & pid=$!; (sleep 3; kill $pid) >/dev/null 2>&1 & echo done >&2";
        let outcome = sh(script, Duration::from_secs(60));
        assert!(
            matches!(&outcome, Outcome::Ended { status: 0, errors, .. } if errors == "done\n"),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_program_that_closes_its_streams_is_awaited() {
        let outcome = sh("exec >&- 2>&-; sleep 0.3; exit 4", Duration::from_secs(10));
        assert!(
            matches!(outcome, Outcome::Ended { status: 4, .. }),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_background_process_does_not_hold_the_command() {
        // A command that waits for the sleep reaches the limit, and its outcome is another.
        let outcome = sh("sleep 20 & echo done", Duration::from_secs(15));
        assert!(
            matches!(outcome, Outcome::Ended { status: 0, .. }),
            "{outcome:?}"
        );
    }
}
