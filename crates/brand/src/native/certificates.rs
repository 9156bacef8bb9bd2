//! The certificates that a zone trusts: the packaged ones that the host has selected. The bundle is
//! assembled again from the packaged files. Of the host's /etc, only the names of links are read.
//!
//! Certificate authorities that the site has added are not copied. If the zone inherits
//! /usr/local/share/ca-certificates, run `update-ca-certificates` in the zone to add them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::install::Error;
use crate::native::fill::Fill;
use crate::native::generated::put;

const CERTS: &str = "etc/ssl/certs";
const PACKAGED: &str = "usr/share/ca-certificates";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
const LIST: &str = "etc/ca-certificates.conf";

/// Maximum size of a certificate file, in bytes.
const MAX_FILE: u64 = 256 << 10;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Writes links, bundle and list.
pub fn make(fill: &mut Fill<'_>) -> Result<(), Error> {
    if !fill.is_inherited(Path::new(PACKAGED)) {
        return Ok(());
    }
    let mut bundle = String::new();
    let mut list = String::new();
    let mut kept: BTreeSet<OsString> = BTreeSet::new();
    let mut aliases: Vec<(OsString, PathBuf)> = Vec::new();
    for name in fill.host.names(Path::new(CERTS))? {
        let link = Path::new(CERTS).join(&name);
        let Some(target) = fill.host.read_link(&link)? else {
            continue;
        };
        if target.components().count() == 1 && target.is_relative() {
            aliases.push((name, target));
            continue;
        }
        let leads_to = fill.leads_to(&link, &target);
        let Ok(packaged) = leads_to.strip_prefix(Path::new("/").join(PACKAGED)) else {
            continue;
        };
        let source = Path::new(PACKAGED).join(packaged);
        let Some((content, _)) = fill.host.read(&source, MAX_FILE)? else {
            continue;
        };
        let certificates = blocks(&content);
        if let Some(packaged) = packaged.to_str().filter(|_| !certificates.is_empty()) {
            fill.link(&link, &target)?;
            bundle.push_str(&certificates);
            list.push_str(packaged);
            list.push('\n');
            kept.insert(name);
        }
    }
    for (name, target) in aliases {
        if kept.contains(target.as_os_str()) {
            fill.link(&Path::new(CERTS).join(name), &target)?;
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    put(fill, BUNDLE, bundle.as_bytes())?;
    put(fill, LIST, list.as_bytes())
}

/// Returns the certificate blocks of a PEM file, without the text around them.
fn blocks(content: &[u8]) -> String {
    let mut blocks = String::new();
    let mut block: Option<String> = None;
    for line in String::from_utf8_lossy(content).lines() {
        let line = line.trim_end();
        match &mut block {
            None if line == BEGIN => block = Some(format!("{BEGIN}\n")),
            None => {}
            Some(text) if line == END => {
                blocks.push_str(text);
                blocks.push_str(END);
                blocks.push('\n');
                block = None;
            }
            Some(text) if line.bytes().all(is_base64) => {
                text.push_str(line);
                text.push('\n');
            }
            Some(_) => block = None,
        }
    }
    blocks
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_certificate_blocks_are_taken() {
        let good = format!("{BEGIN}\nQUJD\n{END}\n");
        let text = format!(
            "# SECRET\n{good}-----BEGIN PRIVATE KEY-----\nU0VDUkVU\n-----END PRIVATE KEY-----\n\
             {BEGIN}\nSECRET: x\n{END}\n{BEGIN}\nQUJD\n"
        );
        assert_eq!(blocks(text.as_bytes()), good);
    }
}
