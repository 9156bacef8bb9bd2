//! Tests what the console and the messages of a zone show during its life, and that dry runs leave
//! no trace.

use std::fs;

use e2e::container::{archive, busybox, file, system};
use e2e::{Host, settled, wait_for};

fn messages(host: &Host, zone: &str) -> String {
    fs::read_to_string(host.path(&format!("/var/log/zones/{zone}.messages"))).unwrap_or_default()
}

fn console(host: &Host, zone: &str) -> String {
    fs::read_to_string(host.path(&format!("/var/log/zones/{zone}.console"))).unwrap_or_default()
}

#[test]
fn a_boot_that_fails_is_in_the_messages_of_the_zone() {
    let Some(host) = Host::with_web() else { return };
    assert_eq!(messages(&host, "web"), "");
    let set =
        "set autoboot=true; add fs; set dir=/mnt; set special=/nowhere/at/all; set type=lofs; end";
    host.zonecfg(&["-z", "web", set]).quiet();
    assert_eq!(host.on("web", &["boot"]).code(), Some(1));
    let told = messages(&host, "web");
    assert!(told.contains("could not boot: "), "{told}");
    assert!(told.contains("/nowhere/at/all"), "{told}");
    // The service of the host boots this zone when the host boots.
    let _ = e2e::run::run(&mut host.command("zones-service", &["start"]), b"");
    assert_eq!(
        messages(&host, "web").matches("could not boot: ").count(),
        2
    );
}

#[test]
fn logs_prints_and_follows_the_console_and_the_messages() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let say = |text: &str| host.sh("web", &format!("printf '{text}\\n' >/dev/console"));
    say("one \\033[31mred\\033[0m\\007");
    let last = || host.on("web", &["logs", "-n", "1", "console"]).ok().out;
    wait_for("the line on the console", || {
        (last() == "one red\\u{7}\n").then_some(())
    });
    let both = host.on("web", &["logs", "console", "messages"]).ok().out;
    assert!(both.contains("console: one red"), "{both}");
    let json = host
        .on("web", &["logs", "-j", "-n", "1", "console"])
        .ok()
        .out;
    assert_eq!(
        json,
        "{\"zone\":\"web\",\"source\":\"console\",\"text\":\"one red\\\\u{7}\"}\n"
    );
    let words = ["-z", "web", "logs", "-f", "-n", "0", "console"];
    let mut follower = host.command("zoneadm", &words);
    let mut follower = e2e::start(follower.stdout(std::process::Stdio::piped()));
    let output = follower.stdout.take().expect("a pipe");
    say("two");
    let line = std::io::BufRead::lines(std::io::BufReader::new(output)).next();
    assert_eq!(line.expect("a line").expect("text"), "two");
    follower.kill().expect("it runs");
    follower.wait().expect("it ends");
    // A missing journal is only an error if the user asks for the journal alone.
    host.halt("web");
    host.on("web", &["logs"]).quiet();
    let ran = host.on("web", &["logs", "journal"]);
    ran.says(1, "zoneadm: zone 'web': it has no journal, or does not run");
    host.on("web", &["logs", "syslog"])
        .mentions(2, "expected messages, console or journal");
}

#[test]
fn console_and_messages_tell_how_a_zone_began_and_ended() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["boot", "--", "-s"]).quiet();
    assert!(
        console(&host, "web").contains("[NOTICE: Zone booting up with arguments: -s]"),
        "{}",
        console(&host, "web")
    );
    let _ = host.zlogin(&["web", "kill -PWR 1"]);
    host.wait_for_state("web", "installed");
    assert!(messages(&host, "web").contains("ended: the zone powered itself off"));
    host.boot("web");
    host.kill_if_there(host.init_of("web"));
    host.wait_for_state("web", "installed");
    let told = messages(&host, "web");
    assert!(
        told.contains("ended: init was killed by signal 9"),
        "{told}"
    );
    host.on("web", &["snapshot", "golden"]).quiet();
    assert!(messages(&host, "web").contains("snapshot golden taken"));
}

#[test]
fn a_zone_that_died_boots_again_where_its_configuration_says_so() {
    let Some(host) = Host::with_web() else { return };
    let set = "add attr; set name=restart; set type=string; set value=on-failure; end";
    host.zonecfg(&["-z", "web", set]).quiet();
    host.boot("web");
    let first = host.init_of("web");
    host.kill_if_there(first);
    wait_for("the next boot of the zone", || {
        let is_new = host.inits_of("web").iter().any(|init| *init != first);
        (is_new && host.state("web") == "running").then_some(())
    });
    assert_eq!(host.sh("web", "hostname"), "web");
    let told = messages(&host, "web");
    assert!(told.contains("killed by signal 9"), "{told}");
    assert!(told.contains("restart=on-failure boots it again"), "{told}");
    // An end that the users wanted is not reported as a failure.
    let _ = host.zlogin(&["web", "kill -PWR 1"]);
    host.wait_for_state("web", "installed");
    assert!(messages(&host, "web").contains("ended: the zone powered itself off"));
    host.boot("web");
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
}

#[test]
fn a_program_of_an_image_that_cannot_start_says_why() {
    let Some(host) = Host::with_web() else { return };
    let words = [
        "zone-init 1",
        "0",
        "0",
        "",
        "15",
        "/nowhere",
        "0",
        "sleep",
        "9",
    ];
    let text: String = words.iter().map(|word| format!("{word}\0")).collect();
    host.put("web", "etc/zone.init", text);
    host.boot("web");
    wait_for("the reason on the console", || {
        console(&host, "web")
            .contains("cannot take /nowhere: error 2 (it is not there)")
            .then_some(())
    });
    host.wait_for_state("web", "installed");
}

#[test]
fn a_boot_without_its_zoneadmd_leaves_no_configuration_that_runs() {
    let Some(host) = Host::with_web() else { return };
    let folder = host.path("/alone");
    fs::create_dir(&folder).unwrap();
    let zoneadm = host.command("zoneadm", &["-z", "web", "boot"]);
    e2e::copy_program(zoneadm.get_program(), folder.join("zoneadm"));
    // Other programs would be searched in the folders of the package.
    if ["/usr/lib/zones", "/usr/sbin", "/usr/bin"]
        .iter()
        .any(|at| std::path::Path::new(at).join("zoneadmd").exists())
    {
        e2e::skip("the programs are installed");
        return;
    }
    let mut alone = std::process::Command::new(folder.join("zoneadm"));
    alone.args(zoneadm.get_args()).env_clear();
    for (name, value) in zoneadm.get_envs() {
        value.map(|value| alone.env(name, value));
    }
    e2e::run::run(&mut alone, b"").mentions(1, "could not find the program zoneadmd");
    assert!(!host.path("/run/zones/web.xml").exists());
    host.boot("web");
    assert!(host.path("/run/zones/web.xml").exists());
    host.halt("web");
}

#[test]
fn plans_leave_no_trace() {
    let Some(host) = Host::with_web() else { return };
    // Files that exist only until the next boot of the host are not there yet.
    let run = host.path("/run/zones");
    if run.join("mnt").exists() {
        fs::remove_dir(run.join("mnt")).unwrap();
    }
    let listed = || {
        let found = std::process::Command::new("find")
            .arg(host.root())
            .args(["-xdev", "-printf", "%p %y %m %s %T@\\n"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&found.stdout).into_owned()
    };
    let leaves_none = |verbs: &[&str]| {
        let before = settled(&listed);
        for verb in verbs {
            let _ = host.on("web", &[verb, "-n"]).ok();
        }
        let after = listed();
        let known: std::collections::BTreeSet<&str> = before.lines().collect();
        let new: Vec<&str> = after.lines().filter(|line| !known.contains(line)).collect();
        assert_eq!(new, [""; 0]);
    };
    leaves_none(&["boot", "ready"]);
    assert!(!run.join("mnt").exists());
    host.boot("web");
    let init = host.init_of("web");
    leaves_none(&["halt", "reboot", "shutdown"]);
    assert_eq!(host.init_of("web"), init);
    host.halt("web");
}

#[test]
fn a_user_logs_in_where_there_is_no_su() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let mut members = system(&busybox);
    members.push(file(
        "etc/passwd",
        b"root:x:0:0::/root:/bin/sh\njoe:x:1000:100::/nowhere:/bin/sh\n",
    ));
    members.push(file("etc/group", b"root:x:0:\nvideo:x:27:joe\n"));
    let path = host.path("/small.tar");
    fs::write(&path, archive(&members)).unwrap();
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    let _ = host
        .on("tiny", &["install", "-a", &path.to_string_lossy()])
        .ok();
    for folder in ["bin", "usr/bin", "sbin", "usr/sbin"] {
        let _ = fs::remove_file(host.top("tiny").join(folder).join("su"));
    }
    host.boot("tiny");
    let said = host.zlogin(&[
        "-l",
        "joe",
        "tiny",
        "echo $(id -u):$(id -g):$(id -G):$HOME:$USER:$PWD",
    ]);
    assert_eq!(said.ok().text(), "1000:100:100 27:/nowhere:joe:/");
    host.zlogin(&["-l", "nobody-here", "tiny", "true"])
        .mentions(127, "no user nobody-here in its /etc/passwd");
    host.halt("tiny");
}

#[test]
fn a_terminal_has_a_size_though_nobody_looks() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let size = host.zlogin(&["-Q", "-i", "web", "stty size"]).ok();
    assert!(size.out.contains("24 80"), "{}", size.out);
    assert_eq!(host.sh("web", "stty size </dev/console"), "24 80");
}

#[test]
fn progress_as_json_ends_with_the_status() {
    let Some(host) = Host::with_web() else { return };
    let run = |words: &[&str]| {
        let words = [&["--progress=json"], words].concat();
        let mut command = host.command("zoneadm", &words);
        let done = command.output().expect("zoneadm runs");
        assert_eq!(String::from_utf8_lossy(&done.stderr), "");
        let text = String::from_utf8(done.stdout).expect("UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        (
            done.status.code(),
            lines.collect::<Vec<serde_json::Value>>(),
        )
    };
    let last = |lines: &[serde_json::Value]| lines.last().expect("a last line").to_string();

    let (status, lines) = run(&["-z", "web", "snapshot", "one"]);
    assert_eq!(status, Some(0));
    assert_eq!(
        last(&lines),
        r#"{"error":null,"status":0,"verb":"snapshot","zone":"web"}"#
    );

    host.zonecfg(&["-z", "web2", "create -b; set zonepath=/zones/web2"])
        .quiet();
    let (status, lines) = run(&["-z", "web2", "clone", "web"]);
    assert_eq!(status, Some(0));
    let counted: Vec<_> = lines
        .iter()
        .filter(|line| line["unit"] == "zones")
        .collect();
    assert_eq!(counted.len(), 1, "{lines:?}");
    assert_eq!(
        (&counted[0]["done"], &counted[0]["total"]),
        (&1.into(), &1.into())
    );

    // An error is a message, and the last line repeats it.
    let (status, lines) = run(&["-z", "web", "install"]);
    assert_eq!(status, Some(1));
    let error = lines.last().map(|line| line["error"].clone());
    assert_eq!(lines[0]["message"], error.clone().unwrap_or_default());
    assert!(error.is_some_and(|error| error.as_str().is_some_and(|text| text.contains("install"))));
    // A question cannot be asked.
    let (status, lines) = run(&["-z", "web", "uninstall"]);
    assert_eq!((status, lines.len()), (Some(1), 2), "{lines:?}");
    // Data on standard output are not mixed with progress.
    let mut command = host.command("zoneadm", &["--progress=json", "-z", "web", "export", "-"]);
    let done = command.output().expect("zoneadm runs");
    assert!(!done.stdout.starts_with(b"{") && done.stdout.len() > 1000);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let line = said.lines().last().unwrap_or_default();
    assert!(line.ends_with(r#""error":null,"status":0}"#), "{said}");
    let refused = host
        .command("zoneadm", &["--progress=json", "list"])
        .output();
    assert_eq!(refused.expect("zoneadm runs").status.code(), Some(2));
}
