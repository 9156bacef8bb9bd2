//! Tests the commands on the example of the crate `label`.

use std::fs;
use std::path::Path;

use label::{Encodings, Label};
use proptest::prelude::*;
use store::groups::{Active, Groups};
use store::index::{self, Entry};
use store::{Root, xml};

use crate::command::Args;
use crate::names::Names;
use crate::{atohexlabel, chk_encodings, getlabel, hextoalabel, plabel};

const EXAMPLE: &str = include_str!("../../../crates/label/tests/label_encodings");

fn args(command: &crate::command::Command, words: &[&str]) -> Result<Option<Args>, String> {
    command.parse(words.iter().map(Into::into).collect())
}

/// Returns a root with the example, and with the zones `high` (CNF : NTK), `odd` (a label without
/// text) and `plain` (no label).
fn host() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    for made in [root.etc(), root.run()] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(root.label_encodings(), EXAMPLE).unwrap();
    let zones = [
        ("high", Some("0x0004-08-68")),
        ("odd", Some("0x0009-08-00")),
        ("plain", None),
    ];
    for (name, label) in zones {
        let name: model::ZoneName = name.parse().unwrap();
        let zonepath = Path::new("/zones").join(name.as_str());
        fs::create_dir_all(root.path(&zonepath).join("export/root")).unwrap();
        let mut config = model::Config::new(name.clone());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        if let Some(label) = label {
            config.set(model::config::LABEL, label).unwrap();
        }
        xml::save(&root, &config).unwrap();
        index::update(&root, |index| {
            index.put(Entry::configured(name, zonepath));
            Ok::<(), store::Error>(())
        })
        .unwrap();
    }
    (folder, root)
}

#[test]
fn checks_a_file() {
    let report = chk_encodings::check(EXAMPLE, "f", false, 255);
    assert_eq!(report.lines, ["No errors found in f"]);
    assert!(report.valid);
    let report = chk_encodings::check(&EXAMPLE.replace("value= 5;", "value= 500;"), "f", true, 255);
    assert_eq!(
        report.lines,
        ["f: line 12: value= '500' is not a number from 1 to 255"]
    );
    assert!(!report.valid);
    let report = chk_encodings::check(EXAMPLE, "f", false, 9);
    assert_eq!(
        report.lines,
        ["f: classification MAX LABEL has the value 10, and the highest is 9 (-c)"]
    );
    assert!(!report.valid);
}

#[test]
fn an_error_in_clearances_is_an_error_of_the_file() {
    let text = EXAMPLE.replace("minimum clearance= PUB", "minimum clearance= PUP");
    Encodings::read(&text).unwrap();
    let report = chk_encodings::check(&text, "f", false, 255);
    assert_eq!(
        report.lines,
        [
            "f: line 96: label 'PUP': it begins with no classification; known are PUBLIC, \
             CONFIDENTIAL, SANDBOX, TOP SECRET, MAX LABEL"
        ]
    );
    assert!(!report.valid);
}

#[test]
fn the_analysis_comes_before_the_result() {
    let report = chk_encodings::check(EXAMPLE, "f", true, 255);
    assert!(report.valid);
    let [version, .., remark, result] = &report.lines[..] else {
        panic!("{report:?}");
    };
    assert_eq!(version, "version Example of Zones for Linux 1.0");
    assert!(
        remark.starts_with("remark: classification MAX LABEL:"),
        "{remark}"
    );
    assert_eq!(result, "No errors found in f");
}

#[test]
fn turns_labels_both_ways() {
    let names = Encodings::read(EXAMPLE).unwrap();
    let hex = |text| atohexlabel::turn(&names, text);
    let text = |hex| hextoalabel::turn(&names, hex);
    assert_eq!(hex("cnf ntk").as_deref(), Ok("0x0004-08-68"));
    // The label is valid, and outside the accreditation range.
    assert_eq!(hex("MAX").as_deref().map(|hex| &hex[..6]), Ok("0x000a"));
    assert_eq!(
        text("0x0004-08-68").as_deref(),
        Ok("CONFIDENTIAL : NEED TO KNOW")
    );
    let known = "PUBLIC, CONFIDENTIAL, SANDBOX, TOP SECRET, MAX LABEL";
    for (turned, error) in [
        (
            hex("CNF : NEDD TO KNOW"),
            "label 'CNF : NEDD TO KNOW': unknown word 'NEDD TO KNOW'; did you mean 'NEED TO KNOW'?",
        ),
        (
            hex("NTK"),
            &format!("label 'NTK': it begins with no classification; known are {known}"),
        ),
        (
            text("CNF"),
            "label 'CNF': it is not a label in hexadecimal, such as 0x0004-08-68",
        ),
        (
            text("0x0009-08-00"),
            "label '0x0009-08-00': classification 9 is not in the encodings",
        ),
    ] {
        assert_eq!(turned, Err(error.to_owned()));
    }
}

#[test]
fn a_process_has_the_label_of_its_zone() {
    let (_folder, root) = host();
    let zone = |name: &str| Active {
        name: name.parse().unwrap(),
        id: 1,
        first_id: 0,
    };
    let groups = [("/z/high", zone("high")), ("/z/plain", zone("plain"))];
    let groups: Groups = groups.map(|(group, zone)| (group.to_owned(), zone)).into();
    let label = |group| plabel::of_group(&root, &groups, group);
    assert_eq!(label("/z/high/deep"), Ok("0x0004-08-68".parse().unwrap()));
    assert_eq!(label("/z"), Ok(Label::ADMIN_LOW));
    let none = "its zone plain has no label";
    assert_eq!(label("/z/plain"), Err(none.to_owned()));
}

#[test]
fn a_file_has_the_label_of_its_zone_in_the_chosen_form() {
    let (folder, root) = host();
    for (options, high) in [
        (&[][..], "CONFIDENTIAL : NEED TO KNOW"),
        (&["-S"], "CONFIDENTIAL : NEED TO KNOW"),
        (&["-Ss"], "CNF : NTK"),
    ] {
        let args = args(&getlabel::COMMAND, options).unwrap().unwrap();
        let names = Names::read(&root, &args);
        let label = |path: &str| {
            let path = folder.path().join(path);
            let line = getlabel::line(&root, &names, &path);
            line.map(|line| line.replacen(&format!("{}: ", path.display()), "", 1))
        };
        assert_eq!(label("zones/high/export/root").as_deref(), Ok(high));
        assert_eq!(label("zones/plain").as_deref(), Ok("ADMIN_LOW"));
        assert_eq!(label("zones").as_deref(), Ok("ADMIN_LOW"));
        let error = label("zones/odd").unwrap_err();
        assert!(
            error.ends_with("classification 9 is not in the encodings"),
            "{error}"
        );
        let error = label("zones/none").unwrap_err();
        assert!(
            error.ends_with("none: No such file or directory (os error 2)"),
            "{error}"
        );
    }
}

#[test]
fn without_names_only_administrative_labels_have_a_text() {
    let (folder, root) = host();
    fs::remove_file(root.label_encodings()).unwrap();
    let names = Names::read(&root, &Args::default());
    assert_eq!(names.text(Label::ADMIN_LOW).as_deref(), Ok("ADMIN_LOW"));
    let error = getlabel::line(&root, &names, &folder.path().join("zones/high")).unwrap_err();
    assert!(
        error.contains("label 0x0004-08-68 has no text: /etc/zones/label_encodings: no such file"),
        "{error}"
    );
}

#[test]
fn every_command_reads_its_options_and_no_others() {
    for command in &crate::COMMANDS {
        let usage = format!("usage: {} ", command.name);
        assert!(command.help.starts_with(&usage), "{}", command.name);
        assert!(command.help.contains("Exit status: 0 "), "{}", command.name);
        assert!(command.help.contains("Examples:\n"), "{}", command.name);
        assert_eq!(args(command, &["--help"]), Ok(None));
        for letter in command.letters.chars().chain(command.with_argument) {
            let documented = command.help.contains(&format!("\n    -{letter}"));
            assert!(documented, "{} -{letter}", command.name);
        }
        let read = args(command, &["-R", "/r", "x"]).unwrap().unwrap();
        assert_eq!(read.root.as_deref(), Some(Path::new("/r")));
        assert_eq!(read.operands, ["x"]);
        assert!(args(command, &["-x"]).is_err(), "{}", command.name);
        assert!(args(command, &["--nonsense"]).is_err(), "{}", command.name);
    }
}

proptest! {
    #[test]
    fn hexadecimal_to_text_and_back_is_the_same(
        class in prop::sample::select(vec![0, 2, 4, 5, 6]),
        set in prop::sample::select(vec!["", "00", "02", "08", "48", "68", "78", "7800", "1c"]),
    ) {
        let names = Encodings::read(EXAMPLE).unwrap();
        let hex = format!("0x{class:04x}-08-{set}");
        if let Ok(text) = hextoalabel::turn(&names, &hex) {
            let label: Label = hex.parse().unwrap();
            prop_assert_eq!(atohexlabel::turn(&names, &text), Ok(label.to_string()));
        }
    }

    #[test]
    fn words_to_hexadecimal_to_text_and_back_are_the_same(class in 0usize..5, words in proptest::collection::vec(0usize..11, 0..4)) {
        let names = Encodings::read(EXAMPLE).unwrap();
        let all: Vec<&str> = names.words().collect();
        let class = names.classifications().nth(class).unwrap().0;
        let words: Vec<&str> = words.iter().map(|word| all[*word]).collect();
        if let Ok(hex) = atohexlabel::turn(&names, &format!("{class} {}", words.join(" "))) {
            let text = hextoalabel::turn(&names, &hex).unwrap();
            prop_assert_eq!(atohexlabel::turn(&names, &text), Ok(hex));
        }
    }
}
