//! The part of a guard's program that checks IPv6 and neighbour discovery.

use std::net::{IpAddr, Ipv6Addr};

use sys::bpf::{Condition, Label, Register, Width};

use super::Reason;
use super::frame::{at, context, half, halves, icmp, link_local, next, port};
use super::program::Builder;
use Condition::{AnyOf, Equal, Greater, Less, NotEqual};
use Register::{R0, R2, R3, R4, R6, R7, R8, R9, R10};
use Width::{Byte, Double, Half, Word};

/// The registers that hold the two halves of an IPv6 address.
const ADDRESS: [Register; 2] = [R2, R3];

/// Prefix length of link-local addresses in bits.
const LINK_LOCAL_LENGTH: u8 = 10;

/// Offsets on the stack of 8 bytes of a header, of the offset of the packet's end, and of an
/// address.
const HEADER: i16 = -8;
pub(super) const END: i16 = -16;
const TARGET: i16 = -32;

/// Bits in [`context::SCRATCH`] for the kind of the packet's source address; no bit means an
/// address of the zone.
const BY_LINK_LOCAL: u32 = 1;
const BY_NOBODY: u32 = 2;

/// Maximum number of extension headers of an IPv6 packet.
const MAX_HEADERS: usize = 4;
/// Maximum number of options of a message of neighbour discovery.
const MAX_OPTIONS: usize = 3;

/// The extension headers whose second byte is the header's length.
const HEADERS: [u32; 3] = [next::HOP_BY_HOP, next::ROUTING, next::DESTINATION];

/// Minimum length of a header or option, in bytes.
const MIN_HEADER_BYTES: i32 = 8;
/// Mask of the offset in a fragment header.
const OFFSET: u16 = 0xfff8;

/// Offsets in bytes of the options in a message of neighbour discovery, by the message's type.
const OPTIONS_OF_ROUTER_SOLICITATION: i32 = 8;
const OPTIONS_OF_NEIGHBOUR: i32 = 24;
/// Offset in a neighbour solicitation or advertisement of the address that it asks for or claims.
const NEIGHBOUR: i16 = 8;
/// Types of the options with a MAC address.
const SOURCE_MAC: u32 = 1;
const TARGET_MAC: u32 = 2;

impl Builder<'_> {
    /// Emits the rules for IPv6.
    pub(super) fn ipv6(&mut self) {
        if self.guard.sources.is_none() && !self.guard.dhcp {
            self.code.jump(self.pass);
            return;
        }
        self.need(at::END6);
        let headers = self.code.label();
        if self.guard.sources.is_some() {
            let ours = self.code.label();
            for (register, place) in ADDRESS.into_iter().zip((at::SOURCE6..).step_by(8)) {
                self.code.load(Double, register, R7, place);
            }
            self.match6(ours);
            self.code.set(R9, BY_LINK_LOCAL as i32);
            self.own_link_local(headers);
            self.code.set(R9, BY_NOBODY as i32);
            let foreign = self.drop(Reason::Source6);
            for register in ADDRESS {
                self.code.jump_unless_zero(register, foreign);
            }
            self.code.jump(headers);
            self.code.place(ours);
        }
        self.code.load(Byte, R2, R7, at::NEXT6);
        self.code.jump_if(R2, Equal, next::TCP, self.pass);
        if !self.guard.dhcp {
            self.code.jump_if(R2, Equal, next::UDP, self.pass);
        }
        self.code.set(R9, 0);
        self.code.place(headers);
        self.headers();
    }

    /// Jumps to `ours` if the address is one of the zone's. Changes `R0` and `R4`.
    fn match6(&mut self, ours: Label) {
        for (address, length) in self.sources() {
            if let IpAddr::V6(address) = address {
                self.same(address, length, ours);
            }
        }
    }

    /// Jumps to `ours` if the address is in the network `address`/`length`. The second half is
    /// compared first, because most addresses differ there.
    ///
    /// The program compares the difference of two addresses with zero instead of comparing the
    /// addresses: otherwise the kernel's verifier would track the value of the address separately
    /// after every comparison.
    fn same(&mut self, address: Ipv6Addr, length: u8, ours: Label) {
        let mask = u128::MAX
            .checked_shl(128_u32.saturating_sub(length.into()))
            .unwrap_or(0);
        let (wanted, mask) = (halves_of(address.to_bits()), halves_of(mask));
        let other = self.code.label();
        for (register, (wanted, mask)) in
            ADDRESS.into_iter().zip(wanted.into_iter().zip(mask)).rev()
        {
            if mask == 0 {
                continue;
            }
            self.code.set_long(R0, wanted);
            self.code.xor(R0, register);
            if mask != u64::MAX {
                self.code.set_long(R4, mask);
                self.code.and_register(R0, R4);
            }
            self.code.jump_unless_zero(R0, other);
        }
        self.code.jump(ours);
        self.code.place(other);
    }

    /// Jumps to `ours` if the address is the link-local address of the zone's MAC address. If the
    /// zone may use any MAC address, any link-local address matches.
    fn own_link_local(&mut self, ours: Label) {
        match self.guard.mac {
            Some(mac) => self.same(link_local(mac), 128, ours),
            None => self.same(link_local([0; 6]), LINK_LOCAL_LENGTH, ours),
        }
    }

    /// Emits the loop over the headers of a packet. `R7` gets the number of the next header and
    /// `R8` its offset; `R9` contains the kind of the packet's source address.
    ///
    /// Only bytes inside the packet are read: a frame may contain any bytes after the end of the
    /// packet, and the receiver of a fragment does not read these bytes.
    ///
    /// Loops are unrolled, and values from the packet are stored in memory that the kernel's
    /// verifier does not track. The verifier would check each possible value separately, and the
    /// boot of a zone waits for the verifier.
    fn headers(&mut self) {
        let (known, store) = (self.code.label(), self.code.label());
        self.code.store(Word, R6, context::SCRATCH, R9);
        self.code.set(R2, 0);
        self.code.store(Word, R6, context::IN_PARTS, R2);
        self.code.load(Half, R2, R7, at::LENGTH6);
        self.code.from_network(R2);
        self.code.jump_if(R2, NotEqual, 0, known);
        // A packet of more than 64 KiB has its length in an extension header, so the length of the
        // frame is used.
        self.code.load(Word, R2, R6, context::LENGTH);
        self.code.jump(store);
        self.code.place(known);
        self.code.add(R2, i32::from(at::END6));
        self.code.place(store);
        self.code.store(Double, R10, END, R2);
        self.code.load(Byte, R7, R7, at::NEXT6);
        self.code.set(R8, i32::from(at::END6));

        let (other, udp, icmp) = (self.code.label(), self.code.label(), self.code.label());
        let unreadable = self.drop(Reason::Protocol);
        for _ in 0..MAX_HEADERS {
            self.header([icmp, udp, other], unreadable);
        }
        self.code.jump_if(R7, Equal, next::ICMP6, icmp);
        self.code.jump_if(R7, Equal, next::UDP, udp);
        self.code.jump_if(R7, Equal, next::FRAGMENT, unreadable);
        for kind in HEADERS {
            self.code.jump_if(R7, Equal, kind, unreadable);
        }
        self.code.jump(other);

        self.code.place(udp);
        if self.guard.dhcp {
            let answer = self.drop(Reason::Dhcp);
            self.part(unreadable);
            self.no_dhcp_answer(port::SERVER6, port::CLIENT6, answer);
            self.clients6();
        }
        self.code.place(other);
        self.by_source();
        self.code.place(icmp);
        self.icmp();
    }

    /// Emits the code that skips one header, or jumps to the label for its protocol.
    fn header(&mut self, [icmp, udp, other]: [Label; 3], unreadable: Label) {
        let (header, fragment) = (self.code.label(), self.code.label());
        let next_header = self.code.label();
        self.code.jump_if(R7, Equal, next::ICMP6, icmp);
        self.code.jump_if(R7, Equal, next::UDP, udp);
        self.code.jump_if(R7, Equal, next::FRAGMENT, fragment);
        for kind in HEADERS {
            self.code.jump_if(R7, Equal, kind, header);
        }
        self.code.jump(other);

        self.code.place(fragment);
        self.part(unreadable);
        // Later fragments are not checked, because they are useless without the first fragment.
        self.code.load(Half, R2, R10, HEADER + 2);
        self.code.jump_if(R2, AnyOf, half(OFFSET), other);
        self.code.load(Word, R2, R6, context::IN_PARTS);
        self.code.jump_if(R2, NotEqual, 0, unreadable);
        self.code.set(R2, 1);
        self.code.store(Word, R6, context::IN_PARTS, R2);
        self.code.load(Byte, R7, R10, HEADER);
        self.code.add(R8, MIN_HEADER_BYTES);
        self.code.jump(next_header);

        self.code.place(header);
        self.part(unreadable);
        self.code.load(Byte, R7, R10, HEADER);
        self.code.load(Byte, R2, R10, HEADER + 1);
        self.code.add(R2, 1);
        self.code.shift_left(R2, 3);
        self.code.add_register(R8, R2);
        self.code.place(next_header);
    }

    /// Copies the 8 bytes at `R8` to the stack, if they are inside the packet.
    fn part(&mut self, unreadable: Label) {
        self.within(MIN_HEADER_BYTES, unreadable);
        self.fetch(R8, 0, (HEADER, MIN_HEADER_BYTES), unreadable);
    }

    /// Jumps to `unreadable` unless the `length` bytes at `R8` are inside the packet.
    pub(super) fn within(&mut self, length: i32, unreadable: Label) {
        self.code.copy(R2, R8);
        self.code.add(R2, length);
        self.code.load(Double, R3, R10, END);
        self.code.jump_if_register(R2, Greater, R3, unreadable);
    }

    /// Emits the check of the source address of a packet that passed the other checks.
    fn by_source(&mut self) {
        if self.guard.sources.is_some() {
            let foreign = self.drop(Reason::Source6);
            self.code.load(Word, R2, R6, context::SCRATCH);
            self.code.jump_if(R2, Equal, BY_NOBODY, foreign);
            if self.guard.routed {
                self.code.jump_if(R2, Equal, BY_LINK_LOCAL, self.silent);
            }
        }
        self.code.jump(self.pass);
    }

    /// Emits the rules for ICMPv6, most of them for neighbour discovery: the zone may claim only
    /// its own addresses, may ask whether another host has them, and must not act as a router.
    fn icmp(&mut self) {
        let (unreadable, lie) = (self.drop(Reason::Protocol), self.drop(Reason::Ndp));
        self.part(unreadable);
        self.code.load(Byte, R2, R10, HEADER);
        self.code
            .jump_if(R2, Equal, icmp::ROUTER_ADVERTISEMENT, lie);
        if self.guard.sources.is_none() {
            self.code.jump(self.pass);
            return;
        }
        let in_order = self.among_neighbours();
        let (router, solicitation) = (self.code.label(), self.code.label());
        let advertisement = self.code.label();
        self.code.jump_if(R2, Equal, icmp::REDIRECT, lie);
        // A routed link has no neighbour discovery: a question is harmless and useless, and an
        // answer is false.
        let [asks_routers, asks, answers] = match self.guard.routed {
            true => [in_order, in_order, lie],
            false => [router, solicitation, advertisement],
        };
        self.code
            .jump_if(R2, Equal, icmp::ROUTER_SOLICITATION, asks_routers);
        self.code
            .jump_if(R2, Equal, icmp::NEIGHBOUR_SOLICITATION, asks);
        self.code
            .jump_if(R2, Equal, icmp::NEIGHBOUR_ADVERTISEMENT, answers);
        for kind in [
            icmp::LISTENER_QUERY,
            icmp::LISTENER_REPORT,
            icmp::LISTENER_DONE,
            icmp::LISTENER_REPORT_2,
        ] {
            self.code.jump_if(R2, Equal, kind, in_order);
        }
        self.by_source();

        let (target, checked, options) = (self.code.label(), self.code.label(), self.code.label());
        self.code.place(solicitation);
        self.code.load(Word, R2, R6, context::SCRATCH);
        self.code.jump_if(R2, Equal, BY_NOBODY, target);
        self.code.jump(checked);
        self.code.place(advertisement);
        self.code.load(Word, R2, R6, context::SCRATCH);
        self.code.jump_if(R2, Equal, BY_NOBODY, lie);
        self.code.place(target);
        self.within(OPTIONS_OF_NEIGHBOUR, lie);
        self.fetch(R8, NEIGHBOUR, (TARGET, 16), lie);
        for (register, place) in ADDRESS.into_iter().zip((TARGET..).step_by(8)) {
            self.code.load(Double, register, R10, place);
        }
        self.match6(checked);
        self.own_link_local(checked);
        self.code.jump(lie);

        self.code.place(checked);
        self.code.add(R8, OPTIONS_OF_NEIGHBOUR);
        self.code.jump(options);
        self.code.place(router);
        self.code.add(R8, OPTIONS_OF_ROUTER_SOLICITATION);
        self.code.place(options);
        // Messages of neighbour discovery are never sent in fragments (RFC 6980).
        self.code.load(Word, R2, R6, context::IN_PARTS);
        self.code.jump_if(R2, NotEqual, 0, lie);
        if let Some(mac) = self.guard.mac {
            self.options(mac, in_order, lie);
        }
        self.code.jump(in_order);
    }

    /// Emits the loop over the options from `R8`: they may contain no MAC address other than `mac`.
    fn options(&mut self, mac: [u8; 6], in_order: Label, lie: Label) {
        for _ in 0..MAX_OPTIONS {
            let (more, named, done) = (self.code.label(), self.code.label(), self.code.label());
            self.code.load(Double, R2, R10, END);
            self.code.jump_if_register(R8, Less, R2, more);
            self.code.jump(in_order);
            self.code.place(more);
            self.part(lie);
            self.code.load(Byte, R2, R10, HEADER);
            self.code.jump_if(R2, Equal, SOURCE_MAC, named);
            self.code.jump_if(R2, NotEqual, TARGET_MAC, done);
            self.code.place(named);
            for (place, wanted) in (HEADER + 2..).step_by(2).zip(halves(mac)) {
                self.code.load(Half, R2, R10, place);
                self.code.jump_if(R2, NotEqual, wanted, lie);
            }
            self.code.place(done);
            self.code.load(Byte, R2, R10, HEADER + 1);
            self.code.jump_if(R2, Equal, 0, lie);
            self.code.shift_left(R2, 3);
            self.code.add_register(R8, R2);
        }
        self.code.load(Double, R2, R10, END);
        self.code.jump_if_register(R8, Less, R2, lie);
    }
}

/// Returns the two halves of an address, as a program loads them.
const fn halves_of(address: u128) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address.to_be_bytes();
    [
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
    ]
}
