//! The reader of the index of zones: an accepted index, written and read again, is equal.

use store::index::Index;

const UUID: &str = "7e2a0c52-9f0f-4c1b-8a2f-3f2b8a0f6c11";

/// Returns some indexes.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "# a comment\nglobal:installed:/\n".to_owned(),
        "web1:configured:/zones/web1:\n".to_owned(),
        format!("web1:installed:/zones/web1:{UUID}:0\ndb:incomplete:\"/zones/a:b\":{UUID}:15\n"),
    ];
    lines.into_iter().map(String::into_bytes).collect()
}

/// Checks one file.
///
/// # Panics
/// Panics if the file is a finding.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Index::parse(text, "index".as_ref()) {
        Ok(index) => {
            let written = index.render();
            let again = Index::parse(&written, "index".as_ref());
            let again = again.unwrap_or_else(|error| panic!("{error} in:\n{written}"));
            assert_eq!(again.entries(), index.entries());
            for entry in index.entries() {
                assert_eq!(index.find(&entry.name), Some(entry));
                assert_ne!(entry.first_id(), Some(0));
            }
        }
        Err(error) => {
            let text = error.to_string();
            let is_named = text.starts_with("index:") || text.starts_with("index has format ");
            assert!(is_named, "{text}");
        }
    }
}
