//! The only packet that a client sends before its program runs: the request.
//!
//! Any user can send a request, so its format has no length fields and no nesting: a header of
//! fixed size, then words, each with a zero byte at its end. The request does not name the user,
//! because zoneauthd gets the user from the kernel.

use crate::Program;

/// Maximum length of a packet in bytes.
pub const MAX_SIZE: usize = 64 * 1024;

/// Maximum number of words after the program's name.
pub const MAX_WORDS: usize = 4096;

/// Maximum length of the name of a terminal type or a locale in bytes.
const MAX_NAME: usize = 64;

/// The first bytes of a request; they name the format of the rest.
const MAGIC: [u8; 4] = *b"ZNA1";

/// Length of the part before the words, in bytes.
const HEADER: usize = MAGIC.len() + 3 + 4;

/// The object that zoneauthd connects to a standard stream of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// No input: a read returns end of file at once.
    Nothing,
    /// A pipe; the client gets its other file descriptor.
    Pipe,
    /// A new terminal; the client gets its controlling side.
    Terminal,
}

impl Stream {
    const fn byte(self) -> u8 {
        match self {
            Self::Nothing => b'-',
            Self::Pipe => b'p',
            Self::Terminal => b't',
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'-' => Some(Self::Nothing),
            b'p' => Some(Self::Pipe),
            b't' => Some(Self::Terminal),
            _ => None,
        }
    }
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Standard input, output and error. The output streams are never [`Stream::Nothing`], and are
    /// a terminal only if standard input is one, too.
    pub streams: [Stream; 3],
    /// Rows and columns of the client's terminal.
    pub size: (u16, u16),
    /// The type of the client's terminal; empty if the type is unknown.
    pub term: String,
    /// The client's locale; may be empty.
    pub lang: String,
    /// The program to run.
    pub program: Program,
    /// The words after the program's name.
    pub words: Vec<String>,
}

/// The reasons why a packet is no valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet has more than [`MAX_SIZE`] bytes or [`MAX_WORDS`] words.
    #[error("the command line is too long: at most {MAX_SIZE} bytes and {MAX_WORDS} words")]
    Size,
    /// The packet does not have the format of a request.
    #[error("not a request that this zoneauthd knows")]
    Form,
    /// The packet combines streams in a way that is not allowed.
    #[error("streams that do not go together")]
    Streams,
    /// The words are not UTF-8.
    #[error("words must be UTF-8")]
    Text,
    /// A word contains a zero byte.
    #[error("a word cannot have a zero byte in it")]
    Zero,
    /// The program cannot be delegated.
    #[error("no program that can be delegated")]
    Program,
}

impl Request {
    /// Returns the request as a packet.
    ///
    /// # Errors
    /// [`Malformed`] if the words are too long or too many, or a word contains a zero byte.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        if self.words.len() > MAX_WORDS {
            return Err(Malformed::Size);
        }
        let mut packet = MAGIC.to_vec();
        packet.extend(self.streams.map(Stream::byte));
        packet.extend(self.size.0.to_le_bytes());
        packet.extend(self.size.1.to_le_bytes());
        let fixed = [&self.term, &self.lang, self.program.as_str()];
        for word in fixed
            .into_iter()
            .chain(self.words.iter().map(String::as_str))
        {
            if word.contains('\0') {
                return Err(Malformed::Zero);
            }
            packet.extend(word.bytes().chain([0]));
        }
        if packet.len() > MAX_SIZE {
            return Err(Malformed::Size);
        }
        Ok(packet)
    }

    /// Parses a packet. If the terminal type or the locale has an illegal character, its field is
    /// left empty; all other errors of format are refused.
    ///
    /// # Errors
    /// [`Malformed`] with the reason why the packet is no valid request.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() > MAX_SIZE {
            return Err(Malformed::Size);
        }
        let (header, text) = packet.split_at_checked(HEADER).ok_or(Malformed::Form)?;
        let header = header.strip_prefix(&MAGIC).ok_or(Malformed::Form)?;
        let [
            input,
            output,
            errors,
            rows,
            more_rows,
            columns,
            more_columns,
        ] = *header
        else {
            return Err(Malformed::Form);
        };
        let stream = |byte| Stream::of(byte).ok_or(Malformed::Form);
        let streams = [stream(input)?, stream(output)?, stream(errors)?];
        for output in &streams[1..] {
            let fits = match output {
                Stream::Nothing => false,
                Stream::Pipe => true,
                Stream::Terminal => streams[0] == Stream::Terminal,
            };
            if !fits {
                return Err(Malformed::Streams);
            }
        }
        let text = text.strip_suffix(&[0]).ok_or(Malformed::Form)?;
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Text)?;
        let mut words = text.split('\0');
        let mut next = || words.next().ok_or(Malformed::Form);
        let (term, lang, program) = (next()?, next()?, next()?);
        let words: Vec<String> = words.take(MAX_WORDS + 1).map(str::to_owned).collect();
        if words.len() > MAX_WORDS {
            return Err(Malformed::Size);
        }
        Ok(Self {
            streams,
            size: (
                u16::from_le_bytes([rows, more_rows]),
                u16::from_le_bytes([columns, more_columns]),
            ),
            term: name(term),
            lang: name(lang),
            program: Program::find(program).ok_or(Malformed::Program)?,
            words,
        })
    }
}

/// Returns the text if it can be the name of a terminal type or a locale and cannot be a path;
/// returns an empty text otherwise.
#[must_use]
pub fn name(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
    let first = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    if first && text.len() <= MAX_NAME && text.bytes().all(plain) {
        text.to_owned()
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> Request {
        Request {
            streams: [Stream::Terminal, Stream::Terminal, Stream::Pipe],
            size: (25, 80),
            term: "xterm-256color".to_owned(),
            lang: "de_DE.UTF-8@euro".to_owned(),
            program: Program::Zlogin,
            words: ["web1", "", "echo 'a b'\n", "-z"]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    #[test]
    fn requests_read_back_as_written() {
        let request = request();
        assert_eq!(
            Request::decode(&request.encode().unwrap()),
            Ok(request.clone())
        );
        let bare = Request {
            streams: [Stream::Nothing, Stream::Pipe, Stream::Pipe],
            term: String::new(),
            words: Vec::new(),
            ..request
        };
        assert_eq!(Request::decode(&bare.encode().unwrap()), Ok(bare));
    }

    #[test]
    fn a_truncated_packet_is_refused() {
        let packet = request().encode().unwrap();
        for length in 0..packet.len() {
            // A packet that is cut off after a whole word is valid, with fewer words.
            if let Ok(shorter) = Request::decode(&packet[..length]) {
                assert_eq!(packet[length - 1], 0);
                assert!(request().words.starts_with(&shorter.words));
            }
        }
    }

    #[test]
    fn malformed_packets_are_refused() {
        let good = request().encode().unwrap();
        let with = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            Request::decode(&packet)
        };
        assert_eq!(Request::decode(b""), Err(Malformed::Form));
        assert_eq!(with(0, b'z'), Err(Malformed::Form));
        assert_eq!(with(3, b'2'), Err(Malformed::Form));
        assert_eq!(with(4, b'x'), Err(Malformed::Form));
        // A terminal for the output is allowed only if the input is a terminal, too.
        assert_eq!(with(4, b'p'), Err(Malformed::Streams));
        assert_eq!(with(6, b'-'), Err(Malformed::Streams));
        assert_eq!(with(good.len() - 1, b'!'), Err(Malformed::Form));
        assert_eq!(with(good.len() - 2, 0xff), Err(Malformed::Text));
        let text = String::from_utf8(good.clone()).unwrap();
        let other = text.replace("zlogin", "zlogim");
        assert_eq!(Request::decode(other.as_bytes()), Err(Malformed::Program));
        let path = text.replace("zlogin", "../zlogin");
        assert_eq!(Request::decode(path.as_bytes()), Err(Malformed::Program));
    }

    #[test]
    fn bounds() {
        let with = |words: Vec<String>| Request { words, ..request() };
        let many = |count| vec![String::new(); count];
        assert_eq!(with(many(MAX_WORDS + 1)).encode(), Err(Malformed::Size));
        let most = with(many(MAX_WORDS));
        let mut packet = most.encode().unwrap();
        assert_eq!(Request::decode(&packet), Ok(most));
        packet.push(0);
        assert_eq!(Request::decode(&packet), Err(Malformed::Size));
        assert_eq!(
            with(vec!["x".repeat(MAX_SIZE)]).encode(),
            Err(Malformed::Size)
        );
        let mut long = request().encode().unwrap();
        long.resize(MAX_SIZE + 1, 0);
        assert_eq!(Request::decode(&long), Err(Malformed::Size));
        assert_eq!(with(vec!["a\0b".to_owned()]).encode(), Err(Malformed::Zero));
    }

    #[test]
    fn names_are_no_paths_and_no_assignments() {
        for good in [
            "xterm",
            "xterm-256color",
            "C.UTF-8",
            "sr_RS@latin",
            "vt100+x",
        ] {
            assert_eq!(name(good), good);
        }
        for bad in [
            "/etc/x",
            "../x",
            "..",
            "a=b",
            "a\nb",
            "-x",
            "\u{e9}",
            &"x".repeat(65),
        ] {
            assert_eq!(name(bad), "", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
            }
        }

        #[test]
        fn a_changed_packet_is_read_or_refused(at in 0_usize..200, byte in any::<u8>(), cut in 0_usize..200) {
            let mut packet = request().encode().unwrap();
            let length = packet.len();
            packet[at % length] = byte;
            packet.truncate(length - cut % length);
            if let Ok(request) = Request::decode(&packet) {
                prop_assert!(request.words.iter().all(|word| !word.contains('\0')));
                prop_assert_eq!(name(&request.term), request.term.clone());
                prop_assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
            }
        }
    }
}
