//! The command line of zonepatch.

use std::ffi::OsString;
use std::path::PathBuf;

use cli::command::Subcommand;
use cli::progress;
use lexopt::prelude::*;
use patch::Order;
use patch::order::is_package;
use zone::environments::When;

use crate::subcommands;

/// The parsed command line.
#[derive(Debug)]
pub struct Call {
    pub root: Option<PathBuf>,
    pub verb: &'static str,
    /// Names, patterns and ranges of zones; empty for all zones.
    pub zones: Vec<String>,
    pub parallel: Option<usize>,
    pub json: bool,
    /// True if progress and errors are lines of JSON.
    pub json_progress: bool,
    pub global: bool,
    pub share: bool,
    pub dry_run: bool,
    pub order: Order,
    /// The name of the patch that the command acts on.
    pub patch: Option<String>,
    /// The time at which a running zone switches to its new root.
    pub activate: Option<When>,
    /// True if running zones are patched in place.
    pub live: bool,
    /// The command that decides whether a zone is healthy.
    pub health: Option<String>,
    /// The seconds that the package manager of a zone may take; 0 is no limit.
    pub time_limit: Option<u64>,
}

/// The reason why the command line starts no subcommand.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    Help(Option<&'static str>),
    Nothing,
    Usage(String, Option<&'static str>),
}

// Long because it is a table with one arm for each option.
pub fn parse(words: Vec<OsString>) -> Result<Call, Problem> {
    let mut call = Call {
        root: None,
        verb: "",
        zones: Vec::new(),
        parallel: None,
        json: false,
        json_progress: false,
        global: false,
        share: true,
        dry_run: false,
        order: Order::Upgrade,
        patch: None,
        activate: None,
        live: false,
        health: None,
        time_limit: None,
    };
    let mut verb: Option<&'static Subcommand> = None;
    let mut operands = Vec::new();
    let mut words = lexopt::Parser::from_args(words);
    loop {
        let name = verb.map(|one| one.name);
        let usage = |text: String| Problem::Usage(text, name);
        let odd = |error: lexopt::Error| Problem::Usage(error.to_string(), name);
        let Some(word) = words.next().map_err(odd)? else {
            break;
        };
        match (word, verb) {
            (Short('?' | 'h') | Long("help"), _) => return Err(Problem::Help(name)),
            (Short('R'), None) => call.root = Some(PathBuf::from(words.value().map_err(odd)?)),
            (Value(word), None) => {
                let word = word.to_string_lossy().into_owned();
                if word == "help" {
                    let topic = words.next().ok().flatten();
                    let topic = match topic {
                        Some(Value(topic)) => subcommands::find(&topic.to_string_lossy()),
                        _ => None,
                    };
                    return Err(Problem::Help(topic.map(|one| one.name)));
                }
                verb = Some(
                    subcommands::find(&word).ok_or_else(|| usage(subcommands::unknown(&word)))?,
                );
            }
            (Value(word), Some(_)) => {
                let word = word
                    .into_string()
                    .map_err(|_| usage("a name that is not valid UTF-8".into()))?;
                operands.push(word);
            }
            (Short('z'), Some(_)) => {
                let zone = words
                    .value()
                    .and_then(|value| value.string())
                    .map_err(odd)?;
                call.zones.push(zone);
            }
            (Short('j') | Long("json"), Some(_)) => call.json = true,
            (Long(progress::OPTION), None) => {
                let form = words
                    .value()
                    .and_then(|value| value.string())
                    .map_err(odd)?;
                if form != progress::FORM {
                    let text = format!("--progress: {form}: the only form is {}", progress::FORM);
                    return Err(usage(text));
                }
                call.json_progress = true;
            }
            (Short('P'), Some(one)) if one.has("-P") => {
                let number: usize = words.value().and_then(|value| value.parse()).map_err(odd)?;
                if number == 0 {
                    return Err(usage("-P: at least one zone at a time".into()));
                }
                call.parallel = Some(number);
            }
            (Short('g') | Long("global"), Some(one)) if one.has("-g") => call.global = true,
            (Long("live"), Some(one)) if one.has("--live") => call.live = true,
            (Long("health"), Some(one)) if one.has("--health") => {
                let command = words
                    .value()
                    .and_then(|value| value.string())
                    .map_err(odd)?;
                call.health = Some(command);
            }
            (Long("time-limit"), Some(one)) if one.has("--time-limit") => {
                let seconds = words.value().and_then(|value| value.parse());
                call.time_limit = Some(seconds.map_err(odd)?);
            }
            (Short('n'), Some(one)) if one.has("-n") => call.dry_run = true,
            (Short('t'), Some(one)) if one.has("-t") => {
                let name = words
                    .value()
                    .and_then(|value| value.string())
                    .map_err(odd)?;
                call.patch = Some(name);
            }
            (Long("security"), Some(one)) if one.has("--security") => call.order = Order::Security,
            (Long("dist-upgrade"), Some(one)) if one.has("--dist-upgrade") => {
                call.order = Order::DistUpgrade;
            }
            (Long("activate"), Some(one)) if one.has("--activate") => {
                let word = words
                    .value()
                    .and_then(|value| value.string())
                    .map_err(odd)?;
                call.activate = Some(match word.as_str() {
                    "next" => When::NextBoot,
                    "now" => When::Now,
                    _ => return Err(usage("--activate: next or now".into())),
                });
            }
            (Long("no-share"), Some(one)) if one.has("--no-share") => call.share = false,
            (other, _) => return Err(odd(other.unexpected())),
        }
    }
    let Some(verb) = verb else {
        return Err(Problem::Nothing);
    };
    call.verb = verb.name;
    take(&mut call, operands).map_err(|text| Problem::Usage(text, Some(verb.name)))?;
    Ok(call)
}

/// Returns whether a word names a package file of a package manager that is driven.
fn is_file(word: &str) -> bool {
    let kinds = [".deb", ".rpm", ".apk"];
    word.contains('/') || kinds.iter().any(|kind| word.ends_with(kind))
}

fn take(call: &mut Call, operands: Vec<String>) -> Result<(), String> {
    if call.live && call.activate.is_some() {
        return Err("--live and --activate are two ways for the same zones".into());
    }
    if call.json_progress && (call.json || matches!(call.verb, "status" | "history")) {
        return Err("--progress goes neither with -j nor with status and history".into());
    }
    match call.verb {
        "plan" | "apply" if !operands.is_empty() => {
            if call.order != Order::Upgrade {
                return Err("packages go neither with --security nor with --dist-upgrade".into());
            }
            if operands.iter().all(|word| is_file(word)) {
                call.order = Order::Files(operands.into_iter().map(PathBuf::from).collect());
            } else if let Some(bad) = operands.iter().find(|word| !is_package(word)) {
                return Err(match is_file(bad) {
                    true => "package names and files do not go together".into(),
                    false => format!("{bad}: not a package"),
                });
            } else {
                call.order = Order::Packages(operands);
            }
            Ok(())
        }
        "remove" => match <[String; 1]>::try_from(operands) {
            Ok([patch]) => {
                call.patch = Some(patch);
                Ok(())
            }
            Err(_) => Err("remove needs the name of a patch, as history shows it".into()),
        },
        _ => match operands.first() {
            None => Ok(()),
            Some(word) => Err(format!("{word}: not expected")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Call, Problem> {
        parse(text.split_whitespace().map(OsString::from).collect())
    }

    fn complaint(text: &str) -> String {
        match parsed(text) {
            Err(Problem::Usage(text, _)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn orders_and_options() {
        let call = parsed("-R /alt apply -z web* -P 4 -j --no-share apt libc6:amd64").unwrap();
        assert_eq!(
            (call.verb, call.parallel, call.json),
            ("apply", Some(4), true)
        );
        assert_eq!(
            call.order,
            Order::Packages(vec!["apt".into(), "libc6:amd64".into()])
        );
        assert!(!call.share);
        let call = parsed("--progress=json apply -z web1").unwrap();
        assert!(call.json_progress && !call.json);
        for wrong in ["apply -j", "status"] {
            let text = complaint(&format!("--progress=json {wrong}"));
            assert!(text.starts_with("--progress goes neither"), "{text}");
        }
        assert!(complaint("--progress=xml apply").contains("the only form is json"));
        let call = parsed("apply --activate=now").unwrap();
        assert_eq!(call.activate, Some(When::Now));
        let call = parsed("rollback --activate next").unwrap();
        assert_eq!(call.activate, Some(When::NextBoot));
        let call = parsed("apply --global --live --health 'true'").unwrap();
        assert!(call.global && call.live && call.health.is_some());
        let call = parsed("apply --time-limit 90").unwrap();
        assert_eq!(call.time_limit, Some(90));
        let call = parsed("apply ./a.rpm b.rpm").unwrap();
        assert_eq!(
            call.order,
            Order::Files(vec!["./a.rpm".into(), "b.rpm".into()])
        );
        let call = parsed("apply ./a.deb b.deb").unwrap();
        assert_eq!(
            call.order,
            Order::Files(vec!["./a.deb".into(), "b.deb".into()])
        );
        assert_eq!(parsed("plan --security").unwrap().order, Order::Security);
        assert_eq!(
            parsed("remove -z web p1").unwrap().patch.as_deref(),
            Some("p1")
        );
        assert_eq!(
            parsed("rollback -t p1").unwrap().patch.as_deref(),
            Some("p1")
        );
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        assert_eq!(
            complaint("apply a ./b.deb"),
            "package names and files do not go together"
        );
        assert_eq!(complaint("apply a b;c"), "b;c: not a package");
        assert_eq!(complaint("patch"), "patch: unknown subcommand");
        assert_eq!(
            complaint("remove"),
            "remove needs the name of a patch, as history shows it"
        );
        assert_eq!(complaint("status x"), "x: not expected");
        assert!(complaint("status -P 2").contains("-P"));
        assert!(complaint("status --time-limit 2").contains("--time-limit"));
        assert!(complaint("apply --time-limit soon").contains("soon"));
        assert!(complaint("apply -P 0").contains("at least one"));
        assert_eq!(
            complaint("apply --activate=then"),
            "--activate: next or now"
        );
        assert!(complaint("status --activate=now").contains("--activate"));
        assert!(complaint("plan --live").contains("--live"));
        assert!(complaint("apply --live --activate=now").contains("two ways"));
        assert_eq!(
            parsed("help apply").unwrap_err(),
            Problem::Help(Some("apply"))
        );
        assert!(matches!(parse(Vec::new()), Err(Problem::Nothing)));
    }
}
