//! Keys, and authenticated encryption with them.
//!
//! An image has a random key of its own, which is used for this image only. The key of the image is
//! sealed with the caller's key. Under the image's key, each nonce is used once: the nonce of a
//! chunk is the number of the chunk, and no chunk is sealed twice. Under the caller's key, nonces
//! are random and have 96 bits, which is sufficient for 2^32 images.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Number of bytes that sealing adds.
pub const TAG_BYTES: usize = 16;

/// The reason why bytes are not a key, or cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes are neither 32 bytes nor a text that represents 32 bytes.
    #[error("a key is 32 bytes, 64 hexadecimal digits, or base64")]
    Form,
    /// The bytes were not sealed with this key, nonce and additional data.
    #[error("the seal is broken")]
    Broken,
    /// The system has no random numbers, or the message is too long.
    #[error("cannot encrypt")]
    Failed,
}

/// A key of 256 bits. The memory of the key is overwritten when the key is dropped.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Returns the key in the content of a key file: 32 bytes, 64 hexadecimal digits, or base64.
    /// White space around the text is allowed.
    ///
    /// # Errors
    /// Fails with [`KeyError::Form`] for any other content.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        if let Ok(key) = <[u8; 32]>::try_from(bytes) {
            return Ok(Self(key));
        }
        let digits = bytes.trim_ascii();
        let mut key = Self([0; 32]);
        match digits.strip_suffix(b"=") {
            Some(letters) if letters.len() == 43 => {
                return key.read_base64(letters).map(|()| key);
            }
            _ => {}
        }
        if digits.len() != 64 {
            return Err(KeyError::Form);
        }
        for (byte, pair) in key.0.iter_mut().zip(digits.chunks(2)) {
            let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(KeyError::Form);
            let value = digit(pair[0])? << 4 | digit(pair[1])?;
            *byte = u8::try_from(value).map_err(|_| KeyError::Form)?;
        }
        Ok(key)
    }

    /// Decodes 43 base64 letters. The last letter has two bits more than the key needs.
    fn read_base64(&mut self, letters: &[u8]) -> Result<(), KeyError> {
        let (mut word, mut bits, mut bytes) = (0_u32, 0, self.0.iter_mut());
        for letter in letters {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(KeyError::Form),
            };
            word = word << 6 | u32::from(value);
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                let [.., byte] = (word >> bits).to_be_bytes();
                *bytes.next().ok_or(KeyError::Form)? = byte;
                word &= (1 << bits) - 1;
            }
        }
        match word {
            0 => Ok(()),
            _ => Err(KeyError::Form),
        }
    }

    /// Returns a random key.
    ///
    /// # Errors
    /// Fails with [`KeyError::Failed`] if the system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        random().map(Self)
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Key {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fill(0);
        // The compiler must not assume that the bytes are never read.
        std::hint::black_box(&self.0);
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Returns random bytes from the kernel.
///
/// # Errors
/// Fails with [`KeyError::Failed`] if the kernel has no random numbers.
pub fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    // For 256 bytes or less, getrandom(2) returns all bytes or fails.
    match got {
        Ok(count) if count == N => Ok(bytes),
        _ => Err(KeyError::Failed),
    }
}

/// Authenticated encryption: the only functions that this crate needs of a cryptographic library.
pub trait Cipher: Send + Sync {
    /// Encrypts the text in place and returns the authentication tag, which also covers `aad`.
    ///
    /// # Errors
    /// Fails with [`KeyError::Failed`] if the text is too long.
    fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], KeyError>;

    /// Decrypts `sealed`, which ends with its tag, in place. Returns the text.
    ///
    /// # Errors
    /// Fails with [`KeyError::Broken`] if the bytes differ from the sealed bytes. The content of
    /// `sealed` is then useless.
    fn open<'a>(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], KeyError>;
}

/// AES-256-GCM. The program finds out at run time if the processor has instructions for AES.
pub(crate) struct Gcm(LessSafeKey);

impl Gcm {
    pub(crate) fn new(key: &Key) -> Result<Self, KeyError> {
        // The library calls this type "less safe" because the caller must choose the nonces. The
        // documentation of this module says why each nonce is used once.
        let key = UnboundKey::new(&AES_256_GCM, &key.0).map_err(|_| KeyError::Failed)?;
        Ok(Self(LessSafeKey::new(key)))
    }
}

impl Cipher for Gcm {
    fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], KeyError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(aad), text);
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.map_err(|_| KeyError::Failed)?.as_ref());
        Ok(bytes)
    }

    fn open<'a>(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], KeyError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = self.0.open_in_place(nonce, Aad::from(aad), sealed);
        text.map_err(|_| KeyError::Broken)
    }
}

/// Returns the cipher of images with this key, for callers that measure the speed of the cipher.
///
/// # Errors
/// Fails with [`KeyError::Failed`] if the library refuses the key.
pub fn cipher(key: &Key) -> Result<impl Cipher + use<>, KeyError> {
    Gcm::new(key)
}

/// The use of a nonce under the image's key; two uses never share a nonce.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Chunk = 0,
    Index = 1,
    End = 2,
}

/// Returns the nonce for an object that is sealed under the image's key.
pub(crate) fn nonce(purpose: Purpose, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&(purpose as u32).to_le_bytes());
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_or_digits() {
        let digits = "00ff".repeat(16);
        let key = Key::parse(digits.as_bytes()).unwrap();
        assert_eq!(key.bytes()[..4], [0, 0xff, 0, 0xff]);
        let again = Key::parse(format!("{digits}\n").as_bytes()).unwrap();
        assert_eq!(again.bytes(), key.bytes());
        assert_eq!(Key::parse(key.bytes()).unwrap().bytes(), key.bytes());
        let base64 = "AP8A/wD/AP8A/wD/AP8A/wD/AP8A/wD/AP8A/wD/AP8=";
        for text in [base64, &format!(" {base64}\r\n"), &format!("\t{digits} \n")] {
            assert_eq!(Key::parse(text.as_bytes()).unwrap().bytes(), key.bytes());
        }
        let long = base64.replace("8=", "9=");
        let text = base64.replace('/', "!");
        let wrong = [
            &b""[..],
            &[b'0'; 63],
            &[b'g'; 64],
            &[0; 31],
            long.as_bytes(),
            text.as_bytes(),
            &base64.as_bytes()[..43],
        ];
        for wrong in wrong {
            assert_eq!(Key::parse(wrong).unwrap_err(), KeyError::Form);
        }
        assert_eq!(format!("{key:?}"), "Key");
        assert_ne!(
            Key::random().unwrap().bytes(),
            Key::random().unwrap().bytes()
        );
    }

    #[test]
    fn the_cipher_is_aes_256_gcm() {
        // Test case 16 of the specification of GCM (McGrew and Viega).
        let hex = |text: &str| -> Vec<u8> {
            let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            (0..text.len()).step_by(2).map(digit).collect()
        };
        let key = Key::parse(b"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let cipher = Gcm::new(&key.unwrap()).unwrap();
        let nonce: [u8; 12] = hex("cafebabefacedbaddecaf888").try_into().unwrap();
        let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let mut text = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let plain = text.clone();
        let tag = cipher.seal(nonce, &aad, &mut text).unwrap();
        assert_eq!(tag.to_vec(), hex("76fc6ece0f4e1768cddf8853bb2d551b"));
        text.extend(tag);
        let mut changed = text.clone();
        assert_eq!(*cipher.open(nonce, &aad, &mut text).unwrap(), plain);
        changed[3] ^= 1;
        assert!(cipher.open(nonce, &aad, &mut changed).is_err());
    }
}
