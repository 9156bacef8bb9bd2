//! Sets up network namespaces around a host. They are invisible outside of the test, and end with
//! the test.
//!
//! ```text
//!  client ── router ──┐
//!  203.0.113.7   .1   │ 10.0.0.1
//!                     │              ┌── eth0 ┐ 10.0.0.9
//!                   switch ──────────┤        │ global zone
//!                     │              └── eth1 ┘
//!            source ──┘ 10.0.0.2
//! ```
//!
//! IPv6 likewise: fd00::/64 on the switch, 2001:db8:1::/64 behind the router, with the
//! same last numbers.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sys::process::ns;

use crate::run::{Ran, run};
use crate::{skip, wait_for};

/// A network namespace, which ends with its last process and descriptor.
#[derive(Debug)]
pub struct Space(OwnedFd);

impl Space {
    /// Returns the network namespace of a process.
    ///
    /// # Errors
    /// Fails if there is no such process.
    pub fn of(pid: i32) -> io::Result<Self> {
        fs::File::open(format!("/proc/{pid}/ns/net")).map(|file| Self(file.into()))
    }

    fn here() -> io::Result<Self> {
        fs::File::open("/proc/thread-self/ns/net").map(|file| Self(file.into()))
    }

    /// Creates a network namespace whose loopback interface is up.
    ///
    /// # Errors
    /// Fails if the caller is not root.
    pub fn new() -> io::Result<Self> {
        let home = Self::here()?;
        sys::namespace::unshare(ns::NET)?;
        let new = Self::here();
        home.join();
        let new = new?;
        new.within(|| {
            // No other host has these addresses, and the tests do not wait for duplicate address
            // detection.
            for links in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{links}/accept_dad");
                let _ = fs::write(path, "0");
            }
            // A new namespace has the IPv4 settings of the machine, and a machine on which
            // podman or Docker has run forwards packets.
            fs::write("/proc/sys/net/ipv4/ip_forward", "0")?;
            // The value that systemd sets on the machine.
            fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")?;
            sys::link::loopback_up()
        })?;
        Ok(new)
    }

    /// Moves the calling thread into the namespace.
    fn join(&self) {
        sys::namespace::join(self.0.as_fd(), ns::NET).expect("a network namespace");
    }

    /// Calls a function in the namespace. Processes that it starts stay in the namespace.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        let home = Self::here().expect("a network namespace");
        self.join();
        let result = act();
        home.join();
        result
    }

    /// Returns the name of the namespace for ip(8).
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs the commands of ip(8), one per line.
    fn ip(&self, commands: &str) -> Ran {
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]);
        self.within(|| run(&mut ip, commands.as_bytes()))
    }
}

/// The network of a test. The thread that created it is in the global zone's namespace until it is
/// dropped.
#[derive(Debug)]
pub struct Lan {
    home: Space,
    /// The namespace of the switch to which all hosts are connected.
    pub switch: Space,
    /// The namespace of the global zone.
    pub global: Space,
    /// The router between the switch and the client.
    pub router: Space,
    /// A host behind the router.
    pub client: Space,
    /// A host on the switch.
    pub source: Space,
}

impl Lan {
    /// Creates the network. Returns `None`, with a message on standard output, if this machine
    /// cannot have one.
    #[must_use]
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("not root");
            return None;
        }
        for program in ["ip", "nft", "perl"] {
            if !is_installed(program) {
                skip(&format!("there is no program {program}"));
                return None;
            }
        }
        if !fs::exists("/proc/sys/net/ipv6").is_ok_and(|there| there) {
            skip("the kernel has no IPv6");
            return None;
        }
        let space = || Space::new().expect("a network namespace");
        let lan = Self {
            home: Space::here().expect("a network namespace"),
            switch: space(),
            global: space(),
            router: space(),
            client: space(),
            source: space(),
        };
        let made = lan.wire();
        if made.code() != Some(0) && made.err.contains("not supported") {
            skip(&format!("the kernel has no such links: {}", made.err));
            return None;
        }
        let _ = made.ok();
        lan.address();
        lan.global.join();
        Some(lan)
    }

    fn wire(&self) -> Ran {
        let mut commands = "link add sw type bridge mcast_snooping 0\nlink set sw up\n".to_owned();
        for (host, name) in [
            (&self.global, "eth0"),
            (&self.global, "eth1"),
            (&self.router, "lan0"),
            (&self.source, "lan0"),
        ] {
            let port = format!("p{}", commands.lines().count());
            let path = host.path();
            commands.push_str(&format!(
                "link add {port} type veth peer name {name} netns {path}\n\
                 link set {port} master sw up\n"
            ));
        }
        self.switch.ip(&commands)
    }

    fn address(&self) {
        let of_global = "link set eth0 up\n\
             addr add 10.0.0.9/24 dev eth0\naddr add fd00::9/64 dev eth0\n\
             route add default via 10.0.0.1\nroute add ::/0 via fd00::1\n";
        let of_router = format!(
            "link add out0 type veth peer name out0 netns {}\n\
             link set lan0 up\nlink set out0 up\n\
             addr add 10.0.0.1/24 dev lan0\naddr add fd00::1/64 dev lan0\n\
             addr add 203.0.113.1/24 dev out0\naddr add 2001:db8:1::1/64 dev out0\n",
            self.client.path()
        );
        let of_client = "link set out0 up\n\
             addr add 203.0.113.7/24 dev out0\naddr add 2001:db8:1::7/64 dev out0\n\
             route add default via 203.0.113.1\nroute add ::/0 via 2001:db8:1::1\n";
        let of_source = "link set lan0 up\n\
             addr add 10.0.0.2/24 dev lan0\naddr add fd00::2/64 dev lan0\n\
             route add default via 10.0.0.1\nroute add ::/0 via fd00::1\n";
        self.router.within(|| {
            for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                fs::write(format!("/proc/sys/net/{switch}"), "1").expect("a router");
            }
        });
        for (space, commands) in [
            (&self.global, of_global),
            (&self.router, of_router.as_str()),
            (&self.client, of_client),
            (&self.source, of_source),
        ] {
            space.ip(commands).quiet();
        }
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.home.join();
    }
}

/// Returns whether a program is installed on this machine, or unpacked by ./check.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    folders
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from))
        .any(|folder| fs::exists(folder.join(program)).is_ok_and(|there| there))
}

/// Returns the links, addresses, routes and rules of the calling thread's network namespace: a line
/// for each, sorted. Waits until the links have noticed that their other ends exist.
#[must_use]
pub fn face() -> Vec<String> {
    wait_for("links that are ready", || {
        let lines = look();
        is_settled(&lines).then_some(lines)
    })
}

/// Returns whether every link that is up has a carrier, and the link-local address that the kernel
/// assigns then.
fn is_settled(lines: &[String]) -> bool {
    let mut links = lines
        .iter()
        .filter_map(|line| line.strip_prefix("ip -o link show: "));
    links.all(|line| {
        let name = line.split([':', '@']).next().unwrap_or_default();
        // The host's side of a zone's link has no such address.
        let is_other = name == "lo" || name.starts_with("zone");
        let flags = line.split(['<', '>']).nth(1).unwrap_or_default();
        if is_other || !flags.split(',').any(|flag| flag == "UP") {
            return true;
        }
        let addresses = format!("ip -o addr show: {name} ");
        let mut own = lines.iter().filter(|line| line.starts_with(&addresses));
        line.contains(" state UP ")
            && own.any(|line| line.contains(" fe80:") && !line.contains("tentative"))
    })
}

fn look() -> Vec<String> {
    let mut lines = Vec::new();
    for command in [
        "ip -o link show",
        "ip -o addr show",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule show",
        "ip -6 rule show",
        "ip neigh show proxy",
        "ip -6 neigh show proxy",
        "tc qdisc show",
    ] {
        let mut words = command.split(' ');
        let mut program = Command::new(words.next().unwrap_or_default());
        let ran = run(program.args(words), b"").ok();
        let line = |line: &str| match line.split_once(": ") {
            // A link that was in a zone may return with another number.
            Some((number, rest)) if number.parse::<u32>().is_ok() => rest.trim().to_owned(),
            _ => line.trim().to_owned(),
        };
        lines.extend(
            ran.out
                .lines()
                .map(|one| format!("{command}: {}", line(one))),
        );
    }
    lines.sort();
    lines
}

/// Returns the rules of the calling thread's network namespace.
#[must_use]
pub fn rules() -> String {
    run(Command::new("nft").args(["list", "ruleset"]), b"")
        .ok()
        .out
}

/// Loads rules with nft(8) into the calling thread's network namespace.
pub fn set_rules(rules: &str) {
    run(Command::new("nft").args(["-f", "-"]), rules.as_bytes()).quiet();
}

/// Returns the settings below /proc/sys/net, as `path=value`, sorted; without the settings that
/// change by themselves.
#[must_use]
pub fn settings() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from("/proc/sys/net")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // This folder appears with the first NAT rule on this machine.
                if entry.file_name() != "netfilter" {
                    folders.push(path);
                }
            } else if entry.file_name() == "tcp_fastopen_key" {
                // The kernel makes this key when the first program listens with TCP Fast Open, as
                // dnsmasq does.
            } else if let Ok(value) = fs::read_to_string(&path) {
                found.push(format!("{}={}", path.display(), value.trim()));
            }
        }
    }
    found.sort();
    found
}

/// Returns the lines that are in only one of two lists: with `-` if in the first, with `+` if in
/// the second.
#[must_use]
pub fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let only = |mark: &str, of: &[String], not: &[String]| -> Vec<String> {
        let lines = of.iter().filter(|line| !not.contains(line));
        lines.map(|line| format!("{mark} {line}")).collect()
    };
    [only("-", before, after), only("+", after, before)].concat()
}

/// Starts a program of the test with a pipe as its input; see [`crate::peer`].
pub(crate) fn piped(command: &mut Command, input: &[u8]) -> std::process::Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = crate::start(command);
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_vec();
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    child
}
