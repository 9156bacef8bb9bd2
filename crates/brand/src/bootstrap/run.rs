//! Runs a tool that makes a root.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use model::plan::Recipe;
use rustix::fs::FileType;

use crate::install::Error;
use crate::tree::{Meta, Tree, is};

/// Folders whose content does not belong into an image. Only their empty subfolders stay.
const EMPTIED: &[&str] = &[
    "dev",
    "run",
    "tmp",
    "var/cache/apt",
    "var/cache/apt/archives",
];

/// Caches of installers that consist of nested folders. None of them belongs into an image.
const CLEARED: &[&str] = &[
    "var/cache/dnf",
    "var/cache/libdnf5",
    "var/cache/zypp",
    "var/cache/apk",
    "var/cache/pacman/pkg",
];

/// Maximum depth of nested folders of a cache.
const MAX_CACHE_DEPTH: usize = 16;

/// Maximum number of output lines that are repeated in the error of a failed tool.
const LAST: usize = 5;

/// Maximum length of a line of the tool's output, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 10;

/// Fills the empty folder `root` by a recipe. Writes all output of the tool to `log`, and its
/// progress to `progress`.
///
/// The tool has its own mount and pid namespaces. When it ends for any reason, all its mounts and
/// processes end, too.
///
/// # Errors
/// Fails with [`Error::Source`], which has the last lines of the tool's output.
pub fn run(
    recipe: &Recipe,
    root: &Path,
    log: &mut dyn Write,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let failed = |problem: String| Error::Source {
        origin: recipe.program.clone(),
        problem,
    };
    let io = |action| move |error| Error::io(action, recipe.program.clone(), error);
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| io("run")(errno.into()))?;
    let errors = write.try_clone().map_err(io("run"))?;
    let mut child = in_namespaces()
        .arg(&recipe.program)
        .args(recipe.arguments_for(root))
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(write))
        .stderr(Stdio::from(errors))
        .spawn()
        .map_err(io("run"))?;
    let mut last: Vec<String> = Vec::new();
    let mut lines = BufReader::new(File::from(read));
    loop {
        let mut line = Vec::new();
        let length = lines
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line);
        if !matches!(length, Ok(length) if length > 0) {
            break;
        }
        // A full disk of the log must not end an install that may still succeed.
        let _ = log.write_all(&line);
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if tells(&text) {
            progress(&text);
        }
        if !text.is_empty() {
            last.push(text);
        }
        if last.len() > LAST {
            last.remove(0);
        }
    }
    let status = child.wait().map_err(io("wait for"))?;
    if !status.success() {
        return Err(failed(format!("{status}: {}", last.join(" | "))));
    }
    let tree = Tree::open(root)?;
    for (name, text) in &recipe.files {
        tree.make_parents(name, Meta::root(0o755))?;
        tree.remove(name)?;
        tree.write(name, Meta::root(0o644), text.as_bytes())?;
    }
    for folder in CLEARED {
        clear(&tree, Path::new(folder), MAX_CACHE_DEPTH)?;
    }
    EMPTIED.iter().try_for_each(|folder| empty(&tree, folder))
}

/// Returns a command that runs its arguments in their own mount and pid namespaces.
fn in_namespaces() -> Command {
    const OWN: [&str; 4] = ["--mount", "--pid", "--fork", "--mount-proc"];
    let (ending, unshare) = ("/usr/bin/setpriv", "/usr/bin/unshare");
    if !Path::new(ending).exists() {
        // Without setpriv of util-linux, the program below a killed unshare continues to run.
        let mut command = Command::new(unshare);
        command.args(OWN);
        return command;
    }
    let mut command = Command::new(ending);
    command
        .args(["--pdeathsig", "KILL", "--", unshare])
        .args(OWN)
        .args(["--kill-child", "--"]);
    command
}

/// Returns true for a line that shows the installer's progress: its steps, but not each package.
fn tells(line: &str) -> bool {
    const EACH: [&str; 5] = [
        "Retrieving",
        "Validating",
        "Extracting",
        "Unpacking",
        "Configuring",
    ];
    // The first words of a step of these tools: pacstrap and pacman, dnf, zypper.
    const STEPS: [&str; 8] = [
        "==> ",
        ":: ",
        "Dependencies resolved",
        "Downloading Packages",
        "Running transaction",
        "Complete!",
        "Loading repository data",
        "Resolving package dependencies",
    ];
    match line.strip_prefix("I: ") {
        // The lines of mmdebstrap and debootstrap.
        Some(step) => !EACH.iter().any(|word| step.starts_with(word)),
        None => STEPS.iter().any(|step| line.starts_with(step)),
    }
}

/// Removes all content of a folder.
fn clear(tree: &Tree, folder: &Path, deepest: usize) -> Result<(), Error> {
    for name in tree.names(folder)? {
        let name = folder.join(name);
        let stat = tree.stat(&name)?;
        if deepest > 0 && stat.is_some_and(|stat| is(&stat, FileType::Directory)) {
            clear(tree, &name, deepest - 1)?;
        }
        tree.remove_any(&name)?;
    }
    Ok(())
}

fn empty(tree: &Tree, folder: &str) -> Result<(), Error> {
    let folder = Path::new(folder);
    for name in tree.names(folder)? {
        let name = folder.join(name);
        let stat = tree.stat(&name)?;
        if stat.is_some_and(|stat| !is(&stat, FileType::Directory)) {
            tree.remove(&name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn recipe(script: &str) -> Recipe {
        Recipe {
            image: "test".to_owned(),
            program: "/bin/sh".into(),
            arguments: ["-c", script, "sh", Recipe::ROOT].map(str::to_owned).into(),
            files: vec![("etc/list".into(), "ours\n".to_owned())],
        }
    }

    /// The result, the messages, the log and the root folder of an attempt.
    struct Tried {
        done: Result<(), Error>,
        said: Vec<String>,
        log: String,
        folder: tempfile::TempDir,
    }

    fn try_run(script: &str) -> Option<Tried> {
        if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/unshare").exists() {
            println!("skipped: not root, or no unshare");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let tree = folder.path().join("root");
        fs::create_dir(&tree).unwrap();
        let mut said = Vec::new();
        let mut log = File::create(&path).unwrap();
        let done = run(&recipe(script), &tree, &mut log, &mut |line| {
            said.push(line.to_owned());
        });
        let log = fs::read_to_string(path).unwrap();
        Some(Tried {
            done,
            said,
            log,
            folder,
        })
    }

    #[test]
    fn a_tool_fills_the_root_and_leaves_nothing_mounted() {
        let script = "mkdir -p $1/etc $1/dev/pts $1/tmp && echo theirs >$1/etc/list && : >$1/dev/x \
                      && mkdir -p $1/var/cache/dnf/a/b && : >$1/var/cache/dnf/a/b/c \
                      && mount -t tmpfs none $1/tmp && echo 'I: step' && echo 'I: Unpacking x' && echo other >&2";
        let Some(tried) = try_run(script) else {
            return;
        };
        tried.done.unwrap();
        assert_eq!(tried.said, ["I: step"]);
        assert_eq!(tried.log, "I: step\nI: Unpacking x\nother\n");
        let tree = tried.folder.path().join("root");
        assert_eq!(fs::read_to_string(tree.join("etc/list")).unwrap(), "ours\n");
        assert!(!tree.join("dev/x").exists() && tree.join("dev/pts").exists());
        assert!(tree.join("var/cache/dnf").exists() && !tree.join("var/cache/dnf/a").exists());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*tree.to_string_lossy()));
    }

    #[test]
    fn a_failing_tool_is_quoted() {
        let script = "for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 3";
        let Some(tried) = try_run(script) else {
            return;
        };
        let error = tried.done.unwrap_err().to_string();
        assert!(
            error.contains("line 3 | line 4") && error.contains("line 7"),
            "{error}"
        );
        assert!(!error.contains("line 2"), "{error}");
    }
}
