//! Whole sessions of zonecfg on a store in memory.
//!
//! The first byte selects the start of the session (`@` is a session on a zone that does not exist;
//! `begin` defines the bits), the rest is its lines. An accepted configuration, committed or not,
//! must export to commands that create the same configuration again, and `info` must print it.

use std::cell::RefCell;
use std::rc::Rc;

use model::{Config, State, ZoneName, generate};
use store::xml;
use syntax::{Finish, Flow, Mode, Session, export, info};

use crate::backing::{Memory, Told, User};

type Told1 = Rc<RefCell<Told>>;

/// Returns exports of configurations, and sessions that change a configuration.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for config in crate::configs::configs() {
        let lines = export::export(config);
        seeds.push(format!("@{lines}set zonepath=/a\ncommit\n").into_bytes());
        let first = config.resources().first();
        let Some(resource) = first.map(|one| one.spec().name) else {
            continue;
        };
        seeds.push(format!("Xselect {resource}\ninfo\nend\nremove -F {resource}\nadd {resource}\ncancel\nrevert -F\n").into_bytes());
    }
    seeds
}

/// Checks one session.
///
/// # Panics
/// Panics if the session is a finding.
pub fn check(data: &[u8]) {
    let Some((how, lines)) = data.split_first() else {
        return;
    };
    let Ok(lines) = std::str::from_utf8(lines) else {
        return;
    };
    let (mut session, told) = begin(*how);
    session.greet();
    let mut flow = Flow::Go;
    for line in lines.lines() {
        assert!(session.prompt().starts_with("zonecfg:"));
        flow = session.line(line);
        if flow != Flow::Go {
            break;
        }
    }
    check_accepted(&mut session, &told);
    // `Again` is the answer of an interactive user, who is asked once.
    if flow != Flow::Abort && session.finish() == Finish::Again {
        session.line("exit -F");
        session.finish();
    }
}

thread_local! {
    /// The existing zone, which has one of each resource and property.
    static STORED: Config = generate::every_row(&crate::configs::web1())
        .ok()
        .and_then(|configs| configs.into_iter().max_by_key(|one| one.resources().len()))
        .expect("every row can be set");
}

/// Returns a session that the bits describe.
fn begin(how: u8) -> (Session<Memory, User>, Told1) {
    let mode = match how & 3 {
        0 => Mode::Interactive,
        1 => Mode::File,
        _ => Mode::Words,
    };
    let answer = match how >> 2 & 3 {
        0 => None,
        1 => Some(false),
        _ => Some(true),
    };
    let state = match how >> 4 & 3 {
        0 => None,
        1 => Some(State::Configured),
        2 => Some(State::Installed),
        _ => Some(State::Running),
    };
    // Any bytes that generate a few resources are suitable.
    let stored: Vec<u8> = (0..=255)
        .map(|byte: u8| byte.wrapping_mul(how | 1))
        .collect();
    let zone = state.map(|state| (generate::config(&crate::configs::web1(), &stored), state));
    let read_only = how & 0xc0 == 0x80;
    let alternate = how & 0xc0 == 0xc0;
    let told = Told1::default();
    let user = User {
        told: Rc::clone(&told),
        answer,
    };
    let session = Session::new(crate::configs::web1(), mode, Memory { zone }, user);
    (session.read_only(read_only).alternate_root(alternate), told)
}

/// Checks that `export` in the middle of a session prints commands that create the same
/// configuration again.
fn check_accepted(session: &mut Session<Memory, User>, told: &Told1) {
    session.line("info");
    *told.borrow_mut() = Told::default();
    session.line("export");
    let told = told.take();
    if told.errors.is_empty() {
        let (_, exported) = read_back(&crate::configs::web1(), &told.printed);
        assert_eq!(exported, told.printed);
    }
}

/// Executes exported lines. Returns the output of `info` and `export` afterwards.
fn read_back(zone: &ZoneName, lines: &str) -> (String, String) {
    let told = Told1::default();
    let user = User {
        told: Rc::clone(&told),
        answer: None,
    };
    let mut session = Session::new(zone.clone(), Mode::File, Memory { zone: None }, user);
    for line in lines.lines() {
        session.line(line);
    }
    session.line("info");
    let info = std::mem::take(&mut told.borrow_mut().printed);
    session.line("export");
    let told = told.take();
    assert_eq!(told.errors, Vec::<String>::new(), "of:\n{lines}");
    (info, told.printed)
}

/// Checks a configuration that was accepted: the language and XML can both hold it.
pub(crate) fn check_config(config: &Config) {
    let (lines, shown) = (export::export(config), info::all(config));
    assert_eq!(read_back(config.name(), &lines), (shown, lines));

    let text = xml::render(config);
    let name = config.name();
    let read = xml::parse(&text, "web1.xml".as_ref(), name.as_str(), name);
    match read {
        Ok(read) => assert_eq!(&read, config),
        Err(error) => panic!("{error} in:\n{text}"),
    }
}
