//! Completes a line while the user types it.

use model::Config;
use model::brands::BRANDS;
use model::config::Resource;
use model::table::{self, GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};

use crate::command::{Scope, VERBS, Verb};
use crate::{help, lex};

/// The state of the session into which the line is typed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The present configuration of the session.
    pub config: Option<&'a Config>,
    /// The resource that the user specifies now, between `add` or `select` and `end`.
    pub resource: Option<&'a Resource>,
    /// The names of all templates and zones.
    pub templates: &'a [String],
}

/// Returns the offset at which the last word of `line` begins, and the possible completions of this
/// word.
#[must_use]
pub fn complete(line: &str, context: Context) -> (usize, Vec<String>) {
    let command_start = line.rfind(';').map_or(0, |at| at + 1);
    let command = &line[command_start..];
    let word_start = command
        .rfind(|c| lex::is_reserved(c) || c == ',')
        .map_or(0, |at| at + 1);
    let (before, word) = command.split_at(word_start);
    let mut candidates = candidates(before, context);
    candidates.retain(|candidate| candidate.starts_with(word));
    candidates.sort_unstable();
    candidates.dedup();
    (command_start + word_start, candidates)
}

fn candidates(before: &str, context: Context) -> Vec<String> {
    let words: Vec<&str> = before.split_whitespace().collect();
    let Some((verb, rest)) = words.split_first() else {
        let scope = if context.resource.is_some() {
            Scope::Resource
        } else {
            Scope::Global
        };
        let rows = VERBS
            .iter()
            .filter(|row| row.scope == Scope::Both || row.scope == scope);
        return rows.map(|row| format!("{} ", row.name)).collect();
    };
    let resource = context.resource.map(Resource::spec);
    let properties = resource.map_or(GLOBAL, |spec| spec.properties);
    let named = |name: &str| properties.iter().find(|spec| spec.name == name);
    match (Verb::find(verb), rest) {
        (Some(Verb::Set), []) => properties
            .iter()
            .map(|spec| format!("{}=", spec.name))
            .collect(),
        (Some(Verb::Set), [assignment, ..]) => assignment
            .split_once('=')
            .and_then(|(name, _)| named(name))
            .map_or_else(Vec::new, values),
        (Some(Verb::Clear), []) => properties
            .iter()
            .filter(|spec| spec.clearable)
            .map(|spec| spec.name.to_owned())
            .collect(),
        (Some(Verb::Add | Verb::Remove), []) if resource.is_some() => properties
            .iter()
            .filter(|spec| spec.is_list())
            .map(|spec| format!("{} ", spec.name))
            .collect(),
        (Some(Verb::Add), []) => RESOURCES.iter().map(|spec| spec.name.to_owned()).collect(),
        (Some(Verb::Remove | Verb::Select), []) => present(context.config),
        (Some(Verb::Info), []) => {
            let resources = RESOURCES.iter().map(|spec| spec.name.to_owned());
            let properties = properties.iter().map(|spec| spec.name.to_owned());
            resources.chain(properties).collect()
        }
        (Some(Verb::Info | Verb::Remove | Verb::Select), [name, filters @ ..]) => {
            let last = filters.last().copied().unwrap_or_default();
            table::resource(name).map_or_else(Vec::new, |spec| {
                filter_values(spec, before, last, context.config)
            })
        }
        (Some(Verb::Create), [.., "-t"]) => context.templates.to_vec(),
        (Some(Verb::Help), []) => {
            let own = ["usage", "commands", "syntax"].into_iter();
            let verbs = VERBS.iter().map(|row| row.name);
            let all = own
                .chain(verbs)
                .chain(RESOURCES.iter().map(|spec| spec.name));
            let all = all.chain(GLOBAL.iter().map(|spec| spec.name));
            all.filter(|name| help::subject(name).is_some())
                .map(str::to_owned)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the resource types of which the configuration has a resource.
fn present(config: Option<&Config>) -> Vec<String> {
    let Some(config) = config else {
        return Vec::new();
    };
    let present = RESOURCES
        .iter()
        .filter(|spec| !config.instances(spec).is_empty());
    present.map(|spec| format!("{} ", spec.name)).collect()
}

/// Returns the completions of a filter: the properties after `select fs `, the existing values
/// after `select fs dir=`.
fn filter_values(
    spec: &'static ResourceSpec,
    before: &str,
    last: &str,
    config: Option<&Config>,
) -> Vec<String> {
    match last.split_once('=') {
        Some((name, _)) if !before.ends_with(char::is_whitespace) => config
            .into_iter()
            .flat_map(|config| config.instances(spec))
            .map(|one| one.get(name).to_owned())
            .filter(|value| !value.is_empty())
            .collect(),
        _ => spec
            .properties
            .iter()
            .filter(|one| !one.is_list())
            .map(|one| format!("{}=", one.name))
            .collect(),
    }
}

fn values(spec: &PropertySpec) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match spec.kind {
        Kind::Bool => words(&["true", "false"]),
        Kind::Enum(choices) | Kind::Words(choices) | Kind::OneOf(choices, _) => words(choices),
        Kind::Brand => BRANDS.iter().map(|brand| brand.name.to_owned()).collect(),
        Kind::FsType => words(&["lofs", "tmpfs", "ext4", "btrfs", "xfs", "zfs"]),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete_in(line: &str, context: Context) -> Vec<String> {
        let (start, words) = complete(line, context);
        let whole = |word| format!("{}{word}", &line[..start]);
        words.into_iter().map(whole).collect()
    }

    #[test]
    fn words_come_from_the_tables() {
        let templates = ["SUNWblank".to_owned(), "SUNWlx".to_owned()];
        let context = Context {
            templates: &templates,
            ..Context::default()
        };
        for (line, expected) in [
            ("cr", &["create "][..]),
            ("create; ver", &["create; verify "]),
            ("set autob", &["set autoboot="]),
            (
                "set autoboot=",
                &["set autoboot=false", "set autoboot=true"],
            ),
            ("set ip-type=e", &["set ip-type=exclusive"]),
            ("set nosuch=", &[]),
            ("add at", &["add attr"]),
            ("create -F -t SUNWl", &["create -F -t SUNWlx"]),
            ("info fs d", &["info fs dir="]),
            ("clear boota", &["clear bootargs"]),
            ("help inh", &["help inherit-pkg-dir"]),
            ("bogus x", &[]),
            ("en", &[]),
        ] {
            assert_eq!(complete_in(line, context), expected, "{line}");
        }
    }

    #[test]
    fn values_come_from_the_configuration() {
        let mut config = Config::new("web1".parse().unwrap());
        let mut fs = Resource::new(table::resource("fs").unwrap());
        fs.set("dir", "/data").unwrap();
        config.add(fs.clone()).unwrap();
        let context = Context {
            config: Some(&config),
            ..Context::default()
        };
        assert_eq!(complete_in("select ", context), ["select fs "]);
        assert_eq!(
            complete_in("select fs dir=/", context),
            ["select fs dir=/data"]
        );
        let inside = Context {
            resource: Some(&fs),
            ..context
        };
        assert_eq!(complete_in("add ", inside), ["add options "]);
        assert_eq!(complete_in("en", inside), ["end "]);
        assert_eq!(complete_in("set ty", inside), ["set type="]);
    }
}
