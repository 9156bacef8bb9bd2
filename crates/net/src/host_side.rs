//! Sets up the host's part of routing for all zones together: forwarding, the host's own addresses
//! in the pool, and the NAT rules. The first zone that needs a part creates it, and the last one
//! removes it. Each time the state is read again, so that settings that an administrator removed
//! are restored.

mod firewall;
mod parts;

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use model::plan::network::{Link, Over, Published, Subnet};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use serde::{Deserialize, Serialize};

use crate::make::PREFIX;
use crate::netlink::Netlink;
use crate::publish::{self, Forward};
use crate::record::Record;
use crate::{pool, request};

pub use firewall::firewall_warnings;
pub use parts::{Part, PartState, parts};

/// The name of the nftables table for zones.
const TABLE: &str = "zones";

/// The settings of the host that were changed, with their former values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The number of the network namespace whose settings were changed.
    pub namespace: u64,
    /// Files below /proc/sys and their former content.
    pub before: Vec<(String, String)>,
    /// True if the host has addresses of the pools.
    pub addressed: bool,
    /// True if the host has the nftables table for zones.
    pub translates: bool,
    /// The rules that were last written to the nftables table.
    #[serde(default)]
    pub rules: String,
}

/// The result of the preparation of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Remarks for the administrator.
    pub remarks: Vec<String>,
    /// True if the host had lost its own address in the pool, and with it the routes to all zones.
    pub lost_address: bool,
}

/// The reason why the host could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file below /proc/sys could not be written.
    #[error("could not write {path}")]
    Setting {
        /// The path of the file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// nft(8) refused the rules, or is not installed.
    #[error("could not set the rules that lend the host's address to zones: {0}")]
    Rules(String),
    /// The host's own address in the pool could not be set.
    #[error("could not give the host its address for zones")]
    Address(#[source] crate::netlink::Refused),
    /// The host's network could not be read through netlink.
    #[error("could not look at the host's network")]
    Host(#[from] io::Error),
    /// The host already has another route to the addresses of the pool.
    #[error(
        "the host has a route to {0}, which is in the addresses of lower-link=auto (10.208.0.0/13, fd7a:6f6e:6573::/64): use another lower-link"
    )]
    Occupied(String),
}

impl Settings {
    /// Adds the record of changes by older programs, which stored it in another file.
    pub fn adopt(&mut self, others: Self) {
        let is_known = |path: &String| self.before.iter().any(|(known, _)| known == path);
        let new: Vec<_> = others
            .before
            .into_iter()
            .filter(|(path, _)| !is_known(path))
            .collect();
        self.before.splice(0..0, new);
        self.namespace = others.namespace;
        self.addressed |= others.addressed;
        self.translates |= others.translates;
    }
}

/// The host settings that several zones need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The names of the links that receive packets for zones.
    uplinks: Vec<String>,
    /// True if the host routes IPv6 for zones.
    v6: bool,
    /// True if the host answers for IPv6 addresses of zones on the uplinks (proxy NDP).
    answers6: bool,
    /// True if zones have addresses of the pool.
    pool: bool,
    /// True if zones publish ports on the host.
    publishes: bool,
}

impl Needs {
    /// Returns the needs of these planned links; Ethernet links need nothing.
    #[must_use]
    pub fn of(links: &[Link]) -> Self {
        let mut needs = Self::default();
        for link in links {
            if let Over::Routed { uplink, translated } = &link.over {
                needs.route(uplink.as_ref(), &link.addresses, *translated);
                needs.publish(&link.published);
            }
        }
        needs
    }

    /// Returns the needs of existing links.
    #[must_use]
    pub fn of_record(record: &Record) -> Self {
        let mut needs = Self::default();
        for held in record.links.iter().filter(|held| held.routed) {
            needs.route(held.uplink.as_ref(), &held.addresses, held.translated);
            needs.publish(&held.published);
        }
        needs
    }

    /// Adds the needs of a link for which the host routes.
    fn route(&mut self, uplink: Option<&String>, addresses: &[Subnet], translated: bool) {
        let v6 = addresses.iter().any(|one| one.ip.is_ipv6());
        self.v6 |= v6;
        self.pool |= translated;
        if let Some(uplink) = uplink {
            self.answers6 |= v6;
            if !self.uplinks.contains(uplink) {
                self.uplinks.push(uplink.clone());
            }
        }
    }

    /// Returns true if the needs include rules of the host's firewall.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.pool || self.publishes
    }

    /// Returns true if zones have addresses of the pool.
    #[must_use]
    pub const fn has_pool(&self) -> bool {
        self.pool
    }

    /// Adds the needs of published ports.
    pub fn publish(&mut self, ports: &[Published]) {
        self.publishes |= !ports.is_empty();
    }

    /// Adds the needs of a suspended zone whose addresses of the pool stay reserved.
    pub fn hold(&mut self) {
        self.pool = true;
    }

    /// Returns true if zones need nothing from the host.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Prepares the host. Each change is added to `settings` and stored with `save` before it is made.
/// `forwards` are the published ports of all zones. The caller must be in the host's network
/// namespace.
///
/// # Errors
/// Fails with the step that could not be done; finished steps are in `settings`.
pub fn prepare<E>(
    needs: &Needs,
    forwards: &[Forward],
    settings: &mut Settings,
    save: &mut dyn FnMut(&Settings) -> Result<(), E>,
) -> Result<Result<Prepared, Error>, E> {
    let work = match plan(needs, forwards, settings) {
        Ok(work) => work,
        Err(error) => return Ok(Err(error)),
    };
    if !work.missing.is_empty() || work.rules.is_some() || !work.settings.is_empty() {
        save(settings)?;
    }
    Ok(work.carry_out())
}

/// The changes that prepare the host.
struct Work {
    kernel: Netlink,
    /// Files below /proc/sys and their new content.
    settings: Vec<(String, &'static str)>,
    /// Addresses of the pool that the host lacks.
    missing: Vec<Subnet>,
    /// The new rules for the nftables table; `None` if the table already has them.
    rules: Option<String>,
    lost_address: bool,
}

/// Returns the necessary changes, and adds to `settings` the changes that [`restore`] must undo.
fn plan(needs: &Needs, forwards: &[Forward], settings: &mut Settings) -> Result<Work, Error> {
    let here = crate::ends::number()?;
    if here != settings.namespace {
        // The former namespace has ended, and its settings have ended with it, so the record starts
        // empty.
        *settings = Settings {
            namespace: here,
            ..Settings::default()
        };
    }
    let kernel = Netlink::open()?;
    let own = kernel.all_addresses()?;
    let wanted = wanted(needs, &kernel, &own)?;
    if needs.v6 {
        // Restoring the host's forwarding later turns it off on every link, so the links that
        // forwarded before are recorded, and forwarding is restored on them.
        remember_forwarding(settings);
    }
    let changes = remember_changes(wanted, settings)?;
    let missing = match needs.pool {
        true => missing(&own),
        false => Vec::new(),
    };
    // Only IPv4 is checked, because a host without IPv6 never has the pool's IPv6 address.
    let lacks_address = missing.iter().any(|one| one.ip.is_ipv4());
    let lost_address = settings.addressed && lacks_address;
    let has_rules = needs.has_rules();
    let rules = has_rules.then(|| ruleset(&opened(settings), forwards));
    let rules = rules.filter(|rules| !is_in_force(rules, settings));
    if lacks_address {
        if let Some(by) = occupied(&kernel)? {
            return Err(Error::Occupied(by));
        }
    }
    settings.addressed |= needs.pool;
    settings.translates |= has_rules;
    if let Some(rules) = &rules {
        settings.rules.clone_from(rules);
    }
    Ok(Work {
        kernel,
        settings: changes,
        missing,
        rules,
        lost_address,
    })
}

/// Returns files below /proc/sys/net, each with the content that zones need.
fn wanted(
    needs: &Needs,
    kernel: &Netlink,
    own: &[(u32, Subnet)],
) -> io::Result<Vec<(String, &'static str)>> {
    let mut forwarding = needs.uplinks.clone();
    if needs.has_rules() {
        forwarding.extend(networks(kernel, own)?);
    }
    let forwards = |uplink| (format!("ipv4/conf/{uplink}/forwarding"), "1");
    let mut wanted: Vec<(String, &str)> = forwarding.iter().map(forwards).collect();
    if needs.answers6 {
        let answers = |uplink| (format!("ipv6/conf/{uplink}/proxy_ndp"), "1");
        wanted.extend(needs.uplinks.iter().map(answers));
    }
    if needs.v6 {
        // A host that forwards IPv6 ignores router advertisements unless accept_ra is 2.
        wanted.extend(listening());
        wanted.push(("ipv6/conf/all/forwarding".to_owned(), "1"));
    }
    Ok(wanted)
}

/// Returns the paths of the files whose content must change, with the new content, and adds their
/// present content to `settings`.
fn remember_changes(
    wanted: Vec<(String, &'static str)>,
    settings: &mut Settings,
) -> Result<Vec<(String, &'static str)>, Error> {
    let mut changes = Vec::new();
    for (name, value) in wanted {
        let path = format!("/proc/sys/net/{name}");
        match fs::read_to_string(&path) {
            Ok(now) if now.trim() == value => {}
            Ok(now) => {
                if !settings.before.iter().any(|(known, _)| *known == path) {
                    settings.before.push((path.clone(), now.trim().to_owned()));
                }
                changes.push((path, value));
            }
            // The file does not exist on a host without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Setting { path, source }),
        }
    }
    Ok(changes)
}

/// Returns the host's own addresses in the pool that the host lacks.
fn missing(own: &[(u32, Subnet)]) -> Vec<Subnet> {
    let is_missing = |wanted: &Subnet| own.iter().all(|(_, one)| one.ip != wanted.ip);
    let mut missing: Vec<Subnet> = pool::of_host().into_iter().filter(is_missing).collect();
    for one in &mut missing {
        one.prefix = if one.ip.is_ipv4() { 32 } else { 128 };
    }
    missing
}

impl Work {
    fn carry_out(self) -> Result<Prepared, Error> {
        for (path, value) in self.settings {
            fs::write(&path, value).map_err(|source| Error::Setting { path, source })?;
        }
        for own in self.missing {
            // Link number 1 is the loopback.
            let done = self.kernel.change(vec![request::address(1, &own, false)]);
            // An error with an IPv6 address is ignored, because a host without IPv6 also works.
            if own.ip.is_ipv4() {
                done.map_err(Error::Address)?;
            }
        }
        let mut remarks = Vec::new();
        if let Some(rules) = self.rules {
            set_rules(&rules)?;
            remarks.extend(firewall_warnings());
        }
        Ok(Prepared {
            remarks,
            lost_address: self.lost_address,
        })
    }
}

/// Replaces the nftables table for zones in one transaction, so that the rules are never missing.
fn set_rules(rules: &str) -> Result<(), Error> {
    nft(&format!(
        "table inet {TABLE} {{}}\ndelete table inet {TABLE}\n{rules}"
    ))
}

/// Returns true if the nftables table has as many rules as were last written to it.
#[must_use]
pub fn has_rules(settings: &Settings) -> bool {
    matches!(number_of_rules(), Ok(number) if number == count(&settings.rules))
}

/// Returns true if these rules were last written to the nftables table, and no rule has been
/// removed since.
fn is_in_force(rules: &str, settings: &Settings) -> bool {
    rules == settings.rules && has_rules(settings)
}

/// Rewrites the rules if the published ports of all zones, `forwards`, have changed. `save` stores
/// the settings before the change. The caller must be in the host's network namespace, and a zone
/// must need the rules.
///
/// # Errors
/// Fails with the error of nft(8).
pub fn publish<E>(
    forwards: &[Forward],
    settings: &mut Settings,
    save: &mut dyn FnMut(&Settings) -> Result<(), E>,
) -> Result<Result<(), Error>, E> {
    if !settings.translates {
        return Ok(Ok(()));
    }
    let rules = ruleset(&opened(settings), forwards);
    if is_in_force(&rules, settings) {
        return Ok(Ok(()));
    }
    settings.rules.clone_from(&rules);
    save(settings)?;
    Ok(set_rules(&rules))
}

/// Returns the names of the links that lead to IPv4 networks of the host, and of the link of the
/// route to the internet.
fn networks(kernel: &Netlink, own: &[(u32, Subnet)]) -> io::Result<Vec<String>> {
    let v4 = own.iter().filter(|(_, one)| one.ip.is_ipv4());
    let mut numbers: Vec<u32> = v4.map(|(link, _)| *link).collect();
    numbers.extend(kernel.way_out()?.map(|way| way.link));
    numbers.sort_unstable();
    numbers.dedup();
    let mut names = Vec::new();
    for number in numbers {
        // The link may have been removed since the addresses were read.
        let name = kernel.link_at(number)?.map(|link| link.name);
        names.extend(name.filter(|name| name != "lo" && !name.starts_with(PREFIX)));
    }
    Ok(names)
}

/// Returns the links that forward IPv4 only for zones: before, the host routed nothing between
/// them. Returns no link if the administrator has since turned on forwarding for the whole host.
fn opened(settings: &Settings) -> Vec<&str> {
    let general = fs::read_to_string("/proc/sys/net/ipv4/conf/all/forwarding");
    if general.is_ok_and(|value| value.trim() == "1") {
        return Vec::new();
    }
    let ours = settings.before.iter().filter(|(_, value)| value == "0");
    let mut links: Vec<&str> = ours
        .filter_map(|(path, _)| path.strip_prefix("/proc/sys/net/ipv4/conf/"))
        .filter_map(|rest| rest.strip_suffix("/forwarding"))
        .collect();
    links.sort_unstable();
    links
}

/// Returns the pool's address for the host if the host has another route to it.
fn occupied(kernel: &Netlink) -> io::Result<Option<String>> {
    let usual = kernel.default_routes()?;
    for own in pool::of_host() {
        let Some(way) = kernel.way_to(own.ip)? else {
            continue;
        };
        let routers = usual.get(&way.link);
        let is_usual = routers.is_some_and(|known| match way.router {
            Some(router) => known.contains(&router),
            None => known.is_empty(),
        });
        if !is_usual && !way.local {
            return Ok(Some(own.ip.to_string()));
        }
    }
    Ok(None)
}

/// Records the links that forward IPv6 although the host as a whole does not. They are recorded
/// before the host's own setting, so that they are restored after it.
fn remember_forwarding(settings: &mut Settings) {
    let folder = Path::new("/proc/sys/net/ipv6/conf");
    let is_on = |path: &Path| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1");
    if is_on(&folder.join("all/forwarding")) {
        return;
    }
    for link in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = link.path().join("forwarding");
        let is_ours = link.file_name().to_string_lossy().starts_with(PREFIX);
        let name = path.display().to_string();
        let is_known = settings.before.iter().any(|(known, _)| *known == name);
        if !is_ours && !is_known && is_on(&path) {
            settings.before.push((name, "1".to_owned()));
        }
    }
}

/// Returns the links on which the host accepts router advertisements, with the setting that keeps
/// accepting them.
fn listening() -> Vec<(String, &'static str)> {
    let Ok(links) = fs::read_dir("/proc/sys/net/ipv6/conf") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for link in links.flatten() {
        let name = link.file_name().to_string_lossy().into_owned();
        if name == "all" || name == "default" || name.starts_with(PREFIX) {
            continue;
        }
        let path = link.path().join("accept_ra");
        if fs::read_to_string(path).is_ok_and(|value| value.trim() == "1") {
            found.push((format!("ipv6/conf/{name}/accept_ra"), "2"));
        }
    }
    found
}

/// Undoes all changes of the host's settings. The caller must be in the host's network namespace,
/// and no zone may still need the settings.
///
/// # Errors
/// Fails with a list of all errors.
pub fn restore(settings: &Settings) -> Result<(), Vec<String>> {
    let mut failed = Vec::new();
    if !matches!(crate::ends::number(), Ok(here) if here == settings.namespace) {
        return Ok(());
    }
    // Settings are restored in reverse order, because later changes depend on earlier ones.
    for (path, value) in settings.before.iter().rev() {
        match fs::write(path, value) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                failed.push(format!("could not write {path}: {error}"));
            }
            _ => {}
        }
    }
    if settings.addressed {
        match Netlink::open() {
            Ok(kernel) => {
                let requests = pool::of_host().map(|mut own| {
                    own.prefix = if own.ip.is_ipv4() { 32 } else { 128 };
                    request::no_address(1, &own)
                });
                failed.extend(crate::release::all_gone(&kernel, requests.into()));
            }
            Err(error) => failed.push(format!("could not ask for links: {error}")),
        }
    }
    if settings.translates && !matches!(number_of_rules(), Ok(0)) {
        // The text first creates the table, so that the deletion also succeeds if another program
        // has just deleted the table.
        let gone = format!("table inet {TABLE} {{}}\ndelete table inet {TABLE}\n");
        if let Err(error) = nft(&gone) {
            failed.push(error.to_string());
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed)
    }
}

/// Returns the rules of the nftables table. The links in `opened` forward packets from and to
/// zones, but not between each other.
fn ruleset(opened: &[&str], forwards: &[Forward]) -> String {
    let (v4, v6) = (pool::POOL4, pool::POOL6);
    let (v4, v6) = (format!("{}/{}", v4.0, v4.1), format!("{}/{}", v6.0, v6.1));
    let closed = match opened {
        [] | [_] => String::new(),
        links => {
            let quoted: Vec<String> = links.iter().map(|name| format!("\"{name}\"")).collect();
            let links = quoted.join(", ");
            format!(
                "  chain forward {{
    type filter hook forward priority filter; policy accept;
    meta nfproto ipv4 iifname {{ {links} }} oifname {{ {links} }} drop
  }}
"
            )
        }
    };
    let input = resolver_rules();
    let published = publish::rules(forwards);
    let (maps, own) = (published.chains, published.postrouting);
    format!(
        "table inet {TABLE} {{
  comment \"lends the host's address to zones; see zones(7)\"
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {v4} ip daddr != {v4} oifname != \"{PREFIX}*\" masquerade
    ip6 saddr {v6} ip6 daddr != {v6} oifname != \"{PREFIX}*\" masquerade
{own}  }}
{input}{closed}{maps}}}
"
    )
}

/// Returns the chain that keeps hosts other than zones from the resolver of zones.
fn resolver_rules() -> String {
    let lines = pool::of_host().map(|own| {
        let family = if own.ip.is_ipv4() { "ip" } else { "ip6" };
        format!(
            "    {family} daddr {} meta l4proto {{ tcp, udp }} th dport 53 iifname != \"lo\" iifname \
             != \"{PREFIX}*\" drop\n",
            own.ip
        )
    });
    format!(
        "  chain input {{
    type filter hook input priority filter; policy accept;
{}  }}
",
        lines.concat()
    )
}

/// Returns the number of rules in this text of the nftables table.
fn count(rules: &str) -> usize {
    let words = ["masquerade", "drop"];
    let is_rule =
        |line: &&str| words.iter().any(|word| line.ends_with(word)) || line.contains(" dnat ip");
    rules.lines().filter(is_rule).count()
}

fn nft(rules: &str) -> Result<(), Error> {
    let fail = |why: String| Error::Rules(why);
    let child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => fail("there is no program nft; install nftables".to_owned()),
        _ => fail(error.to_string()),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A write error is ignored: if nft(8) ended early, its own message has the reason.
        let _ = stdin.write_all(rules.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| fail(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().next().unwrap_or("nft failed").trim();
    Err(fail(first.to_owned()))
}

/// Returns the number of rules in the nftables table for zones, or 0 if the table does not exist:
/// NFT_MSG_GETRULE of linux/netfilter/nf_tables.h.
fn number_of_rules() -> io::Result<usize> {
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )?;
    let mut name = TABLE.as_bytes().to_vec();
    name.push(0);
    let attribute = 4 + name.len();
    let length = 16 + 4 + attribute.next_multiple_of(4);
    let mut packet = Vec::with_capacity(length);
    packet.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    // The header: NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE; NLM_F_REQUEST and NLM_F_DUMP; sequence;
    // port.
    packet.extend((10_u16 << 8 | 7).to_ne_bytes());
    packet.extend(0x301_u16.to_ne_bytes());
    packet.extend(1_u32.to_ne_bytes());
    packet.extend(0_u32.to_ne_bytes());
    // The fields of struct nfgenmsg: family inet, version 0, resource 0.
    packet.extend([1, 0, 0, 0]);
    // The attribute NFTA_RULE_TABLE.
    packet.extend(u16::try_from(attribute).unwrap_or(0).to_ne_bytes());
    packet.extend(1_u16.to_ne_bytes());
    packet.extend(name);
    packet.resize(length, 0);
    rustix::net::send(&socket, &packet, SendFlags::empty())?;
    let mut number = 0;
    loop {
        let mut answer = vec![0_u8; 32 * 1024];
        let (length, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
        let mut rest = answer.get(..length).unwrap_or_default();
        while let Some((length, kind)) = header(rest) {
            match kind {
                // NLMSG_ERROR: the kernel has no nftables, or no such table.
                2 => return Err(io::ErrorKind::Unsupported.into()),
                // NLMSG_DONE ends the list.
                3 => return Ok(number),
                // NFT_MSG_NEWRULE: one rule of the list.
                kind if kind == (10 << 8 | 6) => number += 1,
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Returns the length and the type of a netlink message.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (kind, _) = rest.split_first_chunk::<2>()?;
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    (length >= 16).then_some((length, u16::from_ne_bytes(*kind)))
}
