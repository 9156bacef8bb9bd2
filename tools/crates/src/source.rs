//! Reads the modules of a library or program from their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use syn::{Item, ItemMod, Meta};

/// The path of a module: the names from the root downwards.
pub type Place = Vec<String>;

/// A module without its tests.
pub struct Module {
    /// The file of the module, below the folder of the root.
    pub file: PathBuf,
    /// Number of lines of the file, without the modules of tests in it.
    pub lines: usize,
    /// The items of the module, without modules of tests.
    pub items: Vec<Item>,
}

/// All modules of a library or program.
pub type Source = BTreeMap<Place, Module>;

/// Reads the modules below a root, which is `src/lib.rs` or `src/main.rs`.
///
/// # Errors
///
/// Fails if a file cannot be read, or is not valid Rust.
pub fn read(root: &Path) -> anyhow::Result<Source> {
    let mut source = Source::new();
    let folder = root.parent().context("a root without a folder")?;
    read_file(&mut source, folder, root, folder, &[])?;
    Ok(source)
}

/// Reads one file; the files of its modules are in the folder `below`.
fn read_file(
    source: &mut Source,
    top: &Path,
    path: &Path,
    below: &Path,
    place: &[String],
) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
    let file = path.strip_prefix(top).unwrap_or(path).to_owned();
    let tests: usize = parsed
        .items
        .iter()
        .filter(|item| is_test(item))
        .map(lines_of)
        .sum();
    let lines = text.lines().count() - tests;
    add(
        source,
        top,
        below,
        place,
        Module {
            file,
            lines,
            items: parsed.items,
        },
    )
}

/// Adds a module and the modules in it.
fn add(
    source: &mut Source,
    top: &Path,
    below: &Path,
    place: &[String],
    mut module: Module,
) -> anyhow::Result<()> {
    module.items.retain(|item| !is_test(item));
    for item in &module.items {
        let Item::Mod(inner) = item else { continue };
        let name = inner.ident.to_string();
        let place = [place, std::slice::from_ref(&name)].concat();
        let within = below.join(&name);
        if let Some((_, items)) = &inner.content {
            let inner = Module {
                file: module.file.clone(),
                lines: 0,
                items: items.clone(),
            };
            add(source, top, &within, &place, inner)?;
        } else {
            read_file(source, top, &file_of(inner, below), &within, &place)?;
        }
    }
    source.insert(place.to_vec(), module);
    Ok(())
}

/// Returns the file of a module that is declared in a file whose modules are in `below`.
fn file_of(module: &ItemMod, below: &Path) -> PathBuf {
    for attribute in &module.attrs {
        if let Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("path")
            && let syn::Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(path) = &literal.lit
        {
            // The file has the same parent as the folder of its modules; that folder need not
            // exist.
            return below.with_file_name(path.value());
        }
    }
    let file = below.join(format!("{}.rs", module.ident));
    // Tests share helper modules in this form: each other file of the folder is a test.
    let shared = below.join(module.ident.to_string()).join("mod.rs");
    match file.exists() {
        false if shared.exists() => shared,
        _ => file,
    }
}

/// Returns the number of lines of a module in braces.
fn lines_of(item: &Item) -> usize {
    let Item::Mod(module) = item else { return 0 };
    let Some((braces, _)) = &module.content else {
        return 0;
    };
    braces.span.close().end().line - braces.span.open().start().line + 1
}

/// Returns whether an item is compiled for tests only.
fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}
