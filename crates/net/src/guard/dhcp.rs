//! The part of a guard's program that checks the messages of DHCP clients: the zone may use only
//! its own client ids.
//!
//! A DHCP server identifies a client by its client id, or by its Ethernet address if the message
//! has no client id. Both must be the zone's own, so that no zone can get another client's lease.

use Condition::{AnyOf, Equal, NotEqual};
use Register::{R0, R2, R3, R4, R6, R7, R8, R9, R10};
use Width::{Byte, Double, Half, Word};
use sys::bpf::{Condition, Label, Register, Width};

use super::Reason;
use super::frame::{at, context, half, half_of, halves, next, port, word};
use super::ipv4::{OFFSET, PORTS};
use super::program::Builder;
use crate::client_id::{MAX_ID_BYTES, MAX_IDS};
use crate::guard::rules::Clients;

/// Maximum number of options of a DHCP message.
const MAX_OPTIONS: usize = 32;

/// Offsets on the stack of the beginning of an option, and of a whole client id.
const HEAD: i16 = -8;
const ID: i16 = -176;

/// Flag of an IPv4 packet: more fragments follow.
const MORE: u16 = 0x2000;

/// Offsets in a BOOTP message (RFC 951) from the UDP header, and the values in a request over
/// Ethernet.
const UDP_LENGTH: i32 = 8;
const ETHERNET_REQUEST: [u8; 2] = [1, 1];
const ADDRESS_LENGTH: u32 = 6;
const ADDRESS: i16 = 28;
const COOKIE: i16 = 236;
const MAGIC: u32 = 0x6382_5363;
const OPTIONS4: i32 = 240;

/// Numbers of DHCP options (RFC 2132).
const PAD: u32 = 0;
const OVERLOAD: u32 = 52;
const CLIENT_ID4: u32 = 61;
const THE_END: u32 = 255;

/// Types of messages of relays, and the number of the client id option (RFC 8415).
const RELAY_FORWARD: u32 = 12;
const RELAY_REPLY: u32 = 13;
const CLIENT_ID6: u16 = 1;
/// Length in bytes of the header of a DHCPv6 message, and of an option.
const HEADER6: i32 = 4;

/// A client id to compare with; `None` matches any byte.
type Pattern = Vec<Option<u8>>;

impl Clients {
    fn patterns4(&self) -> Vec<Pattern> {
        let own = [&[1][..], &self.mac].concat();
        self.with(vec![exactly(&own)])
    }

    fn patterns6(&self) -> Vec<Pattern> {
        let by_address = [&[0, 3, 0, 1][..], &self.mac].concat();
        // A DUID of the type that contains the time of its creation (DUID-LLT); any time is
        // accepted.
        let mut by_time = exactly(&[0, 1, 0, 1]);
        by_time.extend([None; 4]);
        by_time.extend(exactly(&self.mac));
        self.with(vec![exactly(&by_address), by_time])
    }

    fn with(&self, mut own: Vec<Pattern>) -> Vec<Pattern> {
        // Client ids beyond the maximum number or length are ignored.
        let ids = self.ids.iter().take(MAX_IDS);
        let ids = ids.filter(|id| (1..=MAX_ID_BYTES).contains(&id.len()));
        own.extend(ids.map(|id| exactly(id)));
        own
    }
}

fn exactly(bytes: &[u8]) -> Pattern {
    bytes.iter().copied().map(Some).collect()
}

impl Builder<'_> {
    /// Emits the checks of packets to DHCP servers over IPv4; other packets continue after them.
    pub(super) fn clients4(&mut self) {
        let Some(clients) = self.guard.clients.clone().filter(|_| self.guard.dhcp) else {
            return;
        };
        let (lie, in_order) = (self.drop(Reason::Dhcp), self.code.label());
        self.code.load(Byte, R2, R7, at::PROTOCOL4);
        self.code.jump_if(R2, NotEqual, next::UDP, in_order);
        self.code.load(Half, R2, R7, at::FRAGMENT4);
        self.code.jump_if(R2, AnyOf, half(OFFSET), in_order);
        self.ports4(self.drop(Reason::Protocol));
        self.code.load(Half, R2, R10, PORTS + 2);
        self.code
            .jump_if(R2, NotEqual, half(port::SERVER), in_order);
        self.code.load(Half, R2, R7, at::FRAGMENT4);
        self.code.jump_if(R2, AnyOf, half(MORE), lie);

        self.code.load(Byte, R8, R7, at::PAYLOAD);
        self.code.and(R8, 0x0f);
        self.code.shift_left(R8, 2);
        self.code.add(R8, i32::from(at::PAYLOAD) + UDP_LENGTH);
        self.fetch(R8, 0, (HEAD, 4), lie);
        self.code.load(Half, R2, R10, HEAD);
        self.code
            .jump_if(R2, NotEqual, half_of(ETHERNET_REQUEST), lie);
        self.code.load(Byte, R2, R10, HEAD + 2);
        self.code.jump_if(R2, NotEqual, ADDRESS_LENGTH, lie);
        self.fetch(R8, ADDRESS, (HEAD, 6), lie);
        for (place, wanted) in (HEAD..).step_by(2).zip(halves(clients.mac)) {
            self.code.load(Half, R2, R10, place);
            self.code.jump_if(R2, NotEqual, wanted, lie);
        }
        self.fetch(R8, COOKIE, (HEAD, 4), lie);
        self.code.load(Word, R2, R10, HEAD);
        self.code.jump_if(R2, NotEqual, word(MAGIC), lie);
        self.code.add(R8, OPTIONS4);
        self.options4(in_order, lie);
        self.code.add(R8, 1);
        self.fetch(R8, 0, (HEAD, 1), lie);
        self.code.load(Byte, R9, R10, HEAD);
        self.code.add(R8, 1);
        self.one_of(&clients.patterns4(), in_order, lie);
        self.code.place(in_order);
    }

    /// Emits the loop over the DHCP options at `R8`. If no option is a client id, the program jumps
    /// to `none`. Otherwise it continues with `R8` at the client id.
    ///
    /// The position of the option is kept in memory that the kernel's verifier does not track;
    /// otherwise the verifier would check each position separately.
    fn options4(&mut self, none: Label, lie: Label) {
        let done = self.code.label();
        self.found_none();
        for _ in 0..MAX_OPTIONS {
            let (other, padding) = (self.code.label(), self.code.label());
            self.fetch(R8, 0, (HEAD, 1), lie);
            self.code.load(Byte, R2, R10, HEAD);
            self.code.jump_if(R2, Equal, THE_END, done);
            self.code.jump_if(R2, Equal, PAD, padding);
            // The option "overload" puts more options into other fields of the message, which no
            // client needs.
            self.code.jump_if(R2, Equal, OVERLOAD, lie);
            self.code.jump_if(R2, NotEqual, CLIENT_ID4, other);
            self.found_here(lie);
            self.code.place(other);
            self.fetch(R8, 1, (HEAD, 1), lie);
            self.code.load(Byte, R2, R10, HEAD);
            self.code.add_register(R8, R2);
            self.code.add(R8, 1);
            self.code.place(padding);
            self.code.add(R8, 1);
        }
        self.code.jump(lie);
        self.code.place(done);
        self.was_found(none);
    }

    /// Emits the checks of a UDP packet at `R8` to DHCP servers over IPv6; an admitted packet
    /// continues after them. The ports of the packet are on the stack at [`HEAD`].
    pub(super) fn clients6(&mut self) {
        let Some(clients) = self.guard.clients.clone() else {
            return;
        };
        let (lie, in_order) = (self.drop(Reason::Dhcp), self.code.label());
        self.code.load(Half, R2, R10, HEAD + 2);
        self.code
            .jump_if(R2, NotEqual, half(port::SERVER6), in_order);
        self.code.load(Word, R2, R6, context::IN_PARTS);
        self.code.jump_if(R2, NotEqual, 0, lie);
        self.code.add(R8, UDP_LENGTH);
        self.head6(lie);
        self.code.load(Byte, R2, R10, HEAD);
        for relayed in [RELAY_FORWARD, RELAY_REPLY] {
            self.code.jump_if(R2, Equal, relayed, lie);
        }
        self.code.add(R8, HEADER6);
        self.options6(in_order, lie);
        self.head6(lie);
        self.code.load(Half, R9, R10, HEAD + 2);
        self.code.from_network(R9);
        self.code.add(R8, HEADER6);
        self.one_of(&clients.patterns6(), in_order, lie);
        self.code.place(in_order);
    }

    /// Emits the loop over the options for IPv6, like [`options4`](Self::options4).
    fn options6(&mut self, none: Label, lie: Label) {
        let done = self.code.label();
        self.found_none();
        for _ in 0..MAX_OPTIONS {
            let (more, other) = (self.code.label(), self.code.label());
            self.code.load(Double, R2, R10, super::ipv6::END);
            self.code.xor(R2, R8);
            self.code.jump_unless_zero(R2, more);
            self.code.jump(done);
            self.code.place(more);
            self.head6(lie);
            self.code.load(Half, R2, R10, HEAD);
            self.code.jump_if(R2, NotEqual, half(CLIENT_ID6), other);
            self.found_here(lie);
            self.code.place(other);
            self.code.load(Half, R2, R10, HEAD + 2);
            self.code.from_network(R2);
            self.code.add_register(R8, R2);
            self.code.add(R8, HEADER6);
        }
        self.code.load(Double, R2, R10, super::ipv6::END);
        self.code.xor(R2, R8);
        self.code.jump_unless_zero(R2, lie);
        self.code.place(done);
        self.was_found(none);
    }

    /// Copies the 4 bytes at `R8` to the stack at [`HEAD`], if they are inside the packet.
    fn head6(&mut self, lie: Label) {
        self.within(HEADER6, lie);
        self.fetch(R8, 0, (HEAD, HEADER6), lie);
    }

    fn found_none(&mut self) {
        self.code.set(R2, 0);
        self.code.store(Word, R6, context::FOUND, R2);
    }

    /// Stores the position of the client id. A second client id is refused, because some servers
    /// join the two ids and other servers use only one of them.
    fn found_here(&mut self, lie: Label) {
        self.code.load(Word, R2, R6, context::FOUND);
        self.code.jump_if(R2, NotEqual, 0, lie);
        self.code.store(Word, R6, context::FOUND, R8);
    }

    fn was_found(&mut self, none: Label) {
        self.code.load(Word, R8, R6, context::FOUND);
        self.code.jump_if(R8, Equal, 0, none);
    }

    /// Jumps to `in_order` if the `R9` bytes at `R8` match one of the patterns, otherwise to `lie`.
    fn one_of(&mut self, patterns: &[Pattern], in_order: Label, lie: Label) {
        for pattern in patterns {
            let other = self.code.label();
            // No pattern is longer than 255 bytes, so the conversion does not fail.
            let length = u8::try_from(pattern.len()).unwrap_or(0);
            self.code.jump_if(R9, NotEqual, length.into(), other);
            self.fetch(R8, 0, (ID, length.into()), lie);
            let mut place = ID;
            let mut rest = pattern.as_slice();
            for (width, bytes) in [(Double, 8_u8), (Word, 4), (Half, 2), (Byte, 1)] {
                while let Some((piece, behind)) = rest.split_at_checked(bytes.into()) {
                    self.is_piece(width, place, piece, other);
                    place += i16::from(bytes);
                    rest = behind;
                }
            }
            self.code.jump(in_order);
            self.code.place(other);
        }
        self.code.jump(lie);
    }

    fn is_piece(&mut self, width: Width, place: i16, piece: &[Option<u8>], other: Label) {
        let number = |byte: &dyn Fn(Option<u8>) -> u8| {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(piece) {
                *to = byte(*from);
            }
            // The value has the form in which the program loads this number of bytes.
            match cfg!(target_endian = "big") {
                true => u64::from_be_bytes(bytes) >> (64 - 8 * piece.len()),
                false => u64::from_le_bytes(bytes),
            }
        };
        let wanted = number(&Option::unwrap_or_default);
        let mask = number(&|byte| byte.map_or(0, |_| u8::MAX));
        self.code.load(width, R3, R10, place);
        if piece.contains(&None) {
            self.code.set_long(R4, mask);
            self.code.and_register(R3, R4);
        }
        self.code.set_long(R0, wanted);
        self.code.xor(R3, R0);
        self.code.jump_unless_zero(R3, other);
    }
}
