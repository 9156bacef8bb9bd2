//! Makes a tiny UEFI program, signs it, and makes a disk that boots it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::run;
use crate::skip;

/// The files that the tests of UEFI firmware need, each with its package.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/share/qemu/firmware/60-edk2-x86_64.json", "ovmf"),
    ("/usr/bin/sbsign", "sbsigntool"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/mcopy", "mtools"),
];

/// Returns true if all needed files exist; otherwise prints the missing ones.
#[must_use]
pub fn has_tools() -> bool {
    let missing = NEEDED.iter().find(|(file, _)| !Path::new(file).exists());
    if let Some((file, package)) = missing {
        skip(&format!("{file} is not there (package {package})"));
    }
    missing.is_none()
}

/// A program that writes a text on the serial line, and then a dot repeatedly.
#[must_use]
pub fn program(says: &str) -> Vec<u8> {
    // rsi points to the text, and each of its bytes is written.
    let mut code = b"\x48\x8d\x35\x32\0\0\0\xac\x84\xc0\x74\x07\xe8\x15\0\0\0\xeb\xf4".to_vec();
    // The program waits for ten timer interrupts, and then writes a dot.
    code.extend(b"\xb9\x0a\0\0\0\xf4\xff\xc9\x75\xfb\xb0\x2e\xe8\x02\0\0\0\xeb\xed");
    // A byte is written to port 0x3f8 when port 0x3fd reports free space. An earlier byte would be
    // lost on a busy host.
    code.extend(b"\x88\xc4\x66\xba\xfd\x03\xec\xa8\x20\x74\xfb\x66\xba\xf8\x03\x88\xe0\xee\xc3");
    code.extend(b"\r\n");
    code.extend(says.as_bytes());
    code.extend(b"\r\n\0");
    assert!(code.len() <= 0x200, "too long for one block");
    let mut file = vec![0; 0x400];
    let mut put = |at: usize, what: &[u8]| file[at..at + what.len()].copy_from_slice(what);
    put(0, b"MZ");
    put(0x3c, &[0x40]);
    // Returns an x86_64 program with one section, and an optional header of 240 bytes.
    put(0x40, b"PE\0\0\x64\x86\x01");
    put(0x54, &[0xf0, 0, 0x2e, 0x02]);
    put(0x58, &[0x0b, 0x02]);
    put(0x58 + 4, &0x200_u32.to_le_bytes());
    put(0x58 + 16, &0x1000_u32.to_le_bytes());
    put(0x58 + 20, &0x1000_u32.to_le_bytes());
    put(0x58 + 32, &0x1000_u32.to_le_bytes());
    put(0x58 + 36, &0x200_u32.to_le_bytes());
    put(0x58 + 56, &0x2000_u32.to_le_bytes());
    put(0x58 + 60, &0x200_u32.to_le_bytes());
    // The optional header: an EFI application, and sixteen empty data directories.
    put(0x58 + 68, &[10]);
    put(0x58 + 108, &[16]);
    let section = 0x58 + 240;
    put(section, b".text");
    for (at, value) in [
        (8, 0x200_u32),
        (12, 0x1000),
        (16, 0x200),
        (20, 0x200),
        (36, 0xe000_0020),
    ] {
        put(section + at, &value.to_le_bytes());
    }
    put(0x200, &code);
    file
}

/// Makes a new key and its certificate in `dir`.
#[must_use]
pub fn key(dir: &Path) -> (PathBuf, PathBuf) {
    let (key, certificate) = (dir.join("key.pem"), dir.join("cert.pem"));
    let mut make = Command::new("/usr/bin/openssl");
    make.args(["req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes"]);
    make.args(["-subj", "/CN=a test/", "-days", "30", "-keyout"]);
    make.arg(&key).arg("-out").arg(&certificate);
    let _ = run(&mut make, b"").ok();
    (key, certificate)
}

/// Signs a program.
///
/// # Panics
/// Panics if the program cannot be written.
#[must_use]
pub fn sign(program: &[u8], (key, certificate): &(PathBuf, PathBuf)) -> Vec<u8> {
    let (plain, signed) = (key.with_extension("efi"), key.with_extension("signed"));
    fs::write(&plain, program).expect("a program");
    let mut sign = Command::new("/usr/bin/sbsign");
    sign.arg("--key").arg(key).arg("--cert").arg(certificate);
    sign.arg("--output").arg(&signed).arg(&plain);
    let _ = run(&mut sign, b"").ok();
    fs::read(signed).expect("a signed program")
}

/// Makes the image of a disk whose EFI system partition has a program as its loader.
///
/// # Panics
/// Panics if the image cannot be written.
pub fn disk(path: &Path, program: &[u8]) {
    let loader = path.with_extension("efi");
    fs::write(&loader, program).expect("a program");
    let mut table = vec![0; 8 << 20];
    table[446 + 4] = 0xef;
    table[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&12288_u32.to_le_bytes());
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(path, table).expect("a disk");
    let at = format!("{}@@1M", path.display());
    fill(&at, "12288", &loader.to_string_lossy());
}

/// Makes the image of a CD that only UEFI firmware can boot (El Torito).
///
/// # Panics
/// Panics if the image cannot be written.
pub fn cd(path: &Path, program: &[u8]) {
    const SECTOR: usize = 2048;
    let (loader, system) = (path.with_extension("efi"), path.with_extension("fat"));
    fs::write(&loader, program).expect("a program");
    fs::write(&system, vec![0; 1440 << 10]).expect("a file system");
    let loader = loader.to_string_lossy().into_owned();
    let at = system.to_string_lossy().into_owned();
    fill(&at, "2880", &loader);
    let mut image = vec![0; 20 * SECTOR];
    let mut put = |at: usize, what: &[u8]| image[at..at + what.len()].copy_from_slice(what);
    put(16 * SECTOR, b"\x01CD001\x01");
    put(17 * SECTOR, b"\x00CD001\x01EL TORITO SPECIFICATION");
    put(17 * SECTOR + 0x47, &19_u32.to_le_bytes());
    put(18 * SECTOR, b"\xffCD001\x01");
    // The checksum makes the sum of all words zero: 0xef01 + 0xaa55 + 0x66aa.
    put(19 * SECTOR, &[1, 0xef]);
    put(19 * SECTOR + 28, b"\xaa\x66\x55\xaa");
    // The boot entry: bootable, no emulation, 2880 blocks from sector 20.
    put(19 * SECTOR + 32, &[0x88, 0, 0, 0, 0, 0, 0x40, 0x0b, 20]);
    // The volume size is in the header in both byte orders.
    let sectors = u32::try_from(20 + (1440 << 10) / SECTOR).expect("a size");
    put(16 * SECTOR + 80, &sectors.to_le_bytes());
    put(16 * SECTOR + 84, &sectors.to_be_bytes());
    put(16 * SECTOR + 128, &[0, 8, 8, 0]);
    image.extend(fs::read(&system).expect("a file system"));
    fs::write(path, image).expect("a CD");
}

/// Makes a file system with a boot loader.
fn fill(at: &str, blocks: &str, loader: &str) {
    for words in [
        vec!["mformat", "-i", at, "-T", blocks, "::"],
        vec!["mmd", "-i", at, "::EFI", "::EFI/BOOT"],
        vec!["mcopy", "-i", at, loader, "::EFI/BOOT/BOOTX64.EFI"],
    ] {
        let mut tool = Command::new(words[0]);
        tool.args(&words[1..]);
        let _ = run(&mut tool, b"").ok();
    }
}
