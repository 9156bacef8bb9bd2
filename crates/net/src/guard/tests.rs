//! The instructions of the programs, compared with files in `snapshots`: a change of a program has
//! to be read before it is loaded into a kernel.

use std::io::stdin;
use std::os::fd::AsFd;

use sys::bpf::listing::extended;

use super::{Guard, Verdict, inbound, program};

/// Lists the program of a guard. Any descriptor will do for the map: the listing leaves it out.
fn listed(guard: &Guard) -> String {
    extended(&program(guard, stdin().as_fd()))
}

#[test]
fn a_guard_without_rules() {
    let text = listed(&Guard::default());
    insta::assert_snapshot!(text);
}

#[test]
fn a_guard_that_tags_and_polices() {
    let text = listed(&Guard {
        vlan: Some(100),
        priority: Some(6),
        rate: Some(1_250_000),
        to: Verdict::Device(7),
        ..Guard::default()
    });
    insta::assert_snapshot!(text);
}

#[test]
fn an_inbound_program_of_a_vlan() {
    insta::assert_snapshot!(extended(&inbound(Some(100), 7)));
}

#[test]
fn an_inbound_program_without_a_vlan() {
    insta::assert_snapshot!(extended(&inbound(None, 7)));
}
