//! Names of labels (`e`, an encodings file), and labels as text (`t`) and in hexadecimal (`h`).

use label::{Encodings, Label};

const EXAMPLE: &str = include_str!("../../crates/label/tests/label_encodings");

/// Returns a seed of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "tCNF : NEED TO KNOW",
        "tTOP SECRET ALPHA REL NORTH/SOUTH",
        "tts staff only",
        "tadmin_high",
        "h0x0004-08-68",
        "h0X7fff-08-ffffffff",
    ];
    let files = [
        format!("e{EXAMPLE}"),
        format!("e{}", EXAMPLE.to_lowercase()),
    ];
    let texts = texts.iter().map(|text| (*text).to_owned());
    texts.chain(files).map(String::into_bytes).collect()
}

/// Checks one input.
///
/// # Panics
/// Panics if the input is a finding.
pub fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match kind {
        b'e' => match Encodings::read(&text) {
            Ok(names) => {
                assert!(names.classifications().count() > 0);
                for (name, value) in names.classifications() {
                    assert_ne!(value, 0);
                    if let Ok(label) = names.parse(name) {
                        assert_same(&names, label);
                    }
                    for word in names.words().take(16) {
                        if let Ok(label) = names.parse(&format!("{name} {word}")) {
                            assert_same(&names, label);
                        }
                    }
                }
            }
            Err(error) => {
                assert!(error.line <= text.lines().count() + 1, "{error}");
                assert_message(&error.to_string());
            }
        },
        b't' => {
            let Ok(names) = Encodings::read(EXAMPLE) else {
                return;
            };
            match names.parse(&text) {
                Ok(label) => assert_same(&names, label),
                Err(error) => assert_message(&error.to_string()),
            }
        }
        _ => match text.parse::<Label>() {
            Ok(label) => assert_eq!(label.to_string().parse(), Ok(label)),
            Err(error) => assert_message(&error.to_string()),
        },
    }
}

/// The label has a text that is read as the same label.
fn assert_same(names: &Encodings, label: Label) {
    assert_eq!(names.parse(&names.text(label)), Ok(label));
    assert_eq!(names.parse(&names.short_text(label)), Ok(label));
    assert!(label.is_within(Label::ADMIN_LOW, Label::ADMIN_HIGH));
}

fn assert_message(text: &str) {
    assert!(
        !text.is_empty() && !text.chars().any(char::is_control),
        "{text:?}"
    );
}
