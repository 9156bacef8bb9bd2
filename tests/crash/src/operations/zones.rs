//! Commands after a kill, and the states in which they may find a zone.

use e2e::{Host, Ran, wait_for};

/// Repeats a command while processes of a killed command still block it for a moment: they may end
/// by themselves.
#[track_caller]
pub(super) fn again(host: &Host, zone: &str, words: &[&str]) -> Ran {
    wait_for(
        &format!("end of what zoneadm -z {zone} {words:?} waits for"),
        || {
            let ran = host.on(zone, words);
            (!ran
                .err
                .contains("another zoneadm may have an operation in progress"))
            .then_some(ran)
        },
    )
}

/// As [`again`], for a command that must succeed.
#[track_caller]
pub(super) fn goes_on(host: &Host, zone: &str, words: &[&str]) {
    let ran = again(host, zone, words);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}

/// Expects that a zone is in one of these states when no process works on it any more; returns the
/// state.
#[track_caller]
pub(super) fn settled(host: &Host, zone: &str, states: &[&str]) -> String {
    let state = wait_for("a state that stays", || {
        let state = host.state(zone);
        let passes = ["shutting_down", "down"].contains(&state.as_str());
        (!passes).then_some(state)
    });
    assert!(states.contains(&state.as_str()), "zone {zone} is {state}");
    // The kernel agrees with the state in the index.
    if state == "running" {
        wait_for("one first process of the zone", || {
            (host.inits_of(zone).len() == 1).then_some(())
        });
    } else if state != "ready" {
        wait_for(&format!("end of the zone, which is {state}"), || {
            (host.inits_of(zone).is_empty() || host.state(zone) != state).then_some(())
        });
    }
    if ["installed", "running", "ready"].contains(&state.as_str()) {
        assert!(
            // Between two top layers, the next command takes the new one.
            host.top(zone).exists() || host.top(zone).with_file_name("root.new").exists(),
            "zone {zone} is {state} and has no root"
        );
    }
    host.state(zone)
}

/// Uninstalls an incomplete zone; this must succeed.
#[track_caller]
pub(super) fn mend(host: &Host, zone: &str) {
    if host.state(zone) == "incomplete" {
        again(host, zone, &["uninstall", "-F"]).quiet();
    }
}

/// Uninstalls a zone in any state.
#[track_caller]
pub(super) fn remove(host: &Host, zone: &str) {
    if ["running", "ready", "shutting_down", "down"].contains(&host.state(zone).as_str()) {
        let _ = again(host, zone, &["halt"]).ok();
    }
    if host.state(zone) != "configured" {
        again(host, zone, &["uninstall", "-F"]).quiet();
    }
}

/// Returns a file of a halted zone as the zone would see it.
#[track_caller]
pub(super) fn content(host: &Host, zone: &str, path: &str) -> String {
    again(host, zone, &["mount"]).quiet();
    let at = host.path("/zones").join(zone).join("lu").join(path);
    let text = std::fs::read_to_string(at).unwrap_or_default();
    host.on(zone, &["unmount"]).quiet();
    text.trim_end().to_owned()
}
