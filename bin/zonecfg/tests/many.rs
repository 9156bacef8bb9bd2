//! Many sessions at once on one zone, and commits that are killed.

mod common;

use std::process::{Child, Output};
use std::time::Duration;

use common::Host;
use model::Config;

fn stored(host: &Host) -> Config {
    store::xml::load(&host.root(), &"web1".parse().unwrap()).unwrap()
}

#[test]
fn concurrent_changes_are_each_made_or_refused() {
    let host = Host::with_web1();
    let commands: Vec<String> = (0..100)
        .map(|i| format!("add attr; set name=a{i}; set type=int; set value={i}; end"))
        .collect();
    let children: Vec<Child> = commands
        .iter()
        .map(|command| host.command(&["-z", "web1", command]).spawn().unwrap())
        .collect();
    let ran: Vec<Output> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let config = stored(&host);
    let mut made = 0;
    for (i, output) in ran.iter().enumerate() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let is_there = config.attr(&format!("a{i}")).is_some();
        assert_eq!(output.status.success(), is_there, "a{i}: {errors}");
        made += usize::from(is_there);
        if !is_there {
            assert_eq!(output.status.code(), Some(1), "a{i}: {errors}");
            let reason = errors.contains("may have an operation in progress")
                || errors.contains("another session changed");
            assert!(reason, "a{i}: {errors}");
        }
    }
    assert!(made > 0);
    assert_eq!(config.resources().len(), made);
}

#[test]
fn a_change_that_is_killed_is_made_or_not_made() {
    let host = Host::with_web1();
    let mut cut = 0;
    for round in 0..150u64 {
        let before = stored(&host);
        // The configuration is so large that writing it takes a while.
        let fill = "x".repeat(1500);
        let commands: String = (0..20)
            .map(|i| {
                format!("add attr; set name=r{round}-{i}; set type=string; set value={fill}; end; ")
            })
            .collect();
        let commands = format!("remove -F attr; {commands} set bootargs={round}");
        let mut child = host.command(&["-z", "web1", &commands]).spawn().unwrap();
        // The kill happens after the start and, on most machines, before the end of the commit.
        std::thread::sleep(Duration::from_micros(round * 100));
        child.kill().unwrap();
        cut += u32::from(!child.wait().unwrap().success());
        let after = stored(&host);
        if after != before {
            assert_eq!(after.bootargs(), round.to_string());
            assert_eq!(after.resources().len(), 20);
        }
        let index = store::index::Index::load(&host.root()).unwrap();
        assert_eq!(index.entries().len(), 1);
    }
    assert!(cut > 0, "nothing was killed in time");
    // No leftover of a killed commit prevents the next commit.
    assert_eq!(
        host.status(&["-z", "web1", "remove -F attr; set bootargs=end"]),
        0
    );
    assert_eq!(stored(&host).bootargs(), "end");
}
