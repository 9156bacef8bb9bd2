//! Tests container images: three layers from a folder, an archive and a registry become zones that
//! boot, are cloned, and share their common layers.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use e2e::container::{Image, Member, archive, busybox, file, folder, hard_link, link, system};
use e2e::registry::{Guard, Registry, push};
use e2e::{Host, Ran, run, wait_for};

/// The command of the image. It catches its signal before it writes the file that shows that it
/// runs, because process 1 of a zone gets only signals that it catches.
const RUNS: &str = r#"{"Entrypoint":["sh","-c"],"Cmd":["trap 'echo quit >>/srv/who; exit 0' QUIT; id >/srv/who; pwd >>/srv/who; echo $COLOUR >>/srv/who; echo $$ >/srv/pid; while :; do sleep 1 & wait $!; done"],"Env":["PATH=/bin","COLOUR=blue"],"User":"web","WorkingDir":"/srv","StopSignal":"SIGQUIT"}"#;

/// Three layers: a system, changes to it, and additions.
fn layers(busybox: &[u8]) -> [Vec<u8>; 3] {
    let mut base = system(busybox);
    base.extend([
        folder("srv/old"),
        file("srv/old/a", b"a"),
        file("srv/gone", b"gone"),
        file("srv/kept", b"kept"),
        folder("usr/lib"),
        link("lib", "usr/lib"),
        Member {
            content: b"coloured",
            attributes: &[("user.colour", b"red"), ("trusted.overlay.opaque", b"y")],
            ..Member::of(b'0', "srv/coloured")
        }
        .bytes(),
        Member {
            mode: 0o777,
            owner: (33, 34),
            attributes: &[("user.colour", b"green")],
            ..Member::of(b'5', "srv")
        }
        .bytes(),
    ]);
    let changes = vec![
        file("srv/.wh.gone", b""),
        file("srv/old/.wh..wh..opq", b""),
        file("srv/old/new", b"new"),
        file("srv/one", b"one"),
        hard_link("srv/same", "srv/one"),
        hard_link("srv/also", "srv/kept"),
        // This path leads through a link of the layer below.
        file("lib/library", b"library"),
    ];
    let top = vec![
        folder("opt"),
        file("opt/app", b"app"),
        file("srv/kept", b"changed"),
    ];
    [archive(&base), archive(&changes), archive(&top)]
}

/// Checks a zone that was made from the three layers.
fn check(host: &Host, zone: &str) {
    let text = host.sh(
        zone,
        "ls /srv /srv/old; cat /srv/kept /srv/also /srv/coloured /opt/app /usr/lib/library",
    );
    assert_eq!(
        text.split_whitespace().collect::<Vec<_>>().join(" "),
        "/srv: also coloured kept old one same /srv/old: new changedkeptcolouredapplibrary",
        "{text}"
    );
    // These files test hard links, owners and modes.
    let text = host.sh(
        zone,
        "stat -c %i /srv/one; stat -c %i /srv/same; stat -c '%a %u:%g' /srv",
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], lines[1], "one file with two names");
    assert_eq!(lines[2], "777 33:34");
    // The attributes are those of the layers.
    let layers = host.path("/var/lib/zones/images/.layers");
    let mut seen = 0;
    for layer in fs::read_dir(&layers).unwrap() {
        let tree = layer.unwrap().path().join("tree");
        for (name, colour) in [("srv/coloured", &b"red"[..]), ("srv", b"green")] {
            let mut value = [0; 16];
            if let Ok(length) = rustix::fs::getxattr(tree.join(name), "user.colour", &mut value[..])
            {
                assert_eq!(&value[..length], colour, "{name}");
                seen += 1;
            }
        }
        let opaque = rustix::fs::getxattr(
            tree.join("srv/coloured"),
            "trusted.overlay.opaque",
            &mut [0; 16][..],
        );
        assert!(opaque.is_err(), "the archive's own marks do not pass");
    }
    // The layer that changes the folder srv also sets its attributes.
    assert!(seen >= 3, "{seen}");
}

fn zoneimg(host: &Host, words: &[&str]) -> Ran {
    run::run(&mut host.command("zoneimg", words), b"")
}

fn import(host: &Host, source: &str) -> String {
    zoneimg(host, &["import", source]).ok().text().to_owned()
}

fn listed(host: &Host, image: &str) -> serde_json::Value {
    let ran = zoneimg(host, &["inspect", "-j", image]).ok();
    serde_json::from_str(&ran.out).unwrap()
}

/// A failed import leaves nothing.
fn assert_no_trace(host: &Host) {
    let images = host.path("/var/lib/zones/images");
    let names: Vec<_> = fs::read_dir(images)
        .map(|all| all.map(|entry| entry.unwrap().file_name()).collect())
        .unwrap_or_default();
    let left: Vec<_> = names.iter().filter(|name| *name != ".layers").collect();
    assert!(left.is_empty(), "{left:?}");
    let layers = host.path("/var/lib/zones/images/.layers");
    for entry in fs::read_dir(layers).into_iter().flatten() {
        let entry = entry.unwrap();
        assert_eq!(entry.file_name(), ".dead", "a layer is left");
        assert_eq!(
            fs::read_dir(entry.path()).unwrap().count(),
            0,
            "a tree is left"
        );
    }
}

/// Runs `work` in a new network namespace, where no other program listens.
fn alone<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sys::namespace::unshare(sys::process::ns::NET).expect("a network namespace");
            sys::link::loopback_up().expect("a loopback");
            act()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn whole_root(host: &Host, zone: &str) {
    host.zonecfg(&["-z", zone, "create -t SUNWlx"]).quiet();
}

#[test]
fn three_layers_of_a_folder_become_a_zone_and_its_clone() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let layers = layers(&busybox);
    let image = Image::make(&host.path("/layout"), &layers, "{}");
    let path = image.folder.to_string_lossy().into_owned();
    whole_root(&host, "one");
    let planned = host
        .on("one", &["install", "-n", "-a", &format!("oci:{path}")])
        .ok();
    assert!(
        planned.out.contains(&format!("import image oci:{path}")),
        "{planned:?}"
    );
    assert_eq!(host.state("one"), "configured");
    host.on("one", &["install", "-a", &format!("oci:{path}")])
        .quiet();
    let all: Vec<serde_json::Value> =
        serde_json::from_str(&zoneimg(&host, &["list", "-j"]).ok().out).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(
        (
            all[0]["layers"].as_u64(),
            all[0]["users"].as_array().unwrap().len()
        ),
        (Some(3), 1)
    );
    assert_eq!(
        all[0]["archive"].as_str(),
        Some(image.digest.to_string().as_str())
    );
    host.boot("one");
    check(&host, "one");
    host.on("one", &["shutdown"]).quiet();
    assert_eq!(
        fs::read_to_string(host.top("one").join("etc/stopped")).unwrap(),
        "powered\n"
    );
    // Makes clones, and a second zone directly from the folder.
    host.clone_from("one", "two");
    whole_root(&host, "three");
    host.on("three", &["install", "-d", &path]).quiet();
    for zone in ["one", "two", "three"] {
        host.boot(zone);
        check(&host, zone);
        assert_eq!(host.sh(zone, "hostname"), zone);
    }
    host.sh("two", "echo other >/srv/kept");
    assert_eq!(host.sh("one", "cat /srv/kept"), "changed");
    for zone in ["one", "two", "three"] {
        host.halt(zone);
    }
    let digest = all[0]["digest"].as_str().unwrap();
    zoneimg(&host, &["verify", digest]).quiet();
    for zone in ["one", "two", "three"] {
        host.on(zone, &["uninstall", "-F"]).quiet();
    }
    zoneimg(&host, &["prune"]).quiet();
    assert_no_trace(&host);
}

#[test]
fn an_archive_of_images_is_taken_for_what_it_is() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let image = Image::make(&host.path("/layout"), &layers(&busybox), "{}");
    let first = import(&host, &image.folder.to_string_lossy());
    let tar = host.path("/image.tar").to_string_lossy().into_owned();
    for names in [
        &["blobs", "index.json", "oci-layout"][..],
        &["oci-layout", "index.json", "blobs"],
        &["."][..],
    ] {
        let mut command = Command::new("tar");
        command
            .arg("-C")
            .arg(&image.folder)
            .arg("-cf")
            .arg(&tar)
            .args(names);
        run::run(&mut command, b"").quiet();
        assert_eq!(import(&host, &tar), first);
    }
    // This is the older format of docker save, from before it wrote OCI layouts.
    let saved = host.path("/saved");
    fs::create_dir(&saved).unwrap();
    let config = image
        .blobs()
        .into_iter()
        .find(|(_, bytes)| bytes.starts_with(b"{\"os\""))
        .unwrap()
        .1;
    fs::write(saved.join("config.json"), config).unwrap();
    let mut list = Vec::new();
    for (n, layer) in layers(&busybox).iter().enumerate() {
        fs::create_dir(saved.join(n.to_string())).unwrap();
        fs::write(saved.join(format!("{n}/layer.tar")), layer).unwrap();
        list.push(format!("\"{n}/layer.tar\""));
    }
    let list = list.join(",");
    fs::write(
        saved.join("manifest.json"),
        format!(r#"[{{"Config":"config.json","RepoTags":["app:1"],"Layers":[{list}]}}]"#),
    )
    .unwrap();
    let mut command = Command::new("tar");
    command.arg("-C").arg(&saved).arg("-cf").arg(&tar).args([
        "manifest.json",
        "config.json",
        "0",
        "1",
        "2",
    ]);
    run::run(&mut command, b"").quiet();
    assert_eq!(import(&host, &tar), first);
    assert_eq!(import(&host, &format!("docker-archive:{tar}:app:1")), first);
    zoneimg(&host, &["import", &format!("docker-archive:{tar}:app:2")])
        .mentions(1, "no such image in it");
}

/// Pushes an image to a registry, pulls it, and checks what was downloaded.
fn pushed_and_pulled(
    host: &Host,
    address: SocketAddr,
    layers: &[Vec<u8>; 3],
    registry: Option<&Registry>,
) {
    let image = Image::make(&host.path("/first"), layers, RUNS);
    push(address, &image, "test/app", "1");
    let asked = |part: &str| {
        let all = registry.map(Registry::asked).unwrap_or_default();
        all.iter()
            .filter(|one| one.starts_with("GET") && one.contains(part))
            .count()
    };
    asked("");
    let name = format!("docker://{address}/test/app:1");
    whole_root(host, "one");
    host.on("one", &["install", "-x", "image-init", "-a", &name])
        .quiet();
    if registry.is_some() {
        assert_eq!(asked("/blobs/"), 4, "configuration and layers");
    }
    // Another image has two of the layers. The same image is pulled once more.
    let other = archive(&[folder("opt"), file("opt/app", b"other")]);
    let second = Image::make(
        &host.path("/second"),
        &[layers[0].clone(), layers[1].clone(), other],
        "{}",
    );
    push(address, &second, "test/app", "2");
    asked("");
    let digest = import(host, &format!("docker://{address}/test/app:2"));
    if registry.is_some() {
        assert_eq!(asked("/blobs/"), 2, "configuration and one layer");
    }
    let (one, two) = (
        listed(host, &format!("{address}/test/app:1")),
        listed(host, &digest),
    );
    assert_eq!(
        (one["layers"].as_u64(), two["layers"].as_u64()),
        (Some(3), Some(3))
    );
    let layers = fs::read_dir(host.path("/var/lib/zones/images/.layers")).unwrap();
    let count = layers
        .filter(|entry| entry.as_ref().unwrap().file_name() != ".dead")
        .count();
    assert_eq!(count, 4, "two layers are shared");
    let again = import(host, &format!("{name}@{}", image.digest));
    assert_eq!(one["digest"].as_str(), Some(again.as_str()));
    if registry.is_some() {
        assert_eq!(asked("/blobs/"), 1, "the configuration alone");
    }
    zoneimg(
        host,
        &[
            "import",
            &format!("docker://{address}/test/app@{}", oci::Digest::of(b"")),
        ],
    )
    .mentions(1, "the registry has no such image");
}

/// Makes the zone whose program is the command of its image.
fn runs_what_the_image_runs(host: &Host) {
    host.boot("one");
    let who = host.top("one").join("srv/who");
    let text = wait_for("word of the image's program", || {
        fs::read_to_string(&who)
            .ok()
            .filter(|text| text.lines().count() >= 3)
    });
    assert_eq!(
        text,
        "uid=33(web) gid=34(web) groups=34(web),40(logs)\n/srv\nblue\n"
    );
    assert_eq!(host.sh("one", "cat /opt/app"), "app");
    host.on("one", &["shutdown"]).quiet();
    assert!(
        fs::read_to_string(&who).unwrap().ends_with("quit\n"),
        "its own signal ended it"
    );
    assert_eq!(host.state("one"), "installed");
    // When the program ends, the zone ends, too.
    let pid = host.top("one").join("srv/pid");
    fs::remove_file(&pid).unwrap();
    host.boot("one");
    wait_for("its number", || {
        fs::read_to_string(&pid)
            .ok()
            .filter(|text| text.ends_with('\n'))
    });
    // The end of the zone may kill the shell before it can report its exit status.
    let _ = host.zlogin(&["one", "kill -QUIT $(cat /srv/pid)"]);
    host.wait_for_state("one", "installed");
}

#[test]
fn three_layers_come_from_a_registry() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let layers = layers(&busybox);
    alone(|| {
        let registry = Registry::start(Guard::None);
        pushed_and_pulled(&host, registry.address, &layers, Some(&registry));
    });
    runs_what_the_image_runs(&host);
}

#[test]
fn docker_registry_is_understood() {
    let program = "docker-registry";
    if !e2e::lan::is_installed(program) {
        return e2e::skip("no docker-registry (Debian's package of that name)");
    }
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let layers = layers(&busybox);
    alone(|| {
        let address: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let config = host.path("/registry.yml");
        let data = host.path("/registry");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            data.display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(&config)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut child = e2e::start(&mut command);
        wait_for("the registry", || {
            std::net::TcpStream::connect(address).ok()
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pushed_and_pulled(&host, address, &layers, None);
        }));
        let _ = child.kill();
        let _ = child.wait();
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    host.boot("one");
    host.halt("one");
}

/// Runs openssl, and returns false if it is not installed.
fn openssl(words: &str) -> bool {
    let mut command = Command::new("/usr/bin/openssl");
    if !Path::new(command.get_program()).exists() {
        e2e::skip("no openssl (package openssl)");
        return false;
    }
    let _ = run::run(command.args(words.split_whitespace()), b"").ok();
    true
}

/// Makes a certificate authority, and a certificate of it for the loopback address: `NAME.crt`,
/// `NAME.key`.
fn certificates(folder: &Path, authority: &str, server: &str) -> bool {
    let at = folder.display();
    openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
         -subj /CN={authority} -keyout {at}/{authority}.key -out {at}/{authority}.crt"
    )) && openssl(&format!(
        "req -x509 -CA {at}/{authority}.crt -CAkey {at}/{authority}.key \
         -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={server} \
         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
         -keyout {at}/{server}.key -out {at}/{server}.crt"
    ))
}

/// Makes a self-signed certificate for the loopback address, with the commands of docs/images.md.
fn own_certificate(folder: &Path, server: &str) -> bool {
    let at = folder.display();
    openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={server} \
         -addext subjectAltName=IP:127.0.0.1 -keyout {at}/{server}.key -out {at}/{server}.crt"
    ))
}

/// Imports an image. The certificates of a file replace those of the host.
fn import_trusting(host: &Host, trusted: &Path, source: &str) -> Ran {
    let mut command = host.command("zoneimg", &["import", source]);
    run::run(command.env("SSL_CERT_FILE", trusted), b"")
}

#[test]
fn a_registry_with_tls_on_loopback() {
    let Some(host) = Host::new() else { return };
    let keys = host.path("/keys");
    fs::create_dir(&keys).unwrap();
    if !certificates(&keys, "ca", "server") || !own_certificate(&keys, "other") {
        return;
    }
    let layer = archive(&[folder("bin"), file("bin/x", b"x")]);
    let image = Image::make(&host.path("/layout"), &[layer], "{}");
    alone(|| {
        let registry = Registry::start(Guard::None);
        push(registry.address, &image, "a", "1");
        let secure = registry.serve_tls(&keys.join("server.crt"), &keys.join("server.key"));
        let name = format!("docker://{secure}/a:1");
        let _ = registry.asked();
        // After an untrusted certificate, zonefetch does not fall back to plain HTTP.
        import_trusting(&host, &keys.join("other.crt"), &name).mentions(
            1,
            "UnknownIssuer; add its certificate, or that of its authority, to those that the host trusts",
        );
        // A redirect of the registry does not lead to plain HTTP either.
        registry.send_to(
            "manifests/1",
            Some(&format!("http://{}/v2/a/manifests/1", registry.address)),
        );
        import_trusting(&host, &keys.join("ca.crt"), &name)
            .mentions(1, "plain HTTP, from a registry with TLS");
        registry.send_to("manifests/1", None);
        assert_eq!(registry.asked(), ["GET /v2/a/manifests/1"]);
        assert_no_trace(&host);
        let over_tls = import_trusting(&host, &keys.join("ca.crt"), &name).ok();
        // Plain HTTP is used only for a server that does not speak TLS, without certificates.
        let plain = format!("docker://{}/a:1", registry.address);
        let in_plain = import_trusting(&host, &keys.join("none.crt"), &plain).ok();
        assert_eq!(over_tls.text(), in_plain.text());
        // This server's own certificate is trusted.
        let secure = registry.serve_tls(&keys.join("other.crt"), &keys.join("other.key"));
        let name = format!("docker://{secure}/a:1");
        let by_itself = import_trusting(&host, &keys.join("other.crt"), &name).ok();
        assert_eq!(by_itself.text(), in_plain.text());
    });
}

#[test]
fn registries_with_authentication_are_read() {
    let Some(host) = Host::new() else { return };
    let layer = archive(&[folder("bin"), file("bin/x", b"x")]);
    let image = Image::make(&host.path("/layout"), &[layer], "{}");
    let credentials = |pair: &str, address: SocketAddr| {
        let path = host.path("/credentials.json");
        fs::write(
            &path,
            format!(r#"{{"auths":{{"{address}":{{"auth":"{pair}"}}}}}}"#),
        )
        .unwrap();
        path.to_string_lossy().into_owned()
    };
    alone(|| {
        for guard in [Guard::Basic, Guard::Bearer] {
            let registry = Registry::start(guard);
            // The client of this test supports passwords, but no tokens.
            let address = registry.address;
            match guard {
                Guard::Bearer => {
                    let open = Registry::start(Guard::None);
                    push(open.address, &image, "a", "1");
                    let (_, manifest) = image
                        .blobs()
                        .into_iter()
                        .find(|(digest, _)| *digest == image.digest)
                        .unwrap();
                    registry.instead("manifests/1", Some(manifest));
                    for (digest, bytes) in image.blobs() {
                        registry.instead(&format!("blobs/{digest}"), Some(bytes));
                    }
                }
                _ => push(address, &image, "a", "1"),
            }
            let name = format!("docker://{address}/a:1");
            zoneimg(&host, &["import", &name]).mentions(1, "wants a user and a password");
            let wrong = credentials("dXNlcjp3cm9uZw==", address);
            zoneimg(&host, &["import", "--credentials", &wrong, &name])
                .mentions(1, "does not show it to user");
            assert_no_trace(&host);
            let right = credentials("dXNlcjpzZWNyZXQ=", address);
            let _ = zoneimg(&host, &["import", "--credentials", &right, &name]).ok();
            // The certificates are in the folder where every program searches them.
            fs::create_dir_all(host.path("/etc/zones")).unwrap();
            fs::copy(&right, host.path("/etc/zones/registries.json")).unwrap();
            let _ = zoneimg(&host, &["import", &name]).ok();
            fs::remove_file(host.path("/etc/zones/registries.json")).unwrap();
            let _ = zoneimg(&host, &["prune"]).ok();
        }
    });
    assert_no_trace(&host);
}

#[test]
fn hostile_answers_of_a_registry_are_refused() {
    let Some(host) = Host::new() else { return };
    let layer = archive(&[folder("bin"), file("bin/x", b"x")]);
    let image = Image::make(&host.path("/layout"), &[layer], "{}");
    whole_root(&host, "bad");
    alone(|| {
        let registry = Registry::start(Guard::None);
        let address = registry.address;
        push(address, &image, "a", "1");
        let name = format!("docker://{address}/a:1");
        let refused = |why: &str| {
            let ran = host.on("bad", &["install", "-a", &name]);
            assert_eq!(
                (ran.code(), ran.err.lines().count()),
                (Some(1), 1),
                "{ran:?}"
            );
            assert!(ran.err.contains(why), "{why}: {ran:?}");
            assert_eq!(host.state("bad"), "configured");
            assert_no_trace(&host);
        };
        let blob = format!("blobs/{}", image.layers[0]);
        registry.instead(&blob, Some(b"short".to_vec()));
        refused("ended after 5 of");
        registry.instead(&blob, Some(vec![0; 100_000]));
        refused("longer than the");
        let length = image
            .blobs()
            .iter()
            .find(|(digest, _)| *digest == image.layers[0])
            .unwrap()
            .1
            .len();
        registry.instead(&blob, Some(vec![0; length]));
        refused("the registry sent sha256:");
        registry.instead(&blob, None);
        registry.instead("manifests/1", Some(vec![b' '; 5 << 20]));
        refused("more than 4194304 bytes");
        registry.instead("manifests/1", Some(b"{}".to_vec()));
        refused("neither an index nor a manifest");
        registry.instead("manifests/1", None);
        for (place, why) in [
            ("http://example.org/x", "plain HTTP"),
            ("http://user:pw@127.0.0.1/x", "a password"),
            ("file:///etc/passwd", "not "),
            ("/v2/a/manifests/1", "from place to place"),
        ] {
            registry.send_to("manifests/1", Some(place));
            refused(why);
        }
        registry.send_to("manifests/1", None);
        let pinned = format!("docker://{address}/a:1@{}", oci::Digest::of(b"other"));
        zoneimg(&host, &["import", &pinned]).mentions(1, "no such image");
        registry.instead(
            &format!("manifests/{}", oci::Digest::of(b"other")),
            Some(b"{}".to_vec()),
        );
        zoneimg(&host, &["import", &pinned]).mentions(1, "the registry sent sha256:");
        zoneimg(
            &host,
            &[
                "import",
                "--digest",
                &oci::Digest::of(b"x").to_string(),
                &name,
            ],
        )
        .mentions(1, "the digest of its manifest is");
        zoneimg(&host, &["import", "docker://example.org:1/a"]).mentions(1, "example.org");
        assert_no_trace(&host);
        // Finally the image is available.
        host.on("bad", &["install", "-a", &name]).quiet();
    });
}
