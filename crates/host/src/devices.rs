//! The devices of the host that a zone gets: `device match=/dev/snd/*`.
//!
//! The search for a pattern stays in the host's /dev. The search follows symbolic links only to
//! targets in /dev. The search does not enter other file systems, such as /dev/pts and /dev/shm,
//! where any user may write. The zone does not get the host's own node, because the owner of that
//! node has no id in the zone, and /dev cannot be mounted with the zone's ids. Instead, the zone
//! gets its own nodes for the same devices, with the same names and the same permissions. The
//! owners of the zone's nodes are the zone's ids of the same numbers: `root:audio 0660` on the host
//! is `root:audio 0660` in the zone. No change that the zone makes to its nodes changes the host's
//! nodes.
//!
//! The device program of the control group decides if a process can open a node. The program admits
//! only the devices that matched when the zone was booted or changed.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use brand::Platform;
use limits::devices::{self, Device, Kind};
use model::config::IpType;
use model::plan::DeviceNode;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use store::index::IDS_PER_ZONE;

/// The folder of the host's devices.
const DEV: &str = "/dev";

/// The nodes that every zone already has in /dev, either as its own nodes or because they are
/// harmless.
const STANDARD: &[&str] = &[
    "console", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
    "stdout", "tty", "urandom", "zero",
];

/// Maximum number of device nodes that a zone gets.
const MAX_NODES: usize = 1024;

/// The devices that match the patterns.
#[derive(Debug, Default)]
pub struct Found {
    /// The nodes, in the order of their names.
    pub nodes: Vec<DeviceNode>,
    /// A message about the first pattern that matches more devices than `nodes` holds.
    pub too_many: Option<String>,
}

/// Returns the device nodes that match any of the patterns, in the order of their names.
#[must_use]
pub fn nodes(patterns: impl Iterator<Item = String>) -> Vec<DeviceNode> {
    find(patterns).nodes
}

/// Returns the [`nodes`], and a message if more than 1024 nodes match.
#[must_use]
pub fn find(patterns: impl Iterator<Item = String>) -> Found {
    find_at_most(MAX_NODES, patterns)
}

fn find_at_most(most: usize, patterns: impl Iterator<Item = String>) -> Found {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dev) = rustix::fs::openat(CWD, DEV, flags, Mode::empty()) else {
        return Found::default();
    };
    let mut walk = Walk {
        dev,
        most,
        found: BTreeMap::new(),
        full: false,
    };
    let mut too_many = None;
    for pattern in patterns {
        if let Some(parts) = parts(&pattern) {
            walk.follow(&PathBuf::new(), &parts);
        }
        if walk.full && too_many.is_none() {
            too_many = Some(format!(
                "device match={pattern}: too many: the zone has {most} devices at the most, \
                 the first by their names"
            ));
        }
    }
    Found {
        nodes: walk.found.into_values().collect(),
        too_many,
    }
}

/// Returns true if a pattern matches a path below /dev.
#[must_use]
pub fn matches(pattern: &str, path: &Path) -> bool {
    let (Some(wanted), Some(path)) = (parts(pattern), path.to_str().and_then(parts)) else {
        return false;
    };
    let mut pairs = wanted.iter().zip(&path);
    wanted.len() == path.len() && pairs.all(|(wanted, name)| glob(wanted, name))
}

/// Returns the device program that admits the standard devices and the devices of `nodes`.
#[must_use]
pub fn program(platform: &Platform, ip_type: IpType, nodes: &[DeviceNode]) -> Vec<u64> {
    let mut allowed = standard(platform, ip_type);
    allowed.extend(nodes.iter().map(device));
    devices::program(&allowed)
}

/// Returns the devices that every zone of a brand may use.
#[must_use]
pub fn standard(platform: &Platform, ip_type: IpType) -> Vec<Device> {
    let own = platform.devices.iter();
    let mut allowed: Vec<Device> = own
        .map(|device| devices::one(device.major, device.minor))
        .chain(devices::TERMINALS.iter().copied())
        .collect();
    if ip_type == IpType::Exclusive {
        allowed.push(devices::TUN);
    }
    allowed
}

/// Returns the device of a node.
#[must_use]
pub fn device(node: &DeviceNode) -> Device {
    Device {
        kind: if node.block {
            Kind::Block
        } else {
            Kind::Character
        },
        major: node.major,
        minor: Some(node.minor),
    }
}

/// Returns the names in a path below /dev, or `None` for any other path.
fn parts(path: &str) -> Option<Vec<&str>> {
    let below = path.strip_prefix(DEV)?.strip_prefix('/')?;
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    let plain = !parts.iter().any(|part| matches!(*part, "." | ".."));
    (plain && !parts.is_empty()).then_some(parts)
}

/// A search through /dev.
struct Walk {
    dev: OwnedFd,
    most: usize,
    found: BTreeMap<PathBuf, DeviceNode>,
    /// True if more than `most` nodes match.
    full: bool,
}

impl Walk {
    /// Follows `rest`, the rest of a pattern, from the folder `at` below /dev.
    fn follow(&mut self, at: &Path, rest: &[&str]) {
        let Some((first, rest)) = rest.split_first() else {
            return;
        };
        for name in names(&self.dev, at, first) {
            let path = at.join(name);
            if self.full || STANDARD.iter().any(|one| path == Path::new(one)) {
                continue;
            }
            if !rest.is_empty() {
                self.follow(&path, rest);
            } else if let Some(node) = node(self.dev.as_fd(), &path) {
                if self.found.len() < self.most || self.found.contains_key(&path) {
                    self.found.insert(path, node);
                } else {
                    self.full = true;
                }
            }
        }
    }
}

/// Returns the names in a folder that match the pattern, sorted. A pattern without wildcards is
/// itself the only name, even if the folder does not have that name.
fn names(dev: &OwnedFd, at: &Path, pattern: &str) -> Vec<String> {
    if !pattern.contains(['*', '?', '[']) {
        return vec![pattern.to_owned()];
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
    let Some(folder) = open(dev.as_fd(), at, flags) else {
        return Vec::new();
    };
    let Ok(entries) = Dir::read_from(folder) else {
        return Vec::new();
    };
    let name = |name: &CStr| name.to_str().ok().map(str::to_owned);
    let names = entries
        .flatten()
        .filter_map(|entry| name(entry.file_name()));
    let mut names: Vec<String> = names
        .filter(|name| !matches!(name.as_str(), "." | "..") && glob(pattern, name))
        .collect();
    names.sort_unstable();
    names
}

fn node(dev: BorrowedFd<'_>, path: &Path) -> Option<DeviceNode> {
    let node = open(dev, path, OFlags::PATH)?;
    let stat = rustix::fs::fstat(&node).ok()?;
    let block = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => true,
        FileType::CharacterDevice => false,
        _ => return None,
    };
    let id = |id: u32| if id < IDS_PER_ZONE { id } else { 0 };
    Some(DeviceNode {
        path: Path::new(DEV).join(path),
        block,
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
        mode: Mode::from_raw_mode(stat.st_mode).bits() & 0o777,
        uid: id(stat.st_uid),
        gid: id(stat.st_gid),
    })
}

/// Opens a path below /dev, but not on another file system.
fn open(dev: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    sys::root::openat2(dev, path, flags, Mode::empty(), resolve).ok()
}

/// Returns true if a name matches a pattern of `*`, `?` and `[...]`, as in a shell. `[!a-c]`
/// matches any character except a, b and c.
fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Names that begin with a dot are hidden: a `*` does not match the dot.
    if name.first() == Some(&'.') && pattern.first() != Some(&'.') {
        return false;
    }
    // The position after the last `*`, and the number of characters of the name up to the end of
    // the text that this `*` matches. On a mismatch only the last `*` of the pattern matches one
    // more character.
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, seen));
            at += 1;
            continue;
        }
        if let Some(next) = one(&pattern[at..], name[seen]) {
            at += next;
            seen += 1;
            continue;
        }
        let Some((behind, taken)) = star else {
            return false;
        };
        star = Some((behind, taken + 1));
        (at, seen) = (behind, taken + 1);
    }
    pattern[at..].iter().all(|left| *left == '*')
}

/// Matches one character against the start of the pattern, and returns the number of pattern
/// characters that the match used.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let inside = &pattern[1..];
            let (inside, not) = match inside.first() {
                Some('!' | '^') => (&inside[1..], true),
                _ => (inside, false),
            };
            // A `]` directly after the `[` belongs to the set.
            let end = inside.iter().skip(1).position(|one| *one == ']')? + 1;
            let (mut set, mut hit) = (&inside[..end], false);
            while let Some(first) = set.first() {
                if let [from, '-', to, ..] = set {
                    hit |= (*from..=*to).contains(&letter);
                    set = &set[3..];
                } else {
                    hit |= *first == letter;
                    set = &set[1..];
                }
            }
            let length = 1 + usize::from(not) + end + 1;
            (hit != not).then_some(length)
        }
        plain => (*plain == letter).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, good, bad) in [
            ("*", vec!["a", "sda1"], vec![".udev"]),
            ("sd?", vec!["sda"], vec!["sd", "sda1"]),
            ("sd[ab]*", vec!["sda", "sdb12"], vec!["sdc", "sd"]),
            ("sd[!ab]", vec!["sdc"], vec!["sda", "sdcc"]),
            ("tty[0-9]", vec!["tty0", "tty9"], vec!["tty", "ttyS"]),
            ("a*b*c", vec!["abc", "aXbbYc"], vec!["acb", "abcd"]),
            ("[]a]", vec!["]", "a"], vec!["b"]),
            ("[a", vec![], vec!["[a", "a"]),
            ("", vec![""], vec!["a"]),
        ] {
            for name in good {
                assert!(glob(pattern, name), "{pattern} {name}");
            }
            for name in bad {
                assert!(!glob(pattern, name), "{pattern} {name}");
            }
        }
        let slow = "*a".repeat(30);
        assert!(!glob(&slow, &"a".repeat(29)) && glob(&slow, &"a".repeat(31)));
    }

    #[test]
    fn only_paths_below_dev_match() {
        assert!(matches("/dev/snd/*", Path::new("/dev/snd/timer")));
        assert!(!matches("/dev/*", Path::new("/dev/snd/timer")));
        assert!(!matches("/dev/../etc/*", Path::new("/dev/../etc/shadow")));
        for elsewhere in ["/etc/*", "/dev", "/dev/", "/devices/*", "dev/x", ""] {
            assert_eq!(parts(elsewhere), None, "{elsewhere}");
        }
        let found = nodes(
            [
                "/dev/null",
                "/dev/../dev/full",
                "/dev/shm/*",
                "/dev/fd/*",
                "/dev/stdin",
            ]
            .into_iter()
            .map(str::to_owned),
        );
        assert_eq!(found, [], "every zone has those, or they are not devices");
    }

    #[test]
    fn a_pattern_with_too_many_devices_is_cut_and_reported() {
        let patterns = || ["/dev/none*", "/dev/*"].map(str::to_owned).into_iter();
        let all = find(patterns());
        assert_eq!(all.too_many, None);
        let Some(most) = all.nodes.len().checked_sub(1) else {
            return;
        };
        let some = find_at_most(most, patterns());
        assert_eq!(some.nodes.len(), most);
        let said = some.too_many.unwrap();
        assert!(
            said.starts_with("device match=/dev/*: too many: "),
            "{said}"
        );
    }

    #[test]
    fn finds_the_devices_of_this_machine() {
        let found = nodes(["/dev/*".to_owned()].into_iter());
        let has = |path: &Path| found.iter().any(|node| node.path == path);
        // The search leaves out the nodes that every zone has. Most machines have the devices
        // /dev/fuse and /dev/kmsg.
        assert!(!has(Path::new("/dev/null")), "{found:?}");
        let of = |path: &Path| std::fs::symlink_metadata(path).ok();
        let dev = of(Path::new(DEV)).map(|meta| meta.dev());
        for path in ["/dev/fuse", "/dev/kmsg"].map(Path::new) {
            // The test skips a path that is a link or that a container mounted there.
            let is_device = |meta: &std::fs::Metadata| meta.file_type().is_char_device();
            let meta = of(path).filter(|meta| is_device(meta) && Some(meta.dev()) == dev);
            assert!(meta.is_none() || has(path), "{found:?}");
        }
        assert!(found.iter().all(|node| node.path.starts_with("/dev")));
        assert!(found.windows(2).all(|two| two[0].path < two[1].path));
    }
}
