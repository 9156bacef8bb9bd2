//! The documents of catalogues of images: indexes (`i`), products (`p`), configurations of remotes
//! (`r`), clear-signed messages (`s`), status lines of gpgv (`v`), times (`t`).

use catalogue::names::{Shelf, find};
use catalogue::{Index, MAX_DOCUMENTS, Products, Remote, date, is_name, signed, url};
use oci::Digest;

/// Returns a seed of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let digest = Digest::of(b"").hex();
    let item = |ftype: &str| {
        format!(
            r#""{ftype}":{{"ftype":"{ftype}","path":"images/{ftype}","sha256":"{digest}","size":7,"combined_squashfs_sha256":"{digest}"}}"#
        )
    };
    let (metadata, squashfs, tar) = (item("incus.tar.xz"), item("squashfs"), item("root.tar.xz"));
    let unified = item("lxd_combined.tar.gz");
    [
        r#"i{"format":"index:1.0","updated":"Wed, 20 Mar 2013 17:56:57 +0000","index":{"images":{"datatype":"image-downloads","format":"products:1.0","path":"streams/v1/images.json","products":["a"]}}}"#.to_owned(),
        format!(
            r#"p{{"format":"products:1.0","products":{{"debian:trixie:amd64:default":{{"aliases":"debian/13,debian/trixie","arch":"amd64","os":"Debian","release":"trixie","variant":"default","versions":{{"20251124_05:24":{{"items":{{{metadata},{squashfs},{tar}}}}},"20251123":{{"items":{{{unified}}}}}}}}}}}}}"#
        ),
        "r# format: 1\nprotocol: simplestreams\nurl: https://mirror.example.org/a\ntrust: keyring /k.gpg\narch: arm64\n".to_owned(),
        "rprotocol: oci\nurl: docker://registry.example.org:5000/team\ntrust: tls-only\n".to_owned(),
        "s-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}\n-----BEGIN PGP SIGNATURE-----\n\niHUE\n-----END PGP SIGNATURE-----\n".to_owned(),
        "v[GNUPG:] GOODSIG D4F8 mirror\n[GNUPG:] VALIDSIG 4E7D 2026-11-25 1795578016 0 4\n".to_owned(),
        "v[GNUPG:] NO_PUBKEY D4F8\n".to_owned(),
        "tWed, 20 Mar 2013 17:56:57 +0000".to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}

/// Checks one input.
///
/// # Panics
/// Panics if the input is a finding.
pub fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match kind {
        b'i' => match Index::read("fuzz", bytes) {
            Ok(index) => {
                assert!((1..=MAX_DOCUMENTS).contains(&index.documents.len()));
                index.documents.iter().for_each(|path| assert_path(path));
            }
            Err(error) => assert_message(&error.to_string()),
        },
        b'p' => match Products::read("fuzz", bytes) {
            Ok(read) => assert_products(&read),
            Err(error) => assert_message(&error.to_string()),
        },
        b'r' => match Remote::read("fuzz", &text) {
            Ok(remote) => {
                assert_eq!(Remote::read("fuzz", &remote.text()), Ok(remote));
            }
            Err(error) => assert_message(&error.to_string()),
        },
        b's' if signed::is_one_message(bytes) => {
            assert_eq!(
                text.matches("-----BEGIN PGP SIGNED MESSAGE-----").count(),
                1
            );
        }
        b'v' => match signed::status(&text) {
            Ok(_) => assert!(text.contains("[GNUPG:]") && text.contains("VALIDSIG")),
            Err(why) => assert_message(&why.to_string()),
        },
        b't' => {
            let _ = date::parse(&text);
        }
        _ => {}
    }
}

fn assert_products(read: &Products) {
    for product in &read.products {
        assert!(is_name(&product.name) && is_name(&product.version) && !product.roots.is_empty());
        let files = product.roots.iter().map(|root| &root.file);
        for file in files.chain(&product.metadata) {
            assert_path(&file.path);
            assert!(file.size > 0 && file.sha256.len() == 64);
        }
        let shelf = Shelf {
            remote: "fuzz",
            architecture: &product.architecture,
            products: &read.products,
        };
        // A product is found by its name, unless its name is an alias of another product.
        let _ = find(&[shelf], &product.name);
        let _ = find(&[shelf], "debian/14");
    }
}

/// A path leads below the address of its server.
fn assert_path(path: &str) {
    assert!(url::is_path(path), "{path}");
    assert!(!path.starts_with('/') && !path.contains(['?', '#', '%', '\\', ' ']));
    assert!(!path.split('/').any(|part| matches!(part, "" | "." | "..")));
    assert!(!path.contains("://"));
}

/// A message can be printed on a terminal.
fn assert_message(text: &str) {
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
