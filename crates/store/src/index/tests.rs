//! Tests of the index: reading, refusals, writing.

use proptest::prelude::*;

use super::*;

fn entry(name: &str, path: &str) -> Entry {
    Entry::configured(name.parse().unwrap(), PathBuf::from(path))
}

#[test]
fn keeps_order_comments_and_fields() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let mut web = entry("web", "/zones/web");
    web.uuid = Some(Uuid::from_random([7; 16]));
    web.slot = Some(3);
    web.state = State::Installed;
    update::<_, Error>(&root, |index| {
        index.put(web.clone());
        index.put(entry("odd", "/zones/a:b"));
        Ok(())
    })
    .unwrap();
    let text = fs::read_to_string(root.index()).unwrap();
    fs::write(root.index(), format!("# mine\n{text}")).unwrap();
    update::<_, Error>(&root, |index| {
        index.rename(&"odd".parse().unwrap(), "even".parse().unwrap())
    })
    .unwrap();
    let index = Index::load(&root).unwrap();
    assert_eq!(index.entries(), [web, entry("even", "/zones/a:b")]);
    assert!(
        fs::read_to_string(root.index())
            .unwrap()
            .starts_with("# mine\n")
    );
}

#[test]
fn the_format_is_said_and_a_newer_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    fs::create_dir_all(root.index().parent().unwrap()).unwrap();
    // The programs of commit df5d183 wrote this file.
    fs::write(root.index(), include_str!("../../fixtures/index")).unwrap();
    let before = Index::load(&root).unwrap();
    assert_eq!(before.entries().len(), 3);
    let put = || {
        update::<_, Error>(&root, |index| {
            index.put(entry("more", "/zones/more"));
            Ok(())
        })
    };
    put().unwrap();
    let text = fs::read_to_string(root.index()).unwrap();
    assert!(text.contains("\n# format: 1\n"), "{text}");
    assert_eq!(Index::load(&root).unwrap().entries().len(), 4);
    let newer = text.replace("# format: 1", "# format: 2") + "quite another line\n";
    fs::write(root.index(), &newer).unwrap();
    let error = put().unwrap_err().to_string();
    assert!(
        error.contains("has format 2, and these programs know formats up to 1"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(root.index()).unwrap(), newer);
    assert!(Index::parse("# format: x\n", Path::new("index")).is_err());
}

#[test]
fn reads_what_solaris_writes() {
    let text = "global:installed:/\n#c\nweb:installed:/zones/web:0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff\nnew:configured:/zones/new:\nold:configured:/zones/old\n";
    let index = Index::parse(text, Path::new("index")).unwrap();
    let states: Vec<_> = index
        .entries()
        .iter()
        .map(|e| (e.name.as_str(), e.state, e.uuid.is_some()))
        .collect();
    assert_eq!(
        states,
        [
            ("web", State::Installed, true),
            ("new", State::Configured, false),
            ("old", State::Configured, false)
        ]
    );
}

#[test]
fn damage_is_named_with_its_line() {
    for bad in [
        "web",
        "web:installed",
        "web:nowhere:/z",
        "a b:installed:/z",
        "w:installed:/z:u",
        "w:installed:\"/z:",
        "w:running:/z",
        "w:installed:/z::x",
        "w:installed:/z::999999",
    ] {
        let error = Index::parse(&format!("# c\n{bad}\n"), Path::new("index")).unwrap_err();
        assert!(error.to_string().starts_with("index:2: "), "{error}");
    }
}

#[test]
fn names_and_slots_are_unique() {
    for (second, reason) in [
        ("web:configured:/zones/other", "a second zone web"),
        (
            "db:installed:/zones/db::7",
            "the zone has the slot of the one in line 2",
        ),
    ] {
        let text = format!("# c\nweb:installed:/zones/web::7\n{second}\n");
        let error = Index::parse(&text, Path::new("index")).unwrap_err();
        assert_eq!(error.to_string(), format!("index:3: {reason}"));
    }
    let fine = "web:configured:/zones/web:\ndb:configured:/zones/db:\n";
    assert_eq!(
        Index::parse(fine, Path::new("index"))
            .unwrap()
            .entries
            .len(),
        2
    );
}

#[test]
fn entries_that_could_not_be_read_back_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let put = |entries: &[Entry]| {
        update::<_, Error>(&root, |index| {
            entries.iter().for_each(|one| index.put(one.clone()));
            Ok(())
        })
    };
    put(&[entry("web", "/zones/web")]).unwrap();
    let before = fs::read(root.index()).unwrap();
    let slot = |name, slot| Entry {
        slot: Some(slot),
        ..entry(name, "/z")
    };
    for bad in [
        vec![entry("db", "/z\nevil:installed:/etc::0")],
        vec![entry("db", "/z:\":")],
        vec![entry("db", "\"/z")],
        vec![Entry {
            state: State::Running,
            ..entry("db", "/z")
        }],
        vec![slot("db", SLOTS)],
        vec![slot("db", 1), slot("mail", 1)],
    ] {
        let error = put(&bad).unwrap_err();
        assert!(error.to_string().starts_with("cannot write"), "{bad:?}");
        assert_eq!(fs::read(root.index()).unwrap(), before, "{bad:?}");
    }
}

#[test]
fn a_name_or_slot_of_an_unchanged_entry_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let slot = |name, slot| Entry {
        slot: Some(slot),
        ..entry(name, "/z")
    };
    let put = |entry: Entry| {
        update::<_, Error>(&root, |index| {
            index.put(entry);
            Ok(())
        })
    };
    put(slot("web", 3)).unwrap();
    put(slot("db", 4)).unwrap();
    let before = fs::read(root.index()).unwrap();
    let (web, db): (ZoneName, ZoneName) = ("web".parse().unwrap(), "db".parse().unwrap());
    let renamed = update(&root, |index| index.rename(&web, db.clone()));
    for refused in [put(slot("mail", 3)), renamed] {
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with("cannot write"), "{error}");
        assert_eq!(fs::read(root.index()).unwrap(), before);
    }
}

fn any_state() -> impl Strategy<Value = State> {
    prop_oneof![
        Just(State::Configured),
        Just(State::Incomplete),
        Just(State::Installed)
    ]
}

/// Characters with a meaning in the index, in XML or in zonecfg, and any other characters.
fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![
        "/[ -~]{0,40}",
        "/([:\"#%/ .a-z\n\r\t\u{0}\u{85}\u{2028}é\\\\]|%%){0,20}",
        "/\\PC{0,40}"
    ]
}

proptest::proptest! {
    #[test]
    fn every_valid_entry_reads_back(
        zones in proptest::collection::btree_map(
            "[a-z0-9][a-z0-9_.-]{0,20}x",
            (any_path(), any_state(), proptest::option::of(proptest::array::uniform16(0u8..))),
            0..6,
        ),
        slots in proptest::bool::ANY,
    ) {
        let mut index = Index::default();
        for (slot, (name, (path, state, uuid))) in zones.into_iter().enumerate() {
            let mut config = model::Config::new(name.parse().unwrap());
            if config.set_zonepath(&path).is_err() {
                continue;
            }
            index.put(Entry {
                state,
                uuid: uuid.map(Uuid::from_random),
                slot: slots.then_some(u32::try_from(slot).unwrap()),
                ..Entry::configured(config.name().clone(), config.zonepath())
            });
        }
        let read = Index::parse(&index.render(), Path::new("index")).unwrap();
        proptest::prop_assert_eq!(read.entries, index.entries);
    }

    // So an entry that was read need not be checked when it is written again.
    #[test]
    fn an_entry_that_was_read_reads_back(
        lines in proptest::collection::vec("[a-z#]{1,3}:(configured|installed):[ -~\\t\\r]{0,12}(:[0-9:\"]{0,4})?", 0..5),
    ) {
        let path = Path::new("index");
        if let Ok(index) = Index::parse(&lines.join("\n"), path) {
            let read = Index::parse(&index.render(), path).unwrap();
            proptest::prop_assert_eq!(read.entries, index.entries);
        }
    }
}

#[test]
fn a_refused_change_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let refused = update::<(), Error>(&root, |index| {
        index.put(entry("web", "/zones/web"));
        Err(Error::NoIdsLeft)
    });
    assert!(refused.is_err());
    assert!(!root.index().exists());
}

#[test]
fn slots_fill_gaps_and_run_out() {
    let mut index = Index::default();
    for (name, slot) in [("a", 0), ("b", 2)] {
        index.put(Entry {
            slot: Some(slot),
            ..entry(name, "/z")
        });
    }
    assert_eq!(index.free_slots(3).unwrap(), [1, 3, 4]);
    assert!(matches!(
        index.free_slots(SLOTS as usize),
        Err(Error::NoIdsLeft)
    ));
}
