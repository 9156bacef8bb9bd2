//! The documents of simple streams: `index:1.0`, which names documents of products, and
//! `products:1.0`.

use std::collections::BTreeMap;

use oci::{Digest, shown};
use serde::Deserialize;

use crate::architecture::canonical;
use crate::product::{File, Form, Product, Root, compare_versions};
use crate::{
    Error, MAX_DOCUMENTS, MAX_METADATA, MAX_NAME, MAX_PRODUCT_COUNT, MAX_ROOT, date, is_name, url,
};

/// Maximum number of aliases of a product that are kept.
const MAX_ALIASES: usize = 64;

/// Types of the files with the description of an image.
const METADATA: [&str; 2] = ["incus.tar.xz", "lxd.tar.xz"];

/// The index of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The time of `updated`, in seconds since 1970, if the index has it.
    pub updated: Option<u64>,
    /// The paths of the documents of products for downloads, sorted.
    pub documents: Vec<String>,
}

/// A document of products.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Products {
    /// The time of `updated`, in seconds since 1970, if the document has it.
    pub updated: Option<u64>,
    /// The products that can become zones, sorted by name.
    pub products: Vec<Product>,
}

#[derive(Deserialize)]
struct RawIndex {
    format: String,
    #[serde(default)]
    updated: Option<String>,
    index: BTreeMap<String, RawEntry>,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(default)]
    datatype: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct RawProducts {
    format: String,
    #[serde(default)]
    updated: Option<String>,
    products: BTreeMap<String, RawProduct>,
}

#[derive(Deserialize)]
struct RawProduct {
    #[serde(default)]
    aliases: String,
    #[serde(default)]
    arch: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    release: String,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    versions: BTreeMap<String, RawVersion>,
}

#[derive(Deserialize)]
struct RawVersion {
    #[serde(default)]
    items: BTreeMap<String, RawItem>,
}

#[derive(Deserialize)]
struct RawItem {
    #[serde(default)]
    ftype: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    sha256: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    combined_sha256: String,
    #[serde(default)]
    combined_rootxz_sha256: String,
    #[serde(default)]
    combined_squashfs_sha256: String,
}

impl Index {
    /// Reads an index. `name` is the name of the document in messages.
    ///
    /// # Errors
    /// Fails if the text is not an index, or if a path leads elsewhere.
    pub fn read(name: &str, text: &[u8]) -> Result<Self, Error> {
        let raw: RawIndex = parse(name, text, "an index of simple streams")?;
        expect_format(name, &raw.format, "index:1.0")?;
        let mut documents = Vec::new();
        for entry in raw.index.into_values() {
            if entry.datatype == "image-downloads" && entry.format == "products:1.0" {
                documents.push(checked_path(name, &entry.path)?);
            }
        }
        documents.sort();
        documents.dedup();
        match documents.len() {
            0 => Err(Error::new(name, "the index names no images")),
            count if count > MAX_DOCUMENTS => Err(Error::new(
                name,
                format!("expected up to {MAX_DOCUMENTS} documents, found {count}"),
            )),
            _ => Ok(Self {
                updated: raw.updated.as_deref().and_then(date::parse),
                documents,
            }),
        }
    }
}

impl Products {
    /// Reads a document of products. Products without a root for containers are left out.
    ///
    /// # Errors
    /// Fails if the text is not a document of products, if a name has forbidden characters, or if a
    /// path leads elsewhere.
    pub fn read(name: &str, text: &[u8]) -> Result<Self, Error> {
        let raw: RawProducts = parse(name, text, "a list of products of simple streams")?;
        expect_format(name, &raw.format, "products:1.0")?;
        if raw.products.len() > MAX_PRODUCT_COUNT {
            let count = raw.products.len();
            let problem = format!("expected up to {MAX_PRODUCT_COUNT} products, found {count}");
            return Err(Error::new(name, problem));
        }
        let mut products = Vec::new();
        for (called, raw) in raw.products {
            products.extend(product(name, called, raw)?);
        }
        Ok(Self {
            updated: raw.updated.as_deref().and_then(date::parse),
            products,
        })
    }
}

fn parse<'t, T: Deserialize<'t>>(name: &str, text: &'t [u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(text)
        .map_err(|error| Error::new(name, format!("not {what}: {}", shown(&error.to_string()))))
}

fn expect_format(name: &str, found: &str, expected: &str) -> Result<(), Error> {
    match found == expected {
        true => Ok(()),
        false => {
            let problem = format!("expected format {expected}, found {}", shown(found));
            Err(Error::new(name, problem))
        }
    }
}

fn checked_path(document: &str, path: &str) -> Result<String, Error> {
    match url::is_path(path) {
        true => Ok(path.to_owned()),
        false => {
            let problem = format!(
                "{}: not a path below the address of the server",
                shown(path)
            );
            Err(Error::new(document, problem))
        }
    }
}

fn checked_name(document: &str, text: String) -> Result<String, Error> {
    match is_name(&text) {
        true => Ok(text),
        false => {
            let problem = format!(
                "{}: expected a name of up to {MAX_NAME} printable characters",
                shown(&text)
            );
            Err(Error::new(document, problem))
        }
    }
}

fn product(document: &str, name: String, raw: RawProduct) -> Result<Option<Product>, Error> {
    let name = checked_name(document, name)?;
    let aliases = raw
        .aliases
        .split(',')
        .map(str::trim)
        .filter(|alias| !alias.is_empty());
    let aliases = aliases
        .take(MAX_ALIASES)
        .map(|alias| checked_name(document, alias.to_owned()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut versions: Vec<(String, RawVersion)> = raw.versions.into_iter().collect();
    versions.sort_by(|(a, _), (b, _)| compare_versions(b, a));
    for (version, raw_version) in versions {
        let version = checked_name(document, version)?;
        if let Some((metadata, roots)) = files(document, raw_version)? {
            return Ok(Some(Product {
                name,
                aliases,
                architecture: shown(canonical(&raw.arch)),
                os: shown(&raw.os),
                release: shown(&raw.release),
                variant: shown(&raw.variant),
                version,
                metadata,
                roots,
            }));
        }
    }
    Ok(None)
}

/// The description and the roots of a version.
type Files = (Option<File>, Vec<Root>);

/// Returns the description and the roots of a version; `None` if no root can become a zone.
fn files(document: &str, raw: RawVersion) -> Result<Option<Files>, Error> {
    let items: Vec<RawItem> = raw.items.into_values().collect();
    let described = METADATA
        .iter()
        .find_map(|ftype| items.iter().find(|item| item.ftype == *ftype));
    let metadata = match described {
        Some(item) => file(document, item, MAX_METADATA)?,
        None => None,
    };
    let mut roots = Vec::new();
    for item in &items {
        let Some(form) = Form::of(&item.ftype) else {
            continue;
        };
        // An image without its description has no fingerprint, but is as good a root.
        let combined = match (form, described) {
            (Form::Unified, _) => item.sha256.as_str(),
            (_, None) => "",
            (Form::Squashfs, Some(item)) => &item.combined_squashfs_sha256,
            (Form::Tar, Some(item)) if item.combined_rootxz_sha256.is_empty() => {
                &item.combined_sha256
            }
            (Form::Tar, Some(item)) => &item.combined_rootxz_sha256,
        };
        if let Some(file) = file(document, item, MAX_ROOT)? {
            let fingerprint = match combined {
                "" => String::new(),
                digits => checked_digest(document, digits)?,
            };
            roots.push(Root {
                form,
                file,
                fingerprint,
            });
        }
    }
    roots.sort_by_key(|root| root.form);
    Ok((!roots.is_empty()).then_some((metadata, roots)))
}

/// Returns the file of an item; `None` if the item has no SHA-256 digest, so that its content could
/// not be checked.
fn file(document: &str, item: &RawItem, most: u64) -> Result<Option<File>, Error> {
    if item.sha256.is_empty() {
        return Ok(None);
    }
    if !(1..=most).contains(&item.size) {
        let problem = format!(
            "{}: expected a size of 1 to {most} bytes, found {}",
            shown(&item.path),
            item.size
        );
        return Err(Error::new(document, problem));
    }
    Ok(Some(File {
        path: checked_path(document, &item.path)?,
        size: item.size,
        sha256: checked_digest(document, &item.sha256)?,
    }))
}

fn checked_digest(document: &str, digits: &str) -> Result<String, Error> {
    match format!("sha256:{digits}").parse::<Digest>() {
        Ok(digest) => Ok(digest.hex()),
        Err(_) => {
            let problem = format!("{}: expected the 64 digits of SHA-256", shown(digits));
            Err(Error::new(document, problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = r#"{"format":"index:1.0","updated":"Wed, 20 Mar 2013 17:56:57 +0000","index":{
        "images":{"datatype":"image-downloads","format":"products:1.0","path":"streams/v1/images.json","products":["a"]},
        "ids":{"datatype":"image-ids","format":"products:1.0","path":"streams/v1/ids.json"}}}"#;

    fn item(ftype: &str, more: &str) -> String {
        let digest = Digest::of(ftype.as_bytes()).hex();
        format!(
            r#""{ftype}":{{"ftype":"{ftype}","path":"images/{ftype}","sha256":"{digest}","size":7{more}}}"#
        )
    }

    fn document(versions: &str) -> String {
        format!(
            r#"{{"format":"products:1.0","datatype":"image-downloads","products":{{"debian:trixie:amd64:default":{{
            "aliases":"debian/13/default, debian/13","arch":"x86_64","os":"Debian","release":"trixie","variant":"default",
            "versions":{{{versions}}}}}}}}}"#
        )
    }

    fn read(text: &str) -> Result<Products, String> {
        Products::read("images.json", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_index_names_documents_of_downloads() {
        let index = Index::read("index.json", INDEX.as_bytes()).unwrap();
        assert_eq!(index.documents, ["streams/v1/images.json"]);
        assert_eq!(index.updated, Some(1_363_802_217));
        for (from, to, why) in [
            (
                "streams/v1/images.json",
                "../images.json",
                "not a path below",
            ),
            (
                "streams/v1/images.json",
                "https://example.net/x",
                "not a path below",
            ),
            ("index:1.0", "index:2.0", "expected format index:1.0"),
            ("image-downloads", "other", "names no images"),
            ("{\"format\"", "[\"format\"", "not an index"),
        ] {
            let error = Index::read("index.json", INDEX.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        // The depth of unknown fields needs no stack.
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let ignored = INDEX.replace(r#"["a"]"#, &deep);
        assert!(Index::read("index.json", ignored.as_bytes()).is_ok());
        let read = INDEX.replace(r#""streams/v1/images.json""#, &deep);
        assert!(Index::read("index.json", read.as_bytes()).is_err());
    }

    #[test]
    fn the_newest_version_with_a_root_is_taken() {
        let digest = Digest::of(b"both").hex();
        let combined = format!(r#","combined_squashfs_sha256":"{digest}""#);
        let old = item("squashfs", "");
        let good = [
            item("incus.tar.xz", &combined),
            item("root.tar.xz", ""),
            item("squashfs", ""),
            item("squashfs.vcdiff", ""),
        ]
        .join(",");
        let machine = item("disk-kvm.img", "");
        let text = document(&format!(
            r#""20251122_05:24":{{"items":{{{old}}}}},"20251123_05:24":{{"items":{{{good}}}}},"20251124_05:24":{{"items":{{{machine}}}}}"#
        ));
        let products = read(&text).unwrap().products;
        let [product] = products.as_slice() else {
            panic!("{products:?}")
        };
        assert_eq!(product.version, "20251123_05:24");
        assert_eq!(product.aliases, ["debian/13/default", "debian/13"]);
        assert_eq!(product.architecture, "amd64");
        let forms: Vec<Form> = product.roots.iter().map(|root| root.form).collect();
        assert_eq!(forms, [Form::Squashfs, Form::Tar]);
        assert_eq!(product.roots[0].fingerprint, digest);
        assert_eq!(
            product.metadata.as_ref().unwrap().path,
            "images/incus.tar.xz"
        );
        // A product for virtual machines alone is left out.
        let text = document(&format!(r#""20251124_05:24":{{"items":{{{machine}}}}}"#));
        assert_eq!(read(&text).unwrap().products, []);
    }

    #[test]
    fn a_file_without_a_digest_is_not_offered() {
        let item = r#""squashfs":{"ftype":"squashfs","path":"images/x","size":7}"#;
        let text = document(&format!(r#""20251124_05:24":{{"items":{{{item}}}}}"#));
        assert_eq!(read(&text).unwrap().products, []);
    }

    #[test]
    fn hostile_documents_are_refused() {
        let good = document(&format!(
            r#""20251124_05:24":{{"items":{{{}}}}}"#,
            item("squashfs", "")
        ));
        read(&good).unwrap();
        for (from, to, why) in [
            ("images/squashfs", "images/../../x", "not a path below"),
            (
                "images/squashfs",
                "https://example.net/x",
                "not a path below",
            ),
            ("images/squashfs", "/etc/passwd", "not a path below"),
            ("\"size\":7", "\"size\":0", "expected a size"),
            ("\"size\":7", "\"size\":-1", "not a list of products"),
            ("\"size\":7", "\"size\":99999999999999", "expected a size"),
            ("\"sha256\":\"", "\"sha256\":\"x", "64 digits"),
            ("debian/13/default", "de\\u001bbian", "printable"),
            ("debian:trixie", "debian trixie", "printable"),
            ("20251124_05:24", "2025\\n", "printable"),
            ("products:1.0", "products:2.0", "expected format"),
        ] {
            let error = read(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
