//! The program of a guard: it checks the most frequent kinds of frames first.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use Condition::{AtMost, Equal, Greater, Less, NotEqual};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Width::{Double, Half, Word};
use sys::bpf::{Assembler, Condition, Label, Register, Width};

use super::Reason;
use super::counters::BUSY_UNTIL;
use super::frame::{at, context, ethernet, half, halves, helper, word};
use super::label::Labeled;
use crate::guard::rules::{Guard, MAX_SOURCES, Verdict};

// The return values of a program.
pub(super) const TC_ACT_OK: i32 = 0;
pub(super) const TC_ACT_SHOT: i32 = 2;

const NANOSECONDS: u32 = 1_000_000_000;
/// Time in nanoseconds for which an idle link may send without a limit. TCP needs this time to find
/// the rate, which it does by dropped packets.
const BURST_NANOSECONDS: u64 = NANOSECONDS as u64 / 5;
/// Minimum size of a burst in bytes, for rates at which the burst time allows fewer bytes.
const BURST_BYTES: u64 = 128 * 1024;

/// A program that is being assembled, its labels, and the rules of the link.
///
/// `R6` is always the context. `R7` and `R8` are the beginning and the end of the frame until the
/// protocol is known.
pub(super) struct Builder<'a> {
    pub code: Assembler,
    pub guard: &'a Guard,
    /// The label for frames that are admitted.
    pub pass: Label,
    /// The label for frames that are dropped without being counted.
    pub silent: Label,
    drops: Vec<(Reason, Label)>,
}

/// Assembles the program of a guard for a tc filter at a device's ingress (direct action). The
/// program counts dropped frames in the map `counters`.
#[must_use]
pub fn program(guard: &Guard, counters: BorrowedFd<'_>) -> Vec<u64> {
    assemble(guard, counters, None)
}

/// Assembles the program of [`program`] for a zone with a label.
pub(super) fn assemble(
    guard: &Guard,
    counters: BorrowedFd<'_>,
    labeled: Option<(&Labeled<'_>, BorrowedFd<'_>)>,
) -> Vec<u64> {
    let mut code = Assembler::new();
    let (pass, silent) = (code.label(), code.label());
    let reasons = Reason::ALL.into_iter();
    let used = reasons.filter(|reason| *reason != Reason::Label || labeled.is_some());
    let drops = used.map(|reason| (reason, code.label())).collect();
    let mut builder = Builder {
        code,
        guard,
        pass,
        silent,
        drops,
    };
    builder.code.copy(R6, R1);
    if builder.looks_into_frames() {
        builder.frame();
    } else {
        // The kernel keeps the map as long as the program refers to it, so the program names the
        // map even if it never counts a frame.
        builder.code.address(R1, counters, 0);
    }
    builder.code.place(pass);
    if let Some((labeled, addresses)) = labeled {
        builder.label(labeled, addresses);
    }
    builder.admit(counters);
    builder.refuse(counters);
    builder.code.finish()
}

/// Assembles the program for frames that arrive for a zone at a separate device of the host. The
/// program removes the 802.1Q tag `vlan` and sends the frame out of the device `to`. Without `vlan`
/// it does this with untagged frames. Other frames are dropped.
#[must_use]
pub fn inbound(vlan: Option<u16>, to: u32) -> Vec<u64> {
    let mut code = Assembler::new();
    let (untagged, drop) = (code.label(), code.label());
    code.copy(R6, R1);
    code.load(Word, R2, R6, context::TAGGED);
    code.jump_if(R2, Equal, 0, if vlan.is_some() { drop } else { untagged });
    code.load(Word, R2, R6, context::TAG_PROTOCOL);
    code.jump_if(R2, NotEqual, half(ethernet::TAG), drop);
    code.load(Word, R2, R6, context::TAG);
    // A tag with VLAN 0 has only a priority, so the frame counts as untagged.
    code.and(R2, 0xfff);
    code.jump_if(R2, NotEqual, u32::from(vlan.unwrap_or(0)), drop);
    code.copy(R1, R6);
    code.call(helper::SKB_VLAN_POP);
    code.jump_if(R0, NotEqual, 0, drop);
    code.place(untagged);
    redirect(&mut code, to);
    code.place(drop);
    code.set(R0, TC_ACT_SHOT);
    code.exit();
    code.finish()
}

fn redirect(code: &mut Assembler, to: u32) {
    // The kernel's device index is an int, so the cast does not change it.
    code.set(R1, to as i32);
    code.set(R2, 0);
    code.call(helper::REDIRECT);
    code.exit();
}

impl Builder<'_> {
    /// Returns the label for frames that are dropped for this reason.
    pub fn drop(&self, reason: Reason) -> Label {
        let mut drops = self.drops.iter();
        let found = drops.find(|(other, _)| *other == reason);
        found.map_or(self.silent, |(_, label)| *label)
    }

    /// Returns the label for valid frames that are useful only on a link with neighbours.
    pub const fn among_neighbours(&self) -> Label {
        if self.guard.routed {
            self.silent
        } else {
            self.pass
        }
    }

    fn looks_into_frames(&self) -> bool {
        let guard = self.guard;
        self.refuses_tags() || guard.dhcp || guard.routed
    }

    /// Returns true if the zone may not send tagged frames: with a tag, the rules would read the
    /// frame at wrong offsets.
    fn refuses_tags(&self) -> bool {
        let guard = self.guard;
        guard.mac.is_some() || guard.sources.is_some() || guard.restricted || guard.vlan.is_some()
    }

    /// Emits the code that distinguishes the protocols of frames.
    fn frame(&mut self) {
        let unreadable = self.drop(Reason::Protocol);
        self.need(at::END4);
        if self.refuses_tags() {
            self.code.load(Word, R2, R6, context::TAGGED);
            self.code.jump_if(R2, NotEqual, 0, unreadable);
        }
        if let Some(mac) = self.guard.mac {
            let other = self.drop(Reason::Mac);
            let [a, b, c, d, e, f] = mac;
            self.code.load(Word, R2, R7, at::SOURCE_MAC);
            let first = u32::from_ne_bytes([a, b, c, d]);
            self.code.jump_if(R2, NotEqual, first, other);
            self.code.load(Half, R2, R7, at::SOURCE_MAC + 4);
            let [.., last] = halves([a, b, c, d, e, f]);
            self.code.jump_if(R2, NotEqual, last, other);
        }
        let (others, ipv6, arp) = (self.code.label(), self.code.label(), self.code.label());
        self.code.load(Half, R2, R7, at::PROTOCOL);
        self.code
            .jump_if(R2, NotEqual, half(ethernet::IPV4), others);
        self.ipv4();
        self.code.place(others);
        self.code.jump_if(R2, Equal, half(ethernet::IPV6), ipv6);
        self.code.jump_if(R2, Equal, half(ethernet::ARP), arp);
        if self.refuses_tags() {
            for tag in [ethernet::TAG, ethernet::SERVICE_TAG] {
                self.code.jump_if(R2, Equal, half(tag), unreadable);
            }
        }
        self.code.jump(if self.guard.restricted {
            unreadable
        } else {
            self.among_neighbours()
        });
        self.code.place(ipv6);
        self.ipv6();
        self.code.place(arp);
        self.arp();
    }

    /// Makes the first `length` bytes of the frame readable between `R7` and `R8`; drops shorter
    /// frames.
    pub fn need(&mut self, length: u16) {
        let (there, unreadable) = (self.code.label(), self.drop(Reason::Protocol));
        let enough = self.code.label();
        for is_first in [true, false] {
            self.code.load(Word, R7, R6, context::DATA);
            self.code.load(Word, R8, R6, context::DATA_END);
            self.code.copy(R2, R7);
            self.code.add(R2, i32::from(length));
            if !is_first {
                self.code.jump_if_register(R2, Greater, R8, unreadable);
                break;
            }
            self.code.jump_if_register(R2, AtMost, R8, there);
            // Headers are usually contiguous in memory. If they are not, the program asks the
            // kernel to make them contiguous.
            self.code.copy(R1, R6);
            self.code.load(Word, R2, R6, context::LENGTH);
            self.code.jump_if(R2, Less, u32::from(length), enough);
            self.code.set(R2, i32::from(length));
            self.code.place(enough);
            self.code.call(helper::SKB_PULL_DATA);
        }
        self.code.place(there);
    }

    /// Copies `length` bytes of the frame at `from` + `offset` to `place` on the stack. Jumps to
    /// `unreadable` if the frame is too short.
    pub fn fetch(
        &mut self,
        from: Register,
        offset: i16,
        (place, length): (i16, i32),
        unreadable: Label,
    ) {
        self.code.copy(R2, from);
        self.code.add(R2, i32::from(offset));
        self.fetch_at_2((place, length), unreadable);
    }

    /// Copies bytes of the frame like [`Builder::fetch`], from a fixed offset.
    pub fn fetch_fixed(&mut self, offset: i16, to: (i16, i32), unreadable: Label) {
        self.code.set(R2, i32::from(offset));
        self.fetch_at_2(to, unreadable);
    }

    /// Copies bytes of the frame like [`Builder::fetch`], from the offset in `R2`.
    pub fn fetch_at_2(&mut self, (place, length): (i16, i32), unreadable: Label) {
        self.code.copy(R1, R6);
        self.code.copy(R3, R10);
        self.code.add(R3, i32::from(place));
        self.code.set(R4, length);
        self.code.call(helper::SKB_LOAD_BYTES);
        self.code.jump_if(R0, NotEqual, 0, unreadable);
    }

    /// Returns the source addresses that the zone may use, with prefix length.
    pub fn sources(&self) -> impl Iterator<Item = (IpAddr, u8)> + use<> {
        let sources = self.guard.sources.clone().unwrap_or_default();
        sources.into_iter().take(MAX_SOURCES)
    }

    /// Jumps to `ours` if `R2` is one of the zone's IPv4 addresses. Changes `R3`.
    pub fn match4(&mut self, ours: Label) {
        for (address, length) in self.sources() {
            let IpAddr::V4(address) = address else {
                continue;
            };
            let mask = mask(length);
            let wanted = word(address.to_bits() & mask);
            match mask {
                0 => self.code.jump(ours),
                u32::MAX => self.code.jump_if(R2, Equal, wanted, ours),
                mask => {
                    self.code.copy(R3, R2);
                    self.code.and(R3, word(mask));
                    self.code.jump_if(R3, Equal, wanted, ours);
                }
            }
        }
    }

    /// Emits the code for an admitted frame: checks the rate, sets priority and tag, and sends the
    /// frame on.
    fn admit(&mut self, counters: BorrowedFd<'_>) {
        if let Some(rate) = self.guard.rate {
            self.police(rate.max(1), counters);
        }
        if let Some(priority) = self.guard.priority {
            // The cast keeps all 32 bits.
            self.code.set(R2, priority as i32);
            self.code.store(Word, R6, context::PRIORITY, R2);
        }
        if let Some(vlan) = self.guard.vlan {
            self.code.copy(R1, R6);
            self.code.set(R2, half(ethernet::TAG) as i32);
            self.code.set(R3, i32::from(vlan & 0xfff));
            self.code.call(helper::SKB_VLAN_PUSH);
            let unreadable = self.drop(Reason::Protocol);
            self.code.jump_if(R0, NotEqual, 0, unreadable);
        }
        match self.guard.to {
            Verdict::Host => {
                self.code.set(R0, TC_ACT_OK);
                self.code.exit();
            }
            Verdict::Device(to) => redirect(&mut self.code, to),
        }
    }

    /// Emits the check of the rate. Each frame occupies the link for the time that it needs at this
    /// rate, one frame after another. A frame is dropped if the link is occupied for longer than a
    /// burst.
    fn police(&mut self, rate: u64, counters: BorrowedFd<'_>) {
        let busy = self.code.label();
        let burst = BURST_NANOSECONDS.max(BURST_BYTES.saturating_mul(NANOSECONDS.into()) / rate);
        self.code.call(helper::KTIME_GET_NS);
        self.code.copy(R9, R0);
        self.code.address(R8, counters, BUSY_UNTIL);
        self.code.load(Double, R2, R8, 0);
        self.code.jump_if_register(R2, Greater, R9, busy);
        // The link was idle: its free time starts now, because unused time does not add up. Another
        // CPU may store this first.
        self.code.copy(R0, R2);
        self.code.exchange_if_same(R8, 0, R9);
        self.code.copy(R2, R9);
        self.code.place(busy);
        self.code.subtract(R2, R9);
        self.code.set_long(R3, burst);
        let over = self.drop(Reason::Rate);
        self.code.jump_if_register(R2, Greater, R3, over);
        // The product fits into 64 bits: the length of a frame has at most 19 bits, and a second in
        // nanoseconds has 30 bits.
        self.code.load(Word, R2, R6, context::LENGTH);
        self.code.multiply(R2, NANOSECONDS);
        self.code.set_long(R3, rate);
        self.code.divide(R2, R3);
        self.code.add_atomically(R8, 0, R2);
    }

    fn refuse(&mut self, counters: BorrowedFd<'_>) {
        for (reason, label) in self.drops.clone() {
            self.code.place(label);
            self.code.address(R1, counters, reason as usize);
            self.code.set(R2, 1);
            self.code.add_atomically(R1, 0, R2);
            self.code.jump(self.silent);
        }
        self.code.place(self.silent);
        self.code.set(R0, TC_ACT_SHOT);
        self.code.exit();
    }
}

/// Returns the mask of an IPv4 prefix.
fn mask(length: u8) -> u32 {
    u32::MAX
        .checked_shl(32_u32.saturating_sub(length.into()))
        .unwrap_or(0)
}
