//! `zoneadm files cat`.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use host::Host;
use model::ZoneName;
use zone::moments::files::content;

use super::parse::Parsed;
use crate::call::Call;
use crate::report;

/// Returns the call with the option that escapes control characters if standard output is a
/// terminal: a file of a zone must not write to it. zoneauthd runs the command with a pipe.
pub fn for_terminal(call: &Call) -> Call {
    let mut call = call.clone();
    if std::io::stdout().is_terminal() {
        call.rest.insert(1, "-e".to_owned());
    }
    call
}

pub fn run(host: &Host, zone: &ZoneName, parsed: &Parsed) -> u8 {
    let escapes = parsed.escapes || std::io::stdout().is_terminal();
    let printed = content(
        host,
        zone,
        &parsed.snapshot,
        &parsed.paths[0],
        &mut |piece| {
            let written = match escapes {
                true => cli::output::write(&escaped(piece)),
                false => cli::output::write(piece),
            };
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(errno) => {
                    cli::output::lost(errno);
                    ControlFlow::Break(())
                }
            }
        },
    );
    match printed {
        Ok(()) => cli::status::OK,
        Err(error) => report::error(zone.as_str(), &error),
    }
}

/// Escapes control characters, except for the end of a line and the tab, and bytes that are not UTF-8.
fn escaped(piece: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(piece.len());
    for chunk in piece.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '\n' | '\t' => text.push(one),
                one if one.is_control() => text.extend(one.escape_default()),
                one => text.push(one),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_text_is_not() {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&escaped(bytes)).into_owned();
        assert_eq!(shown(b"a\tb\n"), "a\tb\n");
        assert_eq!(
            shown("\u{e4}\u{20ac}\u{1f980}".as_bytes()),
            "\u{e4}\u{20ac}\u{1f980}"
        );
        assert_eq!(shown("\u{e4}\u{1b}[2J".as_bytes()), "\u{e4}\\u{1b}[2J");
        // CSI as one character, and as one byte.
        assert_eq!(shown("\u{9b}2J".as_bytes()), "\\u{9b}2J");
        assert_eq!(shown(b"\x9b2J"), "\\x9b2J");
    }
}
