//! Headers of tar: the block of 512 bytes, and the records of pax.

/// The size of a block, in bytes.
pub(crate) const BLOCK: usize = 512;

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A further name of an earlier member.
    HardLink(Vec<u8>),
    /// A member that is never copied, with the word for it.
    Other(&'static str),
}

/// A piece of a sparse file: offset and length in bytes.
pub(crate) type Piece = (u64, u64);

/// A member of a stream, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds since 1970.
    pub mtime: (i64, u32),
    /// The attributes `user.*`.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// The number of bytes of the file.
    pub size: u64,
    /// The pieces of a sparse file that have data; `None` if all of the file is in the stream.
    pub pieces: Option<Vec<Piece>>,
}

impl Member {
    pub(crate) fn new(name: Vec<u8>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: (0, 0),
            xattrs: Vec::new(),
            size: 0,
            pieces: None,
        }
    }
}

/// Returns the number of bytes that follow data of `size` bytes up to the end of its last block.
pub(crate) fn padding(size: u64) -> usize {
    let over = size % BLOCK as u64;
    // The difference is less than a block.
    usize::try_from((BLOCK as u64 - over) % BLOCK as u64).unwrap_or(0)
}

/// Returns the checksum of a header: the sum of its bytes, with blanks for the checksum itself.
pub(crate) fn checksum(block: &[u8; BLOCK]) -> u64 {
    let counted = |(at, &byte): (usize, &u8)| match (148..156).contains(&at) {
        true => u64::from(b' '),
        false => u64::from(byte),
    };
    block.iter().enumerate().map(counted).sum()
}

/// Parses a number of a header: octal digits, or base 256 if the highest bit is set. Returns `None`
/// for a negative number, and for bytes that are no number.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    match field.split_first()? {
        (0x80, rest) => {
            let high = rest.len().saturating_sub(8);
            if rest[..high].iter().any(|&byte| byte != 0) {
                return None;
            }
            Some(
                rest[high..]
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            )
        }
        _ => {
            let text = std::str::from_utf8(field).ok()?;
            match text.trim_matches(['\0', ' ']) {
                "" => Some(0),
                digits => u64::from_str_radix(digits, 8).ok(),
            }
        }
    }
}

/// Appends a record of pax. The length at its begin counts itself.
pub(crate) fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    // A blank, an equals sign and a line feed.
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    to.extend(format!("{length} {key}=").as_bytes());
    to.extend(value);
    to.push(b'\n');
}

/// Parses the records of a pax header. Returns `None` if they are malformed.
pub(crate) fn records(mut text: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut list = Vec::new();
    while !text.is_empty() {
        let blank = text.iter().position(|&byte| byte == b' ')?;
        let length: usize = std::str::from_utf8(&text[..blank]).ok()?.parse().ok()?;
        if length <= blank + 1 || length > text.len() || text[length - 1] != b'\n' {
            return None;
        }
        let body = &text[blank + 1..length - 1];
        let equals = body.iter().position(|&byte| byte == b'=')?;
        let key = std::str::from_utf8(&body[..equals]).ok()?.to_owned();
        list.push((key, body[equals + 1..].to_vec()));
        text = &text[length..];
    }
    Some(list)
}

/// Parses a time of pax: seconds, perhaps negative, with a fraction.
pub(crate) fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    match (whole.starts_with('-'), nanoseconds) {
        (true, 1..) => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds)),
        _ => Some((seconds, nanoseconds)),
    }
}

/// Returns a time as a value of pax.
pub(crate) fn time_text((seconds, nanoseconds): (i64, u32)) -> String {
    match (seconds, nanoseconds) {
        (_, 0) => seconds.to_string(),
        (..0, _) => format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanoseconds),
        _ => format!("{seconds}.{nanoseconds:09}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"     12 "), Some(10));
        assert_eq!(number(b"\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\0\0\0\x01\0"), Some(256));
        for wrong in [
            &b"9"[..],
            b"\xff\xff\xff",
            b"12x",
            b"\x80\x01\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(number(wrong), None);
        }
    }

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for size in [0, 1, 80, 90, 91, 92, 980, 990, 991, 992] {
            let mut text = Vec::new();
            record(&mut text, "path", &vec![b'x'; size]);
            record(&mut text, "size", b"1");
            let list = records(&text).unwrap();
            assert_eq!((list.len(), list[0].1.len()), (2, size));
        }
        for wrong in [
            &b"5 a=b\n"[..],
            b"x a=b\n",
            b"6 a=b",
            b"2 \n",
            b"99 a=b\n",
            b"6 aab\n",
        ] {
            assert_eq!(records(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn times_read_back_as_written(seconds in -10_i64.pow(11)..10_i64.pow(11), nanos in 0_u32..1_000_000_000) {
            prop_assert_eq!(time(time_text((seconds, nanos)).as_bytes()), Some((seconds, nanos)));
        }

        #[test]
        fn any_records_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (records(&bytes), time(&bytes), number(&bytes));
        }
    }
}
