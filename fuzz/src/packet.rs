//! Packets on the socket of a zoneadmd: requests (`q` and the packet), answers (`a`) and packets of
//! a console's client (`c`). An accepted packet, written and read again, is equal.

use std::fmt::Debug;

use control::protocol::{ConsolePacket, MAX_PACKET, Reply, Request};
use limits::Changed;
use model::controls::Controls;
use model::plan::Init;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns a seed of each kind, and limits of zones that have some.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let init = Init {
        user: 0,
        bound: false,
        path: Some("/sbin/init".into()),
        arguments: vec!["init".to_owned(), "-s".to_owned()],
        environment: vec!["container=zone".to_owned()],
    };
    let mut requests = vec![
        Request::Boot(init),
        Request::Halt,
        Request::Shutdown,
        Request::Console,
        Request::Freeze,
    ];
    let limited = crate::configs::configs().iter().map(Controls::of);
    requests.extend(limited.map(|controls| Request::Controls(Box::new(controls))));
    let answers = [
        Reply::Done,
        Reply::Changed(Changed::default()),
        Reply::Error("zone is already booted".to_owned()),
    ];
    let size = ConsolePacket::Size {
        rows: 24,
        columns: 80,
    };
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    seeds.extend(requests.iter().map(|request| tagged(b'q', &json(request))));
    seeds.extend(answers.iter().map(|answer| tagged(b'a', &json(answer))));
    seeds.extend([size, ConsolePacket::Input(b"ls\r")].map(|packet| tagged(b'c', &packet.write())));
    seeds.sort();
    seeds.dedup();
    seeds
}

fn tagged(tag: u8, packet: &[u8]) -> Vec<u8> {
    [&[tag], packet].concat()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it can be written")
}

/// Checks one packet.
///
/// # Panics
/// Panics if the packet is a finding.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((b'q', packet)) => reads_back::<Request>(packet),
        Some((b'a', packet)) => reads_back::<Reply>(packet),
        Some((b'c', packet)) => {
            if let Some(read) = ConsolePacket::read(packet) {
                assert_eq!(read.write(), packet);
            }
        }
        _ => {}
    }
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(packet: &[u8]) {
    let packet = &packet[..packet.len().min(MAX_PACKET)];
    let Ok(value) = serde_json::from_slice::<T>(packet) else {
        return;
    };
    let again: T = serde_json::from_slice(&json(&value)).expect("what was written can be read");
    assert_eq!(again, value);
}
