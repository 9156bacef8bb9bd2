//! The messages after the request: short texts, a packet each.

/// Longest packet in bytes; a longer text is cut.
pub const MAX_SIZE: usize = 1024;

/// The signals that a client may pass on to its program.
pub const SIGNALS: [i32; 4] = [HANGUP, INTERRUPT, QUIT, TERMINATE];

/// SIGHUP, which a program also gets when its client goes away.
pub const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const QUIT: i32 = 3;
const TERMINATE: i32 = 15;

/// The exit status or signal of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Status(u8),
    /// By this signal.
    Signal(u8),
}

/// The messages of zoneauthd to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The program runs. The client's ends of its streams follow, each in a packet of
    /// its own: first the terminal if there is one, then the pipes in their order.
    Granted,
    /// The program was not started, and why.
    Refused(String),
    /// The program has ended; the last packet.
    Ended(End),
}

impl Reply {
    /// The packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = match self {
            Self::Granted => "granted".to_owned(),
            Self::Refused(why) => format!("refused {}", plain(why)),
            Self::Ended(End::Status(status)) => format!("ended {status}"),
            Self::Ended(End::Signal(number)) => format!("killed {number}"),
        };
        // Plain text has one byte for each character.
        text.truncate(MAX_SIZE);
        text.into_bytes()
    }

    /// Reads a packet; `None` when it is none of these.
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

/// A client's packet that passes a signal on.
#[must_use]
pub fn signal(number: i32) -> Vec<u8> {
    format!("signal {number}").into_bytes()
}

/// Reads a packet of a client whose program runs: a signal that it may pass on.
#[must_use]
pub fn signal_of(packet: &[u8]) -> Option<i32> {
    let number = std::str::from_utf8(packet).ok()?.strip_prefix("signal ")?;
    let number = number.parse().ok()?;
    SIGNALS.contains(&number).then_some(number)
}

/// Printable ASCII; anything else, and the backslash, is escaped. For texts that a user
/// wrote and that go to a terminal or a log.
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
        // Not those that cannot be refused or that mean something to a program.
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
