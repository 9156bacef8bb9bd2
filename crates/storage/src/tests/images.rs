//! Tests that import, use, verify and remove images, and interrupt each of these operations.

use std::fs;
use std::path::Path;

use super::Zones;
use super::crashes::crash_everywhere;
use crate::collect::{Lost, collect};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::images::{About, Image, Images, Part};

fn images(zones: &Zones) -> Images {
    Images::open(&zones.zone("images")).unwrap()
}

fn import(images: &Images, name: &str, text: &str) -> Image {
    let import = images.begin().unwrap();
    fs::write(import.tree().join("a"), text).unwrap();
    // Both files get the same time, because the time is part of the digest.
    let file = fs::File::open(import.tree().join("a")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let about = About {
        name: name.to_owned(),
        source: format!("/{name}.tar"),
        entries: 1,
        bytes: text.len() as u64,
        ..About::default()
    };
    images.finish(import, &about).unwrap()
}

fn left(zones: &Zones) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(zones.zone("images"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn read(dataset: &Dataset) -> String {
    let stack = dataset.stack().unwrap();
    fs::read_to_string(stack.lowers.last().unwrap().join("a")).unwrap()
}

#[test]
fn many_zones_stand_on_one_image_and_outlive_its_name() {
    let zones = Zones::new();
    let images = images(&zones);
    let image = import(&images, "debian", "one");
    let again = import(&images, "other", "one");
    assert_eq!(
        (again.digest, again.about.name),
        (image.digest, "debian".to_owned())
    );
    let web = images.install(&image.digest, &zones.zone("web")).unwrap();
    let db = images.install(&image.digest, &zones.zone("db")).unwrap();
    assert_eq!(web.stack().unwrap().lowers, db.stack().unwrap().lowers);
    // A clone counts as a user of the image as soon as the clone has its own layers.
    fs::write(web.stack().unwrap().top.join("b"), "two").unwrap();
    let clone = web.clone_to(&zones.zone("clone")).unwrap();
    let listed = images.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].users.len(), 2, "{listed:?}");
    assert!(listed[0].users.contains(&zones.zone("db")));
    assert_eq!(images.prune().unwrap().images, []);
    images.remove(&image.digest).unwrap();
    assert!(matches!(images.find("debian"), Err(Error::NoImage(_))));
    images.prune().unwrap();
    for dataset in [&web, &db, &clone] {
        assert_eq!(read(dataset), "one");
    }
    for name in ["web", "db", "clone"] {
        assert_eq!(read(&Dataset::open(&zones.zone("clone")).unwrap()), "one");
        Dataset::destroy(&zones.zone(name)).unwrap();
    }
    images.prune().unwrap();
    assert_eq!(left(&zones), [] as [&str; 0]);
}

#[test]
fn images_are_found_by_digest_beginning_and_name() {
    let zones = Zones::new();
    let images = images(&zones);
    let first = import(&images, "debian", "one");
    let second = import(&images, "debian", "two");
    let digest = first.digest.to_string();
    for word in [&digest[..], &digest[7..], &digest[..15], &digest[7..13]] {
        assert_eq!(images.find(word).unwrap().digest, first.digest, "{word}");
    }
    // Both images have the same name and the same time in seconds, so the search may return either
    // of them.
    let named = images.find("debian").unwrap();
    assert!([first.digest, second.digest].contains(&named.digest));
    for word in ["", "deb", &digest[7..12], "../images", "ffffffffffff"] {
        assert!(
            matches!(images.find(word), Err(Error::NoImage(_))),
            "{word}"
        );
    }
    let about = images.find(&digest).unwrap().about;
    assert_eq!(
        (about.source.as_str(), about.entries, about.bytes),
        ("/debian.tar", 1, 3)
    );
}

#[test]
fn a_changed_image_is_found_out() {
    let zones = Zones::new();
    let images = images(&zones);
    let image = import(&images, "debian", "one");
    images.verify(&image).unwrap();
    fs::write(image.trees[0].join("a"), "two").unwrap();
    assert!(matches!(images.verify(&image), Err(Error::Damaged { .. })));
}

#[test]
fn a_crash_in_import_leaves_an_image_or_nothing() {
    let points = crash_everywhere(
        |zones| drop(images(zones)),
        |zones| drop(import(&images(zones), "debian", "one")),
        |zones| {
            // The complete image stays, because a zone uses it.
            let images = images(zones);
            if let Ok(image) = images.find("debian") {
                images
                    .install(&image.digest, &zones.zone("web"))
                    .unwrap_or_else(|_| Dataset::open(&zones.zone("web")).unwrap());
            }
            images.prune().unwrap();
        },
        |zones, at| {
            let images = images(zones);
            let whole = images.find("debian").is_ok();
            assert!(whole || at.is_some());
            assert!(whole || left(zones).is_empty(), "{at:?}: {:?}", left(zones));
            let image = import(&images, "debian", "one");
            images.verify(&image).unwrap();
            finish(&images, zones, at);
        },
    );
    assert!(points >= 6, "{points}");
}

#[test]
fn a_crash_in_install_or_removal_leaves_no_layer() {
    for remove in [false, true] {
        crash_everywhere(
            |zones| {
                let images = images(zones);
                let image = import(&images, "debian", "one");
                images.install(&image.digest, &zones.zone("web")).unwrap();
            },
            |zones| {
                let images = images(zones);
                let digest = images.find("debian").unwrap().digest;
                match remove {
                    true => images.remove(&digest).unwrap(),
                    false => drop(images.install(&digest, &zones.zone("db")).unwrap()),
                }
            },
            |zones| {
                collect(&zones.zone(".layers"), Lost::Keep).unwrap();
                images(zones).prune().unwrap();
            },
            |zones, at| {
                assert_eq!(read(&Dataset::open(&zones.zone("web")).unwrap()), "one");
                if let Ok(db) = Dataset::open(&zones.zone("db")) {
                    assert_eq!(read(&db), "one");
                }
                finish(&images(zones), zones, at);
            },
        );
    }
}

/// Without zones, a prune removes all images, and then no file is left.
fn finish(images: &Images, zones: &Zones, at: Option<u32>) {
    for name in ["web", "db"] {
        Dataset::destroy(&zones.zone(name)).unwrap();
    }
    images.prune().unwrap();
    assert_eq!(left(zones), [] as [&str; 0], "{at:?}");
}

#[test]
fn an_import_that_is_given_up_leaves_nothing() {
    let zones = Zones::new();
    let images = images(&zones);
    let import = images.begin().unwrap();
    fs::write(import.tree().join("a"), "one").unwrap();
    import.discard();
    images.prune().unwrap();
    assert_eq!(left(&zones), [] as [&str; 0]);
    assert!(!Path::new(&zones.zone("images/.layers")).exists());
}

/// Creates a part of a stack: a tree with one file, whose stack is named `stack`.
fn part(images: &Images, name: &str, stack: &str) -> Part {
    let import = images.begin().unwrap();
    let at = import.tree().join(name);
    fs::write(&at, name).unwrap();
    let file = fs::File::open(&at).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    Part {
        import,
        stack: Some(stack.to_owned()),
    }
}

fn stacks(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn images_share_the_layers_that_they_begin_with() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    assert!(images.base(&stacks(&["1", "2"])).unwrap().is_none());
    let parts = vec![part(&images, "a", "1"), part(&images, "b", "2")];
    let one = images
        .finish_on(None, parts, &About::default(), Some(b"{}"))
        .unwrap();
    assert_eq!(one.trees.len(), 2);
    assert!(one.trees[0].join("b").exists() && one.trees[1].join("a").exists());
    assert_eq!(images.config(&one).unwrap().as_deref(), Some(&b"{}"[..]));
    images.verify(&one).unwrap();

    // Another image with the same first layers uses the existing layers.
    let base = images.base(&stacks(&["1", "3"])).unwrap().unwrap();
    assert_eq!((base.known(), base.trees()), (1, &one.trees[1..]));
    let two = images
        .finish_on(
            Some(base),
            vec![part(&images, "c", "3")],
            &About::default(),
            None,
        )
        .unwrap();
    assert_eq!(two.trees[1], one.trees[1]);
    assert_ne!(two.digest, one.digest);
    images.verify(&two).unwrap();

    // The layers that only this image uses are removed with the image; the layers of both images
    // stay.
    images.remove(&one.digest).unwrap();
    assert!(!one.trees[0].exists() && one.trees[1].exists());
    images.verify(&two).unwrap();
    // The new image consists only of layers that exist already.
    let base = images.base(&stacks(&["1"])).unwrap().unwrap();
    let three = images
        .finish_on(Some(base), Vec::new(), &About::default(), None)
        .unwrap();
    assert_eq!(three.trees, one.trees[1..]);
    assert_eq!(images.list().unwrap().len(), 2);
    images.remove(&two.digest).unwrap();
    images.verify(&three).unwrap();
    images.remove(&three.digest).unwrap();
    assert!(!one.trees[1].exists());
    images.prune().unwrap();
    let left: Vec<_> = fs::read_dir(dir.path().join("images")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn images_of_the_same_layers_say_what_is_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    let about = About::default();
    let finish = |config: Option<&[u8]>| match images.base(&stacks(&["1"])).unwrap() {
        None => images.finish_on(None, vec![part(&images, "a", "1")], &about, config),
        base => images.finish_on(base, Vec::new(), &about, config),
    };
    let [one, two, none] =
        [Some(&b"1"[..]), Some(b"2"), None].map(|config| finish(config).unwrap());
    assert!(one.digest != two.digest && one.digest != none.digest && two.digest != none.digest);
    assert_eq!((&one.trees, &one.trees), (&two.trees, &none.trees));
    assert_eq!(images.config(&one).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(images.config(&two).unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(images.config(&none).unwrap(), None);
    assert_eq!(finish(Some(b"1")).unwrap().digest, one.digest);
    for image in images.list().unwrap() {
        images.verify(&image).unwrap();
    }
    // This image has the form of an earlier version, in which the digest did not cover the
    // configuration.
    let folder = |image: &Image| dir.path().join("images").join(image.digest.hex());
    fs::write(folder(&none).join("config"), "3").unwrap();
    images.verify(&none).unwrap();
    fs::write(folder(&two).join("config"), "1").unwrap();
    assert!(matches!(images.verify(&two), Err(Error::Damaged { .. })));
    for image in [one, two, none] {
        assert_eq!(images.list().unwrap().first().unwrap().trees, image.trees);
        images.remove(&image.digest).unwrap();
    }
    assert!(images.list().unwrap().is_empty());
}

#[test]
fn a_base_keeps_its_layers_and_lets_them_go() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    let parts = vec![part(&images, "a", "1"), part(&images, "b", "2")];
    let image = images
        .finish_on(None, parts, &About::default(), None)
        .unwrap();
    let base = images.base(&stacks(&["1"])).unwrap().unwrap();
    images.remove(&image.digest).unwrap();
    assert!(image.trees[1].exists() && !image.trees[0].exists());
    drop(base);
    assert!(!image.trees[1].exists());
}

#[test]
fn many_layers_become_few() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    let names: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
    let parts = names.iter().map(|name| part(&images, name, name)).collect();
    let image = images
        .finish_on(None, parts, &About::default(), None)
        .unwrap();
    assert_eq!(image.trees.len(), 5);
    for (n, name) in names.iter().enumerate() {
        let tree = &image.trees[4 - n.min(4)];
        assert_eq!(fs::read_to_string(tree.join(name)).unwrap(), *name);
    }
    images.verify(&image).unwrap();
    // The name of the uppermost layer names the whole stack.
    let base = images.base(&names).unwrap().unwrap();
    assert_eq!(base.known(), 9);
    drop(base);
    images.remove(&image.digest).unwrap();
    images.prune().unwrap();
    let left: Vec<_> = fs::read_dir(dir.path().join("images")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_download_is_removed_with_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    let download = images.download().unwrap();
    let path = download.path().to_owned();
    fs::write(path.join("blob"), "x").unwrap();
    images.prune().unwrap();
    assert!(path.join("blob").exists(), "somebody fetches it");
    drop(download);
    assert!(!path.exists());
    let left = dir.path().join("images/.fetch-0123456789abcdef");
    fs::create_dir(&left).unwrap();
    images.prune().unwrap();
    assert!(!left.exists());
}
