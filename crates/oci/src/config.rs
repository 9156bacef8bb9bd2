//! The configuration of an image: its layers and its command.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Digest, Error, MAX_CONFIG, MAX_LAYERS, Platform, shown};

/// Maximum number of words of a command, and of settings of its environment.
const MAX_WORDS: usize = 1000;

/// Maximum size of all words and settings together, in bytes.
const MAX_TEXT: usize = 32 << 10;

/// The parts of an image's configuration that this crate uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The platform for which the image is built.
    pub platform: Platform,
    /// The digests of the layers as tar archives, the lowest first.
    pub diff_ids: Vec<Digest>,
    /// The command that the image runs.
    pub command: Command,
}

/// The command of an image, with its environment, user and working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments; empty if the image names no command.
    pub words: Vec<String>,
    /// The settings of the environment, each as `NAME=value`.
    pub environment: Vec<String>,
    /// The user and optionally the group, by name or number; empty for root.
    pub user: String,
    /// The working directory; `/` if the image names none.
    pub folder: String,
    /// The signal that stops the command, by name or number; empty for TERM.
    pub stop_signal: String,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
    rootfs: RawRoot,
    #[serde(default)]
    config: Option<RawCommand>,
}

#[derive(Deserialize)]
struct RawRoot {
    #[serde(rename = "type", default)]
    kind: String,
    diff_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCommand {
    #[serde(rename = "Entrypoint")]
    entrypoint: Option<Vec<String>>,
    #[serde(rename = "Cmd")]
    cmd: Option<Vec<String>>,
    #[serde(rename = "Env")]
    env: Option<Vec<String>>,
    #[serde(rename = "User")]
    user: Option<String>,
    #[serde(rename = "WorkingDir")]
    working_dir: Option<String>,
    #[serde(rename = "StopSignal")]
    stop_signal: Option<String>,
}

impl Config {
    /// Reads the configuration of an image. `what` is the name of the configuration in messages.
    ///
    /// # Errors
    /// Fails if the text is not a configuration, or if a limit of this module is exceeded.
    pub fn read(what: &str, bytes: &[u8]) -> Result<Self, Error> {
        let bad = |problem: String| Error::bad(what, problem);
        if bytes.len() as u64 > MAX_CONFIG {
            return Err(bad(format!("more than {MAX_CONFIG} bytes")));
        }
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("not the configuration of an image: {error}")))?;
        if !raw.rootfs.kind.is_empty() && raw.rootfs.kind != "layers" {
            let kind = shown(&raw.rootfs.kind);
            return Err(bad(format!("a root of type {kind}; only layers are read")));
        }
        if raw.rootfs.diff_ids.len() > MAX_LAYERS {
            return Err(bad(format!("more than {MAX_LAYERS} layers")));
        }
        let diff_ids = raw.rootfs.diff_ids.iter().map(|text| {
            text.parse()
                .map_err(|error| bad(format!("{}: {error}", shown(text))))
        });
        Ok(Self {
            diff_ids: diff_ids.collect::<Result<_, _>>()?,
            platform: Platform {
                os: raw.os,
                architecture: raw.architecture,
                variant: raw.variant.filter(|text| !text.is_empty()),
            },
            command: command(what, raw.config.unwrap_or_default())?,
        })
    }
}

fn command(what: &str, raw: RawCommand) -> Result<Command, Error> {
    let mut words = raw.entrypoint.unwrap_or_default();
    words.extend(raw.cmd.unwrap_or_default());
    // If a variable is set twice, the last setting counts.
    let mut environment: Vec<String> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for setting in raw.env.unwrap_or_default() {
        let Some((name, _)) = setting.split_once('=') else {
            continue;
        };
        if name.is_empty() {
            continue;
        }
        match places.get(name) {
            Some(place) => environment[*place] = setting,
            None => {
                places.insert(name.to_owned(), environment.len());
                environment.push(setting);
            }
        }
    }
    let command = Command {
        words,
        environment,
        user: raw.user.unwrap_or_default(),
        folder: raw
            .working_dir
            .filter(|dir| !dir.is_empty())
            .unwrap_or_else(|| "/".to_owned()),
        stop_signal: raw.stop_signal.unwrap_or_default(),
    };
    let rest = [&command.user, &command.folder, &command.stop_signal];
    let all = command.words.iter().chain(&command.environment).chain(rest);
    let (mut count, mut bytes) = (0, 0);
    for text in all {
        count += 1;
        bytes += text.len() + 1;
        if text.contains('\0') {
            return Err(Error::bad(
                what,
                "a zero byte in its command or environment",
            ));
        }
    }
    if count > MAX_WORDS || bytes > MAX_TEXT {
        return Err(Error::bad(
            what,
            "its command and environment are longer than any command line",
        ));
    }
    if !command.folder.starts_with('/') {
        let folder = shown(&command.folder);
        return Err(Error::bad(
            what,
            format!("working folder {folder}: not an absolute path"),
        ));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Config::read("c", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_of_an_image_is_read() {
        let digest = Digest::of(b"layer");
        let text = format!(
            r#"{{"os":"linux","architecture":"amd64","rootfs":{{"type":"layers","diff_ids":["{digest}"]}},
            "config":{{"Entrypoint":["/bin/a"],"Cmd":["b","c d"],"Env":["X=1","PATH=/bin","X=2","bad"],"User":"me:us","WorkingDir":"/w","StopSignal":"SIGINT"}}}}"#
        );
        let config = read(&text).unwrap();
        assert_eq!(config.diff_ids, [digest]);
        assert_eq!(config.command.words, ["/bin/a", "b", "c d"]);
        assert_eq!(config.command.environment, ["X=2", "PATH=/bin"]);
        assert_eq!(
            (config.command.user.as_str(), config.command.folder.as_str()),
            ("me:us", "/w")
        );
        let least = read(r#"{"rootfs":{"diff_ids":[]},"config":null}"#).unwrap();
        assert_eq!(least.command.folder, "/");
        assert!(least.command.words.is_empty());
    }

    #[test]
    fn invalid_configurations_are_refused() {
        for (text, why) in [
            ("{}", "rootfs"),
            (
                r#"{"rootfs":{"type":"zip","diff_ids":[]}}"#,
                "a root of type zip",
            ),
            (r#"{"rootfs":{"diff_ids":["x"]}}"#, "not a digest"),
            (
                r#"{"rootfs":{"diff_ids":[]},"config":{"Cmd":["a\u0000b"]}}"#,
                "zero byte",
            ),
            (
                r#"{"rootfs":{"diff_ids":[]},"config":{"WorkingDir":"w"}}"#,
                "not an absolute path",
            ),
            (
                r#"{"rootfs":{"diff_ids":[]},"config":{"Cmd":"sh"}}"#,
                "not the configuration",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = format!(
            r#"{{"rootfs":{{"diff_ids":[]}},"config":{{"Cmd":["{}"]}}}}"#,
            "x".repeat(40_000)
        );
        assert!(read(&long).unwrap_err().contains("longer than any"));
    }
}
