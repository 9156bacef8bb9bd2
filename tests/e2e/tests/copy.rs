//! Tests `zoneadm push` and `pull`: files in and out of running and halted zones, also of a hostile
//! one.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::Host;
use e2e::delegation::{Service, allow, uid};
use e2e::run::run;

/// Makes a folder on the host with a file, a link, two names of a file, a sparse file, and a
/// program with a set-id bit that belongs to user 1234.
fn site(host: &Host) -> PathBuf {
    let site = host.path("site");
    fs::create_dir_all(site.join("sub")).unwrap();
    fs::write(site.join("sub/one\n"), "one").unwrap();
    fs::hard_link(site.join("sub/one\n"), site.join("two")).unwrap();
    symlink("/etc/hostname", site.join("link")).unwrap();
    let holes = fs::File::create(site.join("holes")).unwrap();
    holes.set_len(64 << 20).unwrap();
    fs::write(site.join("tool"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::chown(site.join("tool"), Some(1234), Some(1234)).unwrap();
    fs::set_permissions(site.join("tool"), PermissionsExt::from_mode(0o4751)).unwrap();
    let tool = site.join("tool");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&tool, "user.note", b"x", flags).unwrap();
    site
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks a copy of [`site`] on the host.
fn check_site(copy: &Path) {
    assert_eq!(fs::read(copy.join("sub/one\n")).unwrap(), b"one");
    let meta = |name: &str| fs::symlink_metadata(copy.join(name)).unwrap();
    assert_eq!(meta("sub/one\n").ino(), meta("two").ino());
    assert_eq!(
        fs::read_link(copy.join("link")).unwrap(),
        Path::new("/etc/hostname")
    );
    assert_eq!(meta("holes").len(), 64 << 20);
    assert!(meta("holes").blocks() < 2048, "{}", meta("holes").blocks());
    let mut note = [0; 8];
    let length = rustix::fs::getxattr(copy.join("tool"), "user.note", note.as_mut_slice());
    assert_eq!(&note[..length.unwrap()], b"x");
    assert_eq!(
        (meta("tool").mode() & 0o7777, meta("tool").uid()),
        (0o751, 0)
    );
}

#[test]
fn files_go_into_a_running_zone_and_come_back() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let site = site(&host);
    host.on("web", &["push", text(&site), "/var/www"]).quiet();
    let seen = host.sh(
        "web",
        "cd /var/www && stat -c '%n %u:%g %a' sub tool && readlink link && stat -c %h two",
    );
    assert_eq!(seen, "sub 0:0 755\ntool 0:0 751\n/etc/hostname\n2");
    // The second time the folder exists, and the copy goes into it.
    host.on("web", &["push", "-a", "-S", text(&site), "/var/www/"])
        .quiet();
    let seen = host.sh("web", "stat -c '%u %a' /var/www/site/tool");
    assert_eq!(seen, "1234 4751");
    let passwd = host.sh("web", "grep ^daemon: /etc/passwd");
    let ids: Vec<&str> = passwd.split(':').collect();
    host.on(
        "web",
        &["push", "-o", "daemon", text(&site.join("tool")), "/root/t"],
    )
    .quiet();
    let seen = host.sh("web", "stat -c %u:%g /root/t");
    assert_eq!(seen.trim(), format!("{}:{}", ids[2], ids[3]));
    // A mount of the zone itself is reached, too.
    host.on("web", &["push", text(&site.join("two")), "/run/in"])
        .quiet();
    assert_eq!(host.sh("web", "cat /run/in"), "one");
    let back = host.path("back");
    host.on("web", &["pull", "/var/www", text(&back)]).quiet();
    check_site(&back);
    // The programs of the host are read-only in a sparse zone.
    let ran = host.on("web", &["push", text(&site), "/usr/share"]);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    ran.mentions(1, "Read-only file system");
}

#[test]
fn a_halted_clone_shows_the_files_of_its_layers() {
    let Some(host) = Host::with_web() else { return };
    let site = site(&host);
    let back = host.path("back");
    // The file is in a layer below the top of the clone.
    host.on("web", &["pull", "/etc/passwd", text(&back)])
        .quiet();
    assert!(fs::read_to_string(&back).unwrap().starts_with("root:"));
    assert!(!host.top("web").join("etc/passwd").exists());
    // So is the host's /usr, which stays read-only.
    host.on("web", &["pull", "/usr/bin/env", text(&host.path("env"))])
        .quiet();
    let ran = host.on("web", &["push", text(&site), "/usr/share"]);
    ran.mentions(1, "Read-only file system");
    host.on("web", &["push", "-o", "daemon", text(&site), "/srv/new"])
        .quiet();
    host.on("web", &["push", text(&site.join(".")), "/srv/new"])
        .quiet();
    let before = host.mounts();
    fs::remove_file(&back).unwrap();
    host.on("web", &["pull", "/srv/new/.", text(&back)]).quiet();
    check_site(&back);
    assert_eq!(host.mounts(), before);
    // The running zone has the same files.
    host.boot("web");
    let seen = host.sh("web", "stat -c '%u %a' /srv/new/tool");
    assert_eq!(seen, "0 751");
    let plan = host
        .on("web", &["push", "-n", text(&site), "/srv/plan"])
        .ok();
    assert!(plan.out.contains("enter the running zone"), "{plan:?}");
    assert_eq!(host.sh("web", "ls /srv"), "new");
}

#[test]
fn a_zone_that_is_not_installed_is_refused() {
    let Some(host) = Host::new() else { return };
    host.configure("a", "");
    host.on("a", &["push", "/etc/hosts", "/tmp"])
        .says(1, "zoneadm: zone 'a': must be installed before push.");
    host.on("a", &["pull", "etc", "/tmp"])
        .mentions(2, "expected an absolute path in the zone");
    host.on("a", &["pull", "/etc/hosts"])
        .mentions(2, "needs a source and a destination");
}

#[test]
fn a_dash_is_a_tar_stream() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let site = site(&host);
    let tar = |words: &[&str], input: &[u8]| run(Command::new("tar").args(words), input).ok();
    let archive = host.path("site.tar");
    let parent = text(site.parent().unwrap());
    tar(
        &[
            "-c",
            "--xattrs",
            "-S",
            "--format=posix",
            "-f",
            text(&archive),
            "-C",
            parent,
            "site",
        ],
        b"",
    );
    let mut push = host.command("zoneadm", &["-z", "web", "push", "-", "/srv"]);
    run(&mut push, &fs::read(&archive).unwrap()).quiet();
    let pulled = host.path("pulled.tar");
    let mut pull = host.command("zoneadm", &["-z", "web", "pull", "/srv/site", "-"]);
    pull.stdout(fs::File::create(&pulled).unwrap());
    assert!(pull.status().unwrap().success());
    assert!(fs::metadata(&pulled).unwrap().len() < 1 << 20);
    let to = host.path("untarred");
    fs::create_dir(&to).unwrap();
    tar(
        &["-x", "--xattrs", "-f", text(&pulled), "-C", text(&to)],
        b"",
    );
    check_site(&to.join("site"));
    // Another stream is refused in one line.
    let mut push = host.command("zoneadm", &["-z", "web", "push", "-", "/srv"]);
    let ran = run(&mut push, &[b'x'; 4096]);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    ran.mentions(1, "not an uncompressed tar archive");
    let mut push = host.command("zoneadm", &["-z", "web", "push", "-", "/none"]);
    run(&mut push, &fs::read(&archive).unwrap()).mentions(1, "expected an existing folder");
}

/// A zone swaps a folder for links that lead to files of the host, has links, a FIFO and odd names
/// in the way, and replaces files, while files are copied in both directions.
#[test]
fn a_hostile_zone_reaches_no_file_of_the_host() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let secret = host.path("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("f"), "secret of the host").unwrap();
    let (inside, outside) = (host.path("in"), host.path("out"));
    fs::create_dir_all(inside.join("d")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(inside.join("d/f"), "from the host").unwrap();
    let script = format!(
        "mkdir -p /t/d /t/real && cd /t && echo zone >/t/real/f && mkfifo /t/fifo && \
         ln -s {secret} abs && ln -s ../../../../../../{secret} up && ln -s /etc/shadow shadow && \
         printf x >\"$(printf 'a\\nb\\033')\"; \
         (while :; do rm -rf d; ln -s {secret} d; rm d; ln -s ../../../../{secret} d; rm d; \
          cp -r real d; mv d/f d/g; mkfifo d/f; rm d/f; mv d/g d/f; done) >/dev/null 2>&1 </dev/null & \
         echo $!",
        secret = secret.display()
    );
    host.sh("web", &script);
    for _ in 0..40 {
        let ran = host.on("web", &["push", text(&inside.join("d/.")), "/t/d"]);
        assert!(ran.code() == Some(0) || ran.code() == Some(1), "{ran:?}");
        let ran = host.on("web", &["pull", "/t", text(&outside)]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert!(ran.err.contains("fifo: is a FIFO: not copied"), "{ran:?}");
        assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
        assert_no_secret(&outside);
        // A path through the swapped folder itself.
        let single = host.path("single");
        let _ = host.on("web", &["pull", "/t/d/f", text(&single)]);
        if let Ok(got) = fs::read_to_string(&single) {
            assert!(!got.contains("secret"), "{got}");
            fs::remove_file(&single).unwrap();
        }
    }
    assert_eq!(fs::read(secret.join("f")).unwrap(), b"secret of the host");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
    assert!(
        fs::symlink_metadata(outside.join("t/abs"))
            .unwrap()
            .is_symlink()
    );
    assert!(outside.join("t/a\nb\u{1b}").exists());
    // The links of the pulled tree lead to the host. The next copy replaces and never follows them.
    let ran = host.on(
        "web",
        &["pull", "/t/abs", "/t/up", text(&outside.join("t"))],
    );
    ran.quiet();
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
    // A folder of the zone does not go through a link that was pulled before.
    host.sh("web", "mkdir /u && mkdir /u/abs && echo zone >/u/abs/f");
    let ran = host.on("web", &["pull", "/u/abs", text(&outside.join("t"))]);
    ran.mentions(1, "a file or link has the name of a folder");
    assert_eq!(fs::read(secret.join("f")).unwrap(), b"secret of the host");
}

/// Checks that no file below a folder has the host's secret.
fn assert_no_secret(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_no_secret(&entry.path());
        } else if kind.is_file() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            assert!(
                !text.contains("secret"),
                "{}: {text}",
                entry.path().display()
            );
        }
    }
}

#[test]
fn a_user_copies_with_the_rights_of_the_user() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "login");
    let service = Service::start(&host);
    // Each client sees the root of the test as /mnt.
    let own = host.path("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(uid("daemon")), None).unwrap();
    let private = host.path("private");
    fs::write(&private, "root's").unwrap();
    fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(host.path("public"), "everybody's").unwrap();
    service
        .run("daemon", "zoneadm -z web push /mnt/public /root/p")
        .quiet();
    assert_eq!(
        host.sh("web", "stat -c %u /root/p; cat /root/p"),
        "0\neverybody's"
    );
    let ran = service.run("daemon", "zoneadm -z web push /mnt/private /root/stolen");
    ran.mentions(1, "/mnt/private: Permission denied");
    assert_eq!(
        host.sh("web", "ls /root/stolen 2>/dev/null || echo none"),
        "none"
    );
    host.sh(
        "web",
        "echo of the zone >/root/private && chmod 600 /root/private",
    );
    service
        .run("daemon", "zoneadm -z web pull /root/private /mnt/own/got")
        .quiet();
    let got = own.join("got");
    assert_eq!(fs::read_to_string(&got).unwrap(), "of the zone\n");
    assert_eq!(fs::metadata(&got).unwrap().uid(), uid("daemon"));
    let ran = service.run("daemon", "zoneadm -z web pull /root/private /mnt/etc/got");
    ran.mentions(1, "Permission denied");
    assert!(!host.path("etc/got").exists());
    service
        .run("daemon", "zoneadm -z web pull -a /root/private /mnt/own/x")
        .mentions(1, "only root can give files");
    // A user without the auth copies nothing, and no path of the host reaches zoneauthd.
    let ran = service.run("games", "zoneadm -z web pull /root/private -");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    ran.mentions(1, "User games is not authorized to pull this zone.");
    assert!(service.log().iter().all(|line| !line.contains("/mnt/")));
    assert!(
        service
            .log()
            .iter()
            .any(|line| line.contains("verb=push granted"))
    );
}

#[test]
fn a_user_sees_what_the_user_makes() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "manage");
    let service = Service::start(&host);
    let _ = service.run("daemon", "zoneadm -z web snapshot one").ok();
    let rows = service.run("daemon", "zoneadm -z web snapshots -p").ok();
    assert!(rows.out.starts_with("web:one:"), "{rows:?}");
    let rows = service.run("daemon", "zoneadm -z web beadm list -H").ok();
    assert!(rows.out.contains("one;"), "{rows:?}");
    for line in ["storage -p", "links -j", "rctl -p", "logs -n 3 messages"] {
        let shown = service
            .run("daemon", &format!("zoneadm -z web {line}"))
            .ok();
        assert_eq!(shown.err, "", "{line}");
    }
    service
        .run("daemon", "zoneadm -z web push /etc/hostname /tmp")
        .mentions(1, "User daemon is not authorized to push this zone.");
    service
        .run("daemon", "zoneadm check")
        .mentions(1, "only a privileged user may check the host");
    let refused = service.run("games", "zoneadm -z web snapshots -j");
    assert_eq!(
        (refused.code(), refused.out.as_str()),
        (Some(1), ""),
        "{refused:?}"
    );
    refused.mentions(1, "User games is not authorized to snapshots this zone.");
}
