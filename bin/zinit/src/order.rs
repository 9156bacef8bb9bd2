//! The commands that end a zone: `reboot`, `poweroff`, `halt` and `shutdown`.

use start::Signal;

use crate::console::{Digits, say};
use crate::life::{HALT, POWEROFF, REBOOT};

/// The request that a command line makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Send this signal to process 1.
    Order(Signal),
    /// Do nothing: the option only asks for a record of logins, and zinit keeps no such record.
    Nothing,
    /// Print the usage.
    Help,
    /// The command line asks for an option that zinit does not have.
    Refused,
}

/// Runs the command if `name` is one of these commands. Returns its exit status.
pub(crate) fn run<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Option<u8> {
    let wish = match name {
        b"poweroff" => plain(POWEROFF, args),
        b"halt" => plain(HALT, args),
        b"reboot" => plain(REBOOT, args),
        b"shutdown" => shutdown(args),
        _ => return None,
    };
    Some(match wish {
        Wish::Order(signal) => send(signal),
        Wish::Nothing => 0,
        Wish::Help => {
            say(&[b"usage: poweroff | halt | reboot | shutdown [-r | -h | -P] [now]"]);
            0
        }
        Wish::Refused => {
            say(&[
                name,
                b": expected no options but -r, -h, -H, -P, -p, -f, -n, -d, -w, -i, -k, and no time but now: a zone ends at once",
            ]);
            1
        }
    })
}

/// Parses the arguments of a command that always means `signal`. The options of these commands in
/// all init systems are accepted.
fn plain<'a>(signal: Signal, args: impl Iterator<Item = &'a [u8]>) -> Wish {
    let mut wish = Wish::Order(signal);
    for arg in args {
        match arg {
            b"--help" => return Wish::Help,
            b"-w" | b"--wtmp-only" => wish = Wish::Nothing,
            b"-f" | b"--force" | b"-ff" | b"-n" | b"--no-sync" | b"-d" | b"--no-wtmp" | b"-i"
            | b"--no-wall" => {}
            b"--reboot" => wish = Wish::Order(REBOOT),
            b"-p" | b"--poweroff" => wish = Wish::Order(POWEROFF),
            b"--halt" => wish = Wish::Order(HALT),
            _ => return Wish::Refused,
        }
    }
    wish
}

fn shutdown<'a>(args: impl Iterator<Item = &'a [u8]>) -> Wish {
    let mut signal = POWEROFF;
    let mut has_time = false;
    for arg in args {
        match arg {
            b"--help" => return Wish::Help,
            b"-r" | b"--reboot" => signal = REBOOT,
            b"-H" | b"--halt" => signal = HALT,
            b"-h" | b"-P" | b"--poweroff" | b"-f" | b"-F" | b"--no-wall" => {}
            b"now" | b"+0" | b"0" => has_time = true,
            // The words that follow the time are a message for users who are logged in.
            _ if has_time && !arg.starts_with(b"-") => {}
            _ => return Wish::Refused,
        }
    }
    Wish::Order(signal)
}

/// Sends the signal to process 1.
fn send(signal: Signal) -> u8 {
    match start::send(1, signal) {
        Ok(()) => 0,
        Err(errno) => {
            let number = Digits::of(u8::try_from(errno.0).unwrap_or(u8::MAX));
            say(&[b"signal to process 1: error ", number.as_bytes()]);
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = &[u8]> {
        line.split_whitespace().map(str::as_bytes)
    }

    #[test]
    fn options_of_all_inits_are_taken_and_others_end_no_zone() {
        assert_eq!(plain(REBOOT, words("")), Wish::Order(REBOOT));
        assert_eq!(plain(REBOOT, words("-f -d")), Wish::Order(REBOOT));
        assert_eq!(plain(HALT, words("-p")), Wish::Order(POWEROFF));
        assert_eq!(plain(REBOOT, words("-w")), Wish::Nothing);
        assert_eq!(plain(REBOOT, words("--help")), Wish::Help);
        assert_eq!(plain(REBOOT, words("--version")), Wish::Refused);
        for line in ["", "now", "-h now", "-P +0", "-h now bye all"] {
            assert_eq!(shutdown(words(line)), Wish::Order(POWEROFF), "{line}");
        }
        assert_eq!(shutdown(words("-r now")), Wish::Order(REBOOT));
        for line in ["+5", "23:00", "-c", "-k now", "-r +1", "bye"] {
            assert_eq!(shutdown(words(line)), Wish::Refused, "{line}");
        }
    }
}
