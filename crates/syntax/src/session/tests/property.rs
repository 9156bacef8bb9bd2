//! Property tests: any configuration reads back from its export, and any line is parsed without a
//! panic.

use model::generate;
use proptest::prelude::*;

use super::*;
use crate::export;

/// Runs the commands of an export in a new session. Returns the printed messages and the
/// configuration.
fn read_back(config: &Config) -> (String, Option<Config>) {
    let mut session = Session::new(name("web1"), Mode::File, Memory::default(), User::default());
    for line in export::export(config).lines() {
        session.line(line);
    }
    (session.console.printed, session.config)
}

#[test]
fn an_export_of_every_row_makes_the_same_configuration() {
    for config in generate::every_row(&name("web1")).unwrap() {
        assert_eq!(read_back(&config), (String::new(), Some(config)));
    }
}

proptest! {
    #[test]
    fn an_export_makes_the_same_configuration(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let config = generate::config(&name("web1"), &bytes);
        prop_assert_eq!(read_back(&config), (String::new(), Some(config)));
    }

    #[test]
    fn any_line_is_handled_without_a_panic(lines in prop::collection::vec("(add |set |end|select |remove |info |clear |fs|dir|attr|options|=|/x|;|,|\\[|\\]|\\(|\\)|\"|#| |[a-z]{1,3}){0,12}", 1..6)) {
        let mut session = Session::new(name("web1"), Mode::Words, with_web1(State::Configured), User::default());
        for line in &lines {
            session.line(line);
        }
        session.finish();
    }
}
