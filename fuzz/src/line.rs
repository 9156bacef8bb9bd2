//! Lexer, parser, completion and help: lines of the zonecfg language.
//!
//! Tokens written out give the same tokens again, a line has as many commands or
//! errors as the lexer found, and completion stays within the line.

use model::{Config, generate};
use syntax::lex::{self, Token};
use syntax::{complete, export, help};

/// What exports do not have.
const LINES: &[&str] = &[
    "create -b; set zonepath = \"/zones/web 1\" # no comment\n# a comment; end",
    "set options=[ro, \"a=b\",nosuid]; set options=[]",
    "add value (priv=privileged,limit=1,action=deny)",
    "remove value [(priv=basic,limit=\"1,0\",action=none),(priv=x,limit=y,action=z)]",
    "select fs dir=/a special=\"/b c\"; clear raw; remove -F fs dir=/a; revert -F",
    "create -F -t SUNWlx; export -f /x; info fs dir=/a; help syntax; commit -?; exit -F",
    "add options \"not closed; set a=(b",
];

/// Exports of configurations, and lines of every shape.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let exports = crate::configs().iter();
    exports
        .map(|config| export::export(config).into_bytes())
        .chain(LINES.iter().map(|line| line.as_bytes().to_vec()))
        .collect()
}

thread_local! {
    /// What completion is asked about.
    static CONFIG: Config = generate::config(&crate::web1(), &[7; 400]);
}

/// Checks some lines.
///
/// # Panics
/// When they are a finding.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    CONFIG.with(|config| text.lines().for_each(|line| check_line(line, config)));
    if let Some(word) = text.split_whitespace().next() {
        let _ = help::subject(word);
    }
}

fn check_line(line: &str, config: &Config) {
    let commands = lex::commands(line);
    let written: Vec<String> = commands.iter().map(|tokens| write(tokens)).collect();
    assert_eq!(lex::commands(&written.join(" ; ")), commands);

    let parsed = syntax::parse_line(line);
    assert_eq!(parsed.len(), commands.len());
    for command in parsed {
        match command {
            Ok(command) => assert!(!help::usage(command.verb()).is_empty()),
            Err(error) => assert!(error.to_string().len() < 1024),
        }
    }

    let first = config.resources().first();
    for resource in [None, first] {
        let context = complete::Context {
            config: Some(config),
            resource,
            templates: &["SUNWblank".to_owned()],
        };
        let (start, candidates) = complete::complete(line, context);
        let (_, word) = line.split_at(start);
        for candidate in candidates {
            assert!(candidate.starts_with(word), "{candidate:?} after {word:?}");
        }
    }
}

/// The tokens as a line: one command.
fn write(tokens: &[Token]) -> String {
    let words: Vec<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Quoted(text) => format!("\"{text}\""),
            other => other.to_string(),
        })
        .collect();
    words.join(" ")
}
