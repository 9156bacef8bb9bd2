//! The part of a guard's program that checks the messages of DHCP clients: the zone may use only
//! its own ids.
//!
//! A client is known by its client id, and without one by its Ethernet address. Both
//! have to be the zone's, so that nobody has another's lease.

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

/// Maximum number of options of a message.
const MAX_OPTIONS: usize = 32;

/// Places on the stack: the beginning of an option, and a whole client id.
const HEAD: i16 = -8;
const ID: i16 = -176;

/// More fragments follow.
const MORE: u16 = 0x2000;

/// Offsets in a BOOTP message (RFC 951) behind the UDP header, and the values in a request over
/// Ethernet.
const UDP_LENGTH: i32 = 8;
const ETHERNET_REQUEST: [u8; 2] = [1, 1];
const ADDRESS_LENGTH: u32 = 6;
const ADDRESS: i16 = 28;
const COOKIE: i16 = 236;
const MAGIC: u32 = 0x6382_5363;
const OPTIONS4: i32 = 240;

/// Options of DHCP (RFC 2132).
const PAD: u32 = 0;
const OVERLOAD: u32 = 52;
const CLIENT_ID4: u32 = 61;
const THE_END: u32 = 255;

/// Messages of relays, and the option of the client id (RFC 8415).
const RELAY_FORWARD: u32 = 12;
const RELAY_REPLY: u32 = 13;
const CLIENT_ID6: u16 = 1;
/// The header of a message, and of an option.
const HEADER6: i32 = 4;

/// A byte of a client id, or any.
type Pattern = Vec<Option<u8>>;

impl Clients {
    fn patterns4(&self) -> Vec<Pattern> {
        let own = [&[1][..], &self.mac].concat();
        self.with(vec![exactly(&own)])
    }

    fn patterns6(&self) -> Vec<Pattern> {
        let by_address = [&[0, 3, 0, 1][..], &self.mac].concat();
        // With the time at which it was made up.
        let mut by_time = exactly(&[0, 1, 0, 1]);
        by_time.extend([None; 4]);
        by_time.extend(exactly(&self.mac));
        self.with(vec![exactly(&by_address), by_time])
    }

    fn with(&self, mut own: Vec<Pattern>) -> Vec<Pattern> {
        // As many and as long as there is place for.
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

    /// Goes through the options at `R8`: to `none` when none of them is a client id;
    /// on, with `R8` where it is, when one is.
    ///
    /// The position of the option is kept where the kernel's verifier does not look; otherwise it
    /// would follow each position by itself.
    fn options4(&mut self, none: Label, lie: Label) {
        let done = self.code.label();
        self.found_none();
        for _ in 0..MAX_OPTIONS {
            let (other, padding) = (self.code.label(), self.code.label());
            self.fetch(R8, 0, (HEAD, 1), lie);
            self.code.load(Byte, R2, R10, HEAD);
            self.code.jump_if(R2, Equal, THE_END, done);
            self.code.jump_if(R2, Equal, PAD, padding);
            // More options elsewhere, which no client needs.
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

    /// Looks into a UDP packet at `R8` that goes to DHCP servers over IPv6, and goes on
    /// behind it. Its ports lie at [`HEAD`].
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

    /// [`options4`](Self::options4) of IPv6.
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

    /// The 4 bytes at `R8`, which lie in the packet.
    fn head6(&mut self, lie: Label) {
        self.within(HEADER6, lie);
        self.fetch(R8, 0, (HEAD, HEADER6), lie);
    }

    fn found_none(&mut self) {
        self.code.set(R2, 0);
        self.code.store(Word, R6, context::FOUND, R2);
    }

    /// A second one would be read together with the first by some, instead of it by
    /// others.
    fn found_here(&mut self, lie: Label) {
        self.code.load(Word, R2, R6, context::FOUND);
        self.code.jump_if(R2, NotEqual, 0, lie);
        self.code.store(Word, R6, context::FOUND, R8);
    }

    fn was_found(&mut self, none: Label) {
        self.code.load(Word, R8, R6, context::FOUND);
        self.code.jump_if(R8, Equal, 0, none);
    }

    /// Goes to `in_order` if the `R9` bytes at `R8` are one of these, else to `lie`.
    fn one_of(&mut self, patterns: &[Pattern], in_order: Label, lie: Label) {
        for pattern in patterns {
            let other = self.code.label();
            // None is longer.
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
            // As they are loaded, in however many bytes.
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
