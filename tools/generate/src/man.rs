//! Generates sections of the manual pages, in mdoc(7).
//!
//! A page is written by hand; this program replaces the text between the comments `.\" begin NAME`
//! and `.\" end NAME`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use model::brands::{BRANDS, Family};
use model::table::{Brands, Effect, GLOBAL, Kind, PropertySpec, RESOURCES};
use model::verb::Admission;
use model::{State, Verb};
use store::template;

use crate::made::Made;
use crate::programs::{SUBCOMMANDS, verb};
use crate::schema::brand_names;

const FOLDER: &str = "docs/man";

/// Maximum length of a line in the source of a page.
const WIDTH: usize = 80;

/// The name of a section and the function that generates it.
type Section = (&'static str, fn() -> String);

const SECTIONS: [Section; 5] = [
    ("properties", globals),
    ("resources", resources),
    ("transitions", transitions),
    ("brands", brands),
    ("templates", templates),
];

/// Returns every page with its sections generated again.
pub fn files(top: &Path) -> anyhow::Result<Vec<Made>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(top.join(FOLDER))
        .with_context(|| format!("read {FOLDER}"))?
        .map(|entry| Ok(Path::new(FOLDER).join(entry?.file_name())))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    let page = |path: PathBuf| {
        let text = fs::read_to_string(top.join(&path))?;
        let text = fill(&text).with_context(|| path.display().to_string())?;
        Ok((path, text))
    };
    paths.into_iter().map(page).collect()
}

/// Returns the page with new text between the marker comments.
fn fill(page: &str) -> anyhow::Result<String> {
    let mut out = String::with_capacity(page.len());
    let mut inside = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix(".\\\" begin ") {
            let section = SECTIONS.iter().find(|(known, _)| *known == name);
            let Some((_, make)) = section else {
                bail!("begin {name}: there is no such section");
            };
            inside = Some(name);
            writeln!(out, "{line}\n{}", make().trim_end())?;
        }
        let end = inside.is_some() && line.strip_prefix(".\\\" end ") == inside;
        if end {
            inside = None;
        }
        if inside.is_none() {
            writeln!(out, "{line}")?;
        }
    }
    match inside {
        Some(name) => bail!("begin {name}: no end"),
        None => Ok(out),
    }
}

fn globals() -> String {
    list(GLOBAL)
}

fn resources() -> String {
    let mut out = String::new();
    for spec in RESOURCES {
        let mut facts = Vec::new();
        if spec.singleton {
            facts.push("at most one".to_owned());
        }
        facts.extend(brand_fact(spec.brands));
        for (holds, fact) in [
            (spec.fixed, "fixed once installed"),
            (spec.live, "live"),
            (spec.delegable, "delegable"),
        ] {
            if holds {
                facts.push(fact.to_owned());
            }
        }
        facts.extend(effect(spec.effect));
        let _ = writeln!(out, ".Ss {}\n{}", spec.name, sentences(spec.help));
        if !facts.is_empty() {
            let _ = writeln!(out, "{}", in_parentheses(&facts));
        }
        out.push_str(&list(spec.properties));
    }
    out
}

fn list(specs: &[PropertySpec]) -> String {
    let mut out = String::from(".Bl -tag -width Ds\n");
    for spec in specs {
        let _ = writeln!(
            out,
            ".It Cm {}\n{}\n{}",
            spec.name,
            sentences(spec.help),
            in_parentheses(&facts(spec))
        );
    }
    out.push_str(".El\n");
    out
}

/// Returns type, default, brands and rules of a property, in the terms that the page defines.
fn facts(spec: &PropertySpec) -> Vec<String> {
    let mut facts = vec![kind(spec.kind)];
    if spec.required {
        facts.push("required".to_owned());
    }
    if !spec.default.is_empty() {
        facts.push(format!("default {}", escape(spec.default)));
    }
    facts.extend(brand_fact(spec.brands));
    for (holds, fact) in [
        (spec.fixed, "fixed once installed"),
        (!spec.clearable && !spec.required, "cannot be cleared"),
        (spec.live, "live"),
        (spec.delegable, "delegable"),
    ] {
        if holds {
            facts.push(fact.to_owned());
        }
    }
    if !spec.tokens.is_empty() {
        let tokens: Vec<&str> = spec.tokens.iter().map(|token| token.name()).collect();
        facts.push(format!("tokens {}", tokens.join(", ")));
    }
    facts.extend(effect(spec.effect));
    facts
}

fn brand_fact(brands: Brands) -> Option<String> {
    match brand_names(brands) {
        Some(names) if names.is_empty() => Some("only of the global zone".to_owned()),
        Some(names) => Some(format!("brand {}", names.join(", "))),
        None if brands == Brands::AndGlobal => Some("also of the global zone".to_owned()),
        None => None,
    }
}

fn effect(effect: Effect) -> Option<String> {
    match effect {
        Effect::Honoured => None,
        Effect::NotYet => Some("no effect yet".to_owned()),
        Effect::None => Some("kept, without effect".to_owned()),
    }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Path | Kind::ZonePath => "path".to_owned(),
        Kind::Int { min, max } if max >= u64::from(u32::MAX) => format!("number, {min} or more"),
        Kind::Int { min, max } => format!("number, {min} to {max}"),
        Kind::Size => "size".to_owned(),
        Kind::Cpus => "CPUs".to_owned(),
        Kind::CpuRange => "CPUs or a range".to_owned(),
        Kind::Enum(words) => words.join(" | "),
        Kind::Words(words) => format!("some of {}", words.join(", ")),
        Kind::OneOf(words, other) => format!("{} | {}", words.join(" | "), self::kind(*other)),
        Kind::List => "list".to_owned(),
        Kind::Complex(fields) => format!("list of ({})", fields.join(", ")),
        Kind::ZoneName => "zone name".to_owned(),
        Kind::Brand => "brand".to_owned(),
        Kind::Label => "label".to_owned(),
        Kind::HostId => "hexadecimal number".to_owned(),
        Kind::Address => "address".to_owned(),
        Kind::Addresses => "addresses".to_owned(),
        Kind::Router => "address without prefix".to_owned(),
        Kind::Mac => "Ethernet address".to_owned(),
        Kind::Link => "link".to_owned(),
        Kind::Dataset => "dataset".to_owned(),
        Kind::RctlName => "resource control".to_owned(),
        Kind::User => "user".to_owned(),
        Kind::Bandwidth => "bandwidth".to_owned(),
        Kind::Ports => "port or range of ports".to_owned(),
        Kind::FsType | Kind::AttrName => "word".to_owned(),
        _ => "text".to_owned(),
    }
}

/// Returns the states in which each subcommand of zoneadm is permitted, and those that it already
/// achieved.
fn transitions() -> String {
    let mut out = String::from(".Bl -tag -width \"destroy-snapshot\" -compact\n");
    for one in SUBCOMMANDS {
        let Some(verb) = verb(one.name) else { continue };
        let acts = states(verb, |admission| *admission == Admission::Go);
        let already = states(verb, |admission| matches!(admission, Admission::Already(_)));
        let text = match already.as_str() {
            "" => acts,
            already => format!("{acts}; already so in {already}"),
        };
        let _ = writeln!(out, ".It Cm {verb}\n{}", wrap(&text));
    }
    out.push_str(".El\n");
    out
}

fn states(verb: Verb, which: impl Fn(&Admission) -> bool) -> String {
    let states = State::ALL.into_iter();
    let names: Vec<&str> = states
        .filter(|state| which(&verb.admission(*state)))
        .map(State::as_str)
        .collect();
    match names.len() {
        n if n == State::ALL.len() => "any state".to_owned(),
        _ => names.join(", "),
    }
}

fn brands() -> String {
    let mut out = String::from(
        ".Bl -column \"solaris-kz\" \"native\" \"inherited directories\"\n\
         .It Em brand Ta Em acts as Ta Em root\n",
    );
    for brand in BRANDS {
        let own = BRANDS.iter().find(|other| other.family == brand.family);
        let root = match (brand.family, brand.sparse) {
            (_, true) => "sparse",
            (Family::Native, false) => "sparse with inherit-pkg-dir, else whole",
            (Family::Kz, _) => "a disk",
            _ => "whole",
        };
        let acts_as = own.map_or("", |own| own.name);
        let _ = writeln!(out, ".It Cm {} Ta {acts_as} Ta {root}", brand.name);
    }
    out.push_str(".El\n");
    out
}

fn templates() -> String {
    let names: Vec<&str> = template::built_in().collect();
    let mut out = String::new();
    for (place, name) in names.iter().enumerate() {
        let after = match names.len() - place {
            1 => "",
            2 => " and",
            _ => " ,",
        };
        match after {
            " and" => {
                let _ = writeln!(out, ".Cm {name}\nand");
            }
            _ => {
                let _ = writeln!(out, ".Cm {name}{after}");
            }
        }
    }
    out
}

fn in_parentheses(facts: &[String]) -> String {
    wrap(&format!("({})", facts.join("; ")))
}

/// Returns text for mdoc: words that look like instructions are protected, and each sentence begins
/// a new line, so that the formatter recognizes the ends of sentences.
fn sentences(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.split(". ").flat_map(|part| part.split('\n')) {
        let line = line.trim();
        if !line.is_empty() {
            lines.push(escape(line));
        }
    }
    let mut out = lines.join(".\n");
    if !out.ends_with(['.', '!', '?', ':']) {
        out.push('.');
    }
    let lines: Vec<String> = out.lines().map(wrap).collect();
    lines.join("\n")
}

/// Returns the text of a line in lines that fit the width.
fn wrap(line: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        if width > 0 && width + word.len() >= WIDTH {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
        }
        // At the beginning of a line, these characters would start an instruction.
        if width == 0 && word.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        out.push_str(word);
        width += word.len() + 1;
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        fs::read_to_string(crate::top().join(FOLDER).join(name)).unwrap()
    }

    /// Returns the commands of a page, from one heading to the next.
    fn commands<'a>(page: &'a str, section: &str) -> Vec<&'a str> {
        let (_, rest) = page.split_once(&format!("\n.Sh {section}\n")).unwrap();
        let rest = rest.split("\n.Sh ").next().unwrap();
        let rest = rest.split("\n.It Ic ").skip(1);
        rest.flat_map(|part| part.split("\n.It Xo Ic ")).collect()
    }

    /// Returns the command that a part of the page describes.
    fn names(part: &str) -> &str {
        part.split_whitespace().next().unwrap_or_default()
    }

    /// Returns true if the part names an option, alone or as a letter among others: `Fl cins`.
    fn tells(part: &str, flag: &str) -> bool {
        let name = flag.strip_prefix('-').unwrap_or(flag);
        let macros = part.split("Fl ").skip(1).flat_map(str::lines);
        let mut words = macros.flat_map(|line| line.split([' ', ',']));
        // Every subcommand has -n, which the page describes once; "--" only ends the options.
        let letter = name.len() == 1;
        matches!(name, "n" | "-")
            || words.any(|word| word == name || (letter && word.len() < 6 && word.contains(name)))
    }

    #[test]
    fn pages_keep_what_is_written_by_hand() {
        let page = "a\n.\\\" begin brands\nold\n.\\\" end brands\nb\n";
        let filled = fill(page).unwrap();
        assert!(filled.starts_with("a\n.\\\" begin brands\n.Bl "));
        assert!(filled.ends_with(".El\n.\\\" end brands\nb\n"));
        assert_eq!(fill(&filled).unwrap(), filled);
        assert!(fill("\n.\\\" begin brands\n").is_err());
        assert!(fill("\n.\\\" begin nothing\n").is_err());
    }

    #[test]
    fn text_is_no_instruction() {
        assert_eq!(sentences(".Sh a\\b"), "\\&.Sh a\\eb.");
        assert_eq!(
            sentences("One. 'two. Three: a"),
            "One.\n\\&'two.\nThree: a."
        );
    }

    #[test]
    fn every_command_of_zonecfg_is_described() {
        let page = page("zonecfg.8");
        let parts = commands(&page, "COMMANDS");
        for row in syntax::command::VERBS {
            let own: Vec<&str> = parts
                .iter()
                .filter(|part| names(part) == row.name)
                .copied()
                .collect();
            assert!(!own.is_empty(), "zonecfg.8: {}", row.name);
            for flag in crate::programs::forms(row.usage) {
                let told = own.iter().any(|part| tells(part, &flag.name));
                assert!(told, "zonecfg.8: {} {}", row.name, flag.name);
            }
        }
    }

    #[test]
    fn every_subcommand_of_zoneadm_is_described_with_its_options() {
        let page = page("zoneadm.8");
        let parts = commands(&page, "SUBCOMMANDS");
        for one in SUBCOMMANDS {
            let part = parts.iter().find(|part| names(part) == one.name);
            let part = part.unwrap_or_else(|| panic!("zoneadm.8: {}", one.name));
            for flag in crate::programs::flags(one) {
                assert!(
                    tells(part, &flag.name),
                    "zoneadm.8: {} {}",
                    one.name,
                    flag.name
                );
            }
        }
    }

    #[test]
    fn every_subcommand_of_zoneimg_is_described_with_its_options() {
        let page = page("zoneimg.8");
        let parts = commands(&page, "SUBCOMMANDS");
        for one in crate::programs::IMAGE_SUBCOMMANDS {
            let part = parts.iter().find(|part| names(part) == one.name);
            let part = part.unwrap_or_else(|| panic!("zoneimg.8: {}", one.name));
            for flag in crate::programs::told(one.form, one.help) {
                let told = tells(part, &flag.name);
                assert!(told, "zoneimg.8: {} {}", one.name, flag.name);
            }
        }
    }

    #[test]
    fn every_subcommand_of_zonesuspend_is_described_with_its_options() {
        let page = page("zonesuspend.8");
        let parts = commands(&page, "SUBCOMMANDS");
        for one in crate::programs::SUSPEND_SUBCOMMANDS {
            let part = parts.iter().find(|part| names(part) == one.name);
            let part = part.unwrap_or_else(|| panic!("zonesuspend.8: {}", one.name));
            for flag in crate::programs::told(one.form, one.help) {
                let told = tells(part, &flag.name);
                assert!(told, "zonesuspend.8: {} {}", one.name, flag.name);
            }
        }
    }
}
