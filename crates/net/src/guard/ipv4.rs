//! The part of a guard's program that checks IPv4 and ARP.

use sys::bpf::{Condition, Label, Register, Width};

use super::Reason;
use super::frame::{at, ethernet, half, half_of, halves, next, port};
use super::program::Builder;
use Condition::{AnyOf, Equal, NotEqual};
use Register::{R2, R7, R10};
use Width::{Byte, Half, Word};

/// Bits of the fragment field: the offset, and the offset with the flag "more fragments".
pub(super) const OFFSET: u16 = 0x1fff;
const OFFSET_OR_MORE: u16 = 0x3fff;
/// Mask of the header length, in units of 4 bytes, in the first byte of an IPv4 packet.
const HEADER_LENGTH: u32 = 0x0f;

/// First byte of the loopback addresses of IPv4.
const LOOPBACK4: u8 = 127;

/// Offset on the stack of the ports of a packet.
pub(super) const PORTS: i16 = -8;

/// Offsets on the stack of an ARP packet up to the sender's addresses, and of the packet's target.
/// They are chosen so that the IP address is aligned.
const ARP: i16 = -34;
const ARP_LENGTH: i32 = 18;
const SENDER_MAC: i16 = ARP + 8;
const SENDER: i16 = ARP + 14;
const TARGET: i16 = -8;

impl Builder<'_> {
    /// Emits the rules for IPv4; the frame is already known to have a complete IPv4 header.
    pub(super) fn ipv4(&mut self) {
        self.clients4();
        let ours = self.code.label();
        if self.guard.sources.is_some() {
            let foreign = self.drop(Reason::Source4);
            self.code.load(Word, R2, R7, at::SOURCE4);
            self.match4(ours);
            if !self.guard.routed {
                self.code.jump_if(R2, NotEqual, 0, foreign);
                self.dhcp_client(foreign);
            }
            self.code.jump(foreign);
        }
        self.code.place(ours);
        if self.guard.routed {
            // Packets for 127.0.0.0/8 are dropped, because the host may accept them from links with
            // published ports.
            self.code.load(Byte, R2, R7, at::TARGET4);
            self.code
                .jump_if(R2, Equal, u32::from(LOOPBACK4), self.silent);
        }
        if self.guard.dhcp {
            let (answer, unreadable) = (self.drop(Reason::Dhcp), self.drop(Reason::Protocol));
            self.code.load(Byte, R2, R7, at::PROTOCOL4);
            self.code.jump_if(R2, NotEqual, next::UDP, self.pass);
            // Only the first fragment has UDP ports, and it always has both ports.
            self.code.load(Half, R2, R7, at::FRAGMENT4);
            self.code.jump_if(R2, AnyOf, half(OFFSET), self.pass);
            self.ports4(unreadable);
            self.no_dhcp_answer(port::SERVER, port::CLIENT, answer);
        }
        self.code.jump(self.pass);
    }

    /// Admits requests of a client without an address to DHCP servers.
    fn dhcp_client(&mut self, foreign: Label) {
        self.code.load(Byte, R2, R7, at::PROTOCOL4);
        self.code.jump_if(R2, NotEqual, next::UDP, foreign);
        self.code.load(Half, R2, R7, at::FRAGMENT4);
        self.code.jump_if(R2, AnyOf, half(OFFSET_OR_MORE), foreign);
        self.ports4(foreign);
        self.code.load(Half, R2, R10, PORTS);
        self.code.jump_if(R2, NotEqual, half(port::CLIENT), foreign);
        self.code.load(Half, R2, R10, PORTS + 2);
        self.code.jump_if(R2, Equal, half(port::SERVER), self.pass);
    }

    pub(super) fn ports4(&mut self, unreadable: Label) {
        self.code.load(Byte, R2, R7, at::PAYLOAD);
        self.code.and(R2, HEADER_LENGTH);
        self.code.shift_left(R2, 2);
        self.code.add(R2, i32::from(at::PAYLOAD));
        self.fetch_at_2((PORTS, 4), unreadable);
    }

    /// Drops packets from a DHCP server's port, and packets to a DHCP client's port: a client does
    /// not check the sender of an answer.
    pub(super) fn no_dhcp_answer(&mut self, server: u16, client: u16, answer: Label) {
        self.code.load(Half, R2, R10, PORTS);
        self.code.jump_if(R2, Equal, half(server), answer);
        self.code.load(Half, R2, R10, PORTS + 2);
        self.code.jump_if(R2, Equal, half(client), answer);
    }

    /// Emits the rules for ARP: the zone may claim only its own addresses, and may ask whether
    /// another host has them.
    pub(super) fn arp(&mut self) {
        if self.guard.sources.is_some() {
            let (lie, asks) = (self.drop(Reason::Arp), self.code.label());
            self.fetch_fixed(at::PAYLOAD, (ARP, ARP_LENGTH), lie);
            let ethernet_for_ipv4 = [half(1), half(ethernet::IPV4), half_of([6, 4])];
            for (place, wanted) in (ARP..).step_by(2).zip(ethernet_for_ipv4) {
                self.code.load(Half, R2, R10, place);
                self.code.jump_if(R2, NotEqual, wanted, lie);
            }
            for (place, wanted) in (SENDER_MAC..)
                .step_by(2)
                .zip(self.guard.mac.map(halves).into_iter().flatten())
            {
                self.code.load(Half, R2, R10, place);
                self.code.jump_if(R2, NotEqual, wanted, lie);
            }
            self.code.load(Word, R2, R10, SENDER);
            self.code.jump_if(R2, NotEqual, 0, asks);
            self.fetch_fixed(at::ARP_TARGET, (TARGET, 4), lie);
            self.code.load(Word, R2, R10, TARGET);
            self.code.place(asks);
            let ours = self.among_neighbours();
            self.match4(ours);
            self.code.jump(lie);
        }
        self.code.jump(self.among_neighbours());
    }
}
