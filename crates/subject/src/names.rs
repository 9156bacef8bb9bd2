//! Sets up name resolution in a zone: `/etc/resolv.conf` and `/etc/hosts`.
//!
//! A zone with addresses of the pool asks the resolver of zones, and another zone with configured
//! addresses asks the host's name servers, unless it has an `/etc/resolv.conf` of its own. `/etc/hosts` maps the zone's name to its addresses, and with the
//! attribute `hosts=zones` also the names of the other zones. These lines are between two marks;
//! the other lines of the file are kept.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use model::Config;
use model::plan::network::{Link, Over};
use model::plan::{InsideStep, ZoneResolver};
use rustix::fs::{CWD, Mode, OFlags, openat};
use store::index::{Entry, Index};

use crate::network::{self, Records};
use host::{Error, Host};

/// First line of an `/etc/resolv.conf` that this program wrote.
const COPIED: &str = "# Copied from the host at each boot. Without this line it is yours.\n";

/// The marks around the lines in `/etc/hosts` that this program writes.
const BEGIN: &str = "# Zones: written at each boot.\n";
const END: &str = "# Zones: end.\n";

/// A query for the IPv4 addresses of `zones.internal` (RFC 1035, section 4).
const QUERY: [u8; 32] = *b"zn\x01\0\0\x01\0\0\0\0\0\0\x05zones\x08internal\0\0\x01\0\x01";

/// Timeout for the answer to one query to the resolver of zones, and the number of queries. A
/// resolver that answers does so in less than 1 ms.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_QUERIES: u32 = 4;

/// Largest file that is copied from the host, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Returns the step that writes the zone's name resolution files; `None` if the zone has no
/// configured address.
///
/// # Errors
/// Fails if the configurations of other zones are wanted and cannot be read.
pub fn plan(
    host: &Host,
    config: &Config,
    links: &[Link],
    index: &Index,
) -> Result<Option<InsideStep>, Error> {
    if links.iter().all(|link| link.addresses.is_empty()) {
        return Ok(None);
    }
    let mut hosts = String::new();
    let mut add = |ip: IpAddr, name: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(hosts, "{ip}\t{name}");
    };
    for link in links {
        for address in &link.addresses {
            add(address.ip, config.name().as_str());
        }
    }
    if config.attr("hosts") == Some("zones") {
        for other in index
            .entries()
            .iter()
            .filter(|other| other.name != *config.name())
        {
            for ip in of_zone(host, other)? {
                add(ip, other.name.as_str());
            }
        }
    }
    let files = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let texts: Vec<String> = texts.collect();
    let server = has_pool(links).then(network::resolver::server).flatten();
    let zones = server.map(|server| {
        let domain = Records::of(&host.root).domain();
        let of_host = texts.first().map(String::as_str).unwrap_or_default();
        ZoneResolver {
            server,
            text: zone_resolver(server, &domain, of_host),
        }
    });
    Ok(Some(InsideStep::Names {
        resolver: texts.iter().find_map(|text| reachable(text)),
        zones,
        hosts,
        sealed: false,
    }))
}

/// Returns true if a link has addresses of the pool.
fn has_pool(links: &[Link]) -> bool {
    let of_pool = |link: &Link| matches!(link.over, Over::Routed { translated, .. } if translated);
    links.iter().any(of_pool)
}

/// Returns the resolv.conf(5) of a zone that asks the resolver of zones at `server`: the domain of
/// the zones comes before the search domains of the host.
fn zone_resolver(server: IpAddr, domain: &str, of_host: &str) -> String {
    let mut search = vec![domain];
    let mut options = String::new();
    for line in of_host.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("search" | "domain") => {
                search.truncate(1);
                search.extend(words);
            }
            Some("options") => {
                options.push_str(line);
                options.push('\n');
            }
            _ => {}
        }
    }
    format!(
        "{COPIED}nameserver {server}\nsearch {}\n{options}",
        search.join(" ")
    )
}

/// Returns the configured addresses of a zone that may not be running.
fn of_zone(host: &Host, entry: &Entry) -> Result<Vec<IpAddr>, Error> {
    let config = store::xml::load(&host.root, &entry.name)?;
    let mut list = network::addresses(&config);
    let anets = config.resources_of("anet");
    let automatic = anets.filter(|anet| anet.get("lower-link") == "auto");
    for (number, _) in (0..).zip(automatic) {
        let of_pool = entry.slot.and_then(|slot| net::pool::of_link(slot, number));
        list.extend(of_pool.into_iter().flatten().map(|one| one.ip));
    }
    Ok(list)
}

/// Returns the lines of a resolv.conf(5) that are valid outside of the host, or `None` if no name
/// server is among them.
fn reachable(text: &str) -> Option<String> {
    let mut kept = COPIED.to_owned();
    let mut servers = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("nameserver"), Some(server)) => {
                let plain = server.split('%').next().unwrap_or(server);
                if plain.parse::<IpAddr>().map_or(true, |ip| ip.is_loopback()) {
                    continue;
                }
                servers = true;
            }
            (Some("search" | "domain" | "options" | "sortlist"), Some(_)) => {}
            _ => continue,
        }
        kept.push_str(line);
        kept.push('\n');
    }
    servers.then_some(kept)
}

/// Writes the files in the zone. A failed write does not stop the boot: the root may be read-only,
/// or full. If the resolver of zones does not answer, the zone gets `resolver`: the host's firewall
/// may drop the queries.
pub fn write(resolver: Option<&str>, zones: Option<&ZoneResolver>, hosts: &str) {
    let zones = zones.filter(|zones| answers(zones.server));
    let resolver = zones.map(|zones| zones.text.as_str()).or(resolver);
    if let Some(resolver) = resolver {
        let path = Path::new("/etc/resolv.conf");
        let own =
            read(path).is_ok_and(|text| !text.is_empty() && !text.starts_with(COPIED.as_bytes()));
        if !own {
            let _ = replace(path, resolver.as_bytes());
        }
    }
    let path = Path::new("/etc/hosts");
    match read(path) {
        Ok(before) => {
            let after = with_block(&before, hosts);
            if after != before {
                let _ = replace(path, &after);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = replace(path, &with_block(b"127.0.0.1\tlocalhost\n", hosts));
        }
        // An object that is not a regular file, or a large file, belongs to the zone and is not
        // changed.
        Err(_) => {}
    }
}

/// Returns true if a DNS server answers a query for the addresses of the zones' domain.
fn answers(server: IpAddr) -> bool {
    let ask = || -> io::Result<bool> {
        let any: IpAddr = match server {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((server, 53))?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        for _ in 0..MAX_QUERIES {
            socket.send(&QUERY)?;
            let mut answer = [0; 512];
            match socket.recv(&mut answer) {
                Ok(length) => return Ok(length >= QUERY.len() && answer[..2] == QUERY[..2]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    };
    ask().unwrap_or(false)
}

/// Opens a file of the zone, without following a symbolic link, and without blocking on a pipe.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(openat(CWD, path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > MAX_SIZE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut text)?;
    Ok(text)
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("zones-new");
    // Only a new file is opened: a pipe that the zone created at this path would block the open.
    let _ = fs::remove_file(&aside);
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = openat(CWD, &aside, flags, Mode::from_raw_mode(0o644))?;
    let mut file = fs::File::from(file);
    file.write_all(text)?;
    // A symbolic link that the zone created stays.
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return fs::remove_file(&aside);
    }
    fs::rename(&aside, path)
}

fn with_block(before: &[u8], hosts: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(before);
    let (head, tail) = match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => (&text[..begin], &text[end + END.len()..]),
        _ => (&*text, ""),
    };
    let mut after = head.to_owned();
    if !after.is_empty() && !after.ends_with('\n') {
        after.push('\n');
    }
    if !hosts.is_empty() {
        after.push_str(BEGIN);
        after.push_str(hosts);
        after.push_str(END);
    }
    after.push_str(tail);
    after.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_at_the_temporary_name_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (hosts, aside) = (dir.path().join("hosts"), dir.path().join("hosts.zones-new"));
        fs::write(&hosts, "old").unwrap();
        rustix::fs::mknodat(
            CWD,
            &aside,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        replace(&hosts, b"new").unwrap();
        assert_eq!(fs::read(&hosts).unwrap(), b"new");
        assert!(fs::symlink_metadata(&aside).is_err());
        // A folder that is not empty stays, and the write does not block.
        fs::create_dir_all(aside.join("x")).unwrap();
        assert!(replace(&hosts, b"newer").is_err());
        assert_eq!(fs::read(&hosts).unwrap(), b"new");
    }

    #[test]
    fn the_block_is_replaced_and_the_rest_stays() {
        let first = with_block(b"127.0.0.1 localhost", "10.0.0.2\tweb\n");
        let expected = format!("127.0.0.1 localhost\n{BEGIN}10.0.0.2\tweb\n{END}");
        assert_eq!(String::from_utf8(first.clone()).unwrap(), expected);
        let mut edited = first;
        edited.extend(b"10.9.9.9 own\n");
        let again = String::from_utf8(with_block(&edited, "10.0.0.3\tweb\n")).unwrap();
        assert_eq!(
            again,
            format!("127.0.0.1 localhost\n{BEGIN}10.0.0.3\tweb\n{END}10.9.9.9 own\n")
        );
        // If an administrator removed one mark, the other lines must stay.
        let torn = with_block(format!("{END}x\n{BEGIN}").as_bytes(), "");
        assert_eq!(String::from_utf8(torn).unwrap(), format!("{END}x\n{BEGIN}"));
    }

    #[test]
    fn the_search_domains_of_the_host_follow_those_of_the_zones() {
        let server = "10.208.0.1".parse().unwrap();
        let text =
            "domain b.example\nsearch a.example c.example\nnameserver 127.0.0.53\noptions edns0\n";
        assert_eq!(
            zone_resolver(server, "zones.internal", text),
            format!(
                "{COPIED}nameserver 10.208.0.1\nsearch zones.internal a.example c.example\noptions edns0\n"
            )
        );
        assert_eq!(
            zone_resolver(server, "zones.internal", ""),
            format!("{COPIED}nameserver 10.208.0.1\nsearch zones.internal\n")
        );
    }

    #[test]
    fn a_port_without_a_server_does_not_answer() {
        // No server has this address of the documentation on the loopback.
        assert!(!answers("127.255.0.53".parse().unwrap()));
    }

    #[test]
    fn name_servers_on_the_hosts_loopback_are_not_copied() {
        let text =
            "# x\nnameserver 127.0.0.53\nnameserver 10.0.0.1\noptions edns0\nsearch a.example\n";
        assert_eq!(
            reachable(text).unwrap(),
            format!("{COPIED}nameserver 10.0.0.1\noptions edns0\nsearch a.example\n")
        );
        assert_eq!(reachable("nameserver ::1\nnameserver 127.0.0.1\n"), None);
    }
}
