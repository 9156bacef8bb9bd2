//! The file `/etc/zones/tncfg`: an accepted file, written and read again, is equal and within its
//! bounds.

use std::path::Path;

use label::Label;
use store::labels::network::{MAX_HOSTS, MAX_PORTS, MAX_TEMPLATES, Network};

const PATH: &str = "tncfg";

/// Returns files with each property.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        "# format: 1\n\
         template lan host_type=unlabeled def_label=0x0001-08-00 host=192.0.2.0/24 host=2001:db8::/32\n\
         template dns host_type=multilevel min_label=0x0001-08-00 max_label=ADMIN_HIGH host=192.0.2.53\n\
         zone web mlp_private=80/tcp mlp_private=8000-8010/udp mlp_shared=443/tcp\n",
        "template all def_label=0x0004-08-60 host=::/0 host=0.0.0.0/0\n# a comment\n\n\
         template one def_label=0x0004-08-60 host=::1\n",
        "template far host_type=multilevel def_label=0x0004-08-68 min_label=0x0000-08-00 \
         max_label=0x7fff-08-ffffffff\nzone db mlp_shared=1-65535/tcp\nzone web mlp_shared=53/udp\n",
        "template lan def_label=0x0001-08-00 host=192.0.2.1/24\n",
    ];
    files.iter().map(|file| file.as_bytes().to_vec()).collect()
}

/// Checks one file.
///
/// # Panics
/// Panics if the file is a finding.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let network = match Network::parse(text, Path::new(PATH)) {
        Ok(network) => network,
        Err(error) => return assert_message(&error.to_string()),
    };
    let written = network.render();
    let again = Network::parse(&written, Path::new(PATH));
    let again = again.unwrap_or_else(|error| panic!("{error} in:\n{written}"));
    assert_eq!(again, network);

    let templates = network.templates();
    assert!(templates.len() <= MAX_TEMPLATES);
    let hosts: usize = templates.iter().map(|one| one.hosts.len()).sum();
    assert!(hosts <= MAX_HOSTS);
    for ports in network.zones() {
        assert!((1..=MAX_PORTS).contains(&ports.all().count()));
    }
    for template in templates {
        // No zone has a label of the host, but a template can name one as a bound.
        let labels = [template.def_label, template.min_label, template.max_label];
        let labels = labels.into_iter().flatten();
        let all = labels.chain([Label::ADMIN_LOW, Label::ADMIN_HIGH]);
        for label in all {
            let remotes = network.remotes(label);
            for host in &template.hosts {
                // The kernel compares the longest prefix, too.
                let (found, network) = network.decides(host.ip).expect("a host of a template");
                assert!(network.prefix >= host.prefix);
                let admitted = found.admits(label);
                assert!(remotes.contains(&(network, admitted)), "{host} {label}");
            }
        }
    }
}

/// The message names the file and is safe for a terminal.
fn assert_message(text: &str) {
    let is_named = text.starts_with("tncfg:") || text.starts_with("tncfg has format ");
    assert!(is_named, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
