//! Finds the UEFI firmware of this host.
//!
//! Distributions describe each firmware in a small JSON file (docs/interop/firmware.json of QEMU).
//! If two firmwares fit, the one whose file name sorts first is used, as in other programs that
//! follow this specification.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::nvram::{MAX_FILE_BYTES, PAGE};

/// The folders of firmware descriptions, the least important first. A file of the administrator
/// replaces the distribution's file with the same name, and an empty file hides it.
const PLACES: &[&str] = &["/usr/share/qemu/firmware", "/etc/qemu/firmware"];

/// Maximum size in bytes of a firmware description.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 10;

/// Maximum number of firmware descriptions that are read in a folder.
const MAX_DESCRIPTIONS: usize = 256;

/// A firmware that consists of a code file and a template of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The path of the firmware's code, without symbolic links.
    pub code: PathBuf,
    /// The size of the code in bytes.
    pub code_size: u64,
    /// The template of the firmware's variables for a new guest.
    pub template: PathBuf,
    /// The size of the template in bytes.
    pub vars_size: u64,
    /// True if the firmware checks signatures (secure boot), and protects its settings from the
    /// guest by the system management mode of the processor.
    pub secure: bool,
    /// True if the firmware needs the system management mode.
    pub smm: bool,
    /// True if the template contains the keys with which most boot loaders are signed.
    pub enrolled: bool,
    /// Patterns of the machine types that the firmware supports.
    machines: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Description {
    interface_types: Vec<String>,
    mapping: Mapping,
    targets: Vec<Target>,
    #[serde(default)]
    features: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mapping {
    device: String,
    mode: Option<String>,
    executable: Option<Part>,
    nvram_template: Option<Part>,
}

#[derive(Deserialize)]
struct Part {
    filename: PathBuf,
    format: String,
}

#[derive(Deserialize)]
struct Target {
    architecture: String,
    machines: Vec<String>,
}

/// The properties of the firmware that a guest needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// The machine type of the guest.
    pub machine: &'a str,
    /// True if the firmware must check signatures.
    pub secure: bool,
    /// The size in bytes of the guest's existing file of variables.
    pub vars_size: Option<u64>,
}

/// Returns all firmware for x86_64 below `root`, in order of preference. Files that cannot be read
/// or describe another kind of firmware are skipped.
#[must_use]
pub fn all(root: &Path) -> Vec<Firmware> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for place in PLACES {
        let entries = fs::read_dir(below(Path::new(place)));
        for entry in entries
            .into_iter()
            .flatten()
            .flatten()
            .take(MAX_DESCRIPTIONS)
        {
            let name = entry.file_name();
            if Path::new(&name).extension() == Some("json".as_ref()) {
                files.insert(name, entry.path());
            }
        }
    }
    files
        .values()
        .filter_map(|path| {
            let mut text = Vec::new();
            let file = File::open(path).ok()?;
            file.take(MAX_DESCRIPTION_BYTES)
                .read_to_end(&mut text)
                .ok()?;
            firmware(&text, &below)
        })
        .collect()
}

/// Returns the firmware of a description, or `None` if kernel zones cannot use it.
fn firmware(text: &[u8], below: &dyn Fn(&Path) -> PathBuf) -> Option<Firmware> {
    let found: Description = serde_json::from_slice(text).ok()?;
    let has = |feature: &str| found.features.iter().any(|one| one == feature);
    let mapping = found.mapping;
    let is_split = mapping.mode.as_deref().unwrap_or("split") == "split";
    let is_uefi = found.interface_types.iter().any(|one| one == "uefi");
    if mapping.device != "flash" || !is_split || !is_uefi {
        return None;
    }
    let file = |part: Option<Part>| {
        let part = part.filter(|part| part.format == "raw" && part.filename.is_absolute())?;
        let path = fs::canonicalize(below(&part.filename)).ok()?;
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let fits = (1..=MAX_FILE_BYTES).contains(&meta.len()) && meta.len() % PAGE == 0;
        fits.then_some((path, meta.len()))
    };
    let (code, code_size) = file(mapping.executable)?;
    let (template, vars_size) = file(mapping.nvram_template)?;
    let targets = found.targets.into_iter();
    Some(Firmware {
        code,
        code_size,
        template,
        vars_size,
        secure: has("secure-boot") && has("requires-smm"),
        smm: has("requires-smm"),
        enrolled: has("enrolled-keys"),
        machines: targets
            .filter(|target| target.architecture == "x86_64")
            .flat_map(|target| target.machines)
            .collect(),
    })
}

/// Returns the first firmware of `all` that meets the needs of a guest. If signatures are not
/// checked, firmware without the system management mode is preferred, because it starts faster.
#[must_use]
pub fn choose<'a>(all: &'a [Firmware], need: &Need<'_>) -> Option<&'a Firmware> {
    let fits = |one: &&Firmware| {
        let size = need.vars_size.is_none_or(|size| size == one.vars_size);
        size && one.machines.iter().any(|name| matches(name, need.machine))
    };
    let found = || all.iter().filter(fits);
    match need.secure {
        true => found().find(|one| one.secure),
        false => found()
            .find(|one| !one.smm)
            .or_else(|| found().find(|one| !one.enrolled)),
    }
}

/// Returns the firmware whose template contains the keys with which most boot loaders are signed.
#[must_use]
pub fn enrolled(all: &[Firmware]) -> Option<&Firmware> {
    all.iter().find(|one| one.enrolled && one.secure)
}

/// Returns true if a pattern with stars matches a machine type.
fn matches(pattern: &str, machine: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == machine,
        Some((begin, "")) => machine.starts_with(begin),
        Some((begin, rest)) => machine.strip_prefix(begin).is_some_and(|tail| {
            // The recursion is cheap, because patterns have few stars and names are short.
            (0..=tail.len()).any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))
        }),
    }
}

/// Returns the message that no firmware meets the need.
#[must_use]
pub fn missing(need: &Need<'_>) -> String {
    format!(
        "no UEFI firmware{} for machines of type {}{} is described in {}: install the package ovmf (edk2-ovmf)",
        if need.secure { " with secure boot" } else { "" },
        need.machine,
        match need.vars_size {
            Some(size) => format!(" that keeps {size} bytes"),
            None => String::new(),
        },
        PLACES.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn description(code: &str, template: &str, features: &str) -> String {
        format!(
            r#"{{ "description": "a firmware", "interface-types": ["uefi"],
            "mapping": {{ "device": "flash",
                "executable": {{ "filename": "/fw/{code}", "format": "raw" }},
                "nvram-template": {{ "filename": "/fw/{template}", "format": "raw" }} }},
            "targets": [ {{ "architecture": "x86_64", "machines": ["pc-q35-*"] }} ],
            "features": [{features}], "tags": [] }}"#
        )
    }

    fn host() -> tempfile::TempDir {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        for dir in ["fw", "usr/share/qemu/firmware", "etc/qemu/firmware"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        fs::write(at("fw/code"), [0; 8192]).unwrap();
        fs::write(at("fw/vars"), [0; 4096]).unwrap();
        let secure = r#""secure-boot", "requires-smm""#;
        for (name, features) in [
            ("40-ms", format!(r#"{secure}, "enrolled-keys""#)),
            ("50-secure", secure.to_owned()),
            ("60-plain", String::new()),
        ] {
            let text = description("code", "vars", &features);
            let path = format!("usr/share/qemu/firmware/{name}.json");
            fs::write(at(&path), text).unwrap();
        }
        host
    }

    fn need(secure: bool) -> Need<'static> {
        Need {
            machine: "pc-q35-7.2",
            secure,
            vars_size: None,
        }
    }

    #[test]
    fn the_first_matching_firmware_by_name_is_chosen() {
        let host = host();
        let all = all(host.path());
        assert_eq!(all.len(), 3);
        assert_eq!(choose(&all, &need(true)), Some(&all[0]));
        assert_eq!(choose(&all, &need(false)), Some(&all[2]));
        assert_eq!(choose(&all[..2], &need(false)), Some(&all[1]));
        assert_eq!(enrolled(&all), Some(&all[0]));
        assert_eq!((all[0].code_size, all[0].vars_size), (8192, 4096));
        for other in [
            Need {
                machine: "pc-i440fx-7.2",
                ..need(false)
            },
            Need {
                vars_size: Some(8192),
                ..need(false)
            },
        ] {
            assert_eq!(choose(&all, &other), None);
        }
        assert!(missing(&need(true)).contains("secure boot"));
    }

    #[test]
    fn the_administrator_hides_what_the_distribution_has() {
        let host = host();
        let hidden = host.path().join("etc/qemu/firmware/40-ms.json");
        fs::write(hidden, "").unwrap();
        assert_eq!(all(host.path()).len(), 2);
    }

    #[test]
    fn unusable_firmware_descriptions_are_skipped() {
        let host = host();
        let below = |path: &Path| host.path().join(path.strip_prefix("/").unwrap());
        let good = description("code", "vars", "");
        assert!(firmware(good.as_bytes(), &below).is_some());
        for (from, to) in [
            ("flash", "memory"),
            ("\"uefi\"", "\"bios\""),
            ("raw", "qcow2"),
            ("/fw/vars", "/fw/none"),
            ("/fw/vars", "fw/vars"),
            ("/fw/vars", "/fw"),
            ("\"device\"", "\"mode\": \"combined\", \"device\""),
            ("}", ""),
        ] {
            let bad = good.replace(from, to);
            assert!(firmware(bad.as_bytes(), &below).is_none(), "{from} {to}");
        }
        fs::write(host.path().join("fw/vars"), [0; 4097]).unwrap();
        assert!(firmware(good.as_bytes(), &below).is_none());
    }

    #[test]
    fn patterns_are_those_of_shells() {
        assert!(matches("pc-q35-*", "pc-q35-7.2") && matches("pc-*-7.2", "pc-q35-7.2"));
        assert!(matches("pc-q35-7.2", "pc-q35-7.2") && matches("*", "x"));
        assert!(!matches("pc-q35-*", "pc-i440fx-7.2") && !matches("pc-*-8", "pc-q35-7.2"));
    }

    proptest! {
        #[test]
        fn any_description_is_read_without_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = firmware(&text, &|path| path.to_owned());
        }
    }
}
