//! Assembles the instructions of BPF programs; see the kernel's instruction-set.rst.

use std::os::fd::{AsRawFd, BorrowedFd};

/// A register. A program starts with its context in `R1` and returns `R0`. A call takes `R1` to
/// `R5` as arguments, returns `R0`, and keeps `R6` to `R9`. `R10` is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the kernel's names")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
    /// 64 bits.
    Double,
}

impl Width {
    const fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The two operands are equal.
    Equal,
    /// The two operands are not equal.
    NotEqual,
    /// The first operand is greater; both are unsigned.
    Greater,
    /// The first operand is less; both are unsigned.
    Less,
    /// The first operand is less or equal; both are unsigned.
    AtMost,
    /// The two operands have a common bit.
    AnyOf,
}

impl Condition {
    const fn bits(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::Greater => 0x20,
            Self::AnyOf => 0x40,
            Self::NotEqual => 0x50,
            Self::Less => 0xa0,
            Self::AtMost => 0xb0,
        }
    }
}

/// A label: the target of a jump in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

// Classes of instructions, and the flag of a register as the second operand.
const LOAD_LONG: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const ATOMIC_DOUBLE: u8 = 0xdb;
const LONG: u8 = 0x07;
const WORD: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP_WORD: u8 = 0x06;
const BY_REGISTER: u8 = 0x08;
// Codes of arithmetic operations.
const ADD: u8 = 0x00;
const SUBTRACT: u8 = 0x10;
const MULTIPLY: u8 = 0x20;
const DIVIDE: u8 = 0x30;
const AND: u8 = 0x50;
const SHIFT_LEFT: u8 = 0x60;
const XOR: u8 = 0xa0;
const MOVE: u8 = 0xb0;
const SWAP: u8 = 0xd0;
// The code of an unconditional jump.
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The code of BPF_CMPXCHG.
const COMPARE_EXCHANGE: i32 = 0xf1;
/// The value BPF_PSEUDO_MAP_VALUE: the number of the instruction is a position in a map.
const IN_MAP: u8 = 2;
/// The value BPF_PSEUDO_MAP_FD: the number of the instruction is the descriptor of a map.
const OF_MAP: u8 = 1;

/// Returns an instruction in the kernel's encoding.
#[must_use]
pub const fn instruction(opcode: u8, target: u8, source: u8, offset: i16, immediate: i32) -> u64 {
    opcode as u64
        | (target as u64) << 8
        | (source as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Assembles a program. Jumps have labels as targets, which may be placed later.
///
/// Operands have the order of the kernel: the register that is written or compared comes first.
/// Unreachable instructions are left out, because the kernel refuses them. Therefore code after
/// [`Assembler::jump`] or [`Assembler::exit`] needs a label to which an earlier instruction jumps.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    /// The positions of the jumps, and their target labels.
    jumps: Vec<(usize, Label)>,
    labels: Vec<Place>,
    /// True if the previous instruction never continues with the next one.
    cut_off: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    at: Option<usize>,
    /// True if a jump has this label as its target.
    wanted: bool,
}

impl Assembler {
    /// Returns an empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a new label, which is not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(Place::default());
        Label(self.labels.len() - 1)
    }

    /// Places `label` at the next instruction.
    pub fn place(&mut self, label: Label) {
        let place = &mut self.labels[label.0];
        place.at = Some(self.code.len());
        self.cut_off &= !place.wanted;
    }

    /// Loads: `to` = memory at `from` + `offset`.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(LOAD | width.bits(), to, from as u8, offset, 0);
    }

    /// Stores: memory at `to` + `offset` = `from`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(STORE | width.bits(), to, from as u8, offset, 0);
    }

    /// Adds `by` to the 64-bit number at `to` + `offset`, atomically.
    pub fn add_atomically(&mut self, to: Register, offset: i16, by: Register) {
        self.emit(ATOMIC_DOUBLE, to, by as u8, offset, 0);
    }

    /// Sets the 64-bit number at `to` + `offset` to `new` if the number equals `R0`. `R0` does not
    /// change.
    pub fn exchange_if_same(&mut self, to: Register, offset: i16, new: Register) {
        self.emit(ATOMIC_DOUBLE, to, new as u8, offset, COMPARE_EXCHANGE);
    }

    /// Sets `to` to the address of a number of a [`super::Map`], given by its position.
    pub fn address(&mut self, to: Register, map: BorrowedFd<'_>, number: usize) {
        self.emit(LOAD_LONG, to, IN_MAP, 0, map.as_raw_fd());
        // A position that does not fit is outside every map, and the kernel refuses it.
        let bytes = i32::try_from(number * size_of::<u64>()).unwrap_or(i32::MAX);
        self.push(instruction(0, 0, 0, 0, bytes));
    }

    /// Sets `to` to a map, as an argument of a call.
    pub fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.emit(LOAD_LONG, to, OF_MAP, 0, map.as_raw_fd());
        self.push(instruction(0, 0, 0, 0, 0));
    }

    /// Sets `to` to a 64-bit number.
    pub fn set_long(&mut self, to: Register, number: u64) {
        self.emit(LOAD_LONG, to, 0, 0, number as i32);
        self.push(instruction(0, 0, 0, 0, (number >> 32) as i32));
    }

    /// Sets `to` to the signed number `number`.
    pub fn set(&mut self, to: Register, number: i32) {
        self.emit(LONG | MOVE, to, 0, 0, number);
    }

    /// `to` = `from`.
    pub fn copy(&mut self, to: Register, from: Register) {
        self.emit(LONG | MOVE | BY_REGISTER, to, from as u8, 0, 0);
    }

    /// `to` += `number`.
    pub fn add(&mut self, to: Register, number: i32) {
        self.emit(LONG | ADD, to, 0, 0, number);
    }

    /// `to` += `by`.
    pub fn add_register(&mut self, to: Register, by: Register) {
        self.emit(LONG | ADD | BY_REGISTER, to, by as u8, 0, 0);
    }

    /// `to` -= `by`.
    pub fn subtract(&mut self, to: Register, by: Register) {
        self.emit(LONG | SUBTRACT | BY_REGISTER, to, by as u8, 0, 0);
    }

    /// Computes `to` *= `number`, which has 31 bits at most.
    pub fn multiply(&mut self, to: Register, number: u32) {
        self.emit(LONG | MULTIPLY, to, 0, 0, number as i32);
    }

    /// Computes `to` /= `by`, unsigned.
    pub fn divide(&mut self, to: Register, by: Register) {
        self.emit(LONG | DIVIDE | BY_REGISTER, to, by as u8, 0, 0);
    }

    /// Computes `to` &= `mask` with a 32-bit mask. The upper 32 bits become zero.
    pub fn and(&mut self, to: Register, mask: u32) {
        self.emit(WORD | AND, to, 0, 0, mask as i32);
    }

    /// `to` &= `mask`.
    pub fn and_register(&mut self, to: Register, mask: Register) {
        self.emit(LONG | AND | BY_REGISTER, to, mask as u8, 0, 0);
    }

    /// `to` ^= `with`.
    pub fn xor(&mut self, to: Register, with: Register) {
        self.emit(LONG | XOR | BY_REGISTER, to, with as u8, 0, 0);
    }

    /// `to` <<= `bits`.
    pub fn shift_left(&mut self, to: Register, bits: i32) {
        self.emit(LONG | SHIFT_LEFT, to, 0, 0, bits);
    }

    /// Converts the lower 16 bits of `to` from network byte order to a number.
    pub fn from_network(&mut self, to: Register) {
        self.emit(WORD | SWAP | BY_REGISTER, to, 0, 0, 16);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.go_to(label);
        self.emit(JUMP, Register::R0, 0, 0, 0);
        self.cut_off = true;
    }

    /// Jumps to `label` if the lower 32 bits of `left` and `right` meet the condition.
    pub fn jump_if(&mut self, left: Register, condition: Condition, right: u32, label: Label) {
        self.go_to(label);
        self.emit(JUMP_WORD | condition.bits(), left, 0, 0, right as i32);
    }

    /// Jumps to `label` unless all 64 bits of `left` are zero.
    pub fn jump_unless_zero(&mut self, left: Register, label: Label) {
        self.go_to(label);
        self.emit(JUMP | Condition::NotEqual.bits(), left, 0, 0, 0);
    }

    /// Jumps to `label` if the two registers meet the condition.
    pub fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        label: Label,
    ) {
        self.go_to(label);
        let opcode = JUMP | condition.bits() | BY_REGISTER;
        self.emit(opcode, left, right as u8, 0, 0);
    }

    /// Calls a function of the kernel, by its number in bpf-helpers(7).
    pub fn call(&mut self, function: i32) {
        self.emit(CALL, Register::R0, 0, 0, function);
    }

    /// Ends the program, which returns `R0`.
    pub fn exit(&mut self) {
        self.emit(EXIT, Register::R0, 0, 0, 0);
        self.cut_off = true;
    }

    /// Returns the program. If a label was not placed, or is too far from a jump, the result is a
    /// program that the kernel refuses.
    #[must_use]
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let distance = self.labels[label.0]
                .at
                .and_then(|place| i16::try_from(place as i64 - at as i64 - 1).ok())
                // A jump to itself, which the kernel refuses.
                .unwrap_or(-1);
            self.code[at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }

    fn emit(&mut self, opcode: u8, target: Register, source: u8, offset: i16, immediate: i32) {
        self.push(instruction(opcode, target as u8, source, offset, immediate));
    }

    fn push(&mut self, word: u64) {
        if !self.cut_off {
            self.code.push(word);
        }
    }

    /// The next instruction is a jump.
    fn go_to(&mut self, label: Label) {
        if !self.cut_off {
            self.labels[label.0].wanted = true;
            self.jumps.push((self.code.len(), label));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_to_their_labels() {
        let mut code = Assembler::new();
        let (back, forth, nowhere) = (code.label(), code.label(), code.label());
        code.place(back);
        code.set(Register::R0, 1);
        code.jump_if(Register::R0, Condition::Equal, 1, forth);
        code.jump_if(Register::R0, Condition::Less, 9, nowhere);
        code.jump(back);
        // No instruction leads to this position.
        code.call(1);
        code.place(forth);
        code.exit();
        assert_eq!(
            code.finish(),
            [
                instruction(0xb7, 0, 0, 0, 1),
                instruction(0x16, 0, 0, 2, 1),
                instruction(0xa6, 0, 0, -1, 9),
                instruction(0x05, 0, 0, -4, 0),
                instruction(0x95, 0, 0, 0, 0),
            ]
        );
    }

    #[test]
    fn instructions_are_those_of_the_kernel() {
        use Register::{R1, R2, R6, R10};
        let mut code = Assembler::new();
        code.load(Width::Half, R2, R6, 16);
        code.store(Width::Double, R10, -8, R2);
        code.and(R2, 0xffff_0000);
        code.copy(R1, R6);
        code.from_network(R2);
        code.add_atomically(R1, 8, R2);
        code.set_long(R1, 0x0123_4567_89ab_cdef);
        assert_eq!(
            code.finish(),
            [
                instruction(0x69, 2, 6, 16, 0),
                instruction(0x7b, 10, 2, -8, 0),
                instruction(0x54, 2, 0, 0, -65536),
                instruction(0xbf, 1, 6, 0, 0),
                instruction(0xdc, 2, 0, 0, 16),
                instruction(0xdb, 1, 2, 8, 0),
                instruction(0x18, 1, 0, 0, 0x89ab_cdef_u32 as i32),
                instruction(0, 0, 0, 0, 0x0123_4567),
            ]
        );
    }
}
