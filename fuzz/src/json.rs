//! State files of active zones (`r` and the text), and boot requests to zoneadmd (`i` and the
//! text): an accepted text, written and read again, is equal.

use std::fmt::Debug;

use model::plan::Init;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::runtime::Runtime;

/// Texts that a release wrote. Later releases must read them, because zones keep running during an
/// upgrade.
const TEXTS: &[&str] = &[
    r#"r{"id":1000,"state":"running","init":{"pid":4711,"started":17},"daemon":{"pid":4710,"started":16},"cgroups":["/sys/fs/cgroup/zones/web1"],"first_id":536870912,"shutdown_signal":30,"capabilities":1,"seccomp":[6],"environment":["container=zone"]}"#,
    r#"i{"path":"/sbin/init","arguments":["init"],"environment":["a=b"]}"#,
];

/// Returns a seed of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = TEXTS.iter();
    texts.map(|text| text.as_bytes().to_vec()).collect()
}

/// Checks one text.
///
/// # Panics
/// Panics if the text is a finding.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((b'r', text)) => reads_back::<Runtime>(text),
        Some((b'i', text)) => reads_back::<Init>(text),
        _ => {}
    }
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(text) else {
        return;
    };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_files_are_read_after_an_upgrade() {
        for text in TEXTS {
            let (tag, text) = text.split_at(1);
            let error = match tag {
                "r" => serde_json::from_str::<Runtime>(text).err(),
                _ => serde_json::from_str::<Init>(text).err(),
            };
            assert!(error.is_none(), "{error:?}");
        }
    }
}
