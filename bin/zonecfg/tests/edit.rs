//! set, clear, add, end, cancel, select, remove.

mod common;

use common::Host;
use model::State;

const FS: &str =
    "add fs; set dir=/data; set special=/srv; set type=lofs; add options [ro,nosuid]; end";

#[test]
fn set_and_clear() {
    let host = Host::with_web1();
    insta::assert_snapshot!(host.transcript(&[
        "set zonepath=/export/web1; set autoboot=true; set bootargs=\"-m verbose\"; set limitpriv=default,sys_time",
        "set hostid=80f0c086; set fs-allowed=ext4,tmpfs; set ip-type=exclusive; set scheduling-class=FSS",
        "info",
        "clear autoboot; clear ip-type; clear hostid; set bootargs=",
        "info",
        "clear zonepath",
        "clear brand; clear colour",
        "set zonepath=relative; set zonepath=/; set zonepath=/%{id}",
        "set autoboot=yes; set brand=hurd; set hostid=ffffffff; set ip-type=both",
        "set colour=red",
        "set bootargs=[a]; set zonepath",
        "set bootargs=a b",
    ]));
}

#[test]
fn resources() {
    let host = Host::with_web1();
    insta::assert_snapshot!(host.transcript(&[
        FS,
        FS,
        "info fs",
        "select fs dir=/data; set special=/export; remove options ro; add options \"uid=7\"; end",
        "info fs dir=/data",
        "select fs dir=/none",
        "add attr; set name=n; set type=int; set value=x; end",
        "add attr; set name=zoneish",
        "add attr; set name=n; set type=uint; set value=7; end; add attr; set name=c; set type=string; set value=\"two words\"; end",
        "info attr name=n",
        "select attr",
        "remove attr",
        "remove attr name=n; remove attr",
        "info attr",
        "add inherit-pkg-dir; set dir=/opt; end; info inherit-pkg-dir",
        "remove -F fs; remove fs",
        "add bogus",
        "add fs; cancel; cancel",
        "add fs; create -b",
    ]));
}

#[test]
fn an_installed_zone_refuses_changes_of_its_files() {
    let host = Host::with_web1();
    host.set_state("web1", State::Installed);
    insta::assert_snapshot!(host.transcript(&[
        "set zonepath=/elsewhere",
        "set brand=lx",
        "add inherit-pkg-dir",
        "set autoboot=true",
        "set zonename=web2",
    ]));
    // The files stay where they are.
    let index = std::fs::read_to_string(host.root().index()).unwrap();
    assert!(
        index.ends_with("\nweb2:installed:/zones/web1:\n"),
        "{index}"
    );
}

#[test]
fn foreign_brand_names_are_kept() {
    let host = Host::new();
    let mut transcript = String::new();
    for brand in ["solaris", "ipkg", "lipkg"] {
        let words = format!("create -b -F; set brand={brand}; info brand; export");
        transcript.push_str(&host.run(&["-z", "web1", &words]));
    }
    insta::assert_snapshot!(transcript);
    assert_eq!(
        host.status(&["-z", "web2", "create -b; set brand=sparse"]),
        0
    );
    let config = store::xml::load(&host.root(), &"web2".parse().unwrap()).unwrap();
    assert!(config.inherited_dirs().contains(&"/usr".into()));
}
