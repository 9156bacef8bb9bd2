//! Base64 of RFC 4648, as the agent's protocol carries bytes.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the base64 text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = 0u32;
        for at in 0..3 {
            word = word << 8 | u32::from(group.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            let letter = (word >> (18 - 6 * at)) & 63;
            text.push(match at <= group.len() {
                true => char::from(LETTERS[letter as usize]),
                false => '=',
            });
        }
    }
    text
}

/// Returns the bytes of a base64 text; `None` if the text is not valid base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if text.len() % 4 != 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let last = text.len() / 4;
    for (number, group) in text.chunks(4).enumerate() {
        let filled = group.iter().rev().skip_while(|&&c| c == b'=').count();
        if filled < 2 || (filled < 4 && number + 1 != last) {
            return None;
        }
        let mut word = 0u32;
        for letter in &group[..filled] {
            let value = LETTERS.iter().position(|known| known == letter)?;
            word = word << 6 | u32::try_from(value).ok()?;
        }
        word <<= 6 * (4 - filled);
        bytes.extend_from_slice(&word.to_be_bytes()[1..filled]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn examples_of_rfc_4648_encode_and_decode() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), plain.as_bytes());
        }
        for bad in ["Zg", "Z===", "====", "Zg==Zg==", "Z g=", "Zm9\u{e9}"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_encode_and_decode_to_themselves(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn anything_is_read_without_panic(text: String) {
            let _ = decode(&text);
        }
    }
}
