//! Help: what there is, how each is called, with examples.

use cli::command::Subcommand;

use crate::subcommands::SUBCOMMANDS;

/// Finds a subcommand; abbreviations are none.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|one| one.name == name)
}

/// `zoneadm help [topic]`: on standard output.
pub fn print(topic: Option<&str>) -> u8 {
    match topic {
        None => {
            print!("{}", usage());
            cli::status::OK
        }
        Some(name) => match find(name) {
            Some(one) => {
                println!("usage:\tzoneadm -z zonename {}\n{}", one.form, one.help);
                println!("\nexamples:");
                one.examples
                    .iter()
                    .for_each(|example| println!("\t{example}"));
                cli::status::OK
            }
            None => complain(&format!("{name}: unknown subcommand"), None),
        },
    }
}

/// A wrong command line: what is wrong, and how it would be right.
pub fn complain(text: &str, verb: Option<&str>) -> u8 {
    eprintln!("zoneadm: {text}");
    match verb.and_then(find) {
        Some(one) => eprintln!("usage:\tzoneadm -z zonename {}", one.form),
        None => eprint!("{}", usage()),
    }
    cli::status::USAGE
}

fn usage() -> String {
    let mut text = String::from(
        "usage:\tzoneadm help\n\
         \tzoneadm [-R root] [-z zonename] [-u uuid] list\n\
         \tzoneadm {-z zonename | -u uuid} <subcommand>\n\
         \n\
         \t-z may be repeated, be a glob ('web*') or have a range ('web[1-50]'):\n\
         \tthe zones are then worked on in parallel. -n shows what would be done.\n\
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
