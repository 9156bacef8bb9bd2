//! An example interval for the tests of the output.

use std::sync::Arc;
use std::time::Duration;

use model::controls::{Controls, IpcLimits};
use stat::sample::{
    Counter, Hits, HostSample, Ipc, LinkTraffic, Pressure, Pset, Setting, Stall, Traffic,
};
use stat::{Interval, Sample, ZoneSample};

fn zone(name: &str, id: u32, cpu_usec: u64, memory: u64, setting: Setting) -> ZoneSample {
    ZoneSample {
        name: name.into(),
        id,
        booted: Duration::ZERO,
        at: Duration::ZERO,
        cpu_usec,
        memory: Some(memory),
        swap: Some(memory / 4),
        locked: Some(memory / 100),
        processes: Some(3),
        lwps: Some(4),
        ipc: Some(Ipc {
            shm_memory: 1 << 20,
            shm_ids: 2,
            sem_ids: 1,
            msg_ids: 0,
        }),
        pressure: Some(Pressure {
            cpu: Stall {
                some_usec: cpu_usec / 10,
                full_usec: 0,
            },
            ..Pressure::default()
        }),
        disk: Some(Traffic {
            bytes_in: cpu_usec,
            bytes_out: cpu_usec * 2,
        }),
        network: Some(Traffic {
            bytes_in: cpu_usec * 3,
            bytes_out: cpu_usec * 4,
        }),
        links: [("net0", 1), ("net1", 2)]
            .map(|(name, part)| LinkTraffic {
                name: name.to_owned(),
                traffic: Traffic {
                    bytes_in: cpu_usec * part,
                    bytes_out: cpu_usec * (5 - 2 * part),
                },
            })
            .into(),
        hits: Some(Hits {
            oom_kills: cpu_usec / 1_000_000,
            ..Hits::default()
        }),
        setting: Arc::new(setting),
    }
}

fn zones(seconds: u64) -> Vec<ZoneSample> {
    let shares = |shares: u64| Controls {
        cpu_shares: Some(shares),
        ..Controls::default()
    };
    let web = Setting {
        controls: Controls {
            cpu_cap: Some(25),
            physical: Some(512 << 20),
            swap: Some(1 << 30),
            locked: Some(64 << 20),
            max_lwps: Some(100),
            max_processes: Some(50),
            ipc: IpcLimits {
                shm_memory: Some(256 << 20),
                ..IpcLimits::default()
            },
            ..shares(3)
        },
        ..Setting::default()
    };
    let db = Setting {
        pset: Pset::Dedicated {
            zone: "db".to_owned(),
            cpus: 2,
            least: 1,
            most: 2,
        },
        ..Setting::default()
    };
    let guest = Setting {
        kernel: true,
        ..Setting::default()
    };
    let mut zones = vec![
        zone("web", 3, 200_000 * seconds, 256 << 20, web),
        zone("db", 7, 1_500_000 * seconds, 3 << 30, db),
        zone("web-of-a-long-name", 1000, 0, 31 << 20, Setting::default()),
        zone("guest", 2_147_483_647, 40_000 * seconds, 1 << 30, guest),
    ];
    for zone in &mut zones {
        zone.at = Duration::from_secs(seconds);
    }
    zones
}

fn sample(seconds: u64) -> Sample {
    Sample {
        at: Duration::from_secs(seconds),
        unix: 1_763_674_372 + seconds,
        host: HostSample {
            cpus: 8,
            online: 8,
            busy_usec: 2_000_000 * seconds,
            interrupt_usec: 10_000 * seconds,
            memory: 16 << 30,
            free: 8 << 30,
            chargeable: 7 << 30,
            swap: 8 << 30,
            swap_free: 6 << 30,
            processes: Some(150),
            lwps: Some(300),
            max_processes: Some(32_768),
            max_lwps: Some(32_768),
            lofi: Some(2),
            locked: Some(64 << 20),
            ipc: Some(Ipc::default()),
            max_ipc: Some(Ipc {
                shm_memory: 16 << 30,
                shm_ids: 4_096,
                sem_ids: 32_000,
                msg_ids: 32_000,
            }),
            pressure: None,
            network: Some(Traffic::default()),
        },
        zones_cpu: Some(Counter {
            at: Duration::from_secs(seconds),
            usec: 2_000_000 * seconds,
        }),
        zones: zones(seconds),
        ended: Vec::new(),
        is_inside: false,
        global_shares: None,
    }
}

/// Returns an interval of five seconds on a host with eight CPUs.
pub fn interval() -> Interval {
    Interval::between(&sample(0), &sample(5))
}

/// Returns the same interval on a host with labels.
pub fn labeled_interval() -> Interval {
    let mut interval = interval();
    for row in &mut interval.rows {
        let label = match &*row.name {
            "db" => "CONFIDENTIAL NEED TO KNOW",
            "web" => "PUBLIC",
            "guest" => "0x0005-08-00",
            _ => continue,
        };
        Arc::make_mut(&mut row.setting).label = Some(label.to_owned());
    }
    interval
}

/// Returns the sample of the example host.
pub fn now() -> Sample {
    sample(5)
}
