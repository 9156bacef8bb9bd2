//! Tests `zoneadm export` and `import`: a zone as one file, from any source.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::run::run;
use e2e::{Host, start, wait_for};

/// Runs a program of the machine, which must succeed.
#[track_caller]
fn sh(script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]);
    run(&mut command, b"").ok().text().to_owned()
}

#[test]
fn a_zone_goes_into_a_file_and_comes_back() {
    let (Some(here), Some(there)) = (Host::with_web(), Host::new()) else {
        return;
    };
    here.put("web", "root/word", "kept\n");
    here.boot("web");
    here.sh(
        "web",
        "cd /root; ln word again; ln -s word link; chmod 4750 word; rm /etc/motd; mkfifo pipe",
    );
    let file = here.path("web.tar.zst");
    let file = file.to_str().unwrap();
    // The export of a running zone uses a snapshot, and removes it.
    let ran = here.on("web", &["export", file]).ok();
    assert!(ran.out.contains("Exported "), "{ran:?}");
    assert_eq!(here.on("web", &["snapshots", "-p"]).ok().out, "");
    assert_eq!(here.state("web"), "running");
    assert!(!Path::new(&format!("{file}.part")).exists());
    // Any tar can read it.
    let list = sh(&format!("zstd -dc {file} | tar tf - | head -2"));
    assert!(list.starts_with("SUNWdetached.xml"), "{list}");

    there
        .on("web", &["import", "-n", file])
        .ok()
        .out
        .find("configure it")
        .unwrap();
    assert!(there.rows().is_empty());
    let _ = there.on("web", &["import", file]).ok();
    assert_eq!(there.state("web"), "installed");
    assert_eq!(there.row("web").uuid, here.row("web").uuid);
    there.boot("web");
    assert_eq!(
        there.sh(
            "web",
            "cd /root; cat again link; stat -c %a:%h word; test -p pipe; ls /etc/motd 2>/dev/null || echo gone"
        ),
        "kept\nkept\n4750:2\ngone"
    );
    there.halt("web");
    // The import uses another name, and does not replace existing files.
    there
        .on("web", &["import", file])
        .mentions(1, "is already installed");
    let _ = there.on("web2", &["import", file]).ok();
    assert_eq!(there.row("web2").zonepath, "/zones/web2");
    assert_ne!(there.row("web2").uuid, there.row("web").uuid);
    // The import reads from a pipe, as with any archive.
    let out = here.path("piped");
    let ran = run(
        &mut here.command("zoneadm", &["-z", "web", "export", "relative"]),
        b"",
    );
    assert_eq!(ran.code(), Some(2), "{ran:?}");
    here.halt("web");
    let mut export = here.command("zoneadm", &["-z", "web", "export", "-"]);
    export.stdout(fs::File::create(&out).unwrap());
    let status = start(&mut export).wait().unwrap();
    assert!(status.success());
    let names = |file: &str| sh(&format!("zstd -dc {file} | tar tf - | sort"));
    let piped = names(out.to_str().unwrap());
    assert!(piped.lines().any(|line| line == "root/word"), "{piped}");
    assert!(!piped.lines().any(|line| line.starts_with("usr/bin")));
}

#[test]
fn a_path_that_cannot_be_written_costs_nothing() {
    let Some(host) = Host::with_web() else { return };
    host.boot("web");
    let folder = host.path("");
    let none = host.path("none/web.tar.zst");
    for (to, text) in [(&folder, "is no regular file"), (&none, "No such file")] {
        let ran = host.on("web", &["export", to.to_str().unwrap()]);
        // The progress of a snapshot of a running zone goes to standard output.
        assert_eq!(ran.out, "", "{ran:?}");
        ran.mentions(1, text);
    }
    // The file of a failed export is removed.
    if Path::new("/usr/bin/gpg").exists() {
        let file = host.path("web.tar.gpg");
        let words = ["export", "--gpg", "no-such-key", file.to_str().unwrap()];
        host.on("web", &words).mentions(1, "gpg");
        assert!(!file.exists());
        assert!(!host.path("web.tar.gpg.part").exists());
    }
    assert_eq!(snapshots(&host), [""; 0]);
    host.halt("web");
}

/// Starts an export of the running zone into a pipe without a reader, waits until the export has
/// started, and kills it.
fn killed_export(host: &Host) {
    let mut export = host.command("zoneadm", &["-z", "web", "export", "-"]);
    let mut export = start(export.stdout(Stdio::piped()));
    let of_this = wait_for("snapshot to export", || snapshots(host).pop());
    assert!(of_this.starts_with("export-"), "{of_this}");
    // A snapshot that is in use is not removed.
    let other = host.path("/other");
    let _ = host.on("web", &["export", other.to_str().unwrap()]).ok();
    assert_eq!(snapshots(host), [of_this.as_str()]);
    export.kill().unwrap();
    let _ = export.wait();
    assert_eq!(snapshots(host), [of_this.as_str()]);
}

/// Returns the names of the zone's snapshots.
fn snapshots(host: &Host) -> Vec<String> {
    let ran = host.on("web", &["snapshots", "-p"]).ok();
    let second = |line: &str| line.split(':').nth(1).unwrap_or_default().to_owned();
    ran.out.lines().map(second).collect()
}

#[test]
fn a_locked_zone_names_the_command_that_holds_the_lock() {
    let Some(host) = Host::with_web() else { return };
    // The export is larger than the buffer of a pipe, with any compression.
    let mut noise = Vec::new();
    let random = fs::File::open("/dev/urandom").unwrap();
    random.take(1 << 20).read_to_end(&mut noise).unwrap();
    host.put("web", "root/noise", noise);
    let mut export = host.command("zoneadm", &["-z", "web", "export", "-"]);
    let mut export = start(export.stdout(Stdio::piped()));
    // The export holds the zone's lock from before its first byte to its last byte.
    let mut first = [0];
    let out = export.stdout.as_mut().unwrap();
    out.read_exact(&mut first).unwrap();
    host.on("web", &["boot"]).says(
        1,
        &format!(
            "zoneadm: zone 'web': another zoneadm may have an operation in progress: the zone is locked by zoneadm export (process {}).",
            export.id()
        ),
    );
    export.kill().unwrap();
    let _ = export.wait();
    host.boot("web");
    host.halt("web");
}

#[test]
fn a_killed_export_of_a_running_zone_leaves_nothing_for_long() {
    let Some(host) = Host::with_web() else { return };
    // The export is larger than the buffer of a pipe, with any compression.
    let mut noise = Vec::new();
    let random = fs::File::open("/dev/urandom").unwrap();
    random.take(1 << 20).read_to_end(&mut noise).unwrap();
    host.put("web", "root/noise", noise);
    host.boot("web");
    killed_export(&host);
    // The next export removes this snapshot, and its own one.
    let file = host.path("/whole");
    let _ = host.on("web", &["export", file.to_str().unwrap()]).ok();
    assert!(snapshots(&host).is_empty());
    killed_export(&host);
    // The next boot removes it as well. A user's snapshot with a similar name stays.
    let _ = host.on("web", &["snapshot", "export-mine"]).ok();
    host.halt("web");
    host.boot("web");
    assert_eq!(snapshots(&host), ["export-mine"]);
}

#[test]
fn an_archive_is_encrypted_for_its_recipient() {
    if !Path::new("/usr/bin/gpg").exists() {
        e2e::skip("no gpg");
        return;
    }
    let Some(host) = Host::with_web() else { return };
    let home = host.path("gnupg");
    fs::create_dir(&home).unwrap();
    let shown = home.display();
    sh(&format!(
        "chmod 700 {shown}; export GNUPGHOME={shown}; \
         gpg --batch --quiet --passphrase '' --quick-gen-key zone@example.com default default never 2>/dev/null"
    ));
    let file = host.path("web.gpg");
    let with = |words: &[&str]| {
        let mut command = host.command("zoneadm", &[&["-z"], words].concat());
        command.env("GNUPGHOME", &home);
        run(&mut command, b"")
    };
    let file = file.to_str().unwrap();
    let _ = with(&["web", "export", "--gpg", "zone@example.com", file]).ok();
    let begin = fs::read(file).unwrap();
    assert!(!begin.starts_with(b"\x28\xb5\x2f\xfd"), "plain zstd");
    with(&[
        "web",
        "export",
        "--gpg",
        "nobody@example.com",
        "/tmp/never.gpg",
    ])
    .mentions(1, "gpg: exit status");
    assert!(!Path::new("/tmp/never.gpg").exists());
    let _ = with(&["back", "import", file]).ok();
    assert_eq!(host.state("back"), "installed");
    let mut end = Command::new("gpgconf");
    end.args(["--kill", "all"]).env("GNUPGHOME", &home);
    let _ = run(&mut end, b"");
}

/// Makes an archive with this configuration. The commands run before the archive is packed.
fn archive(host: &Host, more: &str, script: &str) -> String {
    let tree = host.path("forged");
    let file = host.path("forged.tar.zst");
    let (tree, file) = (tree.display(), file.display());
    sh(&format!(
        "rm -rf --one-file-system {tree}; mkdir -p {tree}/etc {tree}/bin; cd {tree}; \
         cat >SUNWdetached.xml <<'END'\n\
         <zone name=\"bad\" zonepath=\"/zones/bad\" brand=\"native\">{more}</zone>\nEND\n\
         {script}\n\
         tar cf - SUNWdetached.xml $(ls -A | grep -v SUNW) $EXTRA | zstd -q >{file}"
    ));
    file.to_string()
}

#[test]
fn an_archive_from_anybody_does_no_harm() {
    let Some(host) = Host::new() else { return };
    let refuse = |file: &str, part: &str| {
        host.on("bad", &["import", file]).mentions(1, part);
        assert!(host.rows().is_empty(), "{part}");
        assert!(!host.path("/zones/bad").exists(), "{part}");
    };
    let reaches = archive(
        &host,
        "<filesystem special=\"/\" directory=\"/host\" type=\"lofs\"/><device match=\"/dev/sda\"/>",
        "true",
    );
    refuse(&reaches, "fs /host of /, device /dev/sda");
    refuse(&archive(&host, "<odd/>", "true"), "unknown element");
    refuse(&archive(&host, "", "rm -r bin etc"), "no root file system");
    let outside = host.path("outside");
    fs::write(&outside, "safe\n").unwrap();
    // This name leads outside through a link.
    let through = archive(
        &host,
        "",
        &format!(
            "mkdir aside; echo bad >aside/outside; ln -s {} etc/out; EXTRA='--transform=s,^aside,etc/out, aside'",
            host.root().display()
        ),
    );
    refuse(&through, "");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "safe\n");
    // Devices are left out.
    let file = archive(
        &host,
        "",
        "mknod etc/disk b 8 0; mkdir usr; setfattr -n trusted.overlay.opaque -v y etc || true",
    );
    let _ = host.on("bad", &["import", &file]).ok();
    assert!(!host.top("bad").join("etc/disk").exists());
    fs::write(&outside, "no archive").unwrap();
    host.on("worse", &["import", outside.to_str().unwrap()])
        .mentions(1, "");
    host.on("worse", &["import", "/nowhere"])
        .mentions(1, "/nowhere");
    assert_eq!(host.rows().len(), 1);
}
