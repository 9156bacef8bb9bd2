//! The columns: their names and values.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::process::{Host, Process};
use crate::zones::Zone;

/// A process with all data that its row shows.
#[derive(Debug)]
pub struct Row<'a> {
    /// The process.
    pub process: &'a Process,
    /// The zone of the process.
    pub zone: &'a Zone,
    /// The host whose memory and uptime the percentages refer to.
    pub host: &'a Host,
    /// The names of users by id.
    pub users: &'a BTreeMap<u32, String>,
}

/// A column.
#[derive(Debug)]
pub struct Field {
    /// The names of the column; the first is the one that JSON and help use.
    names: &'static [&'static str],
    /// The header unless -o gives another.
    pub header: &'static str,
    /// True for a column of numbers, which is aligned to the right.
    pub is_number: bool,
    /// Returns the column's text for a process; the text may hold any character.
    pub show: fn(&Row<'_>) -> String,
}

const fn text(
    names: &'static [&'static str],
    header: &'static str,
    show: fn(&Row<'_>) -> String,
) -> Field {
    Field {
        names,
        header,
        is_number: false,
        show,
    }
}

const fn count(
    names: &'static [&'static str],
    header: &'static str,
    show: fn(&Row<'_>) -> String,
) -> Field {
    Field {
        is_number: true,
        ..text(names, header, show)
    }
}

/// Every column, under the names that ps has on Linux and on Solaris.
static FIELDS: &[Field] = &[
    text(&["zone"], "ZONE", |row| row.zone.name.clone()),
    count(&["zoneid"], "ZONEID", |row| row.zone.id.to_string()),
    text(&["label"], "LABEL", |row| {
        let label = row.zone.label.as_deref();
        label.unwrap_or("-").to_owned()
    }),
    count(&["pid"], "PID", |row| row.process.pid.to_string()),
    count(&["ppid"], "PPID", |row| row.process.ppid.to_string()),
    count(&["zpid"], "ZPID", |row| row.process.own_pid.to_string()),
    count(&["pgid", "pgrp"], "PGID", |row| {
        row.process.pgid.to_string()
    }),
    count(&["sid", "sess", "session"], "SID", |row| {
        row.process.sid.to_string()
    }),
    text(&["user", "euser", "uname"], "USER", |row| {
        row.user(row.process.uids[1])
    }),
    text(&["ruser"], "RUSER", |row| row.user(row.process.uids[0])),
    count(&["uid", "euid"], "UID", |row| {
        row.zone.own_id(row.process.uids[1]).to_string()
    }),
    count(&["ruid"], "RUID", |row| {
        row.zone.own_id(row.process.uids[0]).to_string()
    }),
    count(&["gid", "group", "egid", "egroup"], "GID", |row| {
        row.zone.own_id(row.process.gid).to_string()
    }),
    count(&["hostuid"], "HOSTUID", |row| {
        row.process.uids[1].to_string()
    }),
    text(&["s", "state", "stat"], "S", |row| {
        row.process.state.to_string()
    }),
    count(&["c"], "C", |row| (row.tenths_of_cpu() / 10).to_string()),
    count(&["pcpu", "%cpu"], "%CPU", |row| tenths(row.tenths_of_cpu())),
    count(&["pmem", "%mem"], "%MEM", |row| {
        tenths(
            (row.process.rss * 1000)
                .checked_div(row.host.memory)
                .unwrap_or_default(),
        )
    }),
    count(&["rss", "rssize", "rsz"], "RSS", |row| {
        row.process.rss.to_string()
    }),
    count(&["vsz", "vsize"], "VSZ", |row| row.process.vsz.to_string()),
    count(&["nlwp", "thcount"], "NLWP", |row| {
        row.process.threads.to_string()
    }),
    count(&["nice", "ni"], "NI", |row| row.process.nice.to_string()),
    count(&["pri", "priority"], "PRI", |row| {
        row.process.priority.to_string()
    }),
    text(&["tty", "tt", "tname"], "TTY", |row| {
        terminal(row.process.tty)
    }),
    count(&["time", "cputime"], "TIME", |row| {
        clock(row.process.cpu_seconds)
    }),
    count(&["times", "cputimes"], "TIME", |row| {
        row.process.cpu_seconds.to_string()
    }),
    count(&["etime"], "ELAPSED", |row| clock(row.elapsed())),
    count(&["etimes"], "ELAPSED", |row| row.elapsed().to_string()),
    text(&["comm", "ucmd", "ucomm", "fname"], "CMD", |row| {
        row.process.comm.clone()
    }),
    text(&["args", "command", "cmd"], "COMMAND", |row| {
        row.process.args.clone()
    }),
    text(&["cgroup"], "CGROUP", |row| row.process.cgroup.clone()),
];

/// Returns the column with a name.
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.names.contains(&name))
}

/// A process as JSON.
#[derive(Debug, Serialize)]
pub struct Json {
    zone: String,
    zone_id: u32,
    /// The label of the zone; absent for a zone without a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    pid: i32,
    ppid: i32,
    /// The process id in the zone.
    zone_pid: i32,
    pgid: i32,
    sid: i32,
    user: String,
    uid: u32,
    host_uid: u32,
    state: char,
    tty: Option<String>,
    threads: u64,
    nice: i64,
    rss_kib: u64,
    vsz_kib: u64,
    cpu_seconds: u64,
    elapsed_seconds: u64,
    comm: String,
    args: String,
    cgroup: String,
}

impl Row<'_> {
    fn user(&self, host_id: u32) -> String {
        let id = self.zone.own_id(host_id);
        self.users
            .get(&id)
            .cloned()
            .unwrap_or_else(|| id.to_string())
    }

    fn elapsed(&self) -> u64 {
        self.host.uptime.saturating_sub(self.process.started)
    }

    fn tenths_of_cpu(&self) -> u64 {
        (self.process.cpu_seconds * 1000)
            .checked_div(self.elapsed())
            .unwrap_or_default()
    }

    /// Returns all columns as JSON.
    pub fn json(&self) -> Json {
        let process = self.process;
        let tty = Some(terminal(process.tty)).filter(|name| name != NO_TERMINAL);
        Json {
            zone: self.zone.name.clone(),
            zone_id: self.zone.id,
            label: self.zone.label.clone(),
            pid: process.pid,
            ppid: process.ppid,
            zone_pid: process.own_pid,
            pgid: process.pgid,
            sid: process.sid,
            user: self.user(process.uids[1]),
            uid: self.zone.own_id(process.uids[1]),
            host_uid: process.uids[1],
            state: process.state,
            tty,
            threads: process.threads,
            nice: process.nice,
            rss_kib: process.rss,
            vsz_kib: process.vsz,
            cpu_seconds: process.cpu_seconds,
            elapsed_seconds: self.elapsed(),
            comm: process.comm.clone(),
            args: process.args.clone(),
            cgroup: process.cgroup.clone(),
        }
    }
}

fn tenths(number: u64) -> String {
    format!("{}.{}", number / 10, number % 10)
}

/// Returns seconds as `[D-]HH:MM:SS`.
fn clock(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let rest = format!("{:02}:{:02}:{:02}", hours % 24, minutes % 60, seconds % 60);
    if days > 0 {
        format!("{days}-{rest}")
    } else {
        rest
    }
}

const NO_TERMINAL: &str = "?";

/// Returns the name of a terminal for its device number in /proc/PID/stat.
fn terminal(device: u32) -> String {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    match (major, minor) {
        (0, _) => NO_TERMINAL.to_owned(),
        (4, 0..=63) => format!("tty{minor}"),
        (4, _) => format!("ttyS{}", minor - 64),
        (5, 1) => "console".to_owned(),
        (136..=143, _) => format!("pts/{}", (major - 136) * 256 + minor),
        (229, _) => format!("hvc{minor}"),
        _ => format!("{major},{minor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_names_of_its_own() {
        let mut names: Vec<&str> = FIELDS
            .iter()
            .flat_map(|field| field.names)
            .copied()
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn every_column_is_in_the_help() {
        for field in FIELDS {
            let words = crate::args::HELP.split([' ', '\n', ';', ',']);
            let name = field.names[0];
            assert!(words.into_iter().any(|word| word == name), "{name}");
        }
    }

    #[test]
    fn times_and_terminals() {
        assert_eq!(clock(0), "00:00:00");
        assert_eq!(clock(3661), "01:01:01");
        assert_eq!(clock(90061), "1-01:01:01");
        for (device, name) in [
            (0, "?"),
            (1025, "tty1"),
            (1088, "ttyS0"),
            (0x501, "console"),
            (0x8800, "pts/0"),
            (0x8803, "pts/3"),
            (0x0010_8800, "pts/256"),
            (0x0100, "1,0"),
        ] {
            assert_eq!(terminal(device), name, "{device:#x}");
        }
    }

    #[test]
    fn json_has_the_label_of_a_zone_that_has_one() {
        let zone = |label: Option<&str>| Zone {
            name: "web".to_owned(),
            id: 7,
            first_id: 0,
            label: label.map(str::to_owned),
        };
        let json = |zone: &Zone| {
            let row = Row {
                process: &Process::default(),
                zone,
                host: &Host::default(),
                users: &BTreeMap::new(),
            };
            serde_json::to_value(row.json()).unwrap()
        };
        assert_eq!(json(&zone(Some("PUBLIC")))["label"], "PUBLIC");
        assert!(json(&zone(None)).get("label").is_none());
    }

    #[test]
    fn a_share_of_zero_is_not_shown() {
        let process = Process {
            rss: 512,
            cpu_seconds: 5,
            ..Process::default()
        };
        let zone = Zone {
            name: "global".to_owned(),
            id: 0,
            first_id: 0,
            label: None,
        };
        let mut host = Host::default();
        let users = BTreeMap::new();
        let show = |host: &Host, name: &str| {
            let row = Row {
                process: &process,
                zone: &zone,
                host,
                users: &users,
            };
            (find(name).unwrap().show)(&row)
        };
        assert_eq!(show(&host, "pcpu"), "0.0");
        assert_eq!(show(&host, "pmem"), "0.0");
        host.uptime = 40;
        host.memory = 1024;
        assert_eq!(show(&host, "pcpu"), "12.5");
        assert_eq!(show(&host, "c"), "12");
        assert_eq!(show(&host, "pmem"), "50.0");
        assert_eq!(show(&host, "user"), "0");
    }
}
