//! Splits a line into tokens.
//!
//! Blanks separate tokens, and `;` ends a command. A `#` at the start of a command makes the rest
//! of the line a comment. The characters `= [ ] ( ) "` are reserved everywhere, and `,` is reserved
//! only inside brackets. Double quotes enclose blanks and reserved characters. A double quote
//! cannot be escaped, and the end of the line closes an open one. Therefore every line has tokens,
//! and the lexer never fails.

use std::fmt;

/// A token of the zonecfg language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Text without reserved characters.
    Word(String),
    /// Text that was in double quotes.
    Quoted(String),
    /// The character `=`.
    Equals,
    /// The character `[`.
    OpenList,
    /// The character `]`.
    CloseList,
    /// The character `(`.
    OpenComplex,
    /// The character `)`.
    CloseComplex,
    /// The character `,` inside brackets.
    Comma,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word(text) | Self::Quoted(text) => text,
            Self::Equals => "=",
            Self::OpenList => "[",
            Self::CloseList => "]",
            Self::OpenComplex => "(",
            Self::CloseComplex => ")",
            Self::Comma => ",",
        })
    }
}

/// Returns true if a value with this character must be in quotes.
#[must_use]
pub const fn is_reserved(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | ';' | '=' | '[' | ']' | '(' | ')' | '"'
    )
}

/// Returns the tokens of each command of a line. Empty commands are left out.
#[must_use]
pub fn commands(line: &str) -> Vec<Vec<Token>> {
    let mut commands = Vec::new();
    let mut tokens = Vec::new();
    let mut depth = 0usize;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        let token = match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            '#' if tokens.is_empty() => break,
            ';' => {
                depth = 0;
                if !tokens.is_empty() {
                    commands.push(std::mem::take(&mut tokens));
                }
                continue;
            }
            '=' => Token::Equals,
            '[' => Token::OpenList,
            ']' => Token::CloseList,
            '(' => Token::OpenComplex,
            ')' => Token::CloseComplex,
            ',' if depth > 0 => Token::Comma,
            '"' => {
                let (text, after) = after.split_once('"').unwrap_or((after, ""));
                rest = after;
                Token::Quoted(text.to_owned())
            }
            _ => {
                let ends = |c| is_reserved(c) || (c == ',' && depth > 0);
                let end = after.find(ends).unwrap_or(after.len());
                rest = &after[end..];
                Token::Word(format!("{c}{}", &after[..end]))
            }
        };
        match token {
            Token::OpenList | Token::OpenComplex => depth += 1,
            Token::CloseList | Token::CloseComplex => depth = depth.saturating_sub(1),
            _ => {}
        }
        tokens.push(token);
    }
    if !tokens.is_empty() {
        commands.push(tokens);
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let commands = commands(line);
        let shown: Vec<String> = commands
            .iter()
            .map(|tokens| {
                let tokens: Vec<String> = tokens
                    .iter()
                    .map(|token| match token {
                        Token::Quoted(text) => format!("<{text}>"),
                        other => other.to_string(),
                    })
                    .collect();
                tokens.join(" ")
            })
            .collect();
        shown.join(" | ")
    }

    #[test]
    fn lines_fall_into_tokens() {
        for (line, expected) in [
            ("", ""),
            (" ; ;", ""),
            ("create -b; set a=b", "create -b | set a = b"),
            ("# all of it; a comment", ""),
            ("end ; # so is this", "end"),
            ("set value=#x", "set value = #x"),
            ("set a = \"x y;=\" ", "set a = <x y;=>"),
            ("set a=\"open ; ended", "set a = <open ; ended>"),
            ("set a=x\"y\"", "set a = x <y>"),
            (
                "set limitpriv=default,sys_time",
                "set limitpriv = default,sys_time",
            ),
            ("add options [ro,\"a=b\"]", "add options [ ro , <a=b> ]"),
            (
                "add value (priv=privileged,limit=1)",
                "add value ( priv = privileged , limit = 1 )",
            ),
            ("set a=[b;set c=d,e", "set a = [ b | set c = d,e"),
            ("end\r\n", "end"),
            ("set a=é", "set a = é"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
