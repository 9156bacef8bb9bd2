//! Tests zones with programs for another processor architecture than the host's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::Host;

const QEMU: &str = "/usr/bin/qemu-aarch64-static";

/// A handmade arm64 program that writes its architecture and exits with status 7.
fn program() -> Vec<u8> {
    const LENGTH: u32 = 12;
    let text: &[u8; LENGTH as usize] = b"for aarch64\n";
    let code: [u32; 8] = [
        0xd280_0020,               // mov x0, #1
        0x1000_00e1,               // adr x1, text
        0xd280_0002 | LENGTH << 5, // mov x2, #length
        0xd280_0808,               // mov x8, #64 (write)
        0xd400_0001,               // svc #0
        0xd280_00e0,               // mov x0, #7
        0xd280_0ba8,               // mov x8, #93 (exit)
        0xd400_0001,               // svc #0
    ];
    let (start, headers) = (0x40_0000u64, 64 + 56u64);
    let size = headers + 4 * code.len() as u64 + text.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    for word in [2u16, 183] {
        file.extend(word.to_le_bytes());
    }
    file.extend(1u32.to_le_bytes());
    for word in [start + headers, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for word in [64u16, 56, 1, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    // The file has one segment, readable and executable.
    file.extend(1u32.to_le_bytes());
    file.extend(5u32.to_le_bytes());
    for word in [0, start, start, size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    code.iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(text);
    file
}

/// Returns true if each user namespace has its own interpreters, as since Linux 6.7.
fn is_new_enough() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor) >= (6, 7)
}

/// Returns a root with a static busybox for arm64, downloaded from the machine's mirror and kept
/// for the next run.
fn arm64_root() -> Result<PathBuf, String> {
    let cache = std::env::temp_dir().join("zones-test-roots");
    let (made, half) = (cache.join("arm64.tar"), cache.join("arm64.half.tar"));
    if made.exists() {
        return Ok(made);
    }
    fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
    let mut tool = Command::new("mmdebstrap");
    tool.args(["--mode=root", "--variant=extract", "--architectures=arm64"])
        .args(["--include=busybox-static", "bookworm"])
        .arg(&half);
    let ran = tool.output().map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => fs::rename(&half, &made).map_err(|error| error.to_string())?,
        false => return Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
    }
    Ok(made)
}

#[test]
fn programs_for_arm64_run_in_the_zone_and_nowhere_else() {
    let Some(host) = Host::new() else { return };
    if !cfg!(target_arch = "x86_64") || !Path::new(QEMU).exists() {
        return e2e::skip("no qemu-aarch64-static (package qemu-user-static)");
    }
    let tree = host.path("/tree");
    for name in ["bin", "sbin", "etc", "usr"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    for name in ["bin/sh", "sbin/init"] {
        let path = tree.join(name);
        e2e::between_starts(|| fs::write(&path, program())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
    }
    host.zonecfg(&["-z", "arm", "create -t SUNWlx"]).quiet();
    host.zonecfg(&[
        "-z",
        "arm",
        "add attr; set name=init; set type=string; set value=zinit; end",
    ])
    .quiet();
    host.on("arm", &["install", "-d", &tree.to_string_lossy()])
        .quiet();
    // A registration of the host is enough: then the zone needs none.
    let by_host = Path::new("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists();
    if !by_host {
        let plan = host.on("arm", &["boot", "-n"]).ok().out;
        assert!(plan.contains("run programs for aarch64 by"), "{plan}");
        if !is_new_enough() {
            host.on("arm", &["boot"]).mentions(1, "6.7");
            return e2e::skip("the kernel is older than 6.7");
        }
    }
    host.boot("arm");
    let ran = host.zlogin(&["arm", "anything"]);
    assert_eq!(
        (ran.out.as_str(), ran.code()),
        ("for aarch64\n", Some(7)),
        "{ran:?}"
    );
    // The host itself cannot run this program.
    let outside = Command::new(tree.join("bin/sh")).status();
    assert_eq!(outside.is_ok(), by_host, "{outside:?}");
    host.halt("arm");
}

#[test]
fn a_root_for_arm64_boots_its_own_init() {
    let Some(host) = Host::new() else { return };
    if e2e::left_to_long_runs("a root is downloaded") {
        return;
    }
    if !Path::new(QEMU).exists() || !is_new_enough() {
        return e2e::skip("no qemu-aarch64-static, or a kernel older than 6.7");
    }
    let root = match arm64_root() {
        Ok(root) => root,
        Err(why) => return e2e::skip(&format!("no arm64 root: {why}")),
    };
    host.zonecfg(&["-z", "arm", "create -t SUNWlx"]).quiet();
    let _ = host
        .on("arm", &["install", "-a", &root.to_string_lossy()])
        .ok();
    let busybox = |name: &str, text: &str| {
        host.put_program("arm", name, format!("#!/bin/busybox sh\n{text}"));
    };
    busybox(
        "sbin/init",
        "trap 'exit 0' PWR INT\nwhile :; do /bin/busybox sleep 1000 & wait $!; done\n",
    );
    busybox("bin/sh", "exec /bin/busybox sh \"$@\"\n");
    host.boot("arm");
    assert_eq!(host.sh("arm", "/bin/busybox uname -m"), "aarch64");
    host.on("arm", &["shutdown"]).quiet();
    host.clone_from("arm", "arm2");
    host.boot("arm2");
    assert_eq!(host.sh("arm2", "/bin/busybox hostname"), "arm2");
    host.halt("arm2");
}
