use proptest::prelude::*;

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn parse(line: &str) -> Result<Task, Refusal> {
    let mut words = words(line);
    let program = Program::find(&words.remove(0)).unwrap();
    Task::parse(program, &words)
}

/// Returns the arguments with which the program is started.
fn started(line: &str) -> String {
    let task = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    task.words().join(" ")
}

fn allows(line: &str, list: &str) -> bool {
    parse(line).unwrap().is_allowed_by(Auths::of_list(list))
}

/// The users who see the use of a zone.
const VIEWERS: [Auth; 4] = [Auth::Login, Auth::Manage, Auth::Config, Auth::Liveconfig];

#[test]
fn each_command_needs_what_its_row_says() {
    let manage = [
        "boot",
        "boot -n",
        "boot --dry-run",
        "boot -- -i /bin/sh -s",
        "halt",
        "ready",
        "reboot -- -s",
        "shutdown -r -- -m verbose",
        "verify",
        "install",
        "uninstall -F",
        "uninstall -nF",
        "clone master",
        "clone -m copy master",
        "clone -s golden master",
        "snapshot monday",
        "rollback -nF before:upgrade-1.2",
        "destroy-snapshot monday",
        "merge -n",
        "beadm create -a -e old new",
        "beadm activate --now new",
        "beadm rename a b",
        "beadm destroy -F a",
    ];
    let lines = manage.map(|rest| (format!("zoneadm -z web {rest}"), vec![Auth::Manage]));
    let more = [
        (
            "zoneadm -z web apply -nq",
            vec![Auth::Manage, Auth::Liveconfig],
        ),
        ("zlogin web", vec![Auth::Login]),
        ("zlogin --cwd /srv --env=A=1 web id", vec![Auth::Login]),
        ("zoneadm -z web push -o www - /srv", vec![Auth::Login]),
        ("zoneadm -z web pull -a /etc /srv -", vec![Auth::Login]),
        (
            "zoneadm -z web logs -f -n 5 console",
            vec![Auth::Login, Auth::Manage],
        ),
        (
            "zoneadm -z web snapshots --json",
            vec![Auth::Login, Auth::Manage],
        ),
        (
            "zoneadm -z web beadm list -H",
            vec![Auth::Login, Auth::Manage],
        ),
        (
            "zoneadm -z web diff -j monday tuesday",
            vec![Auth::Login, Auth::Manage],
        ),
        (
            "zoneadm -z web files ls -j monday /etc",
            vec![Auth::Login, Auth::Manage],
        ),
        (
            "zoneadm -z web files cat -be monday L2E=",
            vec![Auth::Login],
        ),
        (
            "zoneadm -z web files restore -nk monday /etc /srv",
            vec![Auth::Login, Auth::Manage],
        ),
        ("zoneadm -z web links -p", VIEWERS.to_vec()),
        ("zoneadm -z web storage", VIEWERS.to_vec()),
        ("zoneadm -z web rctl -j", VIEWERS.to_vec()),
        ("zlogin -C web", vec![Auth::Login]),
        ("zlogin -S web id", vec![Auth::Login]),
        ("zonecfg -z web", vec![Auth::Config]),
        ("zonecfg -z web -f -", vec![Auth::Config]),
        ("zonecfg -z web set autoboot=true", vec![Auth::Config]),
    ];
    let more = more.map(|(line, auths)| (line.to_owned(), auths));
    for (line, auths) in lines.into_iter().chain(more) {
        for auth in Auth::ALL {
            assert_eq!(
                allows(&line, auth.as_str()),
                auths.contains(&auth),
                "{line}: {auth}"
            );
        }
        assert!(!allows(&line, ""), "{line}");
    }
    for auth in Auth::ALL {
        let suffices = Task::may_clone_from(Auths::of_list(auth.as_str()));
        assert_eq!(suffices, auth == Auth::Clonefrom);
    }
}

#[test]
fn programs_get_words_that_can_be_read_in_one_way() {
    for (line, expected) in [
        ("zoneadm -zweb boot", "-z web boot"),
        (
            "zoneadm -z a -z b boot -n -- -z db",
            "-z a -z b boot -n -- -z db",
        ),
        ("zoneadm -z web uninstall -Fn", "-z web uninstall -F -n"),
        (
            "zoneadm -z web clone -mcopy master",
            "-z web clone -m copy master",
        ),
        ("zoneadm -z web shutdown --dry-run", "-z web shutdown -n"),
        (
            "zlogin -nQe@ -lroot web ls -l",
            "-n -Q -e @ -l root web ls -l",
        ),
        ("zlogin web -C", "web -C"),
        (
            "zlogin --cwd /srv --env A=--now web id",
            "--cwd=/srv --env=A=--now web id",
        ),
        (
            "zoneadm -z a push -nao x - /srv",
            "-z a push -n -a -o x - /srv",
        ),
        (
            "zoneadm -z a beadm activate --now b",
            "-z a beadm activate --now b",
        ),
        (
            "zoneadm -z a files restore -nk b /c /d",
            "-z a files restore -n -k b /c /d",
        ),
        ("zoneadm -z a logs -n5 journal", "-z a logs -n 5 journal"),
        ("zlogin -l -C web", "-l -C web"),
        ("zonecfg -f- -zweb", "-z web -f -"),
        ("zonecfg -z web info -R /", "-z web info -R /"),
    ] {
        assert_eq!(started(line), expected, "{line}");
    }
}

#[test]
fn commands_outside_the_table_are_refused() {
    for line in [
        // An alternate root, another option that selects a zone, or no zone.
        "zoneadm -R /alt -z web boot",
        "zoneadm -z web -R /alt boot",
        "zoneadm -R/alt -z web boot",
        "zoneadm -u 6b2ca6c0-4c2e-4b2a-9d2b-0c1a5b9b8c11 boot",
        "zoneadm -z",
        "zoneadm -z web",
        "zoneadm boot",
        "zoneadm -- -z web boot",
        "zoneadm --zone web boot",
        // Verbs that affect more than the zone, or that show paths of the host.
        "zoneadm -z web mark incomplete",
        "zoneadm -z web mount",
        "zoneadm -z web unmount",
        "zoneadm -z web beadm",
        "zoneadm -z web beadm mount a /mnt",
        "zoneadm -z web beadm mount a",
        "zoneadm -z web beadm rename a",
        "zoneadm -z web beadm create a/b",
        "zoneadm -z web check",
        "zoneadm -z web network",
        "zoneadm -z web logs ../console",
        // Paths of the host, or paths that are none.
        "zoneadm -z web push /etc/shadow /tmp",
        "zoneadm -z web push - tmp",
        "zoneadm -z web push - /a /b",
        "zoneadm -z web pull /etc/shadow /tmp",
        "zoneadm -z web pull -",
        "zoneadm -z web pull -o root /etc -",
        "zlogin --cwd",
        "zlogin --root=/ web",
        "zoneadm -z web list",
        // Globs and ranges, which zoneauthd does not resolve, and names that are no zone.
        "zoneadm -z w* boot",
        "zoneadm -z web[1-3] boot",
        "zoneadm -z web -z * boot",
        "zoneadm -z global boot",
        "zoneadm -z ../web boot",
        "zoneadm -z web attach",
        "zoneadm -z web detach",
        "zoneadm -z web move /zones/other",
        "zoneadm -z web migrate host",
        "zoneadm -z web boo",
        "zoneadm -z web Boot",
        // Options that take a path, and options of other verbs.
        "zoneadm -z web install -a /etc/shadow",
        "zoneadm -z web install -d /",
        "zoneadm -z web install -na /etc/shadow",
        "zoneadm -z web install -c /etc/shadow",
        "zoneadm -z web install -m /etc/shadow",
        "zoneadm -z web install /etc/shadow",
        "zoneadm -z web install -- -a /etc/shadow",
        "zoneadm -z web clone --create master",
        // Only root deletes configurations, whatever the auths of the user.
        "zoneadm -z web uninstall --delete",
        "zoneadm -z web uninstall -F --delete",
        "zoneadm -z web uninstall --delete -n",
        "zoneadm -z web clone -m move master",
        "zoneadm -z web clone -c /etc master",
        "zoneadm -z web clone",
        "zoneadm -z web clone master db",
        "zoneadm -z web clone master -n",
        "zoneadm -z web clone m*",
        "zoneadm -z web clone ../db",
        "zoneadm -z web clone -- master",
        "zoneadm -z web clone -s ../x master",
        "zoneadm -z web clone -s /etc master",
        "zoneadm -z web clone -s -R master",
        "zoneadm -z web snapshot",
        "zoneadm -z web snapshot ../x",
        "zoneadm -z web snapshot a/b",
        "zoneadm -z web snapshot .",
        "zoneadm -z web snapshot a b",
        "zoneadm -z web snapshot -F a",
        "zoneadm -z web destroy-snapshot -F a",
        "zoneadm -z web rollback -- a",
        "zoneadm -z web install -i debian",
        "zoneadm -z web halt -F",
        "zoneadm -z web halt -- -s",
        "zoneadm -z web boot now",
        "zoneadm -z web boot -s",
        "zlogin",
        "zlogin -x web",
        "zlogin -l",
        "zlogin w*",
        "zlogin global",
        "zlogin ../web",
        "zlogin -R /alt web",
        "zlogin -- web",
        "zlogin --help web",
        "zonecfg",
        "zonecfg info",
        "zonecfg -z",
        "zonecfg -z w*",
        "zonecfg -z global info",
        "zonecfg -z SUNWdefault info",
        "zonecfg -z web -z db info",
        "zonecfg -zweb -zdb info",
        "zonecfg -R /alt -z web info",
        "zonecfg -u 6b2ca6c0-4c2e-4b2a-9d2b-0c1a5b9b8c11 info",
        "zonecfg -z web -f /etc/shadow",
        "zonecfg -z web -f/etc/shadow",
        "zonecfg -z web -r",
        "zonecfg -z web -rf -",
        "zonecfg -z web -a /x",
        "zoneadm -z web diff",
        "zoneadm -z web diff /etc",
        "zoneadm -z web diff a b c",
        "zoneadm -z web files",
        "zoneadm -z web files rm a /etc",
        "zoneadm -z web files ls a",
        "zoneadm -z web files ls a /etc /srv",
        "zoneadm -z web files cat ../a /etc",
        "zoneadm -z web files cat -n a /etc",
        "zoneadm -z web files restore a",
        "zoneadm -z web files restore a /etc -d",
        "zoneadm -z web files restore -d /tmp a /etc",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    assert_eq!(
        parse("zoneadm -z web mount").unwrap_err().to_string(),
        "mount is for root alone"
    );
    assert_eq!(
        parse("zonecfg -z web -f /etc/shadow")
            .unwrap_err()
            .to_string(),
        "-f /etc/shadow is for root alone"
    );
    let task = parse("zonecfg -z web --atomic --expect 0a1b -f -").unwrap();
    assert_eq!(
        task.words(),
        ["-z", "web", "--atomic", "--expect=0a1b", "-f", "-"]
    );
    assert_eq!(
        parse("zonecfg -z web --expect /etc/shadow set autoboot=true")
            .unwrap_err()
            .to_string(),
        "--expect /etc/shadow is for root alone"
    );
    assert!(parse("zonecfg -z web --digest").is_err());
}

#[test]
fn table_rows_take_no_path() {
    let texts = |options: &[Opt]| -> Vec<String> {
        let text = options.iter().filter(|one| one.value == Value::Text);
        text.map(|one| match (one.letter, one.long) {
            (Some(letter), _) => letter.to_string(),
            (None, long) => long.unwrap_or_default().to_owned(),
        })
        .collect()
    };
    for verb in table::ZONEADM {
        // The number of lines, and the owner in the zone.
        let expected: &[&str] = match verb.name {
            "logs" => &["n"],
            "push" => &["o"],
            _ => &[],
        };
        assert_eq!(texts(verb.options), expected, "{}", verb.name);
        assert!(!verb.needs.is_empty(), "{}", verb.name);
    }
    // The escape character, the user in the zone, and the folder and variables of the command.
    assert_eq!(texts(table::ZLOGIN), ["e", "l", "cwd", "env"]);
    assert_eq!(texts(table::ZONECFG), [""; 0]);
}

fn any_words() -> impl Strategy<Value = Vec<String>> {
    let pieces = [
        "-z",
        "-zweb",
        "web",
        "db",
        "w*",
        "-R",
        "-R/",
        "/etc/shadow",
        "-f",
        "-",
        "-f-",
        "--",
        "boot",
        "halt",
        "clone",
        "install",
        "uninstall",
        "-n",
        "-F",
        "-nF",
        "-r",
        "-m",
        "copy",
        "--create",
        "-C",
        "-l",
        "-e",
        "snapshot",
        "-s",
        "golden",
        "info",
        "-u",
        "",
        "\n",
        "-\u{e9}",
        "--dry-run",
        "-a",
        "-d",
    ];
    let piece = prop_oneof![
        8 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,6}",
    ];
    proptest::collection::vec(piece, 0..8)
}

proptest! {
    /// An accepted command has the same meaning when its words are parsed again, and the table has
    /// all words that the task makes.
    #[test]
    fn accepted_requests_parse_again_to_the_same_task(
        program in proptest::sample::select(Program::ALL.to_vec()),
        words in any_words(),
    ) {
        let Ok(task) = Task::parse(program, &words) else { return Ok(()) };
        let made = task.words();
        prop_assert_eq!(Task::parse(program, &made), Ok(task.clone()));
        let ours = &made[..made.len() - task.rest.len()];
        let values = ["-e", "-l"];
        for (place, word) in ours.iter().enumerate() {
            let is_value = place > 0 && values.contains(&ours[place - 1].as_str());
            if program == Program::Zlogin && is_value {
                continue;
            }
            prop_assert!(!word.contains('/') && word != "--", "{ours:?}");
            prop_assert!(!["-R", "-u", "-a"].contains(&word.as_str()), "{ours:?}");
        }
    }
}
