//! Gives a running machine more processors and memory, up to the limits of its start.
//!
//! Linux uses a new processor or new memory only after someone in the guest has switched it on;
//! [`SWITCH_ON`] is the script for it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Error;
use crate::machine::{MEMORY_SLOTS, PART, Room};
use crate::parts;
use crate::qmp::Monitor;

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// A shell script that makes a guest with Linux use all processors and memory of its machine. New
/// memory becomes usable in pieces, and each piece has a file. The guest's kernel makes the files
/// some time after the machine got the part, so the script looks for three seconds. It ends sooner
/// after it has switched something on.
pub const SWITCH_ON: &str = r#"
on() {
    for file in /sys/devices/system/$1; do
        read -r state <"$file" && [ "$state" = "$2" ] && echo "$3" >"$file" && did=yes
    done
}
did=
for turn in 1 2 3 4 5 6 7 8 9 10; do
    before=$did did=
    on 'memory/memory*/state' offline online
    on 'cpu/cpu[0-9]*/online' 0 1
    [ -n "$before" ] && [ -z "$did" ] && break
    did=$before$did
    sleep 0.3
done 2>/dev/null
:"#;

/// Returns the most processors and memory of the machine that QEMU made from a command line; `None`
/// if the command line does not have the expected options.
#[must_use]
pub fn room<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Room> {
    let (mut cpus, mut memory) = (None, None);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word {
            "-smp" => cpus = words.next().and_then(|text| limit(text, "maxcpus=", 1)),
            "-m" => {
                memory = words
                    .next()
                    .and_then(|text| limit(text, "maxmem=", 1 << 20));
            }
            _ => {}
        }
    }
    Some(Room {
        cpus: u32::try_from(cpus?).ok()?,
        memory: memory?,
    })
}

/// Returns the limit with this name in an option, or the first number if it has no limit, in units of
/// `unit` bytes.
fn limit(text: &str, name: &str, unit: u64) -> Option<u64> {
    let number = |text: &str| text.trim_end_matches('M').parse::<u64>().ok();
    let mut parts = text.split(',');
    let first = parts.next()?;
    let most = parts.find_map(|part| part.strip_prefix(name));
    number(most.unwrap_or(first))?.checked_mul(unit)
}

/// Adds processors until the machine has this number. A processor never leaves a running machine: an
/// emulated one cannot have more new processors than it has places, even if others left before.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU. Some processors may have been added.
pub fn add_processors(monitor: &mut Monitor, wanted: u32) -> Result<(), Error> {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let said = monitor.execute("query-hotpluggable-cpus", None, COMMAND_TIMEOUT)?;
    let all: Vec<Value> = parts::list(&said).cloned().collect();
    let mut present = all.iter().filter(|one| !one["qom-path"].is_null()).count();
    let mut free: Vec<&Value> = all.iter().filter(|one| one["qom-path"].is_null()).collect();
    free.sort_by_key(|one| place(&one["props"]));
    let mut free = free.into_iter();
    while present < wanted {
        let Some(one) = free.next() else {
            return Err(parts::refused(
                "device_add",
                "the machine has no place for more processors",
            ));
        };
        let mut device = one["props"].clone();
        device["driver"] = one["type"].clone();
        device["id"] = json!(format!("{PROCESSOR}{present}"));
        monitor.execute("device_add", Some(device), COMMAND_TIMEOUT)?;
        present += 1;
    }
    Ok(())
}

/// Prefix of the names of processors that came while the guest ran.
const PROCESSOR: &str = "part-processor";

/// Prefix of the names of memory that came while the guest ran.
const MEMORY: &str = "part-memory";

/// Returns the order of a processor's place among the places.
fn place(props: &Value) -> [u64; 4] {
    ["socket-id", "die-id", "core-id", "thread-id"].map(|name| props[name].as_u64().unwrap_or(0))
}

/// Returns the size in bytes of all memory of the machine.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn memory(monitor: &mut Monitor) -> Result<u64, Error> {
    let said = monitor.execute("query-memory-size-summary", None, COMMAND_TIMEOUT)?;
    let number = |name: &str| said[name].as_u64().unwrap_or(0);
    Ok(number("base-memory").saturating_add(number("plugged-memory")))
}

/// Changes the size of the memory. The memory of the start of the machine stays. To take memory back,
/// the last additions are removed whole, if the guest releases them.
///
/// # Errors
/// Fails as [`add_processors`] does, and with [`Error::KeptPart`] if the guest does not release memory.
pub fn set_memory(monitor: &mut Monitor, wanted: u64) -> Result<(), Error> {
    let mut present = memory(monitor)?;
    for slot in (0..MEMORY_SLOTS).rev() {
        if present <= wanted {
            break;
        }
        let name = format!("{MEMORY}{slot}");
        if !parts::present(monitor)?.contains(&name) {
            continue;
        }
        parts::unplug(monitor, &name, "added memory")?;
        // The memory of a removed part may be in use for a moment; then the next call removes it.
        let _ = remove_object(monitor, slot);
        present = memory(monitor)?;
    }
    let more = wanted.saturating_sub(present);
    if more == 0 {
        return Ok(());
    }
    let there = parts::present(monitor)?;
    let slot = (0..MEMORY_SLOTS).find(|slot| !there.contains(&format!("{MEMORY}{slot}")));
    let Some(slot) = slot else {
        return Err(parts::refused(
            "device_add",
            "the memory was changed as often as the machine permits",
        ));
    };
    // A killed zoneadmd may have left the memory without its device.
    let _ = remove_object(monitor, slot);
    let memory = json!({
        "qom-type": "memory-backend-ram",
        "id": object(slot),
        "size": more,
    });
    monitor.execute("object-add", Some(memory), COMMAND_TIMEOUT)?;
    let device = json!({
        "driver": "pc-dimm",
        "id": format!("{MEMORY}{slot}"),
        "memdev": object(slot),
    });
    let added = monitor.execute("device_add", Some(device), COMMAND_TIMEOUT);
    if added.is_err() {
        // This error is ignored, because the first error is reported.
        let _ = remove_object(monitor, slot);
    }
    added.map(drop)
}

/// Returns QEMU's name for the memory behind a part.
fn object(slot: u32) -> String {
    format!("more{slot}")
}

fn remove_object(monitor: &mut Monitor, slot: u32) -> Result<(), Error> {
    let what = json!({ "id": object(slot) });
    monitor
        .execute("object-del", Some(what), COMMAND_TIMEOUT)
        .map(drop)
}

// The names of parts that came later have the prefix by which `parts::changed` finds them.
const _: () = assert!(
    PROCESSOR.as_bytes()[0] == PART.as_bytes()[0] && MEMORY.as_bytes()[0] == PART.as_bytes()[0]
);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::parts::tests::qemu;

    #[test]
    fn the_room_of_a_machine_is_in_its_command_line() {
        let of = |line: &'static str| room(line.split(' '));
        let found = |cpus, mib: u64| {
            Some(Room {
                cpus,
                memory: mib << 20,
            })
        };
        let line = "qemu -smp 2,maxcpus=4 -m 512M,slots=8,maxmem=2048M -uuid x";
        assert_eq!(of(line), found(4, 2048));
        assert_eq!(of("qemu -smp 3 -m 64M"), found(3, 64));
        assert_eq!(of("qemu -m 64M"), None);
        assert_eq!(of("qemu -smp x -m 64M"), None);
    }

    #[test]
    fn processors_come_in_the_order_of_their_places() {
        let cpu = |core: u64, there: bool| {
            let mut one = json!({ "type": "max-x86_64-cpu", "props": { "core-id": core } });
            if there {
                one["qom-path"] = json!("/machine/unattached/device[0]");
            }
            one
        };
        static ADDED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let (mut monitor, thread) = qemu(move |command, given| match command {
            "query-hotpluggable-cpus" => Ok(json!([
                cpu(3, false),
                cpu(2, false),
                cpu(1, false),
                cpu(0, true)
            ])),
            "device_add" => {
                let one = format!("{} {}", given["id"].as_str().unwrap(), given["core-id"]);
                ADDED.lock().unwrap().push(one);
                Ok(json!({}))
            }
            _ => Ok(json!({})),
        });
        add_processors(&mut monitor, 3).unwrap();
        assert!(add_processors(&mut monitor, 5).is_err());
        drop(monitor);
        let _ = thread.join().unwrap();
        let added = ADDED.lock().unwrap();
        assert_eq!(added[..2], ["part-processor1 1", "part-processor2 2"]);
    }

    #[test]
    fn memory_that_the_machine_refuses_is_given_back() {
        let (mut monitor, thread) = qemu(|command, _| match command {
            "query-memory-size-summary" => {
                Ok(json!({ "base-memory": 1 << 28, "plugged-memory": 0 }))
            }
            "qom-list" => Ok(json!([{ "name": "part-memory0" }])),
            "device_add" => Err("not enough space"),
            _ => Ok(json!({})),
        });
        let why = set_memory(&mut monitor, 1 << 29).unwrap_err();
        assert_eq!(why.to_string(), "device_add: not enough space");
        set_memory(&mut monitor, 1 << 28).unwrap();
        drop(monitor);
        let told = thread.join().unwrap();
        let added = told.iter().position(|one| one == "object-add").unwrap();
        assert_eq!(
            told[added..added + 3],
            ["object-add", "device_add", "object-del"]
        );
    }
}
