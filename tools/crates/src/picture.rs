//! Draws the diagram of the crates of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

/// A library or program of the workspace that is part of the product.
#[derive(Debug, Clone)]
pub struct Crate {
    /// The name of its package.
    pub name: String,
    /// Its first file: `src/lib.rs` or `src/main.rs`.
    pub root: PathBuf,
    /// The libraries of the workspace that it uses.
    pub uses: BTreeSet<String>,
    /// True if it is a program.
    pub program: bool,
}

/// Folders with the crates of the product; tests, tools and benchmarks are not in them.
const FOLDERS: [&str; 2] = ["crates", "bin"];

/// Returns the crates of the project in folder `top`, as cargo lists them.
pub fn crates(top: &Path) -> anyhow::Result<Vec<Crate>> {
    parse(&metadata(top)?)
}

/// Returns the libraries, programs and tests of the project in folder `top`: each with the name of
/// its package and its first file.
pub fn roots(top: &Path) -> anyhow::Result<BTreeSet<(String, PathBuf)>> {
    let mut found = BTreeSet::new();
    for package in list(&metadata(top)?["packages"])? {
        for target in list(&package["targets"])? {
            let root = text(&target["src_path"])?;
            found.insert((text(&package["name"])?.to_owned(), root.into()));
        }
    }
    Ok(found)
}

fn metadata(top: &Path) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(top)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        anyhow::bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn parse(metadata: &Value) -> anyhow::Result<Vec<Crate>> {
    let top = Path::new(text(&metadata["workspace_root"])?);
    let mut found = Vec::new();
    for package in list(&metadata["packages"])? {
        let folder = Path::new(text(&package["manifest_path"])?).strip_prefix(top)?;
        if !FOLDERS.iter().any(|below| folder.starts_with(below)) {
            continue;
        }
        found.extend(of_package(package)?);
    }
    let names: BTreeSet<String> = found.iter().map(|one| one.name.clone()).collect();
    for one in &mut found {
        one.uses.retain(|used| names.contains(used));
    }
    Ok(found)
}

/// Returns the libraries and programs of a package; its tests and examples are left out.
fn of_package(package: &Value) -> anyhow::Result<Vec<Crate>> {
    let mut uses = BTreeSet::new();
    for dependency in list(&package["dependencies"])? {
        if dependency["kind"].is_null() {
            uses.insert(text(&dependency["name"])?.to_owned());
        }
    }
    let mut found = Vec::new();
    for target in list(&package["targets"])? {
        let kinds = list(&target["kind"])?;
        let program = kinds.iter().any(|kind| kind == "bin");
        if program || kinds.iter().any(|kind| kind == "lib") {
            found.push(Crate {
                name: text(&package["name"])?.to_owned(),
                root: text(&target["src_path"])?.into(),
                uses: uses.clone(),
                program,
            });
        }
    }
    Ok(found)
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("cargo metadata: expected a string")
}

fn list(value: &Value) -> anyhow::Result<&Vec<Value>> {
    value.as_array().context("cargo metadata: expected a list")
}

/// Returns the diagram: a line for each crate, programs first, each library below all its users. A
/// line names only the libraries that no other library of the line uses itself.
pub fn draw(crates: &[Crate]) -> String {
    let by_name: BTreeMap<&str, &Crate> = crates.iter().map(|one| (&*one.name, one)).collect();
    let mut lines: Vec<_> = crates
        .iter()
        .map(|one| {
            let level = if one.program {
                usize::MAX
            } else {
                height(&one.name, &by_name)
            };
            (std::cmp::Reverse(level), &*one.name, direct(one, &by_name))
        })
        .collect();
    lines.sort();
    lines.dedup();
    let mut picture = String::new();
    for (_, name, uses) in lines {
        let line = format!("{name:14} {}", uses.join(" "));
        picture += line.trim_end();
        picture.push('\n');
    }
    picture
}

/// Returns the length of the longest chain of crates that `name` uses.
fn height(name: &str, crates: &BTreeMap<&str, &Crate>) -> usize {
    let uses = crates.get(name).into_iter().flat_map(|one| &one.uses);
    uses.map(|used| 1 + height(used, crates)).max().unwrap_or(0)
}

/// Returns the libraries that a crate uses but that none of its other libraries uses.
fn direct<'a>(one: &'a Crate, crates: &BTreeMap<&str, &'a Crate>) -> Vec<&'a str> {
    let through = |used: &String| one.uses.iter().any(|other| stands_on(other, used, crates));
    one.uses
        .iter()
        .filter(|used| !through(used))
        .map(|used| &**used)
        .collect()
}

fn stands_on(upper: &str, lower: &str, crates: &BTreeMap<&str, &Crate>) -> bool {
    let uses = crates.get(upper).into_iter().flat_map(|one| &one.uses);
    uses.into_iter()
        .any(|used| used == lower || stands_on(used, lower, crates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(packages: &[(&str, &str, &[&str])]) -> Value {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, kind, uses)| {
                let folder = if *kind == "bin" { "bin" } else { "crates" };
                let uses: Vec<Value> = uses
                    .iter()
                    .map(|used| serde_json::json!({"name": used, "kind": null}))
                    .collect();
                serde_json::json!({
                    "name": name,
                    "manifest_path": format!("/p/{folder}/{name}/Cargo.toml"),
                    "dependencies": uses,
                    "targets": [{"kind": [kind], "src_path": "/p/x.rs"}],
                })
            })
            .collect();
        serde_json::json!({"workspace_root": "/p", "packages": packages})
    }

    #[test]
    fn a_crate_stands_below_those_that_use_it() {
        let packages: [(&str, &str, &[&str]); 4] = [
            ("low", "lib", &["serde"]),
            ("high", "lib", &["middle", "low"]),
            ("program", "bin", &["high", "low"]),
            ("middle", "lib", &["low"]),
        ];
        let crates = parse(&metadata(&packages)).unwrap();
        assert_eq!(
            draw(&crates),
            "program        high\nhigh           middle\nmiddle         low\nlow\n"
        );
    }
}
