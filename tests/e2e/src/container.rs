//! Container images made by hand: archives, layers, layouts.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use oci::Digest;
use oci::layout::{BLOBS, INDEX, MARK, blob_name};

/// A member of a tar archive, from which the bytes are made.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The type flag of tar: `0` file, `1` hard link, `2` link, `5` folder, ...
    pub kind: u8,
    /// The name of the member.
    pub name: &'a [u8],
    /// The target of a link.
    pub link: &'a [u8],
    /// The permissions.
    pub mode: u32,
    /// The owner and the group.
    pub owner: (u64, u64),
    /// The content of the file.
    pub content: &'a [u8],
    /// The size in the header, if it must differ from the real one.
    pub size: Option<u64>,
    /// The extended attributes.
    pub attributes: &'a [(&'a str, &'a [u8])],
}

impl<'a> Member<'a> {
    /// Returns an empty member that root owns.
    #[must_use]
    pub fn of(kind: u8, name: &'a str) -> Self {
        Self {
            kind,
            name: name.as_bytes(),
            link: b"",
            mode: if kind == b'5' { 0o755 } else { 0o644 },
            owner: (0, 0),
            content: b"",
            size: None,
            attributes: &[],
        }
    }

    /// Returns the bytes of the member.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.attributes.is_empty() {
            let records: Vec<u8> = self.attributes.iter().flat_map(record).collect();
            let pax = Member {
                content: &records,
                ..Member::of(b'x', "pax")
            };
            bytes.extend(pax.bytes());
        }
        let mut header = [0_u8; 512];
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, &octal(self.owner.0, 8));
        put(116, &octal(self.owner.1, 8));
        put(
            124,
            &octal(self.size.unwrap_or(self.content.len() as u64), 12),
        );
        put(136, b"07346545000\0");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(self.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

/// Returns a number in octal digits, or in base 256 if it needs more digits than the field has.
fn octal(number: u64, length: usize) -> Vec<u8> {
    let digits = format!("{number:0width$o}\0", width = length - 1);
    if digits.len() == length {
        return digits.into_bytes();
    }
    let mut bytes = vec![0; length];
    bytes[length - 8..].copy_from_slice(&number.to_be_bytes());
    bytes[0] |= 0x80;
    bytes
}

/// Returns a pax record, whose length includes its own digits.
fn record((name, value): &(&str, &[u8])) -> Vec<u8> {
    let rest = [b" SCHILY.xattr.", name.as_bytes(), b"=", value, b"\n"].concat();
    let mut length = rest.len() + 1;
    while length.to_string().len() + rest.len() != length {
        length = length.to_string().len() + rest.len();
    }
    [length.to_string().as_bytes(), &rest].concat()
}

/// Returns a member for a folder.
#[must_use]
pub fn folder(name: &str) -> Vec<u8> {
    Member::of(b'5', name).bytes()
}

/// Returns a member for a file.
#[must_use]
pub fn file(name: &str, content: &[u8]) -> Vec<u8> {
    Member {
        content,
        ..Member::of(b'0', name)
    }
    .bytes()
}

/// Returns a member for an executable file.
#[must_use]
pub fn program(name: &str, content: &[u8]) -> Vec<u8> {
    Member {
        content,
        mode: 0o755,
        ..Member::of(b'0', name)
    }
    .bytes()
}

/// Returns a member for a symbolic link.
#[must_use]
pub fn link(name: &str, target: &str) -> Vec<u8> {
    Member {
        link: target.as_bytes(),
        ..Member::of(b'2', name)
    }
    .bytes()
}

/// Returns a member that is another name of an earlier one.
#[must_use]
pub fn hard_link(name: &str, target: &str) -> Vec<u8> {
    Member {
        link: target.as_bytes(),
        ..Member::of(b'1', name)
    }
    .bytes()
}

/// Returns an archive of these members, with its end mark.
#[must_use]
pub fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Returns the same archive compressed with gzip.
///
/// # Panics
/// Does not panic.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("memory is written to");
    gzip.finish().expect("memory is written to")
}

/// Returns the machine's busybox if it is static. Otherwise prints that the test is skipped.
#[must_use]
pub fn busybox() -> Option<Vec<u8>> {
    for path in ["/usr/bin/busybox", "/bin/busybox"] {
        let mut ldd = std::process::Command::new("ldd");
        let ran = crate::run::run(ldd.arg(path), b"");
        if (ran.out + &ran.err).contains("not a dynamic executable") {
            return fs::read(path).ok();
        }
    }
    crate::skip("no static busybox (package busybox-static)");
    None
}

/// Returns the members of a small bootable system: busybox under the needed names, and an init that
/// ends when it gets the signal.
#[must_use]
pub fn system(busybox: &[u8]) -> Vec<Vec<u8>> {
    const INIT: &[u8] = b"#!/bin/sh
trap 'echo powered >/etc/stopped; exit 0' PWR
trap 'exit 0' INT
while :; do sleep 1000 & wait $!; done
";
    let mut members: Vec<_> = [
        "bin",
        "sbin",
        "etc",
        "root",
        "tmp",
        "usr",
        "usr/share",
        "srv",
    ]
    .iter()
    .map(|name| folder(name))
    .collect();
    members.push(program("bin/busybox", busybox));
    for name in [
        "sh", "sleep", "hostname", "id", "cat", "kill", "ls", "stat", "test", "echo", "env", "pwd",
        "readlink", "getfattr", "ps", "trap", "true", "touch", "mkdir", "wc",
    ] {
        members.push(link(&format!("bin/{name}"), "busybox"));
    }
    members.push(program("sbin/init", INIT));
    members.push(file(
        "etc/passwd",
        b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/sh\n",
    ));
    members.push(file("etc/group", b"root:x:0:\nweb:x:34:\nlogs:x:40:web\n"));
    members
}

/// An OCI layout with one image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The folder of the layout.
    pub folder: PathBuf,
    /// The digest of the image's manifest.
    pub digest: Digest,
    /// The digests of the compressed layers, the lowest first.
    pub layers: Vec<Digest>,
}

impl Image {
    /// Makes a layout from tar archives. `runs` is the value of `config` in its configuration.
    ///
    /// # Panics
    /// Panics if the layout cannot be written.
    #[must_use]
    pub fn make(folder: &Path, layers: &[Vec<u8>], runs: &str) -> Self {
        fs::create_dir_all(folder.join(BLOBS)).expect("a folder");
        let blob = |bytes: &[u8]| {
            let digest = Digest::of(bytes);
            fs::write(folder.join(blob_name(&digest)), bytes).expect("a blob");
            digest
        };
        let describe = |kind: &str, digest: &Digest, size: usize| {
            format!(
                r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"{digest}","size":{size}}}"#
            )
        };
        let mut made = Vec::new();
        let (mut diffs, mut described) = (Vec::new(), Vec::new());
        for layer in layers {
            let packed = gzip(layer);
            diffs.push(format!("\"{}\"", Digest::of(layer)));
            let digest = blob(&packed);
            described.push(describe("layer.v1.tar+gzip", &digest, packed.len()));
            made.push(digest);
        }
        let machine = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = format!(
            r#"{{"os":"linux","architecture":"{machine}","rootfs":{{"type":"layers","diff_ids":[{}]}},"config":{runs}}}"#,
            diffs.join(",")
        );
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
            describe("config.v1+json", &blob(config.as_bytes()), config.len()),
            described.join(",")
        );
        let digest = blob(manifest.as_bytes());
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            describe("manifest.v1+json", &digest, manifest.len())
        );
        fs::write(folder.join(INDEX), index).expect("an index");
        fs::write(folder.join(MARK), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("a mark");
        Self {
            folder: folder.to_owned(),
            digest,
            layers: made,
        }
    }

    /// Returns the blobs of the layout.
    ///
    /// # Panics
    /// Panics if the blobs cannot be read.
    #[must_use]
    pub fn blobs(&self) -> Vec<(Digest, Vec<u8>)> {
        let all = fs::read_dir(self.folder.join(BLOBS)).expect("its blobs");
        all.map(|entry| {
            let bytes = fs::read(entry.expect("an entry").path()).expect("a blob");
            (Digest::of(&bytes), bytes)
        })
        .collect()
    }
}
