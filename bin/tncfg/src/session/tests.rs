use std::fs;

use model::Config;
use store::index::{self, Entry};

use super::*;
use crate::command::split;

const NAMES: &str = include_str!("../../../../crates/label/tests/label_encodings");

/// A host with the zones `web`, which has a label, and `plain`, which has none.
fn host_with_zones() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    fs::create_dir_all(root.etc()).unwrap();
    fs::create_dir_all(root.run()).unwrap();
    fs::write(root.label_encodings(), NAMES).unwrap();
    for (name, label) in [("web", Some("0x0004-08-68")), ("plain", None)] {
        let name: ZoneName = name.parse().unwrap();
        let mut config = Config::new(name.clone());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        if let Some(label) = label {
            config.set(model::config::LABEL, label).unwrap();
        }
        xml::save(&root, &config).unwrap();
        index::update(&root, |index| {
            index.put(Entry::configured(name, "/zones/x".into()));
            Ok::<(), store::Error>(())
        })
        .unwrap();
    }
    (folder, root)
}

fn run(session: &mut Session, text: &str) -> Result<String, String> {
    let mut said = String::new();
    for part in split(text) {
        let done = Command::read(part).and_then(|command| session.run(&command));
        match done.map_err(|error| format!("{error:#}"))? {
            Flow::On(text) => said.push_str(&text),
            Flow::Exit => break,
        }
    }
    Ok(said)
}

const LAN: &str = "create -t lan; set def_label=CNF NTK; add host=192.0.2.0/24; add host=::1";

#[test]
fn an_export_makes_the_same_templates_and_ports_again() {
    let (_folder, root) = host_with_zones();
    let mut session = Session::open(root.clone()).unwrap();
    run(&mut session, LAN).unwrap();
    run(
        &mut session,
        "create -t dns; set host_type=multilevel; set min_label=PUBLIC; \
         set max_label=ADMIN_HIGH; add host=192.0.2.53; \
         select -z web; add mlp_private=80/tcp; add mlp_shared=53-60/udp",
    )
    .unwrap();
    let exported = run(&mut session, "export").unwrap();
    let mut other = Session::open(root).unwrap();
    for line in exported.lines() {
        run(&mut other, line).unwrap();
    }
    assert_eq!(other.settled().unwrap(), session.settled().unwrap());
    assert_eq!(run(&mut other, "verify").unwrap(), "");
    assert_eq!(
        run(&mut other, "list").unwrap(),
        "TEMPLATE         HOST_TYPE  LABEL                       HOSTS\n\
         dns              multilevel PUBLIC to ADMIN_HIGH        192.0.2.53/32\n\
         lan              unlabeled  CONFIDENTIAL : NEED TO KNOW 192.0.2.0/24,::1/128\n\
         ZONE             MLP_PRIVATE              MLP_SHARED\n\
         web              80/tcp                   53-60/udp\n"
    );
    assert_eq!(
        run(
            &mut other,
            "get host=192.0.2.53; get host=192.0.2.54; get host=192.0.3.1"
        )
        .unwrap(),
        "192.0.2.53: template dns by host 192.0.2.53/32\n\
         192.0.2.54: template lan by host 192.0.2.0/24\n\
         192.0.3.1: no template, so all labels are refused\n"
    );
    assert_eq!(
        run(&mut other, "select -z web; info").unwrap(),
        "zone: web\n\tlabel: CONFIDENTIAL : NEED TO KNOW\n\tmlp_private: 80/tcp\n\tmlp_shared: 53-60/udp\n"
    );
}

#[test]
fn a_bad_command_names_the_reason() {
    for (text, why) in [
        ("set def_label=PUBLIC", "nothing is selected"),
        ("select -t a; set def_label=NOBODY", "label 'NOBODY'"),
        ("select -t a; set host_type=cipso", "host_type 'cipso'"),
        ("select -t a; set host=10.0.0.1", "host is a list"),
        ("select -t a; set doi=1", "unknown property 'doi'"),
        (
            "select -t a; add host=10.0.0.1; list",
            "def_label is not set",
        ),
        ("select -t a/b", "template name 'a/b'"),
        ("select -z nobody", "nobody: No such zone configured"),
        ("select -z web; set label=PUBLIC", "is set by zonecfg"),
        ("select -z web; add mlp_private=0/tcp", "port '0/tcp'"),
        (
            "select -z web; remove mlp_private=80/tcp",
            "there is no mlp_private=80/tcp",
        ),
        (
            "select -z web; add mlp_private=80/tcp; add mlp_shared=80/tcp; verify",
            "ports 80/tcp and 80/tcp overlap",
        ),
        (
            "select -z plain; add mlp_private=80/tcp; verify",
            "zone plain has no label",
        ),
        (
            "select -t a; set def_label=ADMIN_LOW; verify",
            "def_label is a label of the host",
        ),
        ("delete -t a", "template a: no such template"),
        ("delete", "nothing is selected"),
    ] {
        let (_folder, root) = host_with_zones();
        let mut session = Session::open(root.clone()).unwrap();
        let error = run(&mut session, text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
        assert!(!root.label_network().exists(), "{text}");
    }
    let (_folder, root) = host_with_zones();
    let mut session = Session::open(root).unwrap();
    let error = run(&mut session, &format!("{LAN}; create -t lan")).unwrap_err();
    assert!(error.contains("template lan exists"), "{error}");
}

#[test]
fn a_label_that_lost_its_name_is_a_problem() {
    let (_folder, root) = host_with_zones();
    let mut session = Session::open(root.clone()).unwrap();
    run(&mut session, LAN).unwrap();
    fs::write(
        root.label_encodings(),
        NAMES.replace("value= 4;", "value= 9;"),
    )
    .unwrap();
    let error = run(&mut session, "verify").unwrap_err();
    assert!(error.starts_with("template lan: label "), "{error}");
    assert_eq!(run(&mut session, "revert; verify; list").unwrap(), "");
}
