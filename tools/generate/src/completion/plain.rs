//! Generates completions of programs whose words are only options and zones.

use model::State;

use super::functions;
use super::words::in_quotes;
use crate::programs::{Argument, Flag, Program};

/// Returns the script of a program for a shell.
pub fn script(program: &Program, shell: &str) -> String {
    match shell {
        "bash" => bash(program),
        "zsh" => zsh(program),
        _ => fish(program),
    }
}

fn states(states: &[State]) -> String {
    let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    names.join(" ")
}

/// Returns the options that have an argument.
fn taking(program: &Program) -> Vec<&Flag> {
    program
        .flags
        .iter()
        .filter(|flag| flag.argument.is_some())
        .collect()
}

/// Returns the states in which the zone in the first operand may be.
fn operand(program: &Program) -> Option<String> {
    match &program.operand {
        Some(Argument::Zone(wanted)) => Some(states(wanted)),
        _ => None,
    }
}

/// Returns the possible words of the first operand.
const fn choices(program: &Program) -> Option<&'static [&'static str]> {
    match program.operand {
        Some(Argument::Words(words)) => Some(words),
        _ => None,
    }
}

/// Returns true if the operands of the program are files.
fn takes_files(program: &Program) -> bool {
    program.operand == Some(Argument::File)
}

/// Returns true if an option or operand of the program is a zone.
fn wants_zones(program: &Program) -> bool {
    let zone = |argument: &Option<Argument>| matches!(argument, Some(Argument::Zone(_)));
    zone(&program.operand) || program.flags.iter().any(|flag| zone(&flag.argument))
}

/// Returns the first lines of the scripts of a shell.
fn head(program: &Program, shell: &str) -> String {
    let name = program.name;
    let mut out = String::new();
    match shell {
        "bash" => out.push_str(
            "# shellcheck shell=bash disable=SC2046,SC2086,SC2119,SC2120 # words are split\n",
        ),
        "zsh" => out.push_str(&format!("#compdef {name}\n")),
        _ => {}
    }
    out.push_str(&format!(
        "# {shell} completion for {name}(1). Generated: cargo run -p generate\n\n"
    ));
    if wants_zones(program) {
        let about =
            "# The zones whose state is among the arguments; all of them without arguments.";
        out.push_str(&format!("{about}\n{}\n", functions::list(name, shell)));
    }
    out
}

fn bash(program: &Program) -> String {
    let name = program.name;
    let flags: Vec<&str> = program
        .flags
        .iter()
        .map(|flag| flag.name.as_str())
        .collect();
    let operand = operand(program);
    let states_are = operand.as_ref().map(|states| format!(" states='{states}'"));
    let own = match choices(program) {
        Some(_) => " verb=".to_owned(),
        None => states_are.unwrap_or_default(),
    };
    let mut out = head(program, "bash");
    out.push_str(&format!(
        "_{name}() {{\n    local current=${{COMP_WORDS[COMP_CWORD]}} i{}\n    COMPREPLY=()\n",
        own
    ));
    out.push_str("    for ((i = 1; i < COMP_CWORD; i++)); do\n        case ${COMP_WORDS[i]} in\n");
    if let Some((flag, other)) = &program.other {
        out.push_str(&format!("        {flag}) states='{}' ;;\n", states(other)));
    }
    for flag in taking(program) {
        let words = match &flag.argument {
            Some(Argument::User) => "compgen -u".to_owned(),
            Some(Argument::File) => "compgen -f".to_owned(),
            Some(Argument::Folder) => "compgen -d".to_owned(),
            Some(Argument::Zone(wanted)) => {
                format!("compgen -W \"$(_{name}_list {})\"", states(wanted))
            }
            Some(Argument::Words(words)) => format!("compgen -W '{}'", words.join(" ")),
            _ => "compgen -W ''".to_owned(),
        };
        out.push_str(&format!(
            "        {})
            i=$((i + 1))
            if ((i == COMP_CWORD)); then
                mapfile -t COMPREPLY < <({words} -- \"$current\")
                return
            fi
            ;;\n",
            flag.name
        ));
    }
    let other = match choices(program) {
        Some(_) => "*) verb=yes ;;",
        None if takes_files(program) => "*) ;;",
        None => "*) return ;; # what runs in the zone is the zone's",
    };
    out.push_str(&format!(
        "        -*) ;;
        {other}
        esac
    done
    if [[ $current == -* ]]; then\n"
    ));
    out.push_str(&format!(
        "        mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\")\n",
        flags.join(" ")
    ));
    let offered = match choices(program) {
        Some(words) => Some(format!("'{}'", words.join(" "))),
        None => operand.map(|_| format!("\"$(_{name}_list $states)\"")),
    };
    if takes_files(program) {
        out.push_str(
            "    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n",
        );
    }
    if let Some(offered) = offered {
        let when = match choices(program) {
            Some(_) => "elif [ ! \"$verb\" ]; then",
            None => "else",
        };
        out.push_str(&format!(
            "    {when}
        mapfile -t COMPREPLY < <(compgen -W {offered} -- \"$current\")\n"
        ));
    }
    out.push_str(&format!("    fi\n}}\n\ncomplete -F _{name} {name}\n"));
    out
}

fn zsh(program: &Program) -> String {
    let name = program.name;
    let mut out = head(program, "zsh");
    if let Some(wanted) = operand(program) {
        out.push_str(&format!("_{name}_zones() {{\n"));
        match &program.other {
            Some((flag, other)) => out.push_str(&format!(
                "    if (( ${{words[(Ie){flag}]}} )); then
        compadd -- $(_{name}_list {})
    else
        compadd -- $(_{name}_list {wanted})
    fi\n",
                states(other)
            )),
            None => out.push_str(&format!("    compadd -- $(_{name}_list {wanted})\n")),
        }
        out.push_str("}\n\n");
    }
    out.push_str("_arguments");
    for flag in &program.flags {
        let action = match &flag.argument {
            None => String::new(),
            Some(Argument::User) => ":user:_users".to_owned(),
            Some(Argument::File) => ":file:_files".to_owned(),
            Some(Argument::Folder) => ":folder:_files -/".to_owned(),
            Some(Argument::Zone(wanted)) => {
                format!(":zone:{{compadd -- $(_{name}_list {})}}", states(wanted))
            }
            Some(Argument::Words(words)) => format!(":word:({})", words.join(" ")),
            Some(_) => ":word: ".to_owned(),
        };
        let help = in_quotes(&flag.help, "zsh").replace(['[', ']'], "");
        out.push_str(&format!(" \\\n    '{}[{help}]{action}'", flag.name));
    }
    if let Some(words) = choices(program) {
        out.push_str(&format!(" \\\n    ':word:({})'", words.join(" ")));
    }
    if takes_files(program) {
        out.push_str(" \\\n    '*:file:_files'");
    }
    if operand(program).is_some() {
        out.push_str(&format!(
            " \\\n    ':zone:_{name}_zones' \\\n    '*::command: '"
        ));
    }
    out.push('\n');
    out
}

fn fish(program: &Program) -> String {
    let name = program.name;
    let mut out = head(program, "fish");
    let before = match operand(program) {
        None => String::new(),
        Some(_) => {
            let taking: Vec<&str> = taking(program)
                .iter()
                .map(|one| one.name.as_str())
                .collect();
            out.push_str(&format!(
                "# True as long as no zone is named.
function __{name}_before
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case {}
                set -e words[1]
            case '-*'
            case '*'
                return 1
        end
        set -e words[1]
    end
end\n\n",
                taking.join(" ")
            ));
            format!(" -n __{name}_before")
        }
    };
    if !takes_files(program) {
        out.push_str(&format!("complete -c {name} -f\n"));
    }
    for flag in &program.flags {
        let argument = match &flag.argument {
            None => String::new(),
            Some(Argument::User) => " -x -a '(__fish_complete_users)'".to_owned(),
            Some(Argument::File) => " -r -F".to_owned(),
            Some(Argument::Folder) => " -x -a '(__fish_complete_directories)'".to_owned(),
            Some(Argument::Zone(wanted)) => format!(" -x -a '(__{name}_list {})'", states(wanted)),
            Some(Argument::Words(words)) => format!(" -x -a '{}'", words.join(" ")),
            Some(_) => " -x".to_owned(),
        };
        let named = match flag.name.strip_prefix("--") {
            Some(long) => format!("-l {long}"),
            None => format!("-s {}", flag.name.trim_start_matches('-')),
        };
        let help = in_quotes(&flag.help, "fish");
        out.push_str(&format!(
            "complete -c {name}{before} {named}{argument} -d '{help}'\n"
        ));
    }
    if let Some(words) = choices(program) {
        let words = words.join(" ");
        let test = format!("not __fish_seen_subcommand_from {words}");
        out.push_str(&format!("complete -c {name} -n '{test}' -a '{words}'\n"));
    }
    match (operand(program), &program.other) {
        (Some(wanted), Some((flag, other))) => {
            let letter = flag.trim_start_matches('-');
            let test = format!("__fish_contains_opt -s {letter}");
            out.push_str(&format!(
                "complete -c {name} -n '__{name}_before; and not {test}' -a '(__{name}_list {wanted})'
complete -c {name} -n '__{name}_before; and {test}' -a '(__{name}_list {})'\n",
                states(other)
            ));
        }
        (Some(wanted), None) => {
            out.push_str(&format!(
                "complete -c {name}{before} -a '(__{name}_list {wanted})'\n"
            ));
        }
        (None, _) => {}
    }
    out
}
