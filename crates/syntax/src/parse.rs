//! Parses tokens into commands.

use model::config::Value;

use crate::command::{Argument, Command, Filters, How, Template, Verb};
use crate::lex::{self, Token};

/// The reason why a command cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The first word is not a command.
    #[error("syntax error at {}", self.at())]
    Unknown(String),
    /// A token is not allowed at its position.
    #[error("syntax error at {}", self.at())]
    Unexpected {
        /// The word of the command.
        verb: Verb,
        /// The unexpected token.
        token: String,
    },
    /// The command ends before it is complete.
    #[error("syntax error at {}", self.at())]
    Short {
        /// The word of the command.
        verb: Verb,
    },
}

impl SyntaxError {
    /// Returns the position of the error in the command.
    #[must_use]
    pub fn at(&self) -> String {
        match self {
            Self::Unknown(token) | Self::Unexpected { token, .. } => format!("'{token}'"),
            Self::Short { verb } => format!("the end of '{verb}'"),
        }
    }

    /// Returns the command with the error, or `None` if the error is in its first word.
    #[must_use]
    pub const fn verb(&self) -> Option<Verb> {
        match self {
            Self::Unknown(_) => None,
            Self::Unexpected { verb, .. } | Self::Short { verb } => Some(*verb),
        }
    }
}

/// Parses the commands of one line. An error in one command does not affect the other commands of
/// the line.
#[must_use]
pub fn parse_line(line: &str) -> Vec<Result<Command, SyntaxError>> {
    lex::commands(line).into_iter().map(command).collect()
}

fn command(tokens: Vec<Token>) -> Result<Command, SyntaxError> {
    let mut tokens = tokens.into_iter();
    let verb = match tokens.next() {
        Some(Token::Word(word)) => {
            Verb::find(&word).ok_or_else(|| SyntaxError::Unknown(shorten(&word)))?
        }
        Some(other) => return Err(SyntaxError::Unknown(shorten(&other.to_string()))),
        None => return Err(SyntaxError::Unknown(String::new())),
    };
    let mut rest = Rest {
        verb,
        tokens: tokens.collect::<Vec<_>>().into_iter().peekable(),
    };
    let command = rest.command()?;
    match rest.tokens.next() {
        None => Ok(command),
        Some(token) => Err(rest.unexpected(&token)),
    }
}

/// The tokens after the first word of a command.
struct Rest {
    verb: Verb,
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Rest {
    fn command(&mut self) -> Result<Command, SyntaxError> {
        if self.flag("-?") {
            return Ok(Command::Help {
                subject: Some(self.verb.to_string()),
            });
        }
        Ok(match self.verb {
            Verb::Add => Command::Add {
                what: self.word()?,
                value: self.optional(Self::value)?,
            },
            Verb::Cancel => Command::Cancel,
            Verb::Clear => Command::Clear {
                property: self.word()?,
            },
            Verb::Commit => self.commit(),
            Verb::Create => self.create()?,
            Verb::Delete => Command::Delete {
                force: self.flag("-F"),
            },
            Verb::End => Command::End,
            Verb::Exit => Command::Exit {
                force: self.flag("-F"),
            },
            Verb::Export => Command::Export {
                json: self.flag("-j"),
                file: if self.flag("-f") {
                    Some(self.word()?)
                } else {
                    None
                },
            },
            Verb::Help => Command::Help {
                subject: self.optional(Self::word)?,
            },
            Verb::Info => Command::Info {
                json: self.flag("-j"),
                what: self.optional(Self::word)?,
                filters: self.filters()?,
            },
            Verb::Remove => self.remove()?,
            Verb::Revert => Command::Revert {
                force: self.flag("-F"),
            },
            Verb::Select => Command::Select {
                what: self.word()?,
                filters: self.filters()?,
            },
            Verb::Set => {
                let force = self.flag("-F");
                let (property, value) = self.pair()?;
                Command::Set {
                    force,
                    property,
                    value,
                }
            }
            Verb::Verify => Command::Verify,
        })
    }

    fn commit(&mut self) -> Command {
        let mut how = How::default();
        loop {
            if self.flag("-n") {
                how.dry_run = true;
            } else if self.flag("-q") {
                how.quiet = true;
            } else {
                return Command::Commit(how);
            }
        }
    }

    fn create(&mut self) -> Result<Command, SyntaxError> {
        let mut force = false;
        let mut template = Template::Default;
        while self.tokens.peek().is_some() {
            if self.flag("-F") {
                force = true;
            } else if self.flag("-b") {
                template = Template::Blank;
            } else if self.flag("-t") {
                template = Template::Named(self.word()?);
            } else if self.flag("-a") {
                template = Template::Detached(self.word()?);
            } else if self.flag("-X") {
                template = Template::Existing;
            } else {
                break;
            }
        }
        Ok(Command::Create { force, template })
    }

    fn remove(&mut self) -> Result<Command, SyntaxError> {
        let force = self.flag("-F");
        let what = self.word()?;
        let mut ahead = self.tokens.clone();
        ahead.next();
        let is_filter = ahead.next() == Some(Token::Equals);
        let argument = if self.tokens.peek().is_none() || is_filter {
            Argument::Filters(self.filters()?)
        } else {
            Argument::Value(self.value()?)
        };
        Ok(Command::Remove {
            force,
            what,
            argument,
        })
    }

    /// Returns true if the next token is the option `flag`, and consumes this token.
    fn flag(&mut self, flag: &str) -> bool {
        self.tokens
            .next_if(|token| matches!(token, Token::Word(word) if word == flag))
            .is_some()
    }

    fn optional<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<Option<T>, SyntaxError> {
        if self.tokens.peek().is_some() {
            parse(self).map(Some)
        } else {
            Ok(None)
        }
    }

    fn filters(&mut self) -> Result<Filters, SyntaxError> {
        let mut filters = Filters::new();
        while self.tokens.peek().is_some() {
            filters.push(self.pair()?);
        }
        Ok(filters)
    }

    fn pair(&mut self) -> Result<(String, Value), SyntaxError> {
        let name = self.word()?;
        self.expect(&Token::Equals)?;
        // `set p=` sets an empty value, like `set p=""`.
        let value = self.optional(Self::value)?;
        Ok((name, value.unwrap_or_else(|| Value::from(""))))
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        match self.next()? {
            Token::Word(text) | Token::Quoted(text) => Ok(Value::Simple(text)),
            Token::OpenComplex => self.complex(),
            Token::OpenList => self.list(),
            token => Err(self.unexpected(&token)),
        }
    }

    fn list(&mut self) -> Result<Value, SyntaxError> {
        let mut elements = Vec::new();
        if self.tokens.next_if_eq(&Token::CloseList).is_some() {
            return Ok(Value::List(elements));
        }
        loop {
            elements.push(match self.next()? {
                Token::Word(text) | Token::Quoted(text) => Value::Simple(text),
                Token::OpenComplex => self.complex()?,
                token => return Err(self.unexpected(&token)),
            });
            match self.next()? {
                Token::Comma => {}
                Token::CloseList => return Ok(Value::List(elements)),
                token => return Err(self.unexpected(&token)),
            }
        }
    }

    fn complex(&mut self) -> Result<Value, SyntaxError> {
        let mut pairs = Vec::new();
        loop {
            let name = self.word()?;
            self.expect(&Token::Equals)?;
            pairs.push((name, self.word()?));
            match self.next()? {
                Token::Comma => {}
                Token::CloseComplex => return Ok(Value::Complex(pairs)),
                token => return Err(self.unexpected(&token)),
            }
        }
    }

    fn word(&mut self) -> Result<String, SyntaxError> {
        match self.next()? {
            Token::Word(text) | Token::Quoted(text) => Ok(text),
            token => Err(self.unexpected(&token)),
        }
    }

    fn expect(&mut self, expected: &Token) -> Result<(), SyntaxError> {
        let token = self.next()?;
        if token == *expected {
            Ok(())
        } else {
            Err(self.unexpected(&token))
        }
    }

    fn next(&mut self) -> Result<Token, SyntaxError> {
        let verb = self.verb;
        self.tokens.next().ok_or(SyntaxError::Short { verb })
    }

    fn unexpected(&self, token: &Token) -> SyntaxError {
        SyntaxError::Unexpected {
            verb: self.verb,
            token: shorten(&token.to_string()),
        }
    }
}

/// Shortens and escapes a text for a message.
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Command, String> {
        let mut commands = parse_line(line);
        assert_eq!(commands.len(), 1, "{line}");
        commands.remove(0).map_err(|error| error.to_string())
    }

    fn set(property: &str, value: Value) -> Result<Command, String> {
        Ok(Command::Set {
            force: false,
            property: property.to_owned(),
            value,
        })
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn values_have_three_shapes() {
        let complex = Value::Complex(vec![pair("priv", "privileged"), pair("limit", "1")]);
        for (line, value) in [
            ("set p=v", Value::from("v")),
            ("set p = \"a b\"", Value::from("a b")),
            ("set p=", Value::from("")),
            ("set p=[]", Value::List(vec![])),
            ("set p=[a, b]", Value::List(vec!["a".into(), "b".into()])),
            ("set p=(priv=privileged,limit=1)", complex.clone()),
            (
                "set p=[(priv=privileged,limit=1)]",
                Value::List(vec![complex]),
            ),
        ] {
            assert_eq!(one(line), set("p", value), "{line}");
        }
    }

    #[test]
    fn commands_take_their_options() {
        let create = |force, template| Ok(Command::Create { force, template });
        assert_eq!(one("create"), create(false, Template::Default));
        assert_eq!(one("create -b -F"), create(true, Template::Blank));
        assert_eq!(
            one("create -t SUNWlx"),
            create(false, Template::Named("SUNWlx".to_owned()))
        );
        assert_eq!(one("delete -F"), Ok(Command::Delete { force: true }));
        assert_eq!(
            one("export -f /tmp/x"),
            Ok(Command::Export {
                json: false,
                file: Some("/tmp/x".to_owned())
            })
        );
        let how = |dry_run, quiet| Ok(Command::Commit(How { dry_run, quiet }));
        assert_eq!(one("commit"), how(false, false));
        assert_eq!(one("commit -q -n"), how(true, true));
        assert_eq!(
            one("commit -?"),
            Ok(Command::Help {
                subject: Some("commit".to_owned())
            })
        );
        assert_eq!(one("?"), Ok(Command::Help { subject: None }));
    }

    #[test]
    fn remove_tells_filters_from_values() {
        let remove = |what: &str, argument| {
            Ok(Command::Remove {
                force: false,
                what: what.to_owned(),
                argument,
            })
        };
        let filters = Argument::Filters(vec![("dir".to_owned(), "/a".into())]);
        assert_eq!(one("remove fs dir=/a"), remove("fs", filters));
        assert_eq!(one("remove fs"), remove("fs", Argument::Filters(vec![])));
        assert_eq!(
            one("remove options ro"),
            remove("options", Argument::Value("ro".into()))
        );
    }

    #[test]
    fn errors_name_the_token_and_spoil_one_command() {
        for (line, error) in [
            ("bogus", "syntax error at 'bogus'"),
            ("\"create\" = x", "syntax error at 'create'"),
            ("[", "syntax error at '['"),
            ("create now", "syntax error at 'now'"),
            ("create -t", "syntax error at the end of 'create'"),
            ("set a b", "syntax error at 'b'"),
            ("set a=b=c", "syntax error at '='"),
            ("set a=[b", "syntax error at the end of 'set'"),
            ("set a=[b,]", "syntax error at ']'"),
            ("set a=[[b]]", "syntax error at '['"),
            ("set a=(b)", "syntax error at ')'"),
            ("commit -F", "syntax error at '-F'"),
            ("info fs dir", "syntax error at the end of 'info'"),
        ] {
            assert_eq!(one(line), Err(error.to_owned()), "{line}");
        }
        let commands = parse_line("bogus; commit; set; verify");
        let good: Vec<bool> = commands.iter().map(Result::is_ok).collect();
        assert_eq!(good, [false, true, false, true]);
    }
}
