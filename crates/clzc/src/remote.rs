//! Commands for hosts, and their outcomes.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// A command for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Standard input.
    pub input: String,
    /// Time after which the command is given up.
    pub limit: Duration,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with this status.
    Ended {
        /// The exit status; 128 plus the number of the signal that killed the command.
        status: i32,
        /// Standard output.
        output: String,
        /// Standard error.
        errors: String,
    },
    /// The host did not answer, or the connection was lost. The text says why.
    Unreachable(String),
    /// The command did not end in time.
    Late(Duration),
}

/// The stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// A way to run commands on hosts.
pub trait Remote: Sync {
    /// Runs a command on a host, and waits for its end. Each line that the command prints is given to `said` at once.
    fn run(&self, host: &str, order: &Order, said: &(dyn Fn(Stream, &str) + Sync)) -> Outcome;
}

/// Runs a command on each host at the same time. `said` gets the host and each line. Returns the outcomes in the order
/// of the hosts.
pub fn everywhere<T: Sync>(
    remote: &dyn Remote,
    jobs: &[(String, T)],
    order: impl Fn(&str, &T) -> Order + Sync,
    said: &(dyn Fn(&str, Stream, &str) + Sync),
) -> Vec<Outcome> {
    let outcomes = Mutex::new(vec![None; jobs.len()]);
    thread::scope(|scope| {
        for (place, (host, job)) in jobs.iter().enumerate() {
            let (outcomes, order) = (&outcomes, &order);
            scope.spawn(move || {
                let outcome = remote.run(host, &order(host, job), &|stream, line| {
                    said(host, stream, line);
                });
                if let Ok(mut outcomes) = outcomes.lock() {
                    outcomes[place] = Some(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    let lost = || Outcome::Unreachable("the thread of this host has ended".to_owned());
    outcomes
        .into_iter()
        .map(|one| one.unwrap_or_else(lost))
        .collect()
}

/// Returns the command as one line for the shell of the other host.
#[must_use]
pub fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    let words = words
        .iter()
        .map(|word| match !word.is_empty() && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hosts;

    impl Remote for Hosts {
        fn run(&self, host: &str, order: &Order, said: &(dyn Fn(Stream, &str) + Sync)) -> Outcome {
            if host == "down" {
                return Outcome::Unreachable("no route".to_owned());
            }
            said(Stream::Output, &order.words[0]);
            Outcome::Ended {
                status: 0,
                output: host.to_owned(),
                errors: String::new(),
            }
        }
    }

    #[test]
    fn a_host_that_is_down_does_not_block_the_others() {
        let jobs: Vec<(String, ())> = ["a", "down", "b"].map(|host| (host.to_owned(), ())).into();
        let lines = Mutex::new(Vec::new());
        let order = |_: &str, (): &()| Order {
            words: vec!["true".to_owned()],
            input: String::new(),
            limit: Duration::from_secs(1),
        };
        let outcomes = everywhere(&Hosts, &jobs, order, &|host, _, line| {
            lines.lock().unwrap().push(format!("{host}: {line}"));
        });
        assert!(matches!(&outcomes[0], Outcome::Ended { output, .. } if output == "a"));
        assert_eq!(outcomes[1], Outcome::Unreachable("no route".to_owned()));
        assert!(matches!(&outcomes[2], Outcome::Ended { output, .. } if output == "b"));
        let mut lines = lines.into_inner().unwrap();
        lines.sort();
        assert_eq!(lines, ["a: true", "b: true"]);
    }

    #[test]
    fn words_survive_the_shell() {
        let words = ["zoneadm", "-z", "pg", "install", "-x", "a b'c$(id)", ""].map(str::to_owned);
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {}", quoted(&words))])
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.split('\n').collect::<Vec<_>>()[..7], words);
    }
}
