//! Relative paths of archives, images and directories on the command line.

use std::path::Path;

use zone::images::Source;

/// Resolves the paths of `-a`, `-b`, `-c` and `-d` of install and attach against the
/// working directory of the caller. The names of container images stay as they are.
pub fn resolve(verb: &str, words: &mut [String], folder: &Path) {
    match verb {
        "push" | "pull" => return resolve_copy(verb, words, folder),
        _ => {}
    }
    if !matches!(verb, "install" | "attach") {
        return;
    }
    let mut words = words.iter_mut();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-a" | "-b" | "-c" | "-d" => {
                if let Some(path) = words.next() {
                    *path = absolute(path, folder);
                }
            }
            "-x" => {
                words.next();
            }
            _ => {
                let attached = word.split_at_checked(2);
                if let Some((flag @ ("-a" | "-b" | "-c" | "-d"), path)) = attached {
                    *word = format!("{flag}{}", absolute(path, folder));
                }
            }
        }
    }
}

/// Resolves the paths of the host of push and pull: the sources of push, the destination of pull.
fn resolve_copy(verb: &str, words: &mut [String], folder: &Path) {
    let Some(last) = words.len().checked_sub(1) else {
        return;
    };
    let (mut is_value, mut has_ended) = (false, false);
    for (at, word) in words.iter_mut().enumerate() {
        if std::mem::take(&mut is_value) {
            continue;
        }
        match word.as_str() {
            "-" => {}
            "--" if !has_ended => has_ended = true,
            option if !has_ended && option.starts_with('-') => {
                // The value of -o may be attached, also behind other letters.
                is_value = option.ends_with('o') && !option[1..].starts_with(['-', 'o']);
                is_value |= option == "-o";
            }
            _ if (at == last) == (verb == "pull") => *word = absolute(word, folder),
            _ => {}
        }
    }
}

fn absolute(path: &str, folder: &Path) -> String {
    let joined = match path.is_empty() || Source::is_image(path) {
        true => None,
        // A path that is not UTF-8 cannot be passed to the brand.
        false => folder.join(path).into_os_string().into_string().ok(),
    };
    joined.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_host_are_resolved() {
        for (line, expected) in [
            ("push a b/. /etc", "push /srv/a /srv/b/. /etc"),
            ("push -o www a x", "push -o www /srv/a x"),
            ("push -nSo www a x", "push -nSo www /srv/a x"),
            ("push -owww a x", "push -owww /srv/a x"),
            ("push -n -- -a /x", "push -n -- /srv/-a /x"),
            ("push - /x", "push - /x"),
            ("pull /etc a .", "pull /etc a /srv/."),
            ("pull /etc -", "pull /etc -"),
        ] {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let verb = words.remove(0);
            resolve(&verb, &mut words, Path::new("/srv"));
            assert_eq!(format!("{verb} {}", words.join(" ")), expected);
        }
    }

    #[test]
    fn relative_paths_begin_in_the_working_directory() {
        let resolved = |verb: &str, line: &str| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            resolve(verb, &mut words, Path::new("/srv"));
            words.join(" ")
        };
        for (line, expected) in [
            ("-a d.qcow2 -u", "-a /srv/d.qcow2 -u"),
            ("-ad.qcow2", "-a/srv/d.qcow2"),
            ("-v -d ../root", "-v -d /srv/../root"),
            (
                "-b cd.iso -x install-size=8G",
                "-b /srv/cd.iso -x install-size=8G",
            ),
            ("-c profile", "-c /srv/profile"),
            ("-a /x/y", "-a /x/y"),
            ("-a docker://postgres:17", "-a docker://postgres:17"),
            ("-x -a", "-x -a"),
            ("-a", "-a"),
        ] {
            assert_eq!(resolved("install", line), expected);
        }
        assert_eq!(resolved("attach", "-a x.tar"), "-a /srv/x.tar");
        assert_eq!(resolved("clone", "-c x"), "-c x");
    }
}
