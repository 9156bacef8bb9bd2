//! Messages of one line on the zone's console.

use start::write;

/// Writes `zinit: ` and the parts as one line. One write(2) writes the line, so that other writers
/// to the console cannot interrupt it. Text beyond 200 bytes is cut.
pub(crate) fn say(parts: &[&[u8]]) {
    let mut line = [0; 200];
    let mut used = 0;
    let room = line.len() - 1;
    for part in [b"zinit: ".as_slice()].iter().chain(parts) {
        for byte in part.iter().take(room - used) {
            line[used] = *byte;
            used += 1;
        }
    }
    line[used] = b'\n';
    write(2, &line[..=used]);
}

/// The decimal digits of a number of one byte.
pub(crate) struct Digits([u8; 3]);

impl Digits {
    pub(crate) fn of(number: u8) -> Self {
        Self([
            number / 100 + b'0',
            number / 10 % 10 + b'0',
            number % 10 + b'0',
        ])
    }

    /// Returns the digits without leading zeros.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self.0 {
            [b'0', b'0', _] => &self.0[2..],
            [b'0', ..] => &self.0[1..],
            _ => &self.0,
        }
    }
}
