use proptest::prelude::*;

use super::*;

const LOW: &str = "0x0001-08-00";
const MIDDLE: &str = "0x0004-08-40";
const HIGH: &str = "0x0004-08-60";

fn parse(text: &str) -> Result<Network, String> {
    Network::parse(text, "tncfg".as_ref()).map_err(|error| error.to_string())
}

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn example() -> Network {
    parse(&format!(
        "# format: 1\n\
         template lan host_type=unlabeled def_label={LOW} host=192.0.2.0/24 host=2001:db8::/32\n\
         template one def_label={HIGH} host=192.0.2.9\n\
         template dns host_type=multilevel min_label={LOW} max_label={MIDDLE} host=192.0.2.53\n\
         zone web mlp_private=80/tcp mlp_private=8000-8010/tcp mlp_shared=53/udp\n"
    ))
    .unwrap()
}

#[test]
fn the_longest_prefix_decides_and_no_template_means_no_label() {
    let network = example();
    let decides = |ip: &str| {
        let found = network.decides(ip.parse().unwrap());
        found.map(|(template, _)| template.name.as_str())
    };
    assert_eq!(decides("192.0.2.1"), Some("lan"));
    assert_eq!(decides("192.0.2.9"), Some("one"));
    assert_eq!(decides("2001:db8:1::1"), Some("lan"));
    assert_eq!(decides("192.0.3.1"), None);
    assert_eq!(decides("2001:db9::1"), None);
    let admitted = |text: &str| {
        let list = network.remotes(label(text));
        assert_eq!(list.len(), 4, "every label has every network: {list:?}");
        let mut names: Vec<String> = list
            .into_iter()
            .filter(|(_, admitted)| *admitted)
            .map(|(host, _)| host.to_string())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        admitted(LOW),
        ["192.0.2.0/24", "192.0.2.53/32", "2001:db8::/32"]
    );
    assert_eq!(admitted(MIDDLE), ["192.0.2.53/32"]);
    assert_eq!(admitted(HIGH), ["192.0.2.9/32"]);
}

#[test]
fn the_range_of_an_unlabeled_template_admits_nothing() {
    let network = parse(&format!(
        "template a def_label={LOW} min_label=0x0000-08-00 max_label=0x7ffe-08-ff host=192.0.2.1"
    ))
    .unwrap();
    assert!(network.template("a").unwrap().admits(label(LOW)));
    assert!(!network.template("a").unwrap().admits(label(HIGH)));
}

#[test]
fn a_network_of_ipv6_does_not_decide_about_ipv4() {
    let all = (parts::ALL_IPV4, false);
    for (host, has) in [("::/0", true), ("::/64", true), ("2001:db8::/32", false)] {
        let network = parse(&format!("template a def_label={LOW} host={host}")).unwrap();
        assert_eq!(network.remotes(label(LOW)).contains(&all), has, "{host}");
        assert!(network.decides("192.0.2.1".parse().unwrap()).is_none());
    }
    let both = format!("template a def_label={LOW} host=::/0 host=0.0.0.0/0");
    let remotes = parse(&both).unwrap().remotes(label(LOW));
    assert_eq!(remotes.len(), 2);
    assert!(remotes.iter().all(|(_, admitted)| *admitted));
}

#[test]
fn a_wrong_line_is_named_with_its_reason() {
    for (line, why) in [
        ("templates a", "unknown word 'templates'"),
        ("template", "a line without a name"),
        ("template a/b", "template name 'a/b': use 1 to 63"),
        ("template a", "template a: def_label is not set"),
        (
            "template a host_type=multilevel",
            "template a: min_label and max_label are not set",
        ),
        (
            "template a host_type=cipso",
            "host_type 'cipso': expected unlabeled or multilevel",
        ),
        ("template a def_label=PUBLIC", "label 'PUBLIC'"),
        (
            "template a def_label=0x0001-08-00 host=192.0.2.1/24",
            "use 192.0.2.0/24",
        ),
        (
            "template a def_label=0x0001-08-00 host=192.0.2.1/33",
            "host 192.0.2.1/33: has a prefix",
        ),
        (
            "template a def_label=0x0001-08-00 host=::ffff:192.0.2.1",
            "write the IPv4 address",
        ),
        (
            "template a def_label=0x0001-08-00 host=10.0.0.1 host=10.0.0.1",
            "is there already",
        ),
        (
            "template a def_label=0x0001-08-00 host=192.0.2.9",
            "is in template one",
        ),
        (
            "template a def_label=0x0001-08-00 min_label=0x0004-08-40 max_label=0x7ffe-08-ff",
            "template a: max_label must dominate min_label",
        ),
        (
            "template lan def_label=0x0001-08-00",
            "a second line for 'lan'",
        ),
        ("zone web", "a second line for 'web'"),
        ("zone a mlp_private=80", "port '80': expected PORT/tcp"),
        ("zone a mlp_private=0/tcp", "port '0/tcp'"),
        ("zone a mlp_private=+8/tcp", "port '+8/tcp'"),
        ("zone a mlp_private=9-8/udp", "port '9-8/udp'"),
        (
            "zone a mlp_private=80/tcp mlp_shared=70-90/tcp",
            "ports 80/tcp and 70-90/tcp overlap",
        ),
        (
            "zone a mlp_shared=50-60/udp",
            "mlp_shared 50-60/udp is zone web's",
        ),
        ("zone global mlp_shared=50-60/udp", "global"),
    ] {
        let text = format!("{}{line}\n", example().render());
        let error = parse(&text).unwrap_err();
        assert!(
            error.starts_with("tncfg:6: ") && error.contains(why),
            "{line}: {error}"
        );
    }
    let error = parse("# format: 2\nanything").unwrap_err();
    assert!(error.contains("format 2"), "{error}");
}

#[test]
fn lists_are_bounded() {
    let many = |count: usize| {
        let ports: String = (1..=count)
            .map(|n| format!(" mlp_private={n}/tcp"))
            .collect();
        parse(&format!("zone web{ports}"))
    };
    assert!(many(MAX_PORTS).is_ok());
    assert!(many(MAX_PORTS + 1).unwrap_err().contains("too many ranges"));
    let templates = |count: usize| {
        let lines = (0..count).map(|n| format!("template t{n} def_label={LOW}\n"));
        parse(&lines.collect::<String>())
    };
    assert!(templates(MAX_TEMPLATES).is_ok());
    let error = templates(MAX_TEMPLATES + 1).unwrap_err();
    assert!(error.contains("too many templates"), "{error}");
}

#[test]
fn the_file_survives_and_a_deleted_zone_leaves_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    std::fs::create_dir_all(root.run()).unwrap();
    assert_eq!(load(&root).unwrap(), Network::default());
    save(&root, &example()).unwrap();
    assert_eq!(load(&root).unwrap(), example());
    let web = "web".parse().unwrap();
    assert_eq!(load(&root).unwrap().zone(&web).all().count(), 3);
    let gone = forget(&root, &web).unwrap().unwrap();
    assert_eq!((gone.old.len(), gone.new.len()), (3, 0));
    assert_eq!(forget(&root, &web).unwrap(), None);
    assert!(load(&root).unwrap().zones().is_empty());
    assert_eq!(load(&root).unwrap().templates().len(), 3);
    // A wrong line of another keeps its place, and no zone from its deletion.
    let path = root.label_network();
    let wrong = "# format: 1\ntemplate x\n";
    std::fs::write(&path, format!("{wrong} zone  web mlp_private=80/tcp\n")).unwrap();
    crate::xml::remove(&root, &web).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), wrong);
}

#[test]
fn the_ports_of_a_zone_follow_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    std::fs::create_dir_all(root.run()).unwrap();
    save(&root, &example()).unwrap();
    let (web, shop) = ("web".parse().unwrap(), "shop".parse().unwrap());
    let ports: Vec<_> = example().zone(&web).all().collect();
    let changes = rename(&root, &web, &shop).unwrap();
    let parts: Vec<_> = changes.iter().map(|one| one.part.as_str()).collect();
    assert_eq!(parts, ["zone=web", "zone=shop"]);
    let now = load(&root).unwrap();
    assert_eq!(now.zone(&shop).all().collect::<Vec<_>>(), ports);
    assert_eq!(now.zone(&web).all().count(), 0);
    assert_eq!(now.templates(), example().templates());
    // The command after a kill repeats the step.
    assert_eq!(rename(&root, &web, &shop).unwrap(), []);
    assert_eq!(load(&root).unwrap(), now);
}

proptest! {
    #[test]
    fn every_accepted_text_is_written_and_read_again_equal(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "template", "zone", "\n", "a", "b", "lan", "host_type=unlabeled",
                "host_type=multilevel", "def_label=0x0001-08-00", "min_label=0x0000-08-00",
                "max_label=0x7ffe-08-ff", "host=10.0.0.0/8", "host=10.1.0.0/16", "host=::/0",
                "host=2001:db8::1", "mlp_private=80/tcp", "mlp_shared=53-60/udp", "# x",
            ]),
            0..24,
        ),
        noise in "\\PC{0,6}",
    ) {
        let text = words.join(" ");
        for text in [text.clone(), format!("{text}{noise}")] {
            if let Ok(network) = parse(&text) {
                prop_assert_eq!(parse(&network.render()).unwrap(), network);
            }
        }
    }

    #[test]
    fn the_network_that_decides_contains_the_address(
        bits in any::<u32>(), at in any::<u32>(), length in 0_u8..=32,
    ) {
        let ip = std::net::Ipv4Addr::from_bits(at);
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let net = std::net::Ipv4Addr::from_bits(bits & mask);
        let text = format!("template a def_label={LOW} host={net}/{length}");
        let network = parse(&text).unwrap();
        let inside = at & mask == bits & mask;
        prop_assert_eq!(network.decides(ip.into()).is_some(), inside);
    }
}

#[test]
fn changes_have_the_values_that_differ() {
    let before = example();
    assert_eq!(before.changes_since(&before), []);
    let mut after = before.clone();
    let mut lan = after.template("lan").unwrap().clone();
    lan.def_label = Some(label(HIGH));
    lan.hosts.remove(0);
    after.put_template(lan).unwrap();
    after.remove_template("one");
    after.remove_zone(&"web".parse().unwrap());
    let seen: Vec<String> = after
        .changes_since(&before)
        .iter()
        .map(|one| format!("{} {:?} {:?}", one.part, one.old, one.new).replace('"', ""))
        .collect();
    assert_eq!(
        seen,
        [
            format!("template=lan [def_label={LOW}, host=192.0.2.0/24] [def_label={HIGH}]"),
            format!("template=one [host_type=unlabeled, def_label={HIGH}, host=192.0.2.9/32] []"),
            "zone=web [mlp_private=80/tcp, mlp_private=8000-8010/tcp, mlp_shared=53/udp] []"
                .to_owned(),
        ]
    );
    let back = before.changes_since(&after);
    assert_eq!(back.len(), 3);
    assert_eq!(back[1].new.len(), 3);
}

#[test]
fn messages_about_names_are_safe_for_a_terminal() {
    for kind in ["zone", "template"] {
        let error = parse(&format!("{kind} a\u{1b}[31m host=1\n")).unwrap_err();
        assert!(error.contains("a\\u{1b}[31m"), "{error}");
        let long = parse(&format!("{kind} {}\n", "a".repeat(900))).unwrap_err();
        assert!(long.len() < 300, "{long}");
    }
}
