//! Help: the subcommands, their usage, and examples.

use cli::command::{self, Subcommand};

use crate::subcommands::SUBCOMMANDS;

/// Finds a subcommand by its full name; abbreviations are not accepted.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|one| one.name == name)
}

/// `zoneadm help [topic]`: on standard output.
pub fn print(topic: Option<&str>) -> u8 {
    cli::output::only_prints();
    match topic {
        None => {
            print!("{}", usage());
            cli::status::OK
        }
        Some(name) => match find(name) {
            Some(one) => {
                println!("usage:\tzoneadm {}{}\n{}", before(one), one.form, one.help);
                println!("\nexamples:");
                one.examples
                    .iter()
                    .for_each(|example| println!("\t{example}"));
                cli::status::OK
            }
            None => unknown(name),
        },
    }
}

/// A wrong command line: the error, and the correct usage.
pub fn complain(text: &str, verb: Option<&str>) -> u8 {
    eprintln!("zoneadm: {text}");
    match verb.and_then(find) {
        Some(one) => eprintln!("usage:\tzoneadm {}{}", before(one), one.form),
        None => eprint!("{}", command::hint("zoneadm")),
    }
    cli::status::USAGE
}

/// Returns the options that precede a subcommand.
fn before(one: &Subcommand) -> &'static str {
    match one.name {
        "help" | "check" | "network" => "",
        "backups" => "[-z zonename] ",
        _ => "-z zonename ",
    }
}

/// A word that is no subcommand.
pub fn unknown(word: &str) -> u8 {
    let names = SUBCOMMANDS.iter().map(|one| one.name);
    complain(&command::unknown(word, names), None)
}

/// A command line without a subcommand.
pub fn nothing() -> u8 {
    eprint!("zoneadm: {}\n{}", command::NOTHING, usage());
    cli::status::USAGE
}

fn usage() -> String {
    let mut text = String::from(
        "usage:\tzoneadm help\n\
         \tzoneadm [-R root] [-z zonename] [-u uuid] list\n\
         \tzoneadm [-R root] check\n\
         \tzoneadm network\n\
         \tzoneadm {-z zonename | -u uuid} <subcommand>\n\
         \n\
         \t-z may be repeated, be a glob ('web*') or have a range ('web[1-50]'):\n\
         \tthe zones are then worked on in parallel. -n shows what would be done.\n\
         \tThe option --progress=json in front of -z prints progress and errors as lines of JSON.\n\
         \n\
         subcommands:\n",
    );
    for one in SUBCOMMANDS {
        text.push_str(&format!("\t{}\n", one.form));
    }
    text.push_str("\nexamples:\n\tzoneadm list -cv\n\tzoneadm -z web1 boot\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_begins_with_its_name() {
        for one in SUBCOMMANDS {
            assert!(one.form.starts_with(one.name), "{}", one.name);
            assert!(!one.examples.is_empty(), "{}", one.name);
        }
        assert!(find("bo").is_none());
    }
}
