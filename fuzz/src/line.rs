//! The lexer and the parser of the zonecfg language.
//!
//! Tokens that are written as text and read again are equal, and a line has as many commands or
//! errors as the lexer found. Neither uses the table: any name is valid.

use syntax::lex::{self, Token};

/// Lines of every shape.
pub(crate) const LINES: &[&str] = &[
    "create -b; set zonepath = \"/zones/web 1\" # no comment\n# a comment; end",
    "set options=[ro, \"a=b\",nosuid]; set options=[]",
    "add value (priv=privileged,limit=1,action=deny)",
    "remove value [(priv=basic,limit=\"1,0\",action=none),(priv=x,limit=y,action=z)]",
    "select fs dir=/a special=\"/b c\"; clear raw; remove -F fs dir=/a; revert -F",
    "create -F -t SUNWlx; export -f /x; info fs dir=/a; help syntax; commit -?; exit -F",
    "add options \"not closed; set a=(b",
];

/// Returns lines of every shape.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let lines = LINES.iter();
    lines.map(|line| line.as_bytes().to_vec()).collect()
}

/// Checks some lines.
///
/// # Panics
/// Panics if they are a finding.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for line in text.lines() {
        let commands = lex::commands(line);
        let written: Vec<String> = commands.iter().map(|tokens| write(tokens)).collect();
        assert_eq!(lex::commands(&written.join(" ; ")), commands);

        let parsed = syntax::parse_line(line);
        assert_eq!(parsed.len(), commands.len());
        for error in parsed.into_iter().filter_map(Result::err) {
            assert!(error.to_string().len() < 1024);
        }
    }
}

/// Returns the tokens as a line with one command.
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
