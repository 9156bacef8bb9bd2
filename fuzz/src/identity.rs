//! The file `.identity` of a zonepath, which may come from another host: all bytes have a content,
//! and the content, written and read again, is equal.

use store::identity::{self, Identity};

const UUID: &str = "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10";

/// Returns a file of each format.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        format!("format=1\nuuid={UUID}\nhost=b\n"),
        format!(
            "format=2\nuuid={UUID}\nslot=3\nhost=one\nowner={UUID}\ngeneration=4\nsince=1764100000\n"
        ),
        format!(
            "format=2\nslot=70000\nhost=\u{1b}[31m\ngeneration=1\nconfiguration=2\n\n<zone>\n\n</zone>\nuuid={UUID}\n"
        ),
    ];
    files.into_iter().map(String::into_bytes).collect()
}

/// Checks one file.
///
/// # Panics
/// Panics if the file is a finding.
pub fn check(data: &[u8]) {
    let found = identity::parse(&String::from_utf8_lossy(data));
    if let Some(host) = &found.host {
        assert_eq!(identity::plain_name(host).as_ref(), Some(host));
    }
    let again = identity::parse(&found.text());
    assert!(again.is_current());
    let expected = Identity {
        format: again.format,
        ..found
    };
    assert_eq!(again, expected);
}
