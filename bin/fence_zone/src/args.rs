//! The options, from the command line or from standard input.

use std::io::Read;

use anyhow::{Context as _, bail, ensure};
use clzc::FenceAction;
use lexopt::prelude::*;

/// Maximum size of the options on standard input, in bytes.
const MAX_INPUT: u64 = 64 << 10;

/// An action of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Prints the description of the agent.
    Metadata,
    /// Checks the options.
    ValidateAll,
    /// An action that the hosts carry out.
    Ask(FenceAction),
}

/// Options of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    action: Option<String>,
    plug: Option<String>,
    /// The name that the cluster has for the node; used if no plug is given.
    nodename: Option<String>,
    /// Prints each request.
    pub verbose: bool,
}

/// The action where none is given, as that of other fence agents.
const DEFAULT_ACTION: &str = "reboot";

impl Options {
    /// Returns the action.
    ///
    /// # Errors
    /// Fails if the agent does not have it.
    pub fn action(&self) -> anyhow::Result<Action> {
        let word = self.action.as_deref().unwrap_or(DEFAULT_ACTION);
        match word {
            "metadata" => Ok(Action::Metadata),
            "validate-all" => Ok(Action::ValidateAll),
            word => {
                let action = FenceAction::read(word).map(Action::Ask);
                action.with_context(|| {
                    format!(
                        "action '{word}': expected on, off, reboot, status, monitor, list, metadata or validate-all"
                    )
                })
            }
        }
    }

    /// Returns the host name of the node.
    ///
    /// # Errors
    /// Fails if none is given, or if it is no host name.
    pub fn node(&self) -> anyhow::Result<String> {
        let name = self.plug.as_ref().or(self.nodename.as_ref());
        let name = name.context("expected -n NODE (plug=NODE): the host name of a node's zone")?;
        ensure!(
            clzc::is_host_name(name),
            "'{}': expected the host name of a node's zone",
            name.escape_debug()
        );
        Ok(name.clone())
    }

    /// Checks the options of a device, which has a node or none.
    ///
    /// # Errors
    /// Fails if the action or the node is wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.plug {
            Some(_) => self.node().map(drop),
            None => Ok(()),
        }
    }

    fn put(&mut self, key: &str, value: &str) {
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            // `option` is the former name of `action`.
            "action" | "option" => self.action = value,
            "plug" => self.plug = value,
            // The former name of `plug`.
            "port" if self.plug.is_none() => self.plug = value,
            "nodename" => self.nodename = value,
            "verbose" => self.verbose = value.is_some_and(|value| value != "0"),
            // Pacemaker passes each parameter of the device, also those for itself.
            _ => {}
        }
    }
}

/// Reads the options of the command line. Returns `None` if it asks for help.
///
/// # Errors
/// Fails if it has other words than the options of the help.
pub fn words(mut parser: lexopt::Parser) -> anyhow::Result<Option<Options>> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('o') | Long("action") => options.put("action", &parser.value()?.string()?),
            Short('n') | Long("plug") => options.put("plug", &parser.value()?.string()?),
            Short('v') | Long("verbose") => options.verbose = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(options))
}

/// Reads the options of standard input: lines `key=value`. Keys that the agent does not know are ignored.
///
/// # Errors
/// Fails if the input is too long, or if a line is none of these.
pub fn input(stream: impl Read) -> anyhow::Result<Options> {
    let mut text = String::new();
    stream
        .take(MAX_INPUT + 1)
        .read_to_string(&mut text)
        .context("standard input")?;
    if text.len() as u64 > MAX_INPUT {
        bail!("standard input: expected at most {MAX_INPUT} bytes");
    }
    let mut options = Options::default();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .with_context(|| format!("'{}': expected key=value", line.escape_debug()))?;
        options.put(key.trim_end(), value.trim_start());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_words(list: &[&str]) -> anyhow::Result<Option<Options>> {
        words(lexopt::Parser::from_args(list))
    }

    #[test]
    fn the_command_line_and_the_input_say_the_same() {
        let words = of_words(&["-o", "off", "-n", "pg2"]).unwrap().unwrap();
        let text = "# a device\n\naction=off\nnodename=other\nplug = pg2\npcmk_host_list=pg1 pg2\n";
        let input = input(text.as_bytes()).unwrap();
        for options in [words, input] {
            assert_eq!(options.action().unwrap(), Action::Ask(FenceAction::Off));
            assert_eq!(options.node().unwrap(), "pg2");
        }
    }

    #[test]
    fn pacemaker_may_name_the_node_in_three_ways() {
        for text in [
            "plug=pg2\nport=pg3\nnodename=pg4",
            "port=pg2\nnodename=pg4",
            "nodename=pg2\nplug=",
        ] {
            assert_eq!(
                input(text.as_bytes()).unwrap().node().unwrap(),
                "pg2",
                "{text}"
            );
        }
        assert!(input("action=off".as_bytes()).unwrap().node().is_err());
    }

    #[test]
    fn without_an_action_a_node_is_rebooted() {
        let options = input("plug=pg2".as_bytes()).unwrap();
        assert_eq!(options.action().unwrap(), Action::Ask(FenceAction::Reboot));
    }

    #[test]
    fn refuses_wrong_options() {
        assert!(of_words(&["-o", "fly"]).unwrap().unwrap().action().is_err());
        assert!(of_words(&["off", "pg2"]).is_err());
        assert!(of_words(&["-x"]).is_err());
        assert!(input("off pg2".as_bytes()).is_err());
        assert!(input(&b"plug=\xff"[..]).is_err());
        let long = format!("plug={}", "a".repeat(1 << 17));
        assert!(input(long.as_bytes()).is_err());
        for name in ["a b", "-F", "../x", "pg2;id", "p\u{e9}"] {
            let options = input(format!("plug={name}").as_bytes()).unwrap();
            assert!(
                options.node().is_err() && options.check().is_err(),
                "{name}"
            );
        }
        assert!(
            input("action=validate-all".as_bytes())
                .unwrap()
                .check()
                .is_ok()
        );
    }
}
