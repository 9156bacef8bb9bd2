//! Tests that formats of newer programs are refused before any change.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::Zones;
use crate::choose::driver_at;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::images::Images;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, at: &Path) {
    let error = result.unwrap_err();
    assert!(
        matches!(&error, Error::Newer { path, found: 2, .. } if path == at),
        "{error}"
    );
    assert!(error.to_string().contains("use newer programs"), "{error}");
}

#[test]
fn a_newer_format_is_refused_and_nothing_is_touched() {
    let zones = Zones::new();
    let origin = zones.origin();
    let web = zones.zone("web");
    drop(origin.clone_to(&web).unwrap());
    let layers = zones.layers();
    let layer = origin.bond().unwrap().unwrap().layer.path();
    let images = zones.zone("images");
    drop(Images::open(&images).unwrap());
    for at in [&web, &layers, &layer, &images] {
        symlink("2", at.join("format")).unwrap();
        let before = zones.files();
        if *at == images {
            refused(Images::open(at), at);
        } else {
            let open = || Dataset::open(&web)?.stack();
            refused(open(), at);
            let clone = || Dataset::open(&web)?.clone_to(&zones.zone("more"));
            refused(clone(), at);
            refused(Dataset::destroy(&web), at);
        }
        assert_eq!(zones.files(), before, "{}", at.display());
        if *at == web {
            refused(driver_at(at), at);
        }
        std::fs::remove_file(at.join("format")).unwrap();
    }
    // The link names format 1, which is also the format of a zonepath without this link.
    symlink("1", web.join("format")).unwrap();
    Dataset::open(&web).unwrap();
    std::fs::remove_file(web.join("format")).unwrap();
    symlink("x", web.join("format")).unwrap();
    assert!(matches!(Dataset::open(&web), Err(Error::BadLink { .. })));
}
