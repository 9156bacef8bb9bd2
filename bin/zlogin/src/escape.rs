//! The escape character: `~.` at the start of a line leaves the zone, and `~~` sends one `~`.

/// Searches the input of the user for the escape character.
#[derive(Debug)]
pub struct Escape {
    character: Option<u8>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// At the start of a line.
    Begin,
    /// After an escape character at the start of a line.
    Seen,
    /// Elsewhere in a line.
    Inside,
}

/// The result of scanning a piece of input.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    /// The bytes to send to the zone.
    pub send: Vec<u8>,
    /// True if zlogin must disconnect after it has sent these bytes.
    pub leave: bool,
}

impl Escape {
    /// Creates a scanner for this escape character; `None` disables the escape.
    pub const fn new(character: Option<u8>) -> Self {
        Self {
            character,
            state: State::Begin,
        }
    }

    /// Scans a piece of input.
    pub fn typed(&mut self, input: &[u8]) -> Typed {
        let mut send = Vec::with_capacity(input.len());
        let Some(escape) = self.character else {
            return Typed {
                send: input.to_vec(),
                leave: false,
            };
        };
        for &byte in input {
            match self.state {
                State::Begin if byte == escape => {
                    self.state = State::Seen;
                    continue;
                }
                State::Seen if byte == b'.' => return Typed { send, leave: true },
                // This is no escape sequence, so the escape character that was held back is sent
                // first.
                State::Seen if byte != escape => send.push(escape),
                _ => {}
            }
            send.push(byte);
            self.state = if matches!(byte, b'\r' | b'\n') {
                State::Begin
            } else {
                State::Inside
            };
        }
        Typed { send, leave: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pieces: &[&str]) -> (String, bool) {
        let mut escape = Escape::new(Some(b'~'));
        let mut all = Vec::new();
        for piece in pieces {
            let typed = escape.typed(piece.as_bytes());
            all.extend(typed.send);
            if typed.leave {
                return (String::from_utf8(all).unwrap(), true);
            }
        }
        (String::from_utf8(all).unwrap(), false)
    }

    #[test]
    fn the_escape_character_counts_only_at_the_start_of_a_line() {
        assert_eq!(typed(&["~."]), (String::new(), true));
        assert_eq!(typed(&["ls\r", "~", "."]), ("ls\r".into(), true));
        assert_eq!(typed(&["a~."]), ("a~.".into(), false));
        assert_eq!(typed(&["~~.\r"]), ("~.\r".into(), false));
        assert_eq!(typed(&["~/x\r~."]), ("~/x\r".into(), true));
    }

    #[test]
    fn without_an_escape_character_all_input_passes() {
        let typed = Escape::new(None).typed(b"~.");
        assert_eq!(
            typed,
            Typed {
                send: b"~.".to_vec(),
                leave: false
            }
        );
    }
}
