//! The messages that follow the request: short texts, one in each packet.

/// Maximum length of a packet in bytes; a longer text is truncated.
pub const MAX_SIZE: usize = 1024;

/// The signals that a client may pass on to its program.
pub const SIGNALS: [i32; 4] = [HANGUP, INTERRUPT, QUIT, TERMINATE];

/// SIGHUP, which a program also receives when its client disconnects.
pub const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const QUIT: i32 = 3;
const TERMINATE: i32 = 15;

/// The exit status or signal of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program exited with this status.
    Status(u8),
    /// This signal killed the program.
    Signal(u8),
}

/// The messages of zoneauthd to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The program runs. The client's file descriptors of the program's streams follow, each in a
    /// packet of its own: first the terminal if the request asks for one, then the pipes in their
    /// order.
    Granted,
    /// The program was not started, for the reason in this text.
    Refused(String),
    /// The program has ended; this is the last packet.
    Ended(End),
}

impl Reply {
    /// Returns the reply as a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = match self {
            Self::Granted => "granted".to_owned(),
            Self::Refused(why) => format!("refused {}", plain(why)),
            Self::Ended(End::Status(status)) => format!("ended {status}"),
            Self::Ended(End::Signal(number)) => format!("killed {number}"),
        };
        // The text is ASCII here, so that `truncate` cannot cut a character in two.
        text.truncate(MAX_SIZE);
        text.into_bytes()
    }

    /// Parses a packet; returns `None` if the packet is no reply.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(packet).ok()?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "granted" => Some(Self::Granted),
            "refused" => Some(Self::Refused(plain(rest))),
            "ended" => rest
                .parse()
                .ok()
                .map(|status| Self::Ended(End::Status(status))),
            "killed" => rest
                .parse()
                .ok()
                .map(|number| Self::Ended(End::Signal(number))),
            _ => None,
        }
    }
}

/// Returns the packet with which a client passes a signal on to its program.
#[must_use]
pub fn signal(number: i32) -> Vec<u8> {
    format!("signal {number}").into_bytes()
}

/// Returns the signal in a packet that a client sent while its program runs, if the client may pass
/// this signal on.
#[must_use]
pub fn signal_of(packet: &[u8]) -> Option<i32> {
    let number = std::str::from_utf8(packet).ok()?.strip_prefix("signal ")?;
    let number = number.parse().ok()?;
    SIGNALS.contains(&number).then_some(number)
}

/// Returns the text as printable ASCII: backslashes and all other characters are escaped. It is for
/// texts that a user wrote and that a terminal or a log shows.
#[must_use]
pub fn plain(text: &str) -> String {
    let escaped = |c: char| -> String {
        match c {
            ' '..='[' | ']'..='~' => c.to_string(),
            other => other.escape_default().to_string(),
        }
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replies_read_back_as_written() {
        for reply in [
            Reply::Granted,
            Reply::Refused("User joe is not authorized to boot this zone.".to_owned()),
            Reply::Ended(End::Status(0)),
            Reply::Ended(End::Status(255)),
            Reply::Ended(End::Signal(9)),
        ] {
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        for odd in [
            &b""[..],
            b"ended",
            b"ended 256",
            b"ended -1",
            b"killed x",
            b"\xff",
            b"Granted",
        ] {
            assert_eq!(Reply::decode(odd), None);
        }
    }

    #[test]
    fn texts_are_plain_and_short() {
        let reply = Reply::Refused(format!("\u{1b}[2J\n{}", "\u{e9}".repeat(MAX_SIZE)));
        let packet = reply.encode();
        assert_eq!(packet.len(), MAX_SIZE);
        assert!(packet.starts_with(b"refused \\u{1b}[2J\\n\\u{e9}"));
        assert_eq!(plain("a\\b\tc\0"), "a\\\\b\\tc\\u{0}");
    }

    #[test]
    fn only_termination_signals_are_passed_on() {
        for number in SIGNALS {
            assert_eq!(signal_of(&signal(number)), Some(number));
        }
        // Signals that a program cannot catch or to which it gives a meaning of its own may not be
        // passed on.
        for number in [-1, 0, 9, 10, 17, 18, 19, 34, i32::MAX] {
            assert_eq!(signal_of(&signal(number)), None);
        }
        for odd in [
            &b""[..],
            b"signal",
            b"signal  1",
            b"signal 1 ",
            b"signal 1\n",
            b"1",
            b"\xff",
        ] {
            assert_eq!(signal_of(odd), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Reply::decode(&bytes);
            prop_assert!(signal_of(&bytes).is_none_or(|number| SIGNALS.contains(&number)));
            let text = plain(&String::from_utf8_lossy(&bytes));
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
