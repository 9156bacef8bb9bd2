//! A mirror of images by name: simple streams over TLS on loopback, signed by a key of its own.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::registry::{Guard, Registry};
use crate::run::{Ran, run};
use crate::{Host, skip};

/// The programs that a mirror needs, and their packages.
const NEEDED: [(&str, &str); 4] = [
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/gpg", "gnupg"),
    ("/usr/bin/gpgv", "gpgv"),
    ("/usr/bin/mksquashfs", "squashfs-tools"),
];

/// The name of the product of a mirror, and the version that it has in all tests.
pub const PRODUCT: &str = "debian:trixie:amd64:default";
/// The path of the root of the image.
pub const ROOT: &str = "images/debian/rootfs.squashfs";
/// The path of the metadata of the image.
pub const METADATA: &str = "images/debian/incus.tar.xz";

/// A mirror with one image. The agent of its key ends when it is dropped.
#[derive(Debug)]
pub struct Mirror {
    /// The server.
    pub registry: Registry,
    /// The address with TLS.
    pub address: SocketAddr,
    /// The folder with the keys: `server.crt`, `mirror.gpg`.
    pub keys: PathBuf,
    /// The squashfs of the image.
    pub root: Vec<u8>,
    /// The metadata of the image, a tar archive.
    pub metadata: Vec<u8>,
}

impl Mirror {
    /// Starts a mirror in the network namespace of the calling thread, with keys and an image made
    /// from a folder below the host's root. Returns `None`, and prints the reason, if a program is
    /// missing.
    ///
    /// # Panics
    /// Panics if a program fails.
    #[must_use]
    pub fn start(host: &Host, tree: &Path) -> Option<Self> {
        for (program, package) in NEEDED {
            if !Path::new(program).exists() {
                skip(&format!("no {program} (package {package})"));
                return None;
            }
        }
        let keys = host.path("/mirror");
        fs::create_dir(&keys).expect("a folder");
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).expect("a mode");
        let at = keys.display();
        tool(
            &format!(
                "/usr/bin/openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
                 -days 2 -subj /CN=mirror -addext subjectAltName=IP:127.0.0.1 \
                 -keyout {at}/server.key -out {at}/server.crt"
            ),
            b"",
        );
        let squashfs = keys.join("root.squashfs");
        tool(
            &format!(
                "/usr/bin/mksquashfs {} {} -comp zstd -noappend -quiet -no-progress",
                tree.display(),
                squashfs.display()
            ),
            b"",
        );
        fs::write(
            keys.join("metadata.yaml"),
            "architecture: x86_64\nproperties:\n  os: Debian\n  release: trixie\n  variant: default\n\
             templates:\n  /etc/hostname:\n    template: hostname.tpl\n",
        )
        .expect("a file");
        tool(
            &format!("/usr/bin/tar -C {at} -cJf {at}/incus.tar.xz metadata.yaml"),
            b"",
        );
        let registry = Registry::start(Guard::None);
        let mirror = Self {
            address: registry.serve_tls(&keys.join("server.crt"), &keys.join("server.key")),
            root: fs::read(squashfs).expect("a squashfs"),
            metadata: fs::read(keys.join("incus.tar.xz")).expect("an archive"),
            registry,
            keys,
        };
        mirror.make_key("mirror", "never");
        mirror.put(ROOT, Some(mirror.root.clone()));
        mirror.put(METADATA, Some(mirror.metadata.clone()));
        Some(mirror)
    }

    /// Makes a key of this name, and its keyring `NAME.gpg`.
    pub fn make_key(&self, name: &str, expires: &str) {
        self.gpg(
            "20250101T000000",
            &format!("--quick-gen-key {name} ed25519 sign {expires}"),
            b"",
        );
        let keyring = self.keys.join(format!("{name}.gpg"));
        let out = keyring.display();
        self.gpg(
            "20250101T000000",
            &format!("--output {out} --export {name}"),
            b"",
        );
        fs::set_permissions(&keyring, fs::Permissions::from_mode(0o644)).expect("a mode");
    }

    /// Runs gpg at a time of the form `20250101T000000`.
    fn gpg(&self, time: &str, words: &str, input: &[u8]) -> Ran {
        tool(
            &format!(
                "/usr/bin/gpg --homedir {} --batch --quiet --no-tty --pinentry-mode loopback \
                 --passphrase= --faked-system-time {time}! {words}",
                self.keys.display()
            ),
            input,
        )
    }

    /// Returns a clear-signed text.
    #[must_use]
    pub fn clear_signed(&self, key: &str, time: &str, text: &str) -> Vec<u8> {
        let words = format!("--local-user {key} --clearsign --output -");
        self.gpg(time, &words, text.as_bytes()).out.into_bytes()
    }

    /// Returns a detached signature.
    #[must_use]
    pub fn detached(&self, key: &str, time: &str, text: &str) -> Vec<u8> {
        let words = format!("--local-user {key} --armor --detach-sign --output -");
        self.gpg(time, &words, text.as_bytes()).out.into_bytes()
    }

    /// Sends this content for a path, or no file.
    pub fn put(&self, path: &str, content: Option<Vec<u8>>) {
        self.registry.instead(&format!("/{path}"), content);
    }

    /// Returns an index.
    #[must_use]
    pub fn index() -> String {
        r#"{"format":"index:1.0","index":{"images":{"datatype":"image-downloads","path":"streams/v1/images.json","format":"products:1.0","products":["debian:trixie:amd64:default"]}}}"#.to_owned()
    }

    /// Returns the products: one image, for the architecture of this machine.
    #[must_use]
    pub fn products(&self) -> String {
        let digest = |bytes: &[u8]| oci::Digest::of(bytes).hex();
        let both = [self.metadata.as_slice(), &self.root].concat();
        let machine = rustix::system::uname();
        let machine = machine.machine().to_string_lossy();
        format!(
            r#"{{"format":"products:1.0","datatype":"image-downloads","content_id":"images","products":{{"{PRODUCT}":{{
            "aliases":"debian/13/default,debian/13","arch":"{machine}","os":"Debian","release":"trixie","release_title":"13","variant":"default",
            "versions":{{"20251124_05:24":{{"items":{{
            "incus.tar.xz":{{"ftype":"incus.tar.xz","path":"{METADATA}","sha256":"{}","size":{},"combined_squashfs_sha256":"{}"}},
            "disk.qcow2":{{"ftype":"disk-kvm.img","path":"images/debian/disk.qcow2","sha256":"{}","size":1}},
            "root.squashfs":{{"ftype":"squashfs","path":"{ROOT}","sha256":"{}","size":{}}}}}}}}}}}}}}}"#,
            digest(&self.metadata),
            self.metadata.len(),
            digest(&both),
            digest(b""),
            digest(&self.root),
            self.root.len(),
        )
    }

    /// Publishes an index and products that the key signed at this time, clear-signed.
    pub fn publish(&self, key: &str, time: &str, products: &str) {
        self.put(
            "streams/v1/index.sjson",
            Some(self.clear_signed(key, time, &Self::index())),
        );
        self.put(
            "streams/v1/images.sjson",
            Some(self.clear_signed(key, time, products)),
        );
    }

    /// Runs a command of the host that trusts the certificate of this mirror.
    #[must_use]
    pub fn client(&self, host: &Host, program: &str, words: &[&str]) -> Ran {
        let mut command = host.command(program, words);
        run(
            command.env("SSL_CERT_FILE", self.keys.join("server.crt")),
            b"",
        )
    }

    /// Adds the remote `images` with the keyring of the mirror.
    pub fn configure(&self, host: &Host) {
        let keyring = self.keys.join("mirror.gpg");
        let url = format!("https://{}", self.address);
        let keyring = keyring.to_string_lossy();
        let words = ["remote", "add", "images", &url, "--keyring", &keyring];
        self.client(host, "zoneimg", &words).quiet();
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let mut command = Command::new("/usr/bin/gpgconf");
        command
            .arg("--homedir")
            .arg(&self.keys)
            .args(["--kill", "gpg-agent"]);
        let _ = command.status();
    }
}

/// Runs a program whose words are separated by blanks.
fn tool(line: &str, input: &[u8]) -> Ran {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    run(command.args(words), input).ok()
}
