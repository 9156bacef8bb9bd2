//! Tests that no secret of the host or its users reaches a sparse zone.
//!
//! The test makes a host root with a secret in every place that the authors could think of. After
//! an install, no name, link or byte in the zone's root may contain the mark of a secret.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use brand::{Identity, InstallRequest, Installed};
use md5::{Digest, Md5};
use model::Config;
use model::config::Resource;

/// The mark in every secret.
const MARK: &str = "S3CR3T";

/// Files that belong to the site, by name and mode.
const SITE_FILES: &[(&str, u32)] = &[
    ("etc/ssh/ssh_host_rsa_key", 0o600),
    ("etc/ssh/ssh_host_ed25519_key.pub", 0o644),
    ("etc/ssh/sshd_config", 0o644),
    ("etc/ssh/sshd_config.d/site.conf", 0o644),
    ("etc/ssl/private/site.key", 0o640),
    ("etc/ssl/certs/site.pem", 0o644),
    ("etc/ssl/certs/ca-certificates.crt", 0o644),
    ("etc/ssl/certs/java/cacerts", 0o644),
    ("usr-local-ca/site.crt", 0o644),
    ("etc/machine-id", 0o444),
    ("etc/hostname", 0o644),
    ("etc/hosts", 0o644),
    ("etc/resolv.conf", 0o644),
    ("etc/fstab", 0o644),
    ("etc/crypttab", 0o600),
    ("etc/environment", 0o644),
    ("etc/profile", 0o644),
    ("etc/profile.d/site.sh", 0o644),
    ("etc/motd", 0o644),
    ("etc/nsswitch.conf", 0o644),
    ("etc/networks", 0o644),
    ("etc/network/interfaces", 0o600),
    (
        "etc/NetworkManager/system-connections/wifi.nmconnection",
        0o600,
    ),
    ("etc/wpa_supplicant/wpa_supplicant.conf", 0o600),
    ("etc/pam.d/common-auth", 0o644),
    ("etc/pam.d/site", 0o644),
    ("etc/sudoers.d/site", 0o440),
    ("etc/cron.d/site", 0o644),
    ("etc/crontab.site", 0o644),
    ("etc/apt/auth.conf", 0o600),
    ("etc/apt/sources.list", 0o644),
    ("etc/apt/sources.list.d/site.list", 0o644),
    ("etc/apt/trusted.gpg", 0o644),
    ("etc/ld.so.conf.d/site.conf", 0o644),
    ("etc/ld.so.cache", 0o644),
    ("etc/ld.so.preload", 0o644),
    ("etc/alternatives/plain-file", 0o644),
    ("etc/passwd-", 0o644),
    ("etc/shadow-", 0o640),
    ("etc/gshadow", 0o640),
    ("etc/subuid", 0o644),
    ("etc/krb5.keytab", 0o600),
    ("etc/netrc", 0o600),
    ("etc/systemd/system/site.service", 0o644),
    ("etc/site/deep/er/config", 0o644),
    ("etc/.hidden", 0o644),
    ("root/.netrc", 0o600),
    ("root/.ssh/id_rsa", 0o600),
    ("root/.ssh/authorized_keys", 0o600),
    ("root/.bashrc", 0o644),
    ("root/.bash_history", 0o600),
    ("home/ann/.ssh/id_rsa", 0o600),
    ("srv/data", 0o644),
    ("opt/site/app", 0o755),
    ("tmp/x", 0o644),
    ("run/secrets/token", 0o600),
    ("var/lib/cloud/seed/nocloud/user-data", 0o600),
    ("var/lib/systemd/random-seed", 0o600),
    ("var/lib/systemd/credential.secret", 0o600),
    ("var/lib/dhcp/dhclient.leases", 0o644),
    ("var/lib/dbus/machine-id", 0o444),
    ("var/lib/dpkg/lock", 0o640),
    ("var/lib/dpkg/status-old", 0o644),
    ("var/lib/dpkg/available", 0o644),
    ("var/lib/dpkg/info/stray", 0o644),
    ("var/lib/dpkg/info/good.secret", 0o644),
    ("var/lib/dpkg/info/unknown.list", 0o644),
    ("var/lib/dpkg/info/good.postrm", 0o600),
    ("var/lib/dpkg/alternatives/stray", 0o644),
    ("var/cache/debconf/config.dat", 0o644),
    ("var/cache/debconf/passwords.dat", 0o600),
    ("var/lib/apt/lists/x", 0o644),
    ("var/lib/ucf/cache/x", 0o644),
    ("var/backups/shadow.bak", 0o600),
    ("var/log/auth.log", 0o640),
    ("var/mail/ann", 0o660),
    ("var/spool/cron/crontabs/root", 0o600),
    ("var/tmp/x", 0o644),
    ("var/lib/postgresql/data", 0o600),
];

const PASSWD: &str = "root:$6$S3CR3T:0:0:S3CR3T admin,room S3CR3T:/root/S3CR3T:/bin/S3CR3T\n\
    daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
    toor:S3CR3T:0:0:S3CR3T:/root:/bin/sh\n\
    robot:S3CR3T:300:300:S3CR3T:/home/S3CR3T:/opt/S3CR3T\n\
    S3CR3T:x:301:301::/:/bin/sh\n\
    ann:S3CR3T:1000:1000:Ann S3CR3T:/home/ann:/bin/bash\n";
const GROUP: &str = "root:S3CR3T:0:\nshadow:x:42:S3CR3T\nrobot:x:300:robot,S3CR3T\n\
    ann:x:1000:S3CR3T\nS3CR3Tgroup:x:1001:\n";
const SHADOW: &str = "root:$6$S3CR3T:19000:0:99999:7:::\nann:$6$S3CR3T:19000::::::\n";

struct Host {
    dir: tempfile::TempDir,
    status: String,
}

impl Host {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, content: &str, mode: u32) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, name: &str, target: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Records this content as the packaged content of a configuration file.
    fn conffile(&mut self, name: &str, packaged: &str) {
        let sum: String = Md5::digest(packaged)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.status += &format!(" /{name} {sum}\n");
    }

    fn new() -> Self {
        let mut host = Self {
            dir: tempfile::tempdir().unwrap(),
            status: "Package: good\nStatus: install ok installed\nArchitecture: all\n\
                Version: 1\nConffiles:\n"
                .to_owned(),
        };
        for dir in [
            "usr/bin",
            "usr/lib",
            "usr/share/zoneinfo/Etc",
            "proc",
            "dev",
        ] {
            fs::create_dir_all(host.path(dir)).unwrap();
        }
        host.link("bin", "usr/bin");
        host.link("lib", "usr/lib");
        for (name, mode) in SITE_FILES {
            host.put(name, &format!("{MARK} {name}\n"), *mode);
        }
        host.put("etc/passwd", PASSWD, 0o644);
        host.put("etc/group", GROUP, 0o644);
        host.put("etc/shadow", SHADOW, 0o640);
        host.put(
            "etc/shells",
            "# S3CR3T\n/bin/sh\n/opt/S3CR3T/sh\n/bin/../../S3CR3T\n",
            0o644,
        );
        let locale = "LANG=C.UTF-8\nPASSWORD=S3CR3T\nLC_ALL=\"a b S3CR3T\"\n# S3CR3T\n";
        host.put("etc/default/locale", locale, 0o644);
        host.put("etc/timezone", "S3CR3T/Place\n", 0o644);
        host.link("etc/localtime", "/etc/S3CR3T");
        host.put("usr/share/base-files/profile", "packaged profile\n", 0o644);
        host.put("usr/share/pam/common-auth", "$auth_primary\n", 0o644);
        host.packages();
        host.put("var/lib/dpkg/status", &host.status, 0o644);
        host
    }

    /// A package with a good configuration file, and others that were tampered with.
    fn packages(&mut self) {
        self.conffile("etc/good.conf", "as packaged\n");
        self.put("etc/good.conf", "as packaged\n", 0o640);
        self.conffile("etc/changed.conf", "as packaged\n");
        self.put("etc/changed.conf", "password=S3CR3T\n", 0o644);
        // A file with its own checksum, recorded under the name of another file.
        let secret = format!("{MARK} target\n");
        self.put("srv/secret", &secret, 0o600);
        for linked in ["etc/linked.conf", "etc/chain.conf"] {
            self.conffile(linked, &secret);
        }
        self.link("etc/linked.conf", "/srv/secret");
        self.link("etc/chain.conf", "linked.conf");
        // A parent folder that was replaced by a link.
        self.put("srv/folder/x.conf", &secret, 0o600);
        self.link("etc/folder", "../srv/folder");
        self.conffile("etc/folder/x.conf", &secret);
        self.conffile("etc/hard.conf", "as packaged\n");
        fs::hard_link(self.path("srv/secret"), self.path("etc/hard.conf")).unwrap();
        self.conffile("etc/fifo.conf", "");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            self.path("etc/fifo.conf"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        self.conffile("etc/directory.conf", "");
        fs::create_dir(self.path("etc/directory.conf")).unwrap();
        self.put(&format!("etc/directory.conf/{MARK}"), "", 0o644);
        self.conffile("etc/missing.conf", "gone\n");
        self.conffile("etc/passwd", PASSWD);
        self.conffile("etc/shadow", SHADOW);
        // Accounts of the site own this file, and the zone does not have these accounts.
        self.conffile("etc/owned.conf", "as packaged\n");
        self.put("etc/owned.conf", "as packaged\n", 0o4755);
        chown(self.path("etc/owned.conf"), Some(1000), Some(1001)).unwrap();

        let list = "/.\n/etc\n/etc/good.conf\n/etc/shipped\n/etc/shipped-link\n/etc/bad-link\n\
            /var/lib/good\n/usr/bin/good\n";
        self.put("var/lib/dpkg/info/good.list", list, 0o644);
        self.put("var/lib/dpkg/info/good.md5sums", "", 0o644);
        fs::create_dir_all(self.path("var/lib/good")).unwrap();
        self.put("var/lib/good/data", MARK, 0o644);
        fs::create_dir_all(self.path("etc/shipped")).unwrap();
        self.put("etc/shipped/site.conf", MARK, 0o644);
        self.link("etc/shipped-link", "/usr/share/good");
        self.link("etc/bad-link", "/srv/S3CR3T");
        self.put(
            "var/lib/dpkg/statoverride",
            "S3CR3T root 755 /x\nroot root 710 /y\n",
            0o644,
        );
        self.put("var/lib/dpkg/alternatives/editor", "auto\n", 0o644);
        self.link("etc/alternatives/editor", "/usr/bin/vi");
        self.link("etc/alternatives/tool", "/opt/S3CR3T/tool");
        self.link("etc/alternatives/sly", "/usr/bin/../../srv/S3CR3T");
        self.link("etc/ssl/certs/hash.0", "site.pem");
        self.link(
            "etc/ssl/certs/local.pem",
            "/usr/local/share/ca-certificates/S3CR3T.crt",
        );
        self.link(
            "etc/ssl/certs/sly.pem",
            "/usr/share/ca-certificates/../../../usr-local-ca/site.crt",
        );
        self.link(
            "etc/ssl/certs/good.pem",
            "/usr/share/ca-certificates/good.crt",
        );
        let certificate = "# S3CR3T\n-----BEGIN CERTIFICATE-----\nQUJD\n\
            -----END CERTIFICATE-----\nS3CR3T\n";
        self.put("usr/share/ca-certificates/good.crt", certificate, 0o644);
    }
}

fn sparse_zone() -> Config {
    let mut config = Config::new("web1".parse().unwrap());
    let spec = model::table::resource("inherit-pkg-dir").unwrap();
    let mut dir = Resource::new(spec);
    dir.set("dir", "/usr").unwrap();
    config.add(dir).unwrap();
    config
}

fn install(host: &Path, root: &Path) -> (Installed, Vec<String>) {
    let mut lines = Vec::new();
    let installed = brand::by_name("native")
        .unwrap()
        .install(&mut InstallRequest {
            config: &sparse_zone(),
            root,
            host_root: host,
            options: &[],
            progress: &mut |line| lines.push(line.to_owned()),
        })
        .unwrap();
    let identity = Identity {
        name: "web1".parse().unwrap(),
        machine_id: "0123456789abcdef0123456789abcdef".to_owned(),
    };
    brand::identity::apply(root, &[], &identity).unwrap();
    (installed, lines)
}

/// Returns every path below `root` whose name, link target or content contains the mark, and the
/// number of checked entries.
fn marked(root: &Path) -> (Vec<PathBuf>, usize) {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            seen += 1;
            let kind = path.symlink_metadata().unwrap().file_type();
            let mut text = path.file_name().unwrap().as_bytes().to_vec();
            if kind.is_symlink() {
                text.extend(fs::read_link(&path).unwrap().as_os_str().as_bytes());
            } else if kind.is_dir() {
                open.push(path.clone());
            } else if kind.is_file() {
                text.extend(fs::read(&path).unwrap());
            }
            if text
                .windows(MARK.len())
                .any(|window| window == MARK.as_bytes())
            {
                found.push(path);
            }
        }
    }
    (found, seen)
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can make a host with several owners");
    }
    root
}

#[test]
fn a_sparse_root_has_no_secret_of_the_host() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    assert!(
        marked(host.dir.path()).0.len() >= SITE_FILES.len(),
        "secrets are there"
    );
    let root = tempfile::tempdir().unwrap();
    let (_, lines) = install(host.dir.path(), root.path());

    let (found, seen) = marked(root.path());
    assert!(seen > 50, "the zone was populated: {seen} entries");
    assert_eq!(found, Vec::<PathBuf>::new());
    for named in [
        "etc/changed.conf",
        "etc/hard.conf",
        "etc/fifo.conf",
        "etc/linked.conf",
    ] {
        let expected = format!("Left out /{named}: ");
        assert!(
            lines.iter().any(|line| line.starts_with(&expected)),
            "{named}: {lines:?}"
        );
    }
}

#[test]
fn a_sparse_root_has_the_files_of_packages() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let root = tempfile::tempdir().unwrap();
    let (installed, _) = install(host.dir.path(), root.path());
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    let meta = |name: &str| {
        let meta = root.path().join(name).symlink_metadata().unwrap();
        (meta.mode() & 0o7777, meta.uid(), meta.gid())
    };

    assert_eq!(read("etc/good.conf"), "as packaged\n");
    assert_eq!(meta("etc/good.conf"), (0o640, 0, 0));
    assert_eq!(
        meta("etc/owned.conf"),
        (0o755, 0, 0),
        "no owner of the site, no set-id"
    );
    assert_eq!(read("etc/profile"), "packaged profile\n");
    assert_eq!(read("etc/default/locale"), "LANG=C.UTF-8\n");
    assert_eq!(read("etc/shells"), "/bin/sh\n");
    assert!(read("etc/pam.d/common-auth").contains("pam_unix.so"));
    assert_eq!(read("etc/hostname"), "web1\n");
    assert!(read("etc/passwd").starts_with("root:x:0:0:root:/root:"));
    assert!(read("etc/passwd").contains("robot:x:300:300::/nonexistent:/usr/sbin/nologin\n"));
    assert!(
        read("etc/shadow")
            .lines()
            .all(|line| line.split(':').nth(1) == Some("*"))
    );
    assert_eq!(meta("etc/shadow"), (0o640, 0, 42));
    let bundle = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
    assert_eq!(read("etc/ssl/certs/ca-certificates.crt"), bundle);
    assert_eq!(read("var/lib/dpkg/status"), host.status, "byte for byte");
    assert_eq!(read("var/lib/dpkg/statoverride"), "root root 710 /y\n");
    assert!(root.path().join("var/lib/dpkg/info/good.list").exists());
    assert!(
        root.path()
            .join("var/lib/dpkg/alternatives/editor")
            .exists()
    );
    let link = |name: &str| fs::read_link(root.path().join(name)).unwrap();
    assert_eq!(link("etc/alternatives/editor"), Path::new("/usr/bin/vi"));
    assert_eq!(link("etc/shipped-link"), Path::new("/usr/share/good"));
    assert_eq!(link("bin"), Path::new("usr/bin"));
    assert_eq!(meta("tmp").0, 0o1777);
    assert_eq!(meta("usr").0, 0o755);
    assert_eq!(fs::read_dir(root.path().join("usr")).unwrap().count(), 0);
    assert_eq!(
        fs::read_dir(root.path().join("var/lib/good"))
            .unwrap()
            .count(),
        0
    );
    assert!(
        installed.left_out >= 5 && installed.files > 15,
        "{installed:?}"
    );
}

#[test]
fn a_host_without_dpkg_gives_a_skeleton() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    fs::remove_dir_all(host.path("var/lib/dpkg")).unwrap();
    let root = tempfile::tempdir().unwrap();
    let (_, lines) = install(host.dir.path(), root.path());
    assert!(
        lines.iter().any(|line| line.contains("minimal skeleton")),
        "{lines:?}"
    );
    assert_eq!(marked(root.path()).0, Vec::<PathBuf>::new());
    for name in [
        "etc/passwd",
        "etc/shadow",
        "etc/nsswitch.conf",
        "var/tmp",
        "proc",
        "usr",
    ] {
        assert!(root.path().join(name).exists(), "{name}");
    }
    assert!(!root.path().join("etc/good.conf").exists());
}

#[test]
fn dpkg_at_work_is_not_copied() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    host.put("var/lib/dpkg/updates/0001", "Package: half\n", 0o644);
    let root = tempfile::tempdir().unwrap();
    let error = brand::by_name("native")
        .unwrap()
        .install(&mut InstallRequest {
            config: &sparse_zone(),
            root: root.path(),
            host_root: host.dir.path(),
            options: &[],
            progress: &mut |_| {},
        })
        .unwrap_err();
    assert!(error.to_string().contains("dpkg is at work"), "{error}");
    assert!(!error.is_usage());
}

#[test]
fn dpkg_at_work_is_waited_for() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    if !is_root() {
        return;
    }
    let host = Host::new();
    host.put("var/lib/dpkg/lock", "", 0o640);
    host.put("var/lib/dpkg/updates/0001", "Package: half\n", 0o644);
    // The layout of struct flock on 64-bit Linux: the helper holds a lock like dpkg's until its
    // standard input ends.
    let hold = "open my $file, '+<', $ARGV[0] or die; \
                my $lock = pack('s s x4 q q l x4', 1, 0, 0, 0, 0); \
                fcntl($file, 6, $lock) or die; \
                $| = 1; print 'held'; <STDIN>; unlink $ARGV[1]";
    let mut dpkg = Command::new("perl")
        .args(["-e", hold])
        .arg(host.dir.path().join("var/lib/dpkg/lock"))
        .arg(host.dir.path().join("var/lib/dpkg/updates/0001"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 4];
    let mut stdout = dpkg.stdout.take().unwrap();
    stdout.read_exact(&mut said).unwrap();
    let mut waits = dpkg.stdin.take();
    let root = tempfile::tempdir().unwrap();
    brand::by_name("native")
        .unwrap()
        .install(&mut InstallRequest {
            config: &sparse_zone(),
            root: root.path(),
            host_root: host.dir.path(),
            options: &[],
            progress: &mut |line| {
                if line.starts_with("Waiting for dpkg") {
                    waits = None;
                }
            },
        })
        .unwrap();
    assert!(waits.is_none(), "it did not wait");
    assert!(dpkg.wait().unwrap().success());
}

#[test]
fn a_root_that_is_not_empty_is_refused() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("x"), "").unwrap();
    let error = brand::by_name("native")
        .unwrap()
        .install(&mut InstallRequest {
            config: &sparse_zone(),
            root: root.path(),
            host_root: host.dir.path(),
            options: &[],
            progress: &mut |_| {},
        })
        .unwrap_err();
    assert!(error.to_string().ends_with("not empty"), "{error}");
}
