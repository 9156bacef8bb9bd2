//! Generates functions that several scripts have.

use super::words;

/// Tables of [`words::lines`] whose lines are the arms of a `case`: their functions take the word
/// that selects an arm.
const ARMS: [&str; 7] = [
    "states",
    "suboptions",
    "command-options",
    "properties",
    "clearable",
    "lists",
    "values",
];

/// Returns the function that a template asks for: `function <table>`, `list <program>` or `verb
/// <program> <options>`; `None` if there is no such function.
pub fn lines(wanted: &str, shell: &str) -> Option<Vec<String>> {
    let (kind, name) = wanted.split_once(' ')?;
    match kind {
        "function" => table(name, shell),
        "list" => Some(owned(&list(name, shell))),
        "verb" if shell == "fish" => {
            let (program, taking) = name.split_once(' ')?;
            Some(verb(program, taking))
        }
        _ => None,
    }
}

fn owned(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Returns the function that prints the words of a table.
fn table(name: &str, shell: &str) -> Option<Vec<String>> {
    let (program, of) = name.split_once('-')?;
    let chosen = ARMS.contains(&of);
    let rows = words::lines(name, shell)?;
    let of = of.replace('-', "_");
    let (head, before, after, end) = match (shell, chosen) {
        ("fish", true) => (
            format!("function __{program}_{of}"),
            Some("    switch \"$argv[1]\""),
            Some("    end"),
            "end",
        ),
        ("fish", false) => (format!("function __{program}_{of}"), None, None, "end"),
        (_, true) => (
            format!("_{program}_{of}() {{"),
            Some("    case $1 in"),
            Some("    esac"),
            "}",
        ),
        (_, false) => (format!("_{program}_{of}() {{"), None, None, "}"),
    };
    // Only fish indents the arms of a `case`.
    let indent = if chosen && shell == "fish" {
        "        "
    } else {
        "    "
    };
    let mut lines = vec![head];
    lines.extend(before.map(str::to_owned));
    lines.extend(rows.iter().map(|row| format!("{indent}{row}")));
    lines.extend(after.map(str::to_owned));
    lines.push(end.to_owned());
    Some(lines)
}

/// Returns the function that prints the zones whose state is among its arguments; all zones without
/// arguments.
pub fn list(program: &str, shell: &str) -> String {
    let text = match shell {
        "bash" => BASH_LIST,
        "zsh" => ZSH_LIST,
        _ => FISH_LIST,
    };
    text.replace("NAME", program)
}

const BASH_LIST: &str = r#"_NAME_list() {
    local name state
    while IFS=: read -r _ name state _; do
        [[ $name =~ ^[A-Za-z0-9_.-]+$ && $name != global ]] || continue
        if [ $# -eq 0 ] || [[ " $* " == *" $state "* ]]; then printf '%s\n' "$name"; fi
    done < <(PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null)
}
"#;

const ZSH_LIST: &str = r#"_NAME_list() {
    local name state
    PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | while IFS=: read -r _ name state _; do
        [[ $name != global ]] || continue
        if (( $# == 0 )) || (( ${@[(Ie)$state]} )); then print -r -- $name; fi
    done
}
"#;

const FISH_LIST: &str = r#"function __NAME_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end
"#;

/// Returns the function of fish that finds the subcommand among the words, after options. Those in
/// `taking` have an argument.
fn verb(program: &str, taking: &str) -> Vec<String> {
    owned(&FISH_VERB.replace("NAME", program).replace("TAKING", taking))
}

const FISH_VERB: &str = r"# Among the words given: the subcommand, nothing when there is none yet.
function __NAME_verb
    set -l words $argv[2..-1]
    while set -q words[1]
        switch $words[1]
            case TAKING
                set -e words[1]
            case '-*'
            case '*'
                echo $words[1]
                return 0
        end
        set -e words[1]
    end
    return 1
end
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_of_the_shell() {
        let text = |wanted, shell| lines(wanted, shell).unwrap().join("\n");
        let bash = text("function zoneadm-states", "bash");
        assert!(bash.starts_with("_zoneadm_states() {\n    case $1 in\n    verify) echo '"));
        assert!(bash.ends_with(" ;;\n    esac\n}"));
        let fish = text("function zoneadm-states", "fish");
        assert!(fish.starts_with(
            "function __zoneadm_states\n    switch \"$argv[1]\"\n        case verify; printf '"
        ));
        assert!(fish.ends_with("\\n'\n    end\nend"));
        let plain = text("function zonecfg-templates", "zsh");
        assert!(plain.starts_with("_zonecfg_templates() {\n    echo '"));
        assert!(text("verb zoneimg -R", "fish").contains("\n            case -R\n"));
        assert!(text("list zps", "bash").starts_with("_zps_list() {\n"));
        for unknown in [
            "function zoneadm-nothing",
            "verb zoneimg -R",
            "more zps",
            "list",
        ] {
            assert_eq!(lines(unknown, "bash"), None, "{unknown}");
        }
    }
}
