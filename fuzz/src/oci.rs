//! The documents of container images: references (`r` and the text), indexes and manifests (`m`),
//! configurations (`c`), a registry's request for authentication (`h`), credentials (`a`).

use oci::auth::{self, Challenge};
use oci::manifest::choose;
use oci::{Config, Digest, Document, MAX_LAYERS, Platform, Reference};

/// Returns a seed of each kind.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let digest = Digest::of(b"");
    let blob = |kind: &str, more: &str| {
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"{digest}","size":7{more}}}"#
        )
    };
    let platform = r#","platform":{"os":"linux","architecture":"arm64","variant":"v8"},"annotations":{"org.opencontainers.image.ref.name":"a"}"#;
    [
        format!("rdocker://localhost:5000/a/b-c_d:v1.2@{digest}"),
        "rdocker://[::1]/a".to_owned(),
        "rdocker://debian".to_owned(),
        format!(
            r#"m{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
            blob("config.v1+json", ""),
            blob("layer.v1.tar+gzip", "")
        ),
        format!(r#"m{{"schemaVersion":2,"manifests":[{}]}}"#, blob("manifest.v1+json", platform)),
        format!(
            r#"c{{"os":"linux","architecture":"amd64","rootfs":{{"type":"layers","diff_ids":["{digest}"]}},"config":{{"Entrypoint":["a"],"Cmd":["b"],"Env":["A=b"],"User":"u:g","WorkingDir":"/","StopSignal":"SIGTERM"}}}}"#
        ),
        r#"hBearer realm="https://a.b/c",service="d\"e",scope="repository:f:pull""#.to_owned(),
        "hBasic realm=x".to_owned(),
        r#"a{"auths":{"localhost":{"auth":"dTpw"},"localhost/a":{}}}"#.to_owned(),
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
        b'r' => {
            let Ok(reference) = text.parse::<Reference>() else {
                return;
            };
            // The requested path is the written one, and cannot lead to another host or folder.
            assert_eq!(reference.to_string().parse(), Ok(reference.clone()));
            for part in [&reference.host, &reference.repository, &reference.target()] {
                assert!(!part.is_empty() && !part.contains(['?', '#', '@', '%', '\\', ' ']));
                assert!(!part.split('/').any(|word| matches!(word, "" | "." | "..")));
            }
        }
        b'm' => match Document::read("fuzz", bytes) {
            Ok(Document::Manifest(manifest)) => {
                assert!((1..=MAX_LAYERS).contains(&manifest.layers.len()));
                assert!(manifest.layers.iter().all(|layer| layer.size > 0));
            }
            Ok(Document::Index(entries)) => {
                if let Ok(entry) = choose("fuzz", &entries, &Platform::linux("aarch64")) {
                    assert!(entries.contains(entry));
                }
            }
            Err(error) => assert_message(&error.to_string()),
        },
        b'c' => match Config::read("fuzz", bytes) {
            Ok(config) => {
                assert!(config.diff_ids.len() <= MAX_LAYERS);
                assert!(config.command.folder.starts_with('/'));
                let all = config
                    .command
                    .words
                    .iter()
                    .chain(&config.command.environment);
                assert!(all.into_iter().all(|word| !word.contains('\0')));
            }
            Err(error) => assert_message(&error.to_string()),
        },
        b'h' => {
            if let Some(Challenge::Bearer { realm, .. }) = Challenge::read(&text) {
                assert!(!realm.is_empty());
            }
        }
        b'a' => {
            let reference = "docker://localhost/a/b".parse();
            if let Ok(Some(pair)) = auth::find("fuzz", bytes, &reference.expect("a reference")) {
                assert!(!pair.user.contains(':'));
            }
        }
        _ => {}
    }
}

/// Checks that a message is short and has no control sequence, because terminals show it.
fn assert_message(text: &str) {
    assert!(text.len() < 4096 && !text.contains('\u{1b}'), "{text:?}");
}
