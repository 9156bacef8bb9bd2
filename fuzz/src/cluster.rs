//! The file of a zone cluster (`f`), the report of a host (`r`), a fence request of a zone (`q`), and Pacemaker's view (`v`).

use cluster::View;
use clzc::{Document, FenceRequest, HostReport};
use model::ZoneName;

const COMMANDS: &str = "create -b\nset zonepath=/zones/pg\nset ip-type=exclusive\nadd anet\nset lower-link=br0\nend\n\
    add node\nset physical-host=host1\nset hostname=pg1\nadd anet\nset allowed-address=10.0.0.1/24\nend\nend\n\
    add node\nset physical-host=host2\nset hostname=pg2\nend\n";

const VIEW: &str = r#"v<pacemaker-result><summary><current_dc with_quorum="true"/><cluster_options stonith-enabled="true"/></summary>
<nodes><node name="c" online="false" unclean="false" pending="false" type="member"/></nodes><fence_history><fence_event
action="reboot" target="c" status="success" completed="2026-11-26 02:19:30Z"/></fence_history></pacemaker-result>"#;

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
        "qfence off pg2".to_owned(),
        "qfence list".to_owned(),
        VIEW.to_owned(),
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
        b'q' => {
            let Ok(words) = control::beadm_socket::read_request(bytes) else {
                return;
            };
            if let Ok(read) = FenceRequest::read(&words[1..]) {
                assert_eq!(FenceRequest::read(&read.words()).as_ref(), Ok(&read));
                // A request reaches the other host as words of a shell.
                let quoted = clzc::quoted(&read.words());
                assert_eq!(quoted.split(' ').count(), read.words().len());
                assert!(!quoted.contains(['/', '\'', '$', ';']));
            }
        }
        b'v' => {
            if let Ok(view) = View::read(&text) {
                let proven = view.is_fenced("c", 0);
                assert!(!proven || (view.quorum && view.fencing && !view.fencings.is_empty()));
            }
        }
        _ => {
            if let Ok(read) = HostReport::read(&text) {
                assert_eq!(HostReport::read(&read.text()).ok(), Some(read));
            }
        }
    }
}
