//! Labels of zones at their links: the sender's guard writes the label into the mark of each
//! packet, and a program at the receiver's link compares it with the receiver's own label.
//!
//! A label has a number from 1 to 127 on this host. The upper byte of the mark (`skb->mark`) is
//! reserved for labels; see docs/labels.md:
//!
//! | bits | content |
//! |---|---|
//! | 24 to 30 | the number of the sender's label; 0 for packets of the host and from outside |
//! | 31 | an answer from a multilevel port |
//!
//! The kernel clears the mark of a packet that leaves a network namespace, so a zone cannot write
//! it. The map [`Addresses`] has the addresses of the host and of the outside, with the set of
//! labels of each, and the addresses of the zones with labels, in the set [`ZONE`].

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use Condition::{AnyOf, Equal, Greater, Less, NotEqual};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R10};
use Width::{Byte, Half, Word};
use model::plan::network::{MultilevelPort, Transport};
use sys::bpf::{self, Assembler, Condition, Label, Prefixes, Register, Width};

use super::Reason;
use super::frame::{at, context, ethernet, half, helper, next, word};
use super::ipv4::OFFSET;
use super::program::{Builder, TC_ACT_OK, TC_ACT_SHOT};

/// The largest number of a label.
pub const MAX_NUMBER: u8 = 127;
/// Mask of the bits of the mark that hold the number of a label.
const NUMBER: u32 = 0x7f00_0000;
const NUMBER_SHIFT: u32 = 24;
/// The bit of the mark for an answer from a multilevel port.
const ANSWER: u32 = 0x8000_0000;
/// The bits of the mark that other programs may use.
const OTHERS: u32 = 0x00ff_ffff;
/// The number in a set that says: the address is a zone's.
pub const ZONE: u8 = 0;

/// The name of the map in the kernel.
const NAME: &str = "zone_labels";

/// Offsets on the stack of a key of the map, and of parts of a frame.
const KEY: i16 = -24;
const KEY_ADDRESS: i16 = KEY + 4;
const PART: i16 = -32;
/// Length of the longest prefix of a key, in bits.
const WHOLE: i32 = 128;

/// First byte of an IPv4 header without options.
const PLAIN_HEADER: u32 = 0x45;
/// Type and length of the option of a jumbo payload, the only option of IPv6 that the kernel itself
/// writes into packets of zones (BIG TCP).
const JUMBO: u16 = 0xc204;
/// Offsets of TCP's flags from the TCP header, and the flags.
const FLAGS: i16 = 13;
const SYN: u32 = 0x02;
const SYN_OR_ACK: u32 = 0x12;
/// Offset of the sender's IP address in an ARP frame.
const ARP_SENDER: i16 = 28;

/// The map of the addresses that zones with labels may talk to.
#[derive(Debug)]
pub struct Addresses(Prefixes);

impl Addresses {
    /// Opens the map with this id; makes an empty one if it does not exist any more.
    ///
    /// # Errors
    /// Fails with the error of bpf(2): `EPERM` without CAP_BPF.
    pub fn open_or_make(id: u32) -> io::Result<Self> {
        match Prefixes::open(id, NAME) {
            Ok(map) => Ok(Self(map)),
            Err(_) => Prefixes::new(NAME).map(Self),
        }
    }

    /// Opens the map with this id.
    ///
    /// # Errors
    /// Fails with `ENOENT` if it does not exist.
    pub fn open(id: u32) -> io::Result<Self> {
        Prefixes::open(id, NAME).map(Self)
    }

    /// Returns the map's id in the kernel.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.0.id()
    }

    /// Makes the map contain these prefixes with their sets of numbers, and no others.
    ///
    /// # Errors
    /// Fails with the error of bpf(2).
    pub fn replace(&self, wanted: &BTreeMap<(IpAddr, u8), u128>) -> io::Result<()> {
        self.0.replace(wanted)
    }
}

/// The label of a link.
#[derive(Clone, Copy, Debug)]
pub struct Labeled<'a> {
    /// The number of the label on this host, 1 to [`MAX_NUMBER`].
    pub number: u8,
    /// The multilevel ports of the zone, which zones and hosts of other labels may reach.
    pub ports: &'a [MultilevelPort],
    /// The addresses of hosts and zones.
    pub addresses: &'a Addresses,
}

impl Labeled<'_> {
    fn mark(&self) -> u32 {
        u32::from(self.number & MAX_NUMBER) << NUMBER_SHIFT
    }
}

/// Loads the program for packets to a zone with a label. The program counts dropped packets in the
/// map `counters`, which is the map of the link's guard.
pub(super) fn load_arrivals(
    labeled: &Labeled<'_>,
    counters: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    bpf::load_classifier(&arrivals(labeled, labeled.addresses.0.as_fd(), counters))
}

impl Labeled<'_> {
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.addresses.0.as_fd()
    }
}

/// The side of a packet whose port is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

/// Assembles the program for packets to a zone with this label.
pub(super) fn arrivals(
    labeled: &Labeled<'_>,
    addresses: BorrowedFd<'_>,
    counters: BorrowedFd<'_>,
) -> Vec<u64> {
    let mut code = Assembler::new();
    let (pass, drop, outside, port) = (code.label(), code.label(), code.label(), code.label());
    code.copy(R6, R1);
    code.load(Word, R2, R6, context::MARK);
    code.copy(R3, R2);
    code.and(R3, NUMBER);
    code.jump_if(R3, Equal, labeled.mark(), pass);
    code.jump_if(R3, Equal, 0, outside);
    code.jump_if(R2, AnyOf, ANSWER, pass);
    code.jump(port);

    code.place(outside);
    let sides = [at::SOURCE4, ARP_SENDER, at::SOURCE6];
    key(&mut code, sides, drop);
    look_up(&mut code, addresses, drop);
    // The address of a zone in a packet from elsewhere is false.
    has(&mut code, ZONE, drop);
    has(&mut code, labeled.number, pass);
    code.place(port);
    if !labeled.ports.is_empty() {
        compare_ports(&mut code, labeled.ports, Side::Target, pass);
    }
    code.place(drop);
    code.address(R1, counters, Reason::Label as usize);
    code.set(R2, 1);
    code.add_atomically(R1, 0, R2);
    code.set(R0, TC_ACT_SHOT);
    code.exit();
    code.place(pass);
    code.set(R0, TC_ACT_OK);
    code.exit();
    code.finish()
}

impl Builder<'_> {
    /// Emits the label of an admitted frame: drops options that can carry a label, drops frames to
    /// addresses that no zone has and that do not have this label, and sets the mark.
    pub(super) fn label(&mut self, labeled: &Labeled<'_>, addresses: BorrowedFd<'_>) {
        let refused = self.drop(Reason::Label);
        let code = &mut self.code;
        let (known, plain, answer) = (code.label(), code.label(), code.label());
        let done = code.label();
        no_options(code, refused);
        let sides = [at::TARGET4, at::ARP_TARGET, at::TARGET6];
        key(code, sides, refused);
        look_up(code, addresses, refused);
        code.set(R7, 1);
        has(code, ZONE, known);
        has(code, labeled.number, known);
        code.set(R7, 0);
        code.place(known);
        if !labeled.ports.is_empty() {
            compare_ports(code, labeled.ports, Side::Source, answer);
        }
        code.jump(plain);
        code.place(plain);
        code.jump_if(R7, Equal, 0, refused);
        set_mark(code, labeled.mark());
        if !labeled.ports.is_empty() {
            code.jump(done);
            code.place(answer);
            set_mark(code, labeled.mark() | ANSWER);
            code.place(done);
        }
    }
}

fn set_mark(code: &mut Assembler, mark: u32) {
    code.load(Word, R2, R6, context::MARK);
    code.and(R2, OTHERS);
    // The cast keeps all 32 bits, and only 32 bits are stored.
    code.add(R2, mark as i32);
    code.store(Word, R6, context::MARK, R2);
}

/// Emits the drop of IPv4 headers with options and of IPv6 options, which can carry a label of
/// CIPSO or CALIPSO.
fn no_options(code: &mut Assembler, refused: Label) {
    let (six, fine) = (code.label(), code.label());
    part(code, at::PROTOCOL, 2, refused);
    code.load(Half, R2, R10, PART);
    code.jump_if(R2, Equal, half(ethernet::IPV6), six);
    code.jump_if(R2, NotEqual, half(ethernet::IPV4), fine);
    part(code, at::PAYLOAD, 1, refused);
    code.load(Byte, R2, R10, PART);
    code.jump_if(R2, NotEqual, PLAIN_HEADER, refused);
    code.jump(fine);
    code.place(six);
    part(code, at::NEXT6, 1, refused);
    code.load(Byte, R2, R10, PART);
    code.jump_if(R2, NotEqual, next::HOP_BY_HOP, fine);
    part(code, at::PAYLOAD6, 8, refused);
    code.load(Byte, R2, R10, PART + 1);
    code.jump_if(R2, NotEqual, 0, refused);
    code.load(Half, R2, R10, PART + 2);
    code.jump_if(R2, NotEqual, half(JUMBO), refused);
    code.place(fine);
}

/// Copies bytes of the frame to the stack. Jumps to `short` if the frame is too short.
fn part(code: &mut Assembler, offset: i16, length: i32, short: Label) {
    bytes(code, offset, PART, length, short);
}

fn bytes(code: &mut Assembler, offset: i16, place: i16, length: i32, short: Label) {
    code.copy(R1, R6);
    code.set(R2, i32::from(offset));
    code.copy(R3, R10);
    code.add(R3, i32::from(place));
    code.set(R4, length);
    code.call(helper::SKB_LOAD_BYTES);
    code.jump_if(R0, NotEqual, 0, short);
}

/// Puts the key of an address of the frame onto the stack. `sides` are the offsets of the address
/// in IPv4, ARP and IPv6. Jumps to `unknown` for frames of other protocols.
fn key(code: &mut Assembler, sides: [i16; 3], unknown: Label) {
    let [four, arp, six] = sides;
    let (is_arp, is_six, mapped, done) = (code.label(), code.label(), code.label(), code.label());
    code.set(R2, WHOLE);
    code.store(Word, R10, KEY, R2);
    part(code, at::PROTOCOL, 2, unknown);
    code.load(Half, R2, R10, PART);
    code.jump_if(R2, Equal, half(ethernet::IPV6), is_six);
    code.jump_if(R2, Equal, half(ethernet::ARP), is_arp);
    code.jump_if(R2, NotEqual, half(ethernet::IPV4), unknown);
    bytes(code, four, KEY_ADDRESS + 12, 4, unknown);
    code.jump(mapped);
    code.place(is_arp);
    bytes(code, arp, KEY_ADDRESS + 12, 4, unknown);
    code.place(mapped);
    code.set(R2, 0);
    code.store(Word, R10, KEY_ADDRESS, R2);
    code.store(Word, R10, KEY_ADDRESS + 4, R2);
    code.set(R2, word(0xffff) as i32);
    code.store(Word, R10, KEY_ADDRESS + 8, R2);
    code.jump(done);
    code.place(is_six);
    bytes(code, six, KEY_ADDRESS, 16, unknown);
    code.place(done);
}

/// Sets `R0` to the set of the address on the stack. Jumps to `unknown` if there is none.
fn look_up(code: &mut Assembler, addresses: BorrowedFd<'_>, unknown: Label) {
    let found = code.label();
    code.map(R1, addresses);
    code.copy(R2, R10);
    code.add(R2, i32::from(KEY));
    code.call(helper::MAP_LOOKUP);
    code.jump_unless_zero(R0, found);
    code.jump(unknown);
    code.place(found);
}

/// Jumps to `yes` if the set at `R0` contains a number.
fn has(code: &mut Assembler, number: u8, yes: Label) {
    code.load(Byte, R2, R0, i16::from(number / 8));
    code.jump_if(R2, AnyOf, 1 << (number % 8), yes);
}

/// Jumps to `ours` if the packet comes from (or goes to) a multilevel port. Of TCP, only packets
/// that open no connection come from a port.
fn compare_ports(code: &mut Assembler, ports: &[MultilevelPort], side: Side, ours: Label) {
    let (six, not) = (code.label(), code.label());
    part(code, at::PROTOCOL, 2, not);
    code.load(Half, R2, R10, PART);
    code.jump_if(R2, Equal, half(ethernet::IPV6), six);
    code.jump_if(R2, NotEqual, half(ethernet::IPV4), not);
    part(code, at::FRAGMENT4, 2, not);
    code.load(Half, R2, R10, PART);
    code.jump_if(R2, AnyOf, half(OFFSET), not);
    compare(code, ports, side, (at::PROTOCOL4, at::PAYLOAD4), ours, not);
    code.place(six);
    compare(code, ports, side, (at::NEXT6, at::PAYLOAD6), ours, not);
    code.place(not);
}

fn compare(
    code: &mut Assembler,
    ports: &[MultilevelPort],
    side: Side,
    (protocol, header): (i16, i16),
    ours: Label,
    not: Label,
) {
    part(code, protocol, 1, not);
    code.load(Byte, R8, R10, PART);
    let offset = if side == Side::Source { 0 } else { 2 };
    part(code, header + offset, 2, not);
    code.load(Half, R2, R10, PART);
    code.from_network(R2);
    let opens = code.label();
    for port in ports {
        let other = code.label();
        let protocol = match port.protocol {
            Transport::Tcp => next::TCP,
            Transport::Udp => next::UDP,
        };
        code.jump_if(R8, NotEqual, protocol, other);
        code.jump_if(R2, Less, u32::from(port.first), other);
        code.jump_if(R2, Greater, u32::from(port.last), other);
        let checks = side == Side::Source && port.protocol == Transport::Tcp;
        code.jump(if checks { opens } else { ours });
        code.place(other);
    }
    code.jump(not);
    code.place(opens);
    part(code, header + FLAGS, 1, not);
    code.load(Byte, R2, R10, PART);
    code.and(R2, SYN_OR_ACK);
    code.jump_if(R2, NotEqual, SYN, ours);
    code.jump(not);
}
