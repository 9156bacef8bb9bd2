//! Tests delegation with packets that are not from our programs.

use std::process::{Command, Stdio};

use e2e::delegation::{AS_USER, Service, admin};
use e2e::run::run;
use e2e::{Host, wait_for};

/// Sends packets to the service, each on its own connection, and prints the answers.
const SPEAK: &str = r#"
use Socket;
for my $packet (@ARGV) {
    socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
    connect($s, pack_sockaddr_un("/mnt/run/zones/auth.sock")) or die $!;
    my $bytes = eval $packet;
    send($s, $bytes, 0);
    shutdown($s, 1) if $bytes eq "";
    my $answer = "";
    recv($s, $answer, 4096, 0);
    print "$answer\n";
}
"#;

#[test]
fn odd_packets_are_refused_and_stop_nobody() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage"));
    host.configure("b", &admin("bin", "manage"));
    let service = Service::start(&host);
    let header = "\"ZNA1-pp\\0\\0\\0\\0\"";
    let packets: Vec<String> = [
        "\"\"",
        "\"x\"",
        "\"\\0\" x 65536",
        "\"\\xff\" x 65537",
        "\"ZNA1\" . \"A\" x 60000",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0boot\"",
        "HEAD . \"\\0\\0/bin/sh\\0-c\\0id\\0\"",
        "HEAD . \"\\0\\0zoneadmd\\0-z\\0a\\0\"",
        "HEAD . \"\\0\\0zoneauthd\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0b\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0../b\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0-R\\0/tmp\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0\" . \"-z\\0a\\0\" x 5000",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0\\xff\\0\"",
        "\"ZNA1ptt\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0halt\\0\"",
        "\"ZNA1---\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0halt\\0\"",
    ]
    .iter()
    .map(|packet| packet.replace("HEAD", header))
    .collect();
    let speak = |user: &str, packets: &[String]| {
        let mut words = vec!["-e", SPEAK];
        words.extend(packets.iter().map(String::as_str));
        service.run_words(user, "/usr/bin/perl", &words).ok().out
    };
    let answers = speak("daemon", &packets);
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), packets.len());
    assert_eq!(answers[0], "", "nothing was asked for");
    for (packet, answer) in packets.iter().zip(&answers).skip(1) {
        assert!(answer.starts_with("refused "), "{packet}: {answer}");
    }
    // All packets except the first are in the log.
    assert_eq!(service.refusals("daemon").len(), packets.len() - 1);
    // Root needs no delegation, and the service refuses root.
    let mut root = Command::new("unshare");
    root.args(["-m", "--propagation", "private", "sh", "-c", AS_USER, "sh"])
        .arg(&service.root)
        .arg(&service.programs)
        .args(["0", "/usr/bin/perl", "-e", SPEAK])
        .arg(format!("{header} . \"\\0\\0zoneadm\\0-z\\0a\\0verify\\0\""));
    assert_eq!(
        run(&mut root, b"").ok().out,
        "refused root does it itself\n"
    );
    // Opens silent connections: the maximum number, and some more.
    let idle = r#"
        use Socket;
        my (@open, $answer);
        # Those that were let in may have been sent away before the last one came.
        for (1..20) {
            @open = ();
            for (1..60) {
                socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
                connect($s, pack_sockaddr_un("/mnt/run/zones/auth.sock")) or die $!;
                push @open, $s;
            }
            recv($open[59], $answer = "", 4096, 0);
            last if $answer ne "";
        }
        print "$answer\n";
        $| = 1;
        print "open\n";
        <STDIN>;
    "#;
    let mut command = service.command("daemon", "/usr/bin/perl", &["-e", idle]);
    let mut crowd = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(crowd.stdout.take().unwrap()));
    let refused = lines.next().unwrap().unwrap();
    assert!(
        refused.starts_with("refused ") && refused.contains("at a time"),
        "{refused}"
    );
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    service
        .run("bin", "zoneadm -z b halt")
        .mentions(1, "must be installed before halt.");
    drop(crowd.stdin.take());
    crowd.wait().unwrap();
    // The service accepts connections again.
    wait_for("a place for daemon", || {
        let ran = service.run("daemon", "zoneadm -z a halt");
        ran.err
            .contains("must be installed before halt.")
            .then_some(())
    });
}

#[test]
fn a_flood_of_refusals_does_not_fill_the_log() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("bin", "manage"));
    let service = Service::start(&host);
    let packet = "\"ZNA1-pp\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0boot\\0\"".to_owned();
    let mut words = vec!["-e", SPEAK];
    words.extend(std::iter::repeat_n(packet.as_str(), 130));
    let begun = std::time::Instant::now();
    let ran = service.run_words("games", "/usr/bin/perl", &words).ok();
    let more = usize::try_from(begun.elapsed().as_secs() / 10).unwrap();
    assert_eq!(ran.out.lines().count(), 130);
    assert!(
        ran.out
            .lines()
            .all(|line| line.starts_with("refused zone 'a': User games")),
        "{ran:?}"
    );
    let logged = service.refusals("games").len();
    // The log has a hundred lines, and one more for each ten seconds of the test.
    assert!((100..=100 + more).contains(&logged), "{logged}");
    // Requests of another user are still served and logged.
    service
        .run("bin", "zoneadm -z a halt")
        .mentions(1, "must be installed before halt.");
    assert!(
        service
            .log()
            .iter()
            .any(|line| line.contains("user=bin") && line.contains("granted"))
    );
}
