//! Generates configurations from bytes, with all properties that the table has. Property tests and
//! fuzzers use the generated configurations (feature `generate`).
//!
//! This code does not depend on single rows of the table. The generator tries several texts for a
//! property and uses the first text that the property accepts. Therefore a new row of the table is
//! covered if one of the texts fits the kind of the property.

use crate::brands::{BRANDS, Family};
use crate::config::{Resource, Value};
use crate::table::{Brands, GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};
use crate::{Config, ZoneName, verify};

/// Texts that are valid for at least one kind of property.
const WORDS: &[&str] = &[
    "1",
    "true",
    "string",
    "/a",
    "web",
    "0.5",
    "1-4",
    "4g",
    "64",
    "1000",
    "10.0.0.1/24",
    "10.0.0.1",
    "fe80::1/10",
    "2:8:20:0:1:a",
    "net0",
    "tank/web",
    "zone.max-lwps",
    "zone.cpu-shares",
    "zone.max-swap",
    "/a b;c",
    "/%{zonename}",
    "a,b",
];

/// Pieces of generated texts: words that have a meaning in the language or in XML, and other text.
const PIECES: &[&str] = &[
    "a",
    "b",
    "7",
    " ",
    "=",
    ",",
    ";",
    "#",
    "(",
    ")",
    "[",
    "]",
    "'",
    "<",
    "&",
    ">",
    "/",
    "\\",
    "\u{e9}",
    "\u{2028}",
    "%%",
    "%{zonename}",
    ":",
    "-",
    "&amp;",
    "add",
    "end",
];

/// Choices read from bytes. After the last byte, every choice takes the first possibility.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Returns the choices that the bytes stand for.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns a number below `count`, or 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        usize::from(*first) % count.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len())).copied()
    }

    fn text(&mut self) -> String {
        let pieces = self.below(8);
        let pieces = (0..pieces).filter_map(|_| self.one_of(PIECES));
        pieces.collect()
    }

    /// Returns texts for a property, valid or not. `self` decides the order of the texts.
    fn candidates(&mut self, kind: Kind) -> Vec<String> {
        let text = self.text();
        let mut all = vec![format!("/{text}"), text];
        all.extend(words(kind).iter().map(|word| (*word).to_owned()));
        if kind == Kind::Brand {
            all.extend(BRANDS.iter().map(|brand| brand.name.to_owned()));
        }
        if kind == Kind::Label {
            all.push("0x0004-08-68".to_owned());
        }
        all.extend(WORDS.iter().map(|word| (*word).to_owned()));
        let first = self.below(all.len());
        all.rotate_left(first);
        all
    }
}

/// Returns the words among which a kind chooses.
const fn words(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Enum(words) | Kind::Words(words) | Kind::OneOf(words, _) => words,
        _ => &[],
    }
}

/// Returns the configuration that the bytes stand for. Each generated resource is complete. The
/// configuration has no property or resource that its brand does not have.
#[must_use]
pub fn config(name: &ZoneName, bytes: &[u8]) -> Config {
    let choices = &mut Choices::new(bytes);
    let mut config = Config::new(name.clone());
    // The brand is chosen first, because the brand decides which properties exist.
    let brand = GLOBAL.iter().filter(|spec| spec.kind == Kind::Brand);
    let rest = GLOBAL.iter().filter(|spec| spec.kind != Kind::Brand);
    for spec in brand.chain(rest) {
        let wanted = spec.required || choices.below(2) == 1;
        if wanted && spec.kind != Kind::ZoneName && spec.brands.has(config.family()) {
            let candidates = choices.candidates(spec.kind);
            let _ = candidates
                .iter()
                .any(|text| config.set(spec.name, text).is_ok());
        }
    }
    let types: Vec<_> = RESOURCES
        .iter()
        .filter(|spec| spec.brands.has(config.family()))
        .collect();
    for _ in 0..choices.below(8) {
        let spec = choices.one_of(&types);
        if let Some(made) = spec.and_then(|spec| resource(spec, config.family(), choices)) {
            // A second resource with the same keys is refused.
            let _ = config.add(made);
        }
    }
    config
}

/// Returns a complete resource, or `None` if the choices lead to no legal resource.
pub fn resource(
    spec: &'static ResourceSpec,
    family: Family,
    choices: &mut Choices,
) -> Option<Resource> {
    // Some properties exclude each other, so a first attempt may fail.
    for _ in 0..8 {
        let mut resource = Resource::new(spec);
        let dense = choices.below(2) == 0;
        for property in spec.properties {
            let wanted = property.required || (choices.below(4) == 0) != dense;
            if wanted && property.brands.has(family) {
                fill(&mut resource, property, choices);
            }
        }
        if verify::resource(&resource).is_empty() {
            return Some(resource);
        }
    }
    None
}

fn fill(resource: &mut Resource, spec: &PropertySpec, choices: &mut Choices) {
    if let Kind::Complex(fields) = spec.kind {
        let field =
            |field: &&str, choices: &mut Choices| ((*field).to_owned(), part(field, choices));
        for _ in 0..1 + choices.below(3) {
            let pairs = fields.iter().map(|name| field(name, choices)).collect();
            let _ = resource.add_value(spec.name, Value::Complex(pairs));
        }
        return;
    }
    if spec.secret {
        // A secret is a key, and no generated text is a valid key.
        let _ = resource.set(spec.name, &"0f".repeat(32));
        return;
    }
    let count = if spec.is_list() {
        1 + choices.below(4)
    } else {
        1
    };
    for _ in 0..count {
        let candidates = choices.candidates(spec.kind);
        let _ = candidates.into_iter().any(|text| {
            let value = Value::Simple(text);
            if spec.is_list() {
                resource.add_value(spec.name, value).is_ok()
            } else {
                resource.set_value(spec.name, value).is_ok() && resource.has(spec.name)
            }
        });
    }
}

/// Returns the text of one field of a complex value.
fn part(field: &str, choices: &mut Choices) -> String {
    let known: &[&str] = match field {
        "priv" => &["privileged", "basic"],
        "limit" => &["1", "10", "4294967296"],
        "action" => &["deny", "none"],
        _ => &[],
    };
    choices
        .one_of(known)
        .map_or_else(|| choices.text(), str::to_owned)
}

/// Returns configurations that together set every row of the table.
///
/// # Errors
/// Fails with the rows for which no text fits, as `property` or `resource property`.
pub fn every_row(name: &ZoneName) -> Result<Vec<Config>, Vec<String>> {
    let rows = |config: &Config| {
        let global = GLOBAL
            .iter()
            .filter(|spec| config.get(spec.name) != spec.default);
        let global = global.map(|spec| spec.name.to_owned());
        let instances = RESOURCES.iter().flat_map(|spec| config.instances(spec));
        let resources = instances.flat_map(|resource| {
            let spec = resource.spec();
            let set = spec.properties.iter().filter(|one| resource.has(one.name));
            let names = set.map(|one| format!("{} {}", spec.name, one.name));
            names.collect::<Vec<_>>()
        });
        global.chain(resources).collect::<Vec<_>>()
    };
    // The global zone has some properties of its own, which are not generated for a zone.
    let is_ours = |brands: Brands| BRANDS.iter().any(|brand| brands.has(brand.family));
    let globals = GLOBAL.iter().filter(|spec| is_ours(spec.brands));
    let mut missing: Vec<String> = globals.map(|spec| spec.name.to_owned()).collect();
    for spec in RESOURCES.iter().filter(|spec| is_ours(spec.brands)) {
        let properties = spec.properties.iter().filter(|one| is_ours(one.brands));
        let names = properties.map(|one| one.name);
        missing.extend(names.map(|one| format!("{} {one}", spec.name)));
    }
    let mut configs = Vec::new();
    // Any bytes are good enough, so a multiplicative generator makes them.
    let mut state = 1u64;
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..2048)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                state.to_be_bytes()[0]
            })
            .collect();
        let made = config(name, &bytes);
        let set = rows(&made);
        let before = missing.len();
        missing.retain(|row| !set.contains(row));
        if missing.len() < before {
            configs.push(made);
        }
        if missing.is_empty() {
            return Ok(configs);
        }
    }
    Err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_generated() {
        let configs = every_row(&"web1".parse().unwrap()).unwrap();
        assert!(configs.len() > 2);
    }

    #[test]
    fn an_empty_input_generates_an_almost_empty_configuration() {
        let config = config(&"web1".parse().unwrap(), &[]);
        assert_eq!(config.resources(), []);
        assert_ne!(config.get("zonepath"), "");
    }
}
