//! Tokens: placeholders in a value for a text that is known only later.

use super::BadValue;

/// A placeholder in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// `%{zonename}`: the name of the zone.
    ZoneName,
    /// `%{id}`: the number of the resource among the resources of its type.
    Id,
    /// `%{global-rootzpool}`: the ZFS pool of the host's root.
    RootPool,
}

impl Token {
    /// Returns the name of the token, without `%` and the braces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZoneName => "zonename",
            Self::Id => "id",
            Self::RootPool => "global-rootzpool",
        }
    }
}

/// The values of the tokens.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// The name of the zone.
    pub zonename: &'a str,
    /// The number of the resource, for `%{id}`.
    pub id: &'a str,
    /// The ZFS pool of the host's root.
    pub root_pool: &'a str,
}

impl<'a> Tokens<'a> {
    const fn get(&self, token: Token) -> &'a str {
        match token {
            Token::ZoneName => self.zonename,
            Token::Id => self.id,
            Token::RootPool => self.root_pool,
        }
    }
}

/// Replaces the `allowed` tokens and `%%`; any other use of `%` is an error that
/// names `property`.
///
/// # Errors
/// Fails with [`BadValue`] for an unknown token or another use of `%`.
pub fn expand(
    property: &str,
    text: &str,
    allowed: &[Token],
    tokens: &Tokens,
) -> Result<String, BadValue> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    'text: while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        for token in allowed {
            let name = after
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'));
            if let Some((_, after)) = name.filter(|(name, _)| *name == token.name()) {
                out.push_str(tokens.get(*token));
                rest = after;
                continue 'text;
            }
        }
        let known: Vec<String> = allowed
            .iter()
            .map(|token| format!("%{{{}}}", token.name()))
            .collect();
        let why = format!(
            "has an unknown token: use {}, or %% for a percent sign",
            known.join(", ")
        );
        return Err(BadValue::new(property, text, why));
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_what_is_allowed() {
        let tokens = Tokens {
            zonename: "web1",
            id: "3",
            root_pool: "rpool",
        };
        let all = [Token::ZoneName, Token::Id, Token::RootPool];
        let expand = |text, allowed| expand("zonepath", text, allowed, &tokens).ok();
        for (text, expected) in [
            ("/z/%{zonename}/x", "/z/web1/x"),
            ("/100%%", "/100%"),
            ("/%%{zonename}", "/%{zonename}"),
            (
                "%{global-rootzpool}/%{zonename}/disk%{id}",
                "rpool/web1/disk3",
            ),
        ] {
            assert_eq!(expand(text, &all).as_deref(), Some(expected), "{text}");
        }
        for text in ["/%zonename", "/%", "/%{", "/%{zonename", "/%{colour}"] {
            assert_eq!(expand(text, &all), None, "{text}");
        }
        assert_eq!(expand("/%{id}", &[Token::ZoneName]), None);
    }
}
