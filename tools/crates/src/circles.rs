//! Finds files that import each other in a circle.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::imports::Imports;

/// Files each of which imports each other one, directly or through others of them.
pub type Circle = BTreeSet<PathBuf>;

/// Returns the circles of at least two files, the largest first.
pub fn of(imports: &Imports) -> Vec<Circle> {
    let mut circles = BTreeSet::new();
    for file in imports.keys() {
        let below = reachable(imports, file);
        let circle: Circle = below
            .iter()
            .filter(|other| reachable(imports, other).contains(file))
            .cloned()
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<Circle> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Returns the files that a file imports, directly or through others.
fn reachable(imports: &Imports, file: &PathBuf) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = vec![file];
    while let Some(next) = left.pop() {
        for used in imports.get(next).into_iter().flat_map(|uses| uses.keys()) {
            if found.insert(used.clone()) {
                left.push(used);
            }
        }
    }
    found
}

/// Returns a line for each import in the circle, with the names that are imported.
pub fn show(circle: &Circle, imports: &Imports) -> String {
    let mut text = String::new();
    for file in circle {
        for (used, names) in imports.get(file).into_iter().flatten() {
            if circle.contains(used) {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                text += &format!(
                    "  {} -> {}: {}\n",
                    file.display(),
                    used.display(),
                    names.join(" ")
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(pairs: &[(&str, &str)]) -> Imports {
        let mut imports = Imports::new();
        for (file, used) in pairs {
            let names = imports
                .entry(file.into())
                .or_default()
                .entry(used.into())
                .or_default();
            names.insert("name".to_owned());
        }
        imports
    }

    #[test]
    fn files_that_reach_each_other_are_a_circle() {
        let pairs = [
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("d", "e"),
            ("e", "d"),
            ("f", "a"),
        ];
        let circles = of(&imports(&pairs));
        assert_eq!(
            circles,
            [
                ["a", "b", "c"].map(PathBuf::from).into(),
                ["d", "e"].map(PathBuf::from).into()
            ]
        );
        assert_eq!(
            show(&circles[1], &imports(&pairs)),
            "  d -> e: name\n  e -> d: name\n"
        );
    }

    #[test]
    fn a_straight_way_down_has_no_circle() {
        assert!(of(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    }
}
