//! Finds the imports between files.
//!
//! A module in the middle of a path does not count as imported, and neither does a `pub use`: a
//! name counts for the file that defines it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use crate::source::{Place, Source};

/// For each file, the files that it imports from, and the imported names.
pub type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// Maximum number of nested aliases that are followed; two modules may have a `pub use` of each
/// other.
const MAX_ALIASES: usize = 20;

/// Returns the imports between the files of a library or program.
pub fn of(source: &Source) -> Imports {
    let scopes: Scopes = source
        .iter()
        .map(|(place, module)| (place.clone(), Scope::of(&module.items)))
        .collect();
    let mut imports = Imports::new();
    for (place, scope) in &scopes {
        let file = &source[place].file;
        for Mention { path, is_use } in &scope.mentions {
            let Some(owner) = resolve(&scopes, place, path, *is_use, MAX_ALIASES) else {
                continue;
            };
            let used = &source[&owner].file;
            if used != file {
                let names = imports
                    .entry(file.clone())
                    .or_default()
                    .entry(used.clone())
                    .or_default();
                names.extend(path.last().cloned());
            }
        }
    }
    imports
}

type Scopes = BTreeMap<Place, Scope>;

/// The names of a module.
#[derive(Default)]
struct Scope {
    /// The names that a `use` imports, with their paths.
    aliases: HashMap<String, Place>,
    /// The paths of `use x::*`.
    globs: Vec<Place>,
    /// The names that the module defines.
    items: BTreeSet<String>,
    /// The paths that occur in the module.
    mentions: BTreeSet<Mention>,
}

/// A path that occurs in a module.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    path: Place,
    /// True for a `use`, whose path can mean a module and a function with the same name; any other
    /// path with such a name means the function.
    is_use: bool,
}

impl Scope {
    fn of(items: &[Item]) -> Self {
        let mut scope = Self::default();
        for item in items {
            scope.items.extend(name_of(item));
            if !matches!(item, Item::Mod(_)) {
                scope.visit_item(item);
            }
        }
        scope
    }

    fn add_use(&mut self, tree: &UseTree, mut path: Place, counts: bool) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.add_use(&inner.tree, path, counts);
            }
            UseTree::Name(inner) => {
                self.add_alias(inner.ident.to_string(), &inner.ident, path, counts);
            }
            UseTree::Rename(inner) => {
                self.add_alias(inner.rename.to_string(), &inner.ident, path, counts);
            }
            UseTree::Glob(_) => self.globs.push(path),
            UseTree::Group(group) => {
                for inner in &group.items {
                    self.add_use(inner, path.clone(), counts);
                }
            }
        }
    }

    fn add_alias(&mut self, mut alias: String, name: &syn::Ident, mut path: Place, counts: bool) {
        if name == "self" {
            if alias == "self" {
                alias = path.last().cloned().unwrap_or_default();
            }
        } else {
            path.push(name.to_string());
        }
        if counts {
            self.mention(path.clone(), true);
        }
        self.aliases.insert(alias, path);
    }

    /// Adds the paths in the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Place::new();
        let mut before = ' ';
        for token in tokens {
            match token {
                TokenTree::Ident(word) if before == '.' => drop(word),
                TokenTree::Ident(word) => {
                    if before != ':' {
                        self.mention(std::mem::take(&mut path), false);
                    }
                    path.push(word.to_string());
                    before = 'a';
                }
                TokenTree::Punct(mark) => before = mark.as_char(),
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    before = ' ';
                }
                TokenTree::Literal(_) => before = ' ',
            }
        }
        self.mention(path, false);
    }

    fn mention(&mut self, path: Place, is_use: bool) {
        if !path.is_empty() {
            self.mentions.insert(Mention { path, is_use });
        }
    }
}

impl Visit<'_> for Scope {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let counts = matches!(item.vis, Visibility::Inherited);
        self.add_use(&item.tree, Place::new(), counts);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter();
            let names = names.map(|segment| segment.ident.to_string());
            self.mention(names.collect(), false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &Visibility) {}
    fn visit_attribute(&mut self, _: &syn::Attribute) {}
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => return item.ident.as_ref().map(ToString::to_string),
        _ => return None,
    };
    Some(name.to_string())
}

/// Returns the module that defines the item at `path`, as module `from` names it; `None` if the
/// path is a module, or belongs to another crate.
fn resolve(
    scopes: &Scopes,
    from: &Place,
    path: &[String],
    is_use: bool,
    aliases: usize,
) -> Option<Place> {
    let (first, rest) = path.split_first()?;
    match &**first {
        "crate" => walk(scopes, Place::new(), rest, is_use, aliases),
        "self" => walk(scopes, from.clone(), rest, is_use, aliases),
        "super" => {
            let parent = from[..from.len().checked_sub(1)?].to_vec();
            if rest.first().is_some_and(|next| next == "super") {
                return resolve(scopes, &parent, rest, is_use, aliases);
            }
            walk(scopes, parent, rest, is_use, aliases)
        }
        _ => walk(scopes, from.clone(), path, is_use, aliases),
    }
}

/// Follows a path downwards from a module.
fn walk(
    scopes: &Scopes,
    mut place: Place,
    path: &[String],
    is_use: bool,
    aliases: usize,
) -> Option<Place> {
    let (first, rest) = path.split_first()?;
    let scope = scopes.get(&place)?;
    place.push(first.clone());
    let is_module = scopes.contains_key(&place);
    if is_module && (is_use || !rest.is_empty()) {
        return walk(scopes, place, rest, is_use, aliases);
    }
    place.pop();
    if scope.items.contains(first) {
        return Some(place);
    }
    let left = aliases.checked_sub(1)?;
    if let Some(alias) = scope.aliases.get(first) {
        if alias.first() == Some(first) && !is_module {
            // `use serde`: another crate.
            return None;
        }
        return resolve(scopes, &place, &[alias, rest].concat(), is_use, left);
    }
    scope.globs.iter().find_map(|glob| {
        let path = [&**glob, path].concat();
        resolve(scopes, &place, &path, is_use, left)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Module;

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let mut source = Source::new();
        for (name, text) in files {
            let place: Place = name
                .split('/')
                .filter(|part| *part != "lib")
                .map(Into::into)
                .collect();
            let items = syn::parse_file(text).unwrap().items;
            source.insert(
                place,
                Module {
                    file: name.into(),
                    lines: 0,
                    items,
                },
            );
        }
        let mut found = Vec::new();
        for (file, uses) in of(&source) {
            for (used, names) in uses {
                found.push(format!(
                    "{} {} {}",
                    file.display(),
                    used.display(),
                    Vec::from_iter(names).join(" ")
                ));
            }
        }
        found
    }

    #[test]
    fn a_name_counts_for_the_file_that_defines_it() {
        let found = imports(&[
            ("lib", "mod a; mod b; pub use a::Thing; pub use b::*;"),
            (
                "a",
                "use crate::{make, other::Crate}; pub struct Thing; fn f() { make() }",
            ),
            ("b", "use super::Thing; pub fn make() -> Thing { Thing }"),
        ]);
        assert_eq!(found, ["a b make", "b a Thing"]);
    }

    #[test]
    fn a_module_on_the_way_does_not_count() {
        let found = imports(&[
            ("lib", "mod a; mod b; fn f() { a::g(); }"),
            ("a", "use crate::b; pub fn g() { b::inner::h(); }"),
            ("b", "pub mod inner; use crate::a;"),
            ("b/inner", "pub fn h() {}"),
        ]);
        assert_eq!(found, ["a b/inner h", "lib a g"]);
    }

    #[test]
    fn a_function_with_the_name_of_a_module_counts() {
        let found = imports(&[
            ("lib", "mod boot; mod halt; mod b; pub use boot::boot;"),
            ("boot", "pub fn boot() {}"),
            ("halt", "use crate::b; fn f() { crate::boot(); }"),
            ("b", "use crate::boot; fn f() { boot(); boot::boot(); }"),
        ]);
        assert_eq!(found, ["b boot boot", "halt boot boot"]);
    }

    #[test]
    fn a_path_without_a_use_counts() {
        let found = imports(&[
            ("lib", "mod a; mod b;"),
            ("a", "fn f() { crate::b::c::g(); let _ = super::b::S; }"),
            ("b", "mod c; pub struct S;"),
            ("b/c", "pub fn g() -> super::S { super::super::b::S }"),
        ]);
        assert_eq!(found, ["a b S", "a b/c g", "b/c b S"]);
    }

    #[test]
    fn words_of_macros_count() {
        let found = imports(&[
            ("lib", "mod a; const LIMIT: u32 = 1;"),
            (
                "a",
                "fn g() { println!(\"{}\", crate::LIMIT.min(super::LIMIT)); }",
            ),
        ]);
        assert_eq!(found, ["a lib LIMIT"]);
    }

    #[test]
    fn a_child_that_names_its_parent_imports_it() {
        let found = imports(&[
            ("lib", "mod a;"),
            ("a", "mod c; pub(super) fn up() { c::down() }"),
            (
                "a/c",
                "pub(in crate::a) fn down() { super::up(); super::super::nothing(); }",
            ),
        ]);
        assert_eq!(found, ["a a/c down", "a/c a up"]);
    }
}
