//! Sets System V IPC limits, which are settings of an IPC namespace. Only a process in the
//! namespace can write these settings, and the zone's root must not.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use model::controls::{Control, IpcLimits};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sys::bpf::instruction;
use sys::process::ns;

use crate::changed::{Applied, Changed, Warning};
use crate::process::First;
use crate::{Error, ZoneCgroups};

/// Maximum number of identifiers of one kind (IPCMNI).
const MAX_IDS: u64 = 32_768;

/// The System V IPC limits of a new IPC namespace.
const SHM_BYTES: u64 = u64::MAX - (1 << 24);
const SHM_IDS: u64 = 4_096;
const MSG_IDS: u64 = 32_000;
const SEM_IDS: u64 = 32_000;

/// Maximum length of a message of the child process, in bytes.
const MAX_MESSAGE_BYTES: u64 = 4_096;

/// A setting of an IPC namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    control: Control,
    file: &'static str,
    /// The value, in the unit of the file.
    value: u64,
}

/// Changes the System V IPC limits; see [`crate::process::change`].
pub(crate) fn change(
    cgroups: &ZoneCgroups,
    first: First<'_>,
    old: &IpcLimits,
    new: &IpcLimits,
) -> Result<Changed, Error> {
    let page = rustix::param::page_size() as u64;
    let mut changed = Changed::default();
    if old != new {
        let wanted = differences(old, new, page);
        if let Err(error) = write_in_zone(first, &wanted) {
            let _ = write_in_zone(first, &differences(new, old, page));
            return Err(error);
        }
        if *old == IpcLimits::default() {
            changed.warnings.extend(guard(cgroups));
        }
    }
    for (control, effective) in in_force(first, new)? {
        changed.applied.push(Applied {
            control,
            requested: get(new, control).unwrap_or_default(),
            effective,
        });
    }
    Ok(changed)
}

/// Returns the effective values of the limits that are set.
///
/// # Errors
/// Fails with [`Error::Process`] if the zone's namespace cannot be entered.
pub(crate) fn effective(first: First<'_>, set: &IpcLimits) -> Result<IpcLimits, Error> {
    let shown = in_force(first, set)?;
    let of = |wanted| {
        let found = shown.iter().find(|(control, _)| *control == wanted);
        found.and_then(|(_, value)| *value)
    };
    Ok(IpcLimits {
        shm_memory: of(Control::MaxShmMemory),
        shm_ids: of(Control::MaxShmIds),
        msg_ids: of(Control::MaxMsgIds),
        sem_ids: of(Control::MaxSemIds),
    })
}

fn in_force(first: First<'_>, set: &IpcLimits) -> Result<Vec<(Control, Option<u64>)>, Error> {
    let page = rustix::param::page_size() as u64;
    let settings = differences(&IpcLimits::default(), set, page);
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let shown = read_in_zone(first, &settings)?;
    // Two files hold one limit: the sum of their numbers.
    let settings = settings.iter().zip(shown);
    let settings = settings.filter(|(setting, _)| setting.file != "shmmax");
    Ok(settings
        .map(|(setting, shown)| {
            let unit = if setting.file == "shmall" { page } else { 1 };
            let value = shown.map(|value| value.saturating_mul(unit));
            (setting.control, value)
        })
        .collect())
}

const fn get(limits: &IpcLimits, control: Control) -> Option<u64> {
    match control {
        Control::MaxShmMemory => limits.shm_memory,
        Control::MaxShmIds => limits.shm_ids,
        Control::MaxMsgIds => limits.msg_ids,
        _ => limits.sem_ids,
    }
}

/// Returns the settings that differ.
fn differences(old: &IpcLimits, new: &IpcLimits, page: u64) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut add = |control, file, old: Option<u64>, new: Option<u64>, value: u64| {
        if old != new {
            settings.push(Setting {
                control,
                file,
                value,
            });
        }
    };
    let bytes = new.shm_memory.unwrap_or(SHM_BYTES).min(SHM_BYTES);
    let ids = |limit: Option<u64>, default: u64| limit.unwrap_or(default).min(MAX_IDS);
    // The value is rounded down to whole pages, so that the zone never gets more than its limit.
    let pages = if new.shm_memory.is_some() {
        bytes / page
    } else {
        bytes
    };
    let (memory, before) = (new.shm_memory, old.shm_memory);
    add(Control::MaxShmMemory, "shmmax", before, memory, bytes);
    add(Control::MaxShmMemory, "shmall", before, memory, pages);
    add(
        Control::MaxShmIds,
        "shmmni",
        old.shm_ids,
        new.shm_ids,
        ids(new.shm_ids, SHM_IDS),
    );
    add(
        Control::MaxMsgIds,
        "msgmni",
        old.msg_ids,
        new.msg_ids,
        ids(new.msg_ids, MSG_IDS),
    );
    add(
        Control::MaxSemIds,
        "sem",
        old.sem_ids,
        new.sem_ids,
        ids(new.sem_ids, SEM_IDS),
    );
    settings
}

fn path(file: &str) -> String {
    format!("/proc/sys/kernel/{file}")
}

/// Writes one setting in the IPC namespace of the calling process.
fn write(setting: &Setting) -> io::Result<()> {
    let path = path(setting.file);
    let text = if setting.file == "sem" {
        // The last of the four numbers in this file is the limit on semaphore sets.
        let shown = fs::read_to_string(&path)?;
        let mut words: Vec<&str> = shown.split_ascii_whitespace().take(3).collect();
        let sets = setting.value.to_string();
        words.push(&sets);
        words.join(" ")
    } else {
        setting.value.to_string()
    };
    fs::write(path, text)
}

fn write_in_zone(first: First<'_>, settings: &[Setting]) -> Result<(), Error> {
    let control = settings
        .first()
        .map_or(Control::MaxShmMemory, |setting| setting.control);
    let said = in_zone(first, control, || {
        // Since Linux 6.9 these files belong to the root of the namespace's owner, before that to
        // the host's root.
        let written = settings.iter().try_for_each(write);
        match written {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                become_owner(first.owner)?;
                settings.iter().try_for_each(write)?;
            }
            other => other?,
        }
        Ok(String::new())
    })?;
    debug_assert!(said.is_empty());
    Ok(())
}

/// Returns the effective settings, in the order of the request.
fn read_in_zone(first: First<'_>, settings: &[Setting]) -> Result<Vec<Option<u64>>, Error> {
    let control = settings
        .first()
        .map_or(Control::MaxShmMemory, |setting| setting.control);
    let said = in_zone(first, control, || {
        let mut text = String::new();
        for setting in settings {
            let shown = fs::read_to_string(path(setting.file))?;
            let last = shown.split_ascii_whitespace().next_back();
            text.push_str(last.unwrap_or("-"));
            text.push('\n');
        }
        Ok(text)
    })?;
    let numbers: Vec<Option<u64>> = said.lines().map(|line| line.parse().ok()).collect();
    Ok((0..settings.len())
        .map(|place| numbers.get(place).copied().flatten())
        .collect())
}

/// Returns the System V IPC objects that a zone uses.
///
/// # Errors
/// Fails with [`Error::Process`] if the zone's namespace cannot be entered.
pub(crate) fn usage(first: First<'_>) -> Result<IpcLimits, Error> {
    let said = in_zone(first, Control::MaxShmMemory, || {
        let mut numbers = Vec::new();
        for file in ["shm", "msg", "sem"] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{file}"))?;
            let rows = table.lines().skip(1);
            if file == "shm" {
                // The fields of a line: key, id, mode, size.
                let size = |row: &str| row.split_ascii_whitespace().nth(3)?.parse::<u64>().ok();
                let sum = rows.clone().filter_map(size).fold(0, u64::saturating_add);
                numbers.push(sum.to_string());
            }
            numbers.push(rows.count().to_string());
        }
        Ok(numbers.join("\n"))
    })?;
    let mut numbers = said.lines().map(|line| line.parse().ok());
    let mut next = || numbers.next().flatten();
    Ok(IpcLimits {
        shm_memory: next(),
        shm_ids: next(),
        msg_ids: next(),
        sem_ids: next(),
    })
}

fn become_owner(owner: u32) -> io::Result<()> {
    let user = rustix::fs::Uid::from_raw(owner);
    Ok(rustix::thread::set_thread_res_uid(user, user, user)?)
}

/// Runs `body` in the zone's IPC namespace and returns its result. A child process runs `body`,
/// because a process that has joined the namespace cannot return with its former rights. If the
/// caller has several threads, a new thread runs `body` instead, and ends afterwards.
fn in_zone(
    first: First<'_>,
    control: Control,
    body: impl Fn() -> io::Result<String> + Sync,
) -> Result<String, Error> {
    let fail = |why: String| Error::Process { control, why };
    let enter = || -> io::Result<String> {
        sys::namespace::join(first.pidfd, ns::IPC)?;
        body()
    };
    // fork waits for the end of other threads, and fails if they do not end.
    if sys::thread_count().is_ok_and(|count| count != 1) {
        return std::thread::scope(|scope| scope.spawn(enter).join())
            .map_err(|_| fail("a thread ended unexpectedly".to_owned()))?
            .map_err(|error| fail(error.to_string()));
    }
    match in_child(first.pidfd, &enter) {
        Err(error) => Err(fail(error.to_string())),
        Ok(said) => match said.split_at_checked(1) {
            Some(("+", said)) => Ok(said.to_owned()),
            Some((_, why)) => Err(fail(why.to_owned())),
            None => Err(fail("a process ended unexpectedly".to_owned())),
        },
    }
}

/// Runs `body` in a child process. The child sends its result after a "+", or an error after a "-".
fn in_child(pidfd: BorrowedFd<'_>, body: &dyn Fn() -> io::Result<String>) -> io::Result<String> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    let child = sys::process::fork(0, None, &[pidfd, theirs.as_fd()], || {
        let said = match body() {
            Ok(text) => format!("+{text}"),
            Err(error) => format!("-{error}"),
        };
        u8::from(rustix::io::write(&theirs, said.as_bytes()).is_err())
    })?;
    drop(theirs);
    let mut said = String::new();
    let read = fs::File::from(ours)
        .take(MAX_MESSAGE_BYTES)
        .read_to_string(&mut said);
    let _ = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    read.map(|_| said)
}

/// Protects the limits from the zone's root, who owns these settings since Linux 6.9. A BPF program
/// refuses all writes to these settings. The program stays attached until the zone halts.
fn guard(cgroups: &ZoneCgroups) -> Option<Warning> {
    let attached = cgroups.open_v2().and_then(|group| {
        sys::bpf::attach_sysctl_filter(group.as_fd(), &program())
            .map_err(Error::file("set sysctl rules of", cgroups.v2()))
    });
    attached.err().map(|error| Warning {
        control: Control::MaxShmMemory,
        text: format!(
            "root in the zone may change the limits on IPC: {}",
            crate::flatten(&error)
        ),
    })
}

const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const STORE_LONG: u8 = 0x7a;
const ADD: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MOVE_IMMEDIATE: u8 = 0xb7;
const MOVE: u8 = 0xbf;

/// The arguments are those of bpf_sysctl_get_name: context, buffer, length of the buffer, flags.
const GET_NAME: i32 = 101;

/// Returns the program that refuses writes to `kernel/shm*`, `kernel/msg*` and `kernel/sem*`.
///
/// The kernel calls the program with r1 pointing to `struct bpf_sysctl`, whose first word tells if
/// the access is a write. The return value 1 allows the access.
fn program() -> Vec<u64> {
    let word = |text: &[u8; 4]| i32::from_le_bytes(*text);
    let half = |text: &[u8; 2]| i32::from(i16::from_le_bytes(*text));
    vec![
        /* 0 */ instruction(LOAD_WORD, 2, 1, 0, 0),
        /* 1 */ instruction(JUMP_EQUAL, 2, 0, 17, 0),
        /* 2 */ instruction(STORE_LONG, 10, 0, -16, 0),
        /* 3 */ instruction(STORE_LONG, 10, 0, -8, 0),
        /* 4 */ instruction(MOVE, 2, 10, 0, 0),
        /* 5 */ instruction(ADD, 2, 0, 0, -16),
        /* 6 */ instruction(MOVE_IMMEDIATE, 3, 0, 0, 16),
        /* 7 */ instruction(MOVE_IMMEDIATE, 4, 0, 0, 0),
        /* 8 */ instruction(CALL, 0, 0, 0, GET_NAME),
        /* 9 */ instruction(LOAD_WORD, 2, 10, -16, 0),
        /* 10 */ instruction(JUMP_NOT_EQUAL, 2, 0, 8, word(b"kern")),
        /* 11 */ instruction(LOAD_WORD, 2, 10, -12, 0),
        /* 12 */ instruction(LOAD_HALF, 3, 10, -8, 0),
        /* 13 */ instruction(JUMP_EQUAL, 2, 0, 4, word(b"el/m")),
        /* 14 */ instruction(JUMP_NOT_EQUAL, 2, 0, 4, word(b"el/s")),
        /* 15 */ instruction(JUMP_EQUAL, 3, 0, 5, half(b"hm")),
        /* 16 */ instruction(JUMP_EQUAL, 3, 0, 4, half(b"em")),
        /* 17 */ instruction(JUMP, 0, 0, 1, 0),
        /* 18 */ instruction(JUMP_EQUAL, 3, 0, 2, half(b"sg")),
        /* 19 */ instruction(MOVE_IMMEDIATE, 0, 0, 0, 1),
        /* 20 */ instruction(EXIT, 0, 0, 0, 0),
        /* 21 */ instruction(MOVE_IMMEDIATE, 0, 0, 0, 0),
        /* 22 */ instruction(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(old: &IpcLimits, new: &IpcLimits) -> Vec<(&'static str, u64)> {
        differences(old, new, 4096)
            .iter()
            .map(|setting| (setting.file, setting.value))
            .collect()
    }

    #[test]
    fn settings_are_those_that_differ() {
        let none = IpcLimits::default();
        let new = IpcLimits {
            shm_memory: Some(1 << 20),
            sem_ids: Some(5),
            msg_ids: Some(1_000_000),
            ..none
        };
        assert_eq!(
            settings(&none, &new),
            [
                ("shmmax", 1 << 20),
                ("shmall", 256),
                ("msgmni", MAX_IDS),
                ("sem", 5)
            ]
        );
        assert_eq!(
            settings(&new, &none),
            [
                ("shmmax", SHM_BYTES),
                ("shmall", SHM_BYTES),
                ("msgmni", MSG_IDS),
                ("sem", SEM_IDS)
            ]
        );
        assert!(settings(&new, &new).is_empty());
    }

    #[test]
    fn the_instructions() {
        let text = sys::bpf::listing::extended(&program());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_jump_of_the_program_lands_in_it() {
        let code = program();
        for (at, word) in code.iter().enumerate() {
            let opcode = (word & 0xff) as u8;
            if !matches!(opcode, JUMP | JUMP_EQUAL | JUMP_NOT_EQUAL) {
                continue;
            }
            let target = at + 1 + (word >> 16 & 0xffff) as usize;
            // The target of a jump: a test, "admit" or "refuse".
            assert!(target < code.len(), "{at} to {target}");
            assert!(matches!(target, 18 | 19 | 21), "{at} to {target}");
        }
    }
}
