//! Tests of create, delete, commit, revert, renames, and the end of a session.

use super::*;
use crate::export;

#[test]
fn create_asks_before_it_overwrites() {
    let ran = run(
        with_web1(State::Configured),
        "set autoboot=true; create -b; info",
    );
    assert_eq!(
        ran.printed,
        "! Zone exists, input not from terminal and -F not specified:\n\
         create command ignored, exiting.\n"
    );
    // The session stored nothing.
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));

    let ask = |answer| {
        run_as(
            Mode::Interactive,
            with_web1(State::Configured),
            &[answer],
            "create -b",
        )
    };
    let ran = ask(false);
    assert_eq!(ran.printed, "? Zone web1 already exists; create anyway\n");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 0));
    let ran = ask(true);
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 1));
    assert_eq!(ran.stored("web1").resources(), []);

    for state in [State::Installed, State::Running] {
        let ran = run(with_web1(state), "create -F");
        assert_eq!(
            ran.printed,
            "! Zone web1 already installed; create not allowed.\n"
        );
        assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));
    }
}

/// Runs a script in a session that stores all or nothing.
fn run_atomic(mode: Mode, script: &str) -> Ran {
    let memory = with_web1(State::Configured);
    let mut session = Session::new(name("web1"), mode, memory, User::default()).atomic(true);
    for line in script.lines() {
        if session.line(line) != Flow::Go {
            break;
        }
    }
    let finish = session.finish();
    Ran {
        printed: session.console.printed,
        finish,
        memory: session.backing,
    }
}

#[test]
fn an_atomic_session_stores_all_changes_or_none() {
    for mode in [Mode::File, Mode::Words] {
        let script = "set autoboot=true; commit; set max-lwps=abc; set cpu-shares=5";
        let ran = run_atomic(mode, script);
        assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));
        assert_eq!(ran.stored("web1").get("autoboot"), "false");
        assert!(
            ran.printed
                .ends_with("! Configuration not saved: --atomic saves all changes or none.\n"),
            "{}",
            ran.printed
        );
        let ran = run_atomic(mode, "set autoboot=true\ncommit\nset max-lwps=7");
        assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 1));
        assert_eq!(ran.stored("web1").get("autoboot"), "true");
    }
    let ran = run_atomic(Mode::File, "delete -F");
    assert_eq!(ran.finish, Finish::Failed);
    assert!(ran.memory.zones.contains_key("web1"), "{}", ran.printed);
}

#[test]
fn properties_of_an_installed_zone_s_files_are_fixed() {
    for (script, what) in [
        ("set zonepath=/x", "set zonepath"),
        ("set brand=lx", "set brand"),
        ("add inherit-pkg-dir", "add inherit-pkg-dir"),
        ("remove inherit-pkg-dir dir=/usr", "remove inherit-pkg-dir"),
        ("select inherit-pkg-dir dir=/usr", "select inherit-pkg-dir"),
    ] {
        let ran = run(with_web1(State::Installed), script);
        let expected = format!("! Zone web1 already installed; {what} not allowed.\n");
        assert_eq!(ran.printed, expected);
        assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));
    }
    let ran = run(with_web1(State::Incomplete), "set zonepath=/x");
    assert_eq!(
        ran.printed,
        "! Zone web1 is incomplete; set zonepath not allowed.\n"
    );
    // Setting the same value again is allowed, and so is a change of a property that is not fixed.
    let script = "set brand=native; set zonepath=/zones/%{zonename}; set autoboot=true";
    assert_eq!(run(with_web1(State::Running), script).finish, Finish::Ok);
}

#[test]
fn delete_needs_the_state_or_force() {
    let ran = run(with_web1(State::Configured), "delete");
    assert_eq!(
        ran.printed,
        "! Input not from terminal and -F not specified:\ndelete command ignored, exiting.\n"
    );
    assert_eq!(ran.finish, Finish::Failed);
    let ask = |state, answer| run_as(Mode::Interactive, with_web1(state), &[answer], "delete");
    let ran = ask(State::Configured, false);
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Ok, 1));
    let ran = ask(State::Configured, true);
    assert_eq!(ran.printed, "? Are you sure you want to delete zone web1\n");
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Ok, 0));
    let ran = ask(State::Installed, true);
    assert_eq!(
        ran.printed,
        "? Are you sure you want to delete zone web1\n\
         ! Zone web1 not in configured state; delete not allowed.  Use -F to force delete.\n"
    );
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Failed, 1));
    let ran = run(with_web1(State::Installed), "delete -F");
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Ok, 0));
    let ran = run(with_web1(State::Running), "delete -F");
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Failed, 1));
    let ran = run(Memory::default(), "create; delete -F");
    assert_eq!((ran.finish, ran.memory.zones.len()), (Finish::Ok, 0));
}

#[test]
fn revert_goes_back_to_what_is_stored() {
    let ran = run(
        with_web1(State::Configured),
        "set zonename=web2; set autoboot=true; commit; set zonename=web3; set bootargs=-s; revert -F; info zonename; info bootargs",
    );
    assert_eq!(ran.printed, "zonename: web2\nbootargs: \n");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 1));
    let ran = run(Memory::default(), "create; revert -F");
    assert_eq!(ran.printed, "! web1: no such saved zone to revert to.\n");
    assert_eq!(ran.memory.commits, 0);
    let ran = run(with_web1(State::Configured), "add fs; revert; cancel");
    assert_eq!(
        ran.printed,
        "! You can only use revert in the global scope.\n\
         Use 'cancel' to cancel changes to a resource specification.\n"
    );
}

#[test]
fn a_renamed_zone_keeps_its_files() {
    let ran = run(with_web1(State::Configured), "set zonename=web2");
    assert_eq!(ran.stored("web2").zonepath().to_str(), Some("/zones/web2"));
    assert_eq!(ran.memory.zones.len(), 1);
    let ran = run(with_web1(State::Installed), "set zonename=web2");
    assert_eq!(ran.stored("web2").get("zonepath"), "/zones/web1");
    let ran = run(with_web1(State::Running), "set zonename=web2");
    assert_eq!(
        ran.printed,
        "! Zone web1 already running; set zonename not allowed.\n"
    );
    let mut memory = with_web1(State::Configured);
    let other = memory.zones["web1"].clone();
    memory.zones.insert("web2".to_owned(), other);
    let ran = run(memory, "set zonename=web2");
    assert_eq!(ran.printed, "! web2: Zone name already in use\n");
}

#[test]
fn a_change_by_somebody_else_is_not_overwritten() {
    let mut session = Session::new(
        name("web1"),
        Mode::Words,
        with_web1(State::Configured),
        User::default(),
    );
    session.line("set autoboot=true");
    let (_, stored) = session.backing.zones.get_mut("web1").unwrap();
    stored.set("bootargs", "-v").unwrap();
    assert_eq!(session.finish(), Finish::Failed);
    assert_eq!(
        session.console.printed,
        "! changed meanwhile\n! Configuration not saved.\n"
    );
    assert_eq!(session.backing.commits, 0);
}

#[test]
fn a_sparse_brand_inherits_what_the_host_has() {
    let ran = run(Memory::default(), "create -b; set brand=sparse");
    let config = ran.stored("web1");
    assert_eq!(config.inherited_dirs().len(), 2);
    assert_eq!(config.brand(), "sparse");
    // The export of the zone makes the same zone again.
    let again = run(Memory::default(), &export::export(config));
    assert_eq!(again.stored("web1"), config);
    let mut memory = Memory::default();
    let blank = memory.template(Some("SUNWblank"), &name("web1")).unwrap();
    memory
        .zones
        .insert("web1".to_owned(), (State::Installed, blank));
    memory
        .zones
        .get_mut("web1")
        .unwrap()
        .1
        .set("brand", "sparse")
        .unwrap();
    let ran = run(memory, "set autoboot=true");
    assert_eq!(ran.stored("web1").inherited_dirs().len(), 0);
}

#[test]
fn read_only_sessions_change_nothing() {
    let mut session = Session::new(
        name("web1"),
        Mode::Interactive,
        with_web1(State::Configured),
        User::default(),
    )
    .read_only(true);
    session.line("set autoboot=true; delete -F; create -F; info autoboot; add fs; commit");
    assert_eq!(
        session.console.printed,
        "! web1: cannot set in read-only mode.\n! web1: cannot delete in read-only mode.\n\
         ! web1: cannot create in read-only mode.\nautoboot: false\n\
         ! web1: cannot add in read-only mode.\n! web1: cannot commit in read-only mode.\n"
    );
    assert_eq!(session.finish(), Finish::Failed);
    assert_eq!(session.backing.commits, 0);
}

#[test]
fn leaving_asks_about_what_is_incomplete() {
    let quit = |answers: &[bool], script| {
        run_as(
            Mode::Interactive,
            with_web1(State::Configured),
            answers,
            script,
        )
    };
    let ran = quit(
        &[false, true, true],
        "set autoboot=true; add fs; exit; exit",
    );
    assert_eq!(
        ran.printed,
        "? Resource incomplete; really quit\n? Resource incomplete; really quit\n\
         ! resource specification incomplete\n! Zone web1 failed to verify\n\
         ! web1: Insufficient specification\n! Configuration not saved.\n"
    );
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Failed, 0));
    let ran = quit(&[], "add fs; exit");
    assert_eq!(
        ran.printed,
        "! Resource incomplete, input not from terminal and -F not specified:\n\
         exit command ignored, but exiting anyway.\n"
    );
    let ran = quit(&[false], "clear bootargs; set brand=lx");
    assert!(
        ran.printed
            .ends_with("? Configuration not saved; really quit\n")
    );
    assert_eq!(ran.finish, Finish::Again);
    assert_eq!(quit(&[], "add fs; exit -F").finish, Finish::Failed);
}

#[test]
fn a_dry_run_stores_nothing() {
    let ran = run(
        with_web1(State::Configured),
        "set autoboot=true; commit -n; revert -F",
    );
    assert_eq!(ran.printed, "");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 0));
    let ran = run(with_web1(State::Configured), "set autoboot=true; commit -q");
    assert_eq!((ran.finish, ran.memory.commits), (Finish::Ok, 1));
}
