//! Generates the completions for bash, zsh and fish.
//!
//! A template for each program and shell, which is an ordinary script, holds the parts that depend
//! on the shell. Lines `@name@` in it are replaced by texts from the tables, and lines `@kind
//! name@` by functions that several scripts have.

mod functions;
mod plain;
mod words;

use std::path::PathBuf;

use crate::made::Made;

/// Returns the name of the file with a program's completions.
type FileName = fn(&str) -> String;

/// The shells, and the path where each looks for a program's completions.
const SHELLS: [(&str, FileName); 3] = [
    ("bash", |program| program.to_owned()),
    ("zsh", |program| format!("_{program}")),
    ("fish", |program| format!("{program}.fish")),
];

/// Templates by program and shell.
const TEMPLATES: [(&str, &str, &str); 15] = [
    ("beadm", "bash", include_str!("completion/beadm.bash")),
    ("beadm", "zsh", include_str!("completion/beadm.zsh")),
    ("beadm", "fish", include_str!("completion/beadm.fish")),
    ("zoneadm", "bash", include_str!("completion/zoneadm.bash")),
    ("zoneadm", "zsh", include_str!("completion/zoneadm.zsh")),
    ("zoneadm", "fish", include_str!("completion/zoneadm.fish")),
    ("zonecfg", "bash", include_str!("completion/zonecfg.bash")),
    ("zonecfg", "zsh", include_str!("completion/zonecfg.zsh")),
    ("zonecfg", "fish", include_str!("completion/zonecfg.fish")),
    ("zoneimg", "bash", include_str!("completion/zoneimg.bash")),
    ("zoneimg", "zsh", include_str!("completion/zoneimg.zsh")),
    ("zoneimg", "fish", include_str!("completion/zoneimg.fish")),
    (
        "zonesuspend",
        "bash",
        include_str!("completion/zonesuspend.bash"),
    ),
    (
        "zonesuspend",
        "zsh",
        include_str!("completion/zonesuspend.zsh"),
    ),
    (
        "zonesuspend",
        "fish",
        include_str!("completion/zonesuspend.fish"),
    ),
];

/// Returns every completion script.
pub fn files() -> Vec<Made> {
    let mut files = Vec::new();
    for (program, shell, template) in TEMPLATES {
        files.push((path(program, shell), fill(template, shell)));
    }
    for program in crate::programs::plain() {
        for (shell, _) in SHELLS {
            files.push((path(program.name, shell), plain::script(&program, shell)));
        }
    }
    files
}

fn path(program: &str, shell: &str) -> PathBuf {
    let named = SHELLS.iter().find(|(name, _)| *name == shell);
    let file = named.map_or_else(String::new, |(_, file)| file(program));
    PathBuf::from(format!("packaging/completions/{shell}/{file}"))
}

/// Inserts functions and the words of the tables into a template. A line that consists of a name
/// between `@` is replaced by lines with the same indentation.
fn fill(template: &str, shell: &str) -> String {
    let mut out = String::with_capacity(2 * template.len());
    for line in template.lines() {
        let bare = line.trim_start();
        let name = bare
            .strip_prefix('@')
            .and_then(|rest| rest.strip_suffix('@'));
        let lines = name
            .and_then(|name| words::lines(name, shell).or_else(|| functions::lines(name, shell)));
        match lines {
            Some(lines) => {
                let indent = &line[..line.len() - bare.len()];
                for one in lines {
                    out.push_str(&format!("{indent}{one}\n"));
                }
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        for (path, text) in files() {
            let hole = text.lines().find(|line| {
                let line = line.trim();
                line.len() > 2 && line.starts_with('@') && line.ends_with('@')
            });
            assert_eq!(hole, None, "{}", path.display());
        }
        assert_eq!(fill("a\n  @nothing@\n", "bash"), "a\n  @nothing@\n");
    }
}
