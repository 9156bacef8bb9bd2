//! Adds and removes network cards of a running machine.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use serde_json::json;

use crate::machine::{CARD, card_name, network_name, port_name};
use crate::parts::{self, refused};
use crate::qmp::Monitor;
use crate::{Error, Nic};

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// QEMU's name for the descriptor of a tap, until the card has taken the descriptor.
const TAP: &str = "tap";

/// Adds a network card in its port. `tap` is the tap device of the card. A card that is in the port
/// already is removed first, because a killed zoneadm may have left it there.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU, or with [`Error::KeptPart`] if the guest does
/// not release the card that was in the port. The machine then has no new card.
pub fn add(monitor: &mut Monitor, nic: &Nic, tap: BorrowedFd<'_>) -> Result<(), Error> {
    let Some(port) = nic.port else {
        return Err(refused("device_add", "the network card has no port"));
    };
    remove(monitor, port)?;
    let name = json!({ "fdname": TAP });
    monitor.execute_with("getfd", Some(name.clone()), tap, COMMAND_TIMEOUT)?;
    let network = json!({ "type": "tap", "id": network_name(port), "fd": TAP });
    if let Err(error) = monitor.execute("netdev_add", Some(network), COMMAND_TIMEOUT) {
        // QEMU may have closed the descriptor; the first error is reported.
        let _ = monitor.execute("closefd", Some(name), COMMAND_TIMEOUT);
        return Err(error);
    }
    let device = json!({
        "driver": "virtio-net-pci",
        "id": card_name(port, &nic.mac),
        "bus": port_name(port),
        "netdev": network_name(port),
        "mac": nic.mac,
        "romfile": "",
    });
    let added = monitor.execute("device_add", Some(device), COMMAND_TIMEOUT);
    if added.is_err() {
        // This error is ignored, because the first error is reported.
        let _ = close(monitor, port);
    }
    added.map(drop)
}

/// Removes the network card from a port: asks the guest to release the card, waits for the release,
/// and closes the tap. A port without a card is no error.
///
/// # Errors
/// Fails with [`Error::KeptPart`] if the guest does not release the card in time; a later attempt
/// continues.
pub fn remove(monitor: &mut Monitor, port: u32) -> Result<(), Error> {
    let prefix = format!("{CARD}{port}-");
    let there = parts::present(monitor)?;
    for name in there.iter().filter(|name| name.starts_with(&prefix)) {
        parts::unplug(monitor, name, "the network card")?;
    }
    close(monitor, port)
}

/// Closes the tap of a port that has no card.
fn close(monitor: &mut Monitor, port: u32) -> Result<(), Error> {
    let network = json!({ "id": network_name(port) });
    match monitor.execute("netdev_del", Some(network), COMMAND_TIMEOUT) {
        Err(Error::Refused { why, .. }) if why.contains("not found") => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::parts::tests::qemu;

    fn nic() -> Nic {
        Nic {
            mac: "02:08:20:00:00:01".to_owned(),
            port: Some(3),
        }
    }

    #[test]
    fn a_card_is_added_with_its_tap() {
        let (mut monitor, thread) = qemu(|command, given| match command {
            "qom-list" => Ok(json!([{ "name": "part-card2-020820000001" }])),
            "netdev_del" => Err("Device 'card3' not found"),
            "device_add" => {
                assert_eq!(given["id"], "part-card3-020820000001");
                assert_eq!(
                    (&given["bus"], &given["netdev"]),
                    (&json!("port3"), &json!("card3"))
                );
                Ok(json!({}))
            }
            _ => Ok(json!({})),
        });
        let tap = std::fs::File::open("/dev/null").unwrap();
        add(&mut monitor, &nic(), tap.as_fd()).unwrap();
        drop(monitor);
        let told = thread.join().unwrap();
        let wanted = [
            "qom-list",
            "netdev_del",
            "getfd",
            "netdev_add",
            "device_add",
        ];
        assert_eq!(told[1..], wanted);
    }

    #[test]
    fn a_failed_addition_closes_the_tap() {
        for (fails, last) in [("netdev_add", "closefd"), ("device_add", "netdev_del")] {
            let (mut monitor, thread) = qemu(move |command, _| match command {
                "qom-list" => Ok(json!([])),
                "netdev_del" => Ok(json!({})),
                command if command == fails => Err("no such bus"),
                _ => Ok(json!({})),
            });
            let tap = std::fs::File::open("/dev/null").unwrap();
            let why = add(&mut monitor, &nic(), tap.as_fd()).unwrap_err();
            assert_eq!(why.to_string(), format!("{fails}: no such bus"));
            drop(monitor);
            let told = thread.join().unwrap();
            assert_eq!(told.last().map(String::as_str), Some(last));
        }
    }

    #[test]
    fn a_card_that_the_guest_releases_is_closed() {
        let there = AtomicBool::new(true);
        let (mut monitor, thread) = qemu(move |command, given| match command {
            "qom-list" => Ok(match there.load(Ordering::Relaxed) {
                true => json!([{ "name": "part-card3-020820000001" }]),
                false => json!([]),
            }),
            "device_del" => {
                assert_eq!(given["id"], "part-card3-020820000001");
                there.store(false, Ordering::Relaxed);
                Ok(json!({}))
            }
            _ => Ok(json!({})),
        });
        remove(&mut monitor, 3).unwrap();
        drop(monitor);
        let told = thread.join().unwrap();
        assert_eq!(told.last().map(String::as_str), Some("netdev_del"));
        assert!(told.contains(&"device_del".to_owned()), "{told:?}");
    }
}
