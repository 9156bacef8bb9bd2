//! The file of a zone cluster (`f`), and the report of a host (`r`).

use clzc::{Document, HostReport};
use model::ZoneName;

const COMMANDS: &str = "create -b\nset zonepath=/zones/pg\nset ip-type=exclusive\nadd anet\nset lower-link=br0\nend\n\
    add node\nset physical-host=host1\nset hostname=pg1\nadd anet\nset allowed-address=10.0.0.1/24\nend\nend\n\
    add node\nset physical-host=host2\nset hostname=pg2\nend\n";

/// Returns a seed of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let head = format!(
        "# format: 1\n# generation: 7\n# ring-key: {}\n",
        "a5".repeat(clzc::KEY_BYTES)
    );
    let report = r#"r{"version":{"generation":3,"digest":"ab"},"state":"running","brand":"native","quorate":true}"#;
    let texts = [
        format!("f{head}{COMMANDS}"),
        format!("f{head}# deleted\n"),
        report.to_owned(),
    ];
    texts.map(String::into_bytes).into()
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
        b'f' => {
            let name: ZoneName = "pg".parse().expect("a name");
            let Ok(read) = Document::read(&name, &text) else {
                return;
            };
            assert_eq!(Document::read(&name, &read.text()).as_ref(), Ok(&read));
            if let Some(cluster) = &read.cluster {
                // Neither fails on an incomplete zone cluster.
                let _ = (cluster.problems(), clzc::ring(cluster));
            }
        }
        _ => {
            if let Ok(read) = HostReport::read(&text) {
                assert_eq!(HostReport::read(&read.text()).ok(), Some(read));
            }
        }
    }
}
