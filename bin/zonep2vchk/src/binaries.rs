//! Finds programs that use functions which a zone does not have, by the names of functions in their
//! files.
//!
//! A program that is linked to a library contains the name of each library function that it uses. A
//! name in a program does not prove that the program needs the function: a finding is a question to
//! the administrator.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::report::{Check, Finding, Section};
use crate::system::{System, base};

/// Maximum number of bytes that are read of a program file.
const MAX_SIZE: u64 = 256 << 20;

/// Maximum depth of folders that are searched.
const MAX_DEPTH: usize = 40;

/// Functions and their purposes.
const FUNCTIONS: &[(&str, &str)] = &[
    ("init_module", "loads kernel modules"),
    ("finit_module", "loads kernel modules"),
    ("delete_module", "unloads kernel modules"),
    ("kmod_module_insert_module", "loads kernel modules"),
    ("kmod_module_probe_insert_module", "loads kernel modules"),
    ("kexec_load", "replaces the kernel"),
    ("swapon", "adds swap space"),
    ("swapoff", "removes swap space"),
    ("settimeofday", "sets the clock"),
    ("clock_settime", "sets the clock"),
    ("stime", "sets the clock"),
    ("adjtimex", "sets the clock"),
    ("ntp_adjtime", "sets the clock"),
    ("clock_adjtime", "sets the clock"),
    ("iopl", "drives hardware itself"),
    ("ioperm", "drives hardware itself"),
    ("quotactl", "sets quotas of file systems"),
    ("acct", "accounts processes for the whole kernel"),
    ("ped_device_get", "partitions disks"),
    ("dm_task_create", "makes device-mapper devices"),
    (
        "pcap_open_live",
        "listens on networks: needs ip-type=exclusive",
    ),
    ("bpf_prog_load", "loads programs into the kernel"),
    ("bpf_object__load", "loads programs into the kernel"),
];

/// Checks the programs at these paths and in the folders below them.
pub fn check(system: &System, paths: &[PathBuf]) -> Result<Check, String> {
    let mut findings = Vec::new();
    for path in paths {
        let text = path.to_string_lossy();
        if system.is_folder(path) {
            folder(system, &text, 0, &mut findings);
        } else if system.file(&text).is_some() {
            program(system, &text, &mut findings);
        } else {
            return Err(format!("{text}: no such file or directory"));
        }
    }
    let section = Section::new(
        "programs",
        "The following programs use facilities that a zone does not have:",
        findings,
    );
    Ok(Check {
        name: "static",
        sections: if section.findings.is_empty() {
            Vec::new()
        } else {
            vec![section]
        },
    })
}

fn folder(system: &System, path: &str, depth: usize, findings: &mut Vec<Finding>) {
    if depth > MAX_DEPTH {
        return;
    }
    for name in system.names(path) {
        let inner = format!("{}/{name}", path.trim_end_matches('/'));
        if system.is_folder(Path::new(&inner)) {
            folder(system, &inner, depth + 1, findings);
        } else {
            program(system, &inner, findings);
        }
    }
}

fn program(system: &System, path: &str, findings: &mut Vec<Finding>) {
    // The C library contains the names of all these functions and needs none of them.
    if ["libc.so", "libc.musl", "ld-"]
        .iter()
        .any(|library| base(path).starts_with(library))
    {
        return;
    }
    let Some(file) = system.file(path) else {
        return;
    };
    let mut bytes = Vec::new();
    if file.take(4).read_to_end(&mut bytes).is_err() || bytes != b"\x7fELF" {
        return;
    }
    let Some(file) = system.file(path) else {
        return;
    };
    if file.take(MAX_SIZE).read_to_end(&mut bytes).is_err() {
        return;
    }
    for (name, does) in named(&bytes) {
        findings.push(Finding::new(path, format!("{does} ({name})")));
    }
}

/// Returns the functions of the table whose names the file contains, each once.
fn named(bytes: &[u8]) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for word in bytes.split(|byte| *byte == 0) {
        // A word that is longer than every name in the table is not compared.
        if word.len() > 40 {
            continue;
        }
        for pair in FUNCTIONS {
            if pair.0.as_bytes() == word && !found.contains(pair) {
                found.push(*pair);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_by_what_they_name() {
        let tree = tempfile::tempdir().unwrap();
        let opt = tree.path().join("opt/deep/er");
        fs::create_dir_all(&opt).unwrap();
        fs::write(
            opt.join("clock"),
            b"\x7fELF..\0puts\0clock_settime\0clock_settime\0",
        )
        .unwrap();
        fs::write(opt.join("script"), b"#!/bin/sh\0swapon\0").unwrap();
        fs::write(opt.join("libc.so.6"), b"\x7fELF\0swapon\0").unwrap();
        fs::write(opt.join("harmless"), b"\x7fELF\0xswapon\0swaponx\0").unwrap();
        std::os::unix::fs::symlink("/opt", opt.join("loop")).unwrap();
        let system = System::open(tree.path()).unwrap();
        let check = check(&system, &["/opt".into(), "/opt/deep/er/clock".into()]).unwrap();
        let findings = &check.sections[0].findings;
        assert_eq!(
            findings[..],
            [Finding::new(
                "/opt/deep/er/clock",
                "sets the clock (clock_settime)"
            )]
        );
        assert!(super::check(&system, &["/nowhere".into()]).is_err());
        assert!(
            super::check(&system, &["/opt/deep/er/harmless".into()])
                .unwrap()
                .sections
                .is_empty()
        );
    }
}
