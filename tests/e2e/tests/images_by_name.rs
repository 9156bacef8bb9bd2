//! Tests images by name: a mirror with signed simple streams, a zone that is installed by name, and
//! the refusals of catalogues and images that are not what their key signed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use e2e::container::{archive, busybox, file, system};
use e2e::mirror::{METADATA, Mirror, PRODUCT, ROOT};
use e2e::{Host, Ran, run};

/// A time at which the catalogue is signed; see [`Mirror::publish`].
const NOW: &str = "20251124T120000";
const EARLIER: &str = "20251123T120000";
const LATER: &str = "20251125T120000";

/// Runs `work` in a new network namespace, where no other program listens.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sys::namespace::unshare(sys::process::ns::NET).expect("a network namespace");
            sys::link::loopback_up().expect("a loopback");
            work()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Makes a folder with a small system.
fn tree(host: &Host) -> Option<PathBuf> {
    let mut members = system(&busybox()?);
    members.push(file("srv/kept", b"kept"));
    let tree = host.path("/tree");
    fs::create_dir(&tree).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&tree).arg("-xf").arg("-");
    let _ = run::run(&mut tar, &archive(&members)).ok();
    Some(tree)
}

/// The refusals are printed, so that a report can show them.
#[track_caller]
fn refused(ran: Ran, why: &str) {
    println!("$ {}\n{}", ran.line, ran.err);
    ran.mentions(1, why);
}

/// A failed import leaves no image and no download.
#[track_caller]
fn assert_no_trace(host: &Host) {
    let images = host.path("/var/lib/zones/images");
    let names = fs::read_dir(images).into_iter().flatten();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let left: Vec<_> = names.iter().filter(|name| *name != ".layers").collect();
    assert!(left.is_empty(), "{left:?}");
}

fn whole_root(host: &Host, zone: &str) {
    host.zonecfg(&["-z", zone, "create -t SUNWlx"]).quiet();
}

#[test]
fn a_zone_is_installed_by_name_from_a_signed_catalogue() {
    let Some(host) = Host::new() else { return };
    let Some(tree) = tree(&host) else { return };
    let done = alone(|| {
        let mirror = Mirror::start(&host, &tree)?;
        mirror.configure(&host);
        mirror.publish("mirror", NOW, &mirror.products());
        let client = |program: &str, words: &[&str]| mirror.client(&host, program, words);
        whole_root(&host, "web");
        whole_root(&host, "two");
        // A plan downloads nothing.
        let planned = client(
            "zoneadm",
            &["-z", "web", "install", "-n", "-i", "debian/13"],
        );
        planned.mentions(1, "run zoneimg refresh images");
        assert_eq!(mirror.registry.asked(), [] as [&str; 0]);
        let found = client("zoneimg", &["search", "trix"]).ok();
        assert!(found.out.contains("debian/13 "), "{found:?}");
        let planned = client(
            "zoneadm",
            &["-z", "web", "install", "-n", "-i", "debian/13"],
        )
        .ok();
        assert!(
            planned.out.contains("import image images:debian/13"),
            "{planned:?}"
        );
        // The connection breaks in the midst of the root. The rest follows.
        let half = mirror.root.len() / 2;
        mirror.registry.cut(ROOT, half);
        let _ = mirror.registry.asked();
        let installed = client("zoneadm", &["-z", "web", "install", "-i", "debian/13"]).ok();
        println!("{}{}", installed.out, installed.err);
        let fingerprint =
            oci::Digest::of(&[mirror.metadata.as_slice(), &mirror.root].concat()).hex();
        let said = format!("{}{}", installed.out, installed.err);
        assert!(
            said.contains(&fingerprint) && said.contains(PRODUCT),
            "{said}"
        );
        assert!(said.contains("Debian, trixie, default"), "{said}");
        let asked = mirror.registry.asked();
        assert!(asked.contains(&format!("from {half}")), "{asked:?}");
        // The image is here now, under the same name, and needs no server.
        client("zoneadm", &["-z", "two", "install", "-i", "debian/13"]).quiet();
        assert_eq!(mirror.registry.asked(), [] as [&str; 0]);
        // An explicit remote looks into the catalogue, and finds the same image.
        let again = client("zoneimg", &["import", "images:debian/trixie"]).ok();
        assert!(again.err.contains("is here already"), "{again:?}");
        assert_eq!(mirror.registry.asked(), [] as [&str; 0]);
        let about = client("zoneimg", &["inspect", "debian/13"]).ok();
        assert!(about.out.contains(&fingerprint), "{about:?}");
        Some(())
    });
    if done.is_none() {
        return;
    }
    for zone in ["web", "two"] {
        host.boot(zone);
        assert_eq!(
            host.sh(zone, "cat /srv/kept; hostname"),
            format!("kept{zone}")
        );
    }
    host.sh("two", "echo other >/srv/kept");
    assert_eq!(host.sh("web", "cat /srv/kept"), "kept");
}

#[test]
fn catalogues_that_their_key_did_not_sign_are_refused() {
    let Some(host) = Host::new() else { return };
    let Some(tree) = tree(&host) else { return };
    alone(|| {
        let Some(mirror) = Mirror::start(&host, &tree) else {
            return;
        };
        let import = |name: &str| mirror.client(&host, "zoneimg", &["import", name]);
        let refresh =
            |more: &[&str]| mirror.client(&host, "zoneimg", &[&["refresh"], more].concat());
        refused(import("debian/13"), "no catalogue of images is configured");
        refused(refresh(&[]), "no catalogue of images is configured");
        mirror.configure(&host);
        let products = mirror.products();
        // No signed document at all, and no fall back to the unsigned one.
        mirror.put("streams/v1/index.json", Some(Mirror::index().into_bytes()));
        refused(
            import("debian/13"),
            "found neither streams/v1/index.sjson nor",
        );
        // A changed text, a key of a stranger, text before the signed message.
        mirror.publish("mirror", NOW, &products);
        let good = mirror.clear_signed("mirror", NOW, &Mirror::index());
        let text = String::from_utf8(good.clone()).unwrap();
        let changed = text.replace("index:1.0", "index:1.1");
        mirror.put("streams/v1/index.sjson", Some(changed.into_bytes()));
        refused(import("debian/13"), "bad signature");
        mirror.make_key("stranger", "never");
        mirror.publish("stranger", NOW, &products);
        refused(import("debian/13"), "which is not in the keyring");
        mirror.publish("mirror", NOW, &products);
        let around = [b"{}\n".as_slice(), &good].concat();
        mirror.put("streams/v1/index.sjson", Some(around));
        refused(import("debian/13"), "one clear-signed message");
        mirror.publish("mirror", NOW, &products);
        let hostile = products.replace(ROOT, "../../etc/passwd");
        mirror.publish("mirror", NOW, &hostile);
        refused(import("debian/13"), "not a path below the address");
        assert_no_trace(&host);
        // A good catalogue, and then an older one.
        mirror.publish("mirror", NOW, &products);
        assert_eq!(refresh(&[]).ok().out, "images: 1 image\n");
        mirror.publish("mirror", EARLIER, &products);
        refused(refresh(&["images"]), "an old catalogue hides updates");
        let _ = refresh(&["--allow-older", "images"]).ok();
        // Detached signatures.
        mirror.put("streams/v1/index.sjson", None);
        mirror.put("streams/v1/images.sjson", None);
        mirror.put(
            "streams/v1/images.json",
            Some(products.clone().into_bytes()),
        );
        for (path, text) in [
            ("index.json.gpg", &Mirror::index()),
            ("images.json.gpg", &products),
        ] {
            let proof = mirror.detached("mirror", LATER, text);
            mirror.put(&format!("streams/v1/{path}"), Some(proof));
        }
        assert_eq!(refresh(&[]).ok().out, "images: 1 image\n");
        mirror.put(
            "streams/v1/images.json",
            Some(format!("{products} ").into_bytes()),
        );
        refused(refresh(&[]), "streams/v1/images.json: bad signature");
        assert_no_trace(&host);
    });
}

#[test]
fn images_that_differ_from_the_catalogue_are_refused() {
    let Some(host) = Host::new() else { return };
    let Some(tree) = tree(&host) else { return };
    alone(|| {
        let Some(mirror) = Mirror::start(&host, &tree) else {
            return;
        };
        let import = |name: &str| mirror.client(&host, "zoneimg", &["import", name]);
        mirror.configure(&host);
        mirror.publish("mirror", NOW, &mirror.products());
        let mut changed = mirror.root.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        mirror.put(ROOT, Some(changed));
        refused(import("debian/13"), "the server sent sha256:");
        mirror.put(ROOT, Some([mirror.root.as_slice(), b"x"].concat()));
        refused(import("debian/13"), "that it should have");
        mirror.put(ROOT, Some(mirror.root[..middle].to_vec()));
        refused(import("debian/13"), "ended after");
        mirror.put(ROOT, Some(mirror.root.clone()));
        mirror.put(METADATA, None);
        refused(import("debian/13"), "the server has no such file");
        mirror.put(METADATA, Some(mirror.metadata.clone()));
        // Names.
        refused(import("debian/14"), "did you mean debian/13?");
        refused(import("fedora/43"), "zoneimg search lists all images");
        refused(
            import("other:debian/13"),
            "no remote other is configured; configured: images",
        );
        let url = format!("https://{}", mirror.address);
        mirror
            .client(&host, "zoneimg", &["remote", "add", "twin", &url])
            .mentions(2, "expected one of --keyring FILE and --tls-only");
        mirror
            .client(
                &host,
                "zoneimg",
                &["remote", "add", "twin", &url, "--tls-only"],
            )
            .quiet();
        mirror.put("streams/v1/index.json", Some(Mirror::index().into_bytes()));
        mirror.put(
            "streams/v1/images.json",
            Some(mirror.products().into_bytes()),
        );
        refused(
            import("debian/13"),
            "found images:debian/13 and twin:debian/13",
        );
        mirror
            .client(&host, "zoneimg", &["remote", "remove", "twin"])
            .quiet();
        // The server has gone. A cached catalogue that is old is used, and its age is printed.
        let cache = host.path("/var/lib/zones/catalogues/images");
        let text = fs::read_to_string(&cache).unwrap();
        let mut cached: serde_json::Value = serde_json::from_str(&text).unwrap();
        let fetched = cached["fetched"].as_u64().unwrap() - 3 * 86_400;
        cached["fetched"] = fetched.into();
        let gone = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let moved = |text: String| text.replace(&mirror.address.to_string(), &gone.to_string());
        fs::write(&cache, moved(cached.to_string())).unwrap();
        let config = host.path("/etc/zones/catalogues/images");
        fs::write(&config, moved(fs::read_to_string(&config).unwrap())).unwrap();
        let found = mirror.client(&host, "zoneimg", &["search"]).ok();
        println!("{}{}", found.out, found.err);
        assert!(
            found.err.contains("3 days old") && found.out.contains("debian/13"),
            "{found:?}"
        );
        refused(import("debian/13"), &gone.to_string());
        assert_no_trace(&host);
    });
}
