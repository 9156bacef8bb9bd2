//! The forms in which commands come in: arguments, files, pipes; and bad usage.

mod common;

use common::Host;

#[test]
fn usage() {
    let host = Host::new();
    let long = "x".repeat(64);
    let calls: [&[&str]; 9] = [
        &[],
        &["info"],
        &["-z"],
        &["-z", "web1", "-q"],
        &["-z", "global", "info"],
        &["-z", "SUNWblank", "info"],
        &["-z", &long, "info"],
        &["-R", "relative", "-z", "web1", "info"],
        &["-R", "/nonexistent", "-z", "web1", "info"],
    ];
    let runs = calls.map(|args| host.run(args));
    insta::assert_snapshot!(runs.join("\n"));
}

#[test]
fn help() {
    let host = Host::new();
    let calls: [&[&str]; 8] = [
        &["--help"],
        &["help"],
        &["help", "syntax"],
        &["help", "create"],
        &["help", "fs"],
        &["help", "dir"],
        &["help", "nonsense"],
        &["-z", "web1", "create -?"],
    ];
    let runs = calls.map(|args| host.run(args));
    insta::assert_snapshot!(runs.join("\n"));
}

#[test]
fn syntax_errors_in_arguments_do_not_stop_the_rest() {
    let host = Host::with_web1();
    insta::assert_snapshot!(host.transcript(&[
        "bogus; set autoboot=true",
        "set a=[b",
        "info autoboot",
    ]));
}

#[test]
fn command_files() {
    let host = Host::new();
    let good = host.write(
        "good.cfg",
        "# A comment\ncreate -b\nset autoboot=true; set bootargs=-v\n\nadd attr\nset name=a\nset type=string\nset value=\"x y\"\nend\n",
    );
    let partly = host.write(
        "partly.cfg",
        "set autoboot=false\nset colour=red\nset bootargs=-w\n",
    );
    let syntax = host.write("syntax.cfg", "set autoboot=true\n\nset bootargs\n");
    let open = host.write("open.cfg", "set autoboot=false\nadd fs\n");
    let prompts = host.write("prompts.cfg", "set autoboot=false\ndelete\n");
    let calls: [&[&str]; 11] = [
        &["-z", "web1", "-f", &good],
        &["-z", "web1", "info"],
        &["-z", "web1", "-f", &partly],
        &["-z", "web1", "info autoboot; info bootargs"],
        &["-z", "web1", "-f", &syntax],
        &["-z", "web1", "-f", &open],
        &["-z", "web1", "-f", &prompts],
        &["-z", "web1", "info autoboot"],
        &["-z", "web1", "-f", "/nonexistent"],
        &["-z", "web1", "-f", "/dev/null"],
        &["-z", "web1", "-f", &good, "info"],
    ];
    let runs = calls.map(|args| host.run(args));
    insta::assert_snapshot!(runs.join("\n"));
}

#[test]
fn standard_input() {
    let host = Host::new();
    let runs = [
        host.run_with(&["-z", "web1"], "create -b\nset autoboot=true\n"),
        host.run_with(
            &["-z", "web1", "-f", "-"],
            "bogus\nset colour=red\nset bootargs=-v\ninfo bootargs\n",
        ),
        host.run_with(&["-z", "web1"], "info bootargs\nexit\ninfo autoboot\n"),
        host.run_with(&["-z", "web2"], "info\n"),
    ];
    insta::assert_snapshot!(runs.join("\n"));
}

#[test]
fn options_choose_the_root_and_the_zone() {
    let (host, other) = (Host::with_web1(), Host::new());
    let uuid = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";
    store::index::update::<_, store::Error>(&host.root(), |index| {
        let mut entry = index.entries()[0].clone();
        entry.uuid = uuid.parse().ok();
        index.put(entry);
        Ok(())
    })
    .unwrap();
    let root = host.dir().to_str().unwrap();
    // -R wins over the environment.
    assert_eq!(other.status(&["-R", root, "-z", "web1", "info"]), 0);
    assert_eq!(other.status(&["-z", "web1", "info"]), 1);
    assert_eq!(host.status(&["-u", uuid, "info"]), 0);
    assert_eq!(
        host.status(&["-u", "00000000-4b5a-4978-8695-a4b3c2d1e0ff", "info"]),
        1
    );
    assert_eq!(host.status(&["-u", "junk", "info"]), 2);
}

#[test]
fn exports_read_back() {
    let host = Host::with_web1();
    let make = "set bootargs=\"-m a;b\"; add fs; set dir=/data; set special=\"/s p\"; set type=lofs; add options \"uid=7\"; end";
    let mut transcript = host.run(&["-z", "web1", make]);
    let file = host.dir().join("web1.cfg");
    let export = format!("export -f {}", file.display());
    transcript.push_str(&host.run(&["-z", "web1", &export]));
    transcript.push_str(&host.run(&["-z", "web2", "-f", file.to_str().unwrap()]));
    transcript.push_str(&host.run(&["-z", "web2", "export"]));
    insta::assert_snapshot!(transcript);
    assert_eq!(
        host.run(&["-z", "web1", "export"])
            .lines()
            .skip(1)
            .collect::<Vec<_>>(),
        host.run(&["-z", "web2", "export"])
            .lines()
            .skip(1)
            .collect::<Vec<_>>()
    );
    let elsewhere = host.run(&["-z", "web1", "export -f /nonexistent/x"]);
    assert!(
        elsewhere.contains("! opening file /nonexistent/x: "),
        "{elsewhere}"
    );
    assert!(elsewhere.ends_with("[1]\n"));
}
