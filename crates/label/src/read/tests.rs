use crate::{Encodings, Label, Reason, Relation};

const EXAMPLE: &str = include_str!("../../tests/label_encodings");

fn example() -> Encodings {
    Encodings::read(EXAMPLE).unwrap()
}

fn error_with(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    let error = Encodings::read(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
    error.to_string()
}

#[test]
fn reads_every_construct_of_the_format() {
    let encodings = example();
    assert_eq!(encodings.version(), "Example of Zones for Linux 1.0");
    let classes: Vec<_> = encodings.classifications().collect();
    assert_eq!(classes[1], ("CONFIDENTIAL", 4));
    assert_eq!(classes.len(), 5);
    assert_eq!(encodings.words().count(), 11);
    let windows = EXAMPLE.replace('\n', "\r\n");
    assert_eq!(Encodings::read(&windows), Ok(example()));
}

#[test]
fn text_and_hexadecimal_forms_are_those_of_the_manual() {
    let encodings = example();
    for (text, hex, long, short) in [
        ("pub", "0x0002-08-08", "PUBLIC", "PUB"),
        (
            "CNF : INTERNAL",
            "0x0004-08-48",
            "CONFIDENTIAL : INTERNAL USE ONLY",
            "CNF : INTERNAL",
        ),
        (
            "Confidential: Need To Know",
            "0x0004-08-68",
            "CONFIDENTIAL : NEED TO KNOW",
            "CNF : NTK",
        ),
        (
            "cnf ntk",
            "0x0004-08-68",
            "CONFIDENTIAL : NEED TO KNOW",
            "CNF : NTK",
        ),
        (
            "CNF : NTK/INT",
            "0x0004-08-68",
            "CONFIDENTIAL : NEED TO KNOW",
            "CNF : NTK",
        ),
        (
            "cnf:rst",
            "0x0004-08-78",
            "CONFIDENTIAL : RESTRICTED",
            "CNF : RST",
        ),
        (
            "SBX  PG",
            "0x0005-08-02",
            "SANDBOX : PLAYGROUND",
            "SBX : PG",
        ),
        (
            "top secret a b",
            "0x0006-08-0830000000000000000000000fffff80",
            "TOP SECRET ALPHA BRAVO",
            "TS A B",
        ),
        (
            "TSEC REL NORTH/SOUTH",
            "0x0006-08-080000000000000000000000",
            "",
            "",
        ),
        (
            "ts staff only",
            "0x0006-08-0804000000000000000000000fffff80",
            "TOP SECRET STAFF ONLY",
            "TS STAFF ONLY",
        ),
        ("admin_low", "0x0000-08-00", "ADMIN_LOW", "ADMIN_LOW"),
    ] {
        let label = encodings.parse(text).unwrap();
        if long.is_empty() {
            let out = encodings.text(label);
            assert_eq!(out, "TOP SECRET RELEASABLE TO NORTH/SOUTH");
            assert_eq!(encodings.parse(&out), Ok(label));
            continue;
        }
        assert_eq!(label.to_string(), hex, "{text}");
        assert_eq!(encodings.text(label), long);
        assert_eq!(encodings.short_text(label), short);
        for form in [hex, long, short] {
            assert_eq!(encodings.parse(form), Ok(label), "{form}");
        }
    }
}

#[test]
fn an_inverse_word_lowers_a_label() {
    let encodings = example();
    let [plain, north, both] =
        ["TS", "TS REL NORTH", "TS REL NORTH/SOUTH"].map(|text| encodings.parse(text).unwrap());
    assert_eq!(plain.relation(north), Relation::Above);
    assert_eq!(north.relation(both), Relation::Above);
}

#[test]
fn refuses_a_bad_label_with_its_reason() {
    let encodings = example();
    let many = format!("CNF {}", "x".repeat(2000));
    for (text, part) in [
        ("", "a line of 1 to 1024 bytes"),
        ("CNF\nPUB", "a line of 1 to 1024 bytes"),
        (&many, "a line of 1 to 1024 bytes"),
        (
            "TOP",
            "begins with no classification; known are PUBLIC, CONFIDENTIAL",
        ),
        ("PUBLICX", "begins with no classification"),
        ("CNF : NOPE NTK", "unknown word 'NOPE NTK'"),
        ("CNF : NEDD TO KNOW", "did you mean 'NEED TO KNOW'?"),
        (
            "PUB : NTK",
            "word 'NEED TO KNOW' is outside its classifications: it needs CONFIDENTIAL to CONFIDENTIAL",
        ),
        ("CNF A", "it needs TOP SECRET to the highest"),
        ("TS PX", "word 'PROJECT X' requires word 'ALPHA'"),
        (
            "TS A B PX",
            "words 'BRAVO' and 'PROJECT X' cannot be together",
        ),
        (
            "TS B REL NORTH",
            "words 'BRAVO' and 'NORTH' cannot be together",
        ),
        (
            "TS ARCHIVE A",
            "words 'ARCHIVE' and 'ALPHA' cannot be together",
        ),
        ("0x0009-08-00", "classification 9 is not in the encodings"),
        ("0x0002-08-09", "no word stands for its compartments 7"),
        ("0x0002-08-00", "no word stands for its compartments 4"),
        (
            "0x0002-08-48",
            "word 'INTERNAL USE ONLY' is outside its classifications",
        ),
        ("0x0004", "not a label in hexadecimal"),
    ] {
        let error = encodings.parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn labels_outside_the_accreditation_range_are_valid_but_refused() {
    let encodings = example();
    for text in ["CNF", "MAX"] {
        encodings.parse(text).unwrap();
        let error = encodings.parse_accredited(text).unwrap_err();
        assert_eq!(error.reason, Reason::NotAccredited, "{text}");
    }
    for text in ["PUB", "CNF : NTK", "SBX", "SBX PG", "TS A PX"] {
        encodings.parse_accredited(text).unwrap();
    }
    for label in [Label::ADMIN_LOW, Label::ADMIN_HIGH] {
        assert_eq!(encodings.check(label), Ok(()));
        assert!(encodings.check_accredited(label).is_err());
    }
}

#[test]
fn names_the_line_of_a_bad_file() {
    for (from, to, message) in [
        (
            "VERSION=",
            "* VERSION=",
            "line 7: expected section VERSION=, found CLASSIFICATIONS:",
        ),
        (
            "CHANNELS:",
            "* ",
            "expected section CHANNELS:, found WORDS:",
        ),
        (
            "SENSITIVITY LABELS:",
            "CLEARANCES:",
            "expected section SENSITIVITY LABELS:, found CLEARANCES:",
        ),
        (
            "ACCREDITATION RANGE:",
            "LOCAL DEFINITIONS:",
            "expected section ACCREDITATION RANGE:, found LOCAL DEFINITIONS:",
        ),
        (
            "value= 5;",
            "value= 0;",
            "line 12: value= '0' is not a number from 1 to 255",
        ),
        (
            "value= 5;",
            "value= 4;",
            "line 12: 'value= 4' stands here a second time",
        ),
        ("value= 5;", "", "line 12: 'SANDBOX' has no value="),
        (
            "sname= SBX;",
            "sname= pub;",
            "line 12: 'pub' stands here a second time",
        ),
        (
            "sname= SBX;",
            "snme= SBX;",
            "unknown keyword 'snme=' in section CLASSIFICATIONS:; did you mean 'sname='?",
        ),
        (
            "compartments= 4;",
            "compartments= 256;",
            "is not numbers from 0 to 255",
        ),
        (
            "compartments= 4;",
            "compartments= 7-3;",
            "is not numbers from 0 to 255",
        ),
        (
            "compartments= 4;",
            "compartments= ~4;",
            "is not compartments without ~",
        ),
        (
            "maxclass= CNF;\t* the strictest comes first",
            "maxclass= XNF;",
            "there is no classification 'XNF'",
        ),
        (
            "maxclass= CNF;\t* the strictest comes first",
            "maxclass= PUB;",
            "is not below maxclass=",
        ),
        (
            "iname= INT; prefix= :;",
            "prefix= ::;",
            "there is no prefix '::'",
        ),
        ("compartments= 6; ", "", "'PLAYGROUND' has no compartments="),
        (
            "PROJECT X  ALPHA",
            "PROJECT X  OMEGA",
            "there is no word 'OMEGA'",
        ),
        (
            "ARCHIVE &",
            "ARCHIVE",
            "is not words with ! or & between them",
        ),
        (
            "only valid compartment combinations:\n\nPUB",
            "only valid compartment combinations:\n\nPUV",
            "label 'PUV': it begins with no classification",
        ),
        (
            "classification= SBX;",
            "classification= CNF;",
            "'CONFIDENTIAL' stands here a second time",
        ),
        (
            "minimum sensitivity label= PUB",
            "minimum sensitivity label= LOW",
            "label 'LOW'",
        ),
        (
            "minimum clearance=",
            "minimum clearence=",
            "label 'minimum clearence= PUB'",
        ),
    ] {
        let error = error_with(from, to);
        assert!(error.contains(message), "{from}: {error}");
        assert!(error.starts_with("label_encodings line "), "{error}");
    }
    assert!(Encodings::read("").is_err());
    let large = format!("{EXAMPLE}\n{}", "*\n".repeat(crate::MAX_FILE_BYTES / 2));
    assert!(Encodings::read(&large).is_err());
    assert!(Encodings::read(&EXAMPLE.replacen("PUB", "P\u{1b}B", 1)).is_err());
}

#[test]
fn clearances_have_words_of_their_own() {
    let clearances = Encodings::read_clearances(EXAMPLE).unwrap();
    let words: Vec<_> = clearances.words().collect();
    assert_eq!(words, ["NEED TO KNOW"]);
    // NEED TO KNOW is a label only at CONFIDENTIAL, and a clearance from CONFIDENTIAL up.
    let clearance = clearances.parse("TS NTK").unwrap();
    assert!(example().parse("TS NTK").is_err());
    assert_eq!(clearances.text(clearance), "TOP SECRET : NEED TO KNOW");
    assert!(clearances.check_accredited(clearance).is_err());
    for (from, to, message) in [
        (
            "minimum clearance= PUB",
            "minimum clearance= PUB A",
            "unknown word 'A'",
        ),
        (
            "name= NEED TO KNOW; sname= NTK; prefix= :; compartments= 1-2; minclass= CNF;\n\nREQ",
            "name= NEED TO KNOW;\n\nREQ",
            "'NEED TO KNOW' has no compartments=",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        Encodings::read(&text).unwrap();
        let error = Encodings::read_clearances(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{from}: {error}");
    }
}

/// Returns a legal file with almost as many words and combinations as the reader admits, and some
/// labels that have all words.
fn largest() -> String {
    let mut words = String::new();
    for number in 0..1000 {
        let (one, two) = (number / 40, 200 + number % 40);
        words += &format!(
            "name= W{number}; iname= V{number}; compartments= {one} {two}; minclass= TS;\n"
        );
    }
    words += "name= BIG; compartments= 0-255; minclass= TS;\n";
    let rules: String = (0..1000)
        .map(|one| format!("W{one} & BIG | W{one} | W0\n"))
        .collect();
    let labels = "TS BIG\n".repeat(200);
    let rule = "BRAVO ! PROJECT X | \\\n\tREL NORTH\nARCHIVE &\n";
    assert!(EXAMPLE.contains(rule));
    EXAMPLE
        .replace("name= RESTRICTED;", &format!("{words}name= RESTRICTED;"))
        .replace(rule, &rules)
        .replace(
            "classification= TS; all compartment combinations valid;",
            &format!("classification= TS; only valid compartment combinations:\n{labels}"),
        )
}

#[test]
fn the_largest_files_are_read_in_a_moment() {
    let began = std::time::Instant::now();
    let encodings = Encodings::read(&largest()).unwrap();
    let label = encodings.parse("ts big").unwrap();
    assert_eq!(encodings.text(label), "TOP SECRET BIG");
    assert_eq!(encodings.check_accredited(label), Ok(()));
    // An unknown word before very many blanks.
    let line = format!("ARCHIVE ! {}\n", "W ".repeat(60_000));
    let error = Encodings::read(&largest().replace("W0 & BIG | W0 | W0\n", &line)).unwrap_err();
    assert!(error.to_string().contains("there is no word"), "{error}");
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn refuses_more_names_affixes_and_items_than_any_label_needs() {
    let names: String = (0..17).map(|one| format!(" sname= N{one};")).collect();
    let error = error_with("name= ALPHA;", &format!("name= ALPHA;{names}"));
    assert!(error.ends_with("'ALPHA' has more than 16 names"), "{error}");
    let error = error_with("aname= TSEC;", &names.replace("sname", "aname"));
    assert!(
        error.ends_with("'TOP SECRET' has more than 16 names"),
        "{error}"
    );
    let affixes: String = (0..1024)
        .map(|one| format!("name= P{one}; prefix;\n"))
        .collect();
    let error = error_with("name= RESTRICTED;", &format!("{affixes}name= RESTRICTED;"));
    assert!(error.contains("more than 1024 entries"), "{error}");
    let word = |one: usize| -> String {
        let names: String = (0..15)
            .map(|two| format!(" iname= N{one}N{two};"))
            .collect();
        format!("name= W{one}; compartments= 3;{names}\n")
    };
    let words: String = (0..260).map(word).collect();
    let error = error_with("name= RESTRICTED;", &format!("{words}name= RESTRICTED;"));
    assert!(error.contains("more than 4096 entries"), "{error}");
    let items = format!("ARCHIVE ! {}ALPHA\n", "ALPHA|".repeat(4096));
    let error = error_with("ARCHIVE &", &items);
    assert!(error.contains("more than 4096 entries"), "{error}");
}
