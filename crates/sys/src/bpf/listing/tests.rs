use super::{classic, extended};
use crate::bpf::{Assembler, Condition, Register, Width, instruction};

#[test]
fn jumps_go_to_labels() {
    let mut code = Assembler::new();
    let end = code.label();
    code.load(Width::Half, Register::R2, Register::R6, -16);
    code.set_long(Register::R3, 0x0123_4567_89ab_cdef);
    code.jump_if(Register::R2, Condition::NotEqual, 5, end);
    code.jump_if_register(Register::R2, Condition::AtMost, Register::R3, end);
    code.set(Register::R0, 1);
    code.place(end);
    code.exit();
    let expected = "      r2 = *(u16 *)(r6 - 16)
      r3 = 0x123456789abcdef ll
      if w2 != 5 goto L1
      if r2 <= r3 goto L1
      r0 = 1
L1:   exit
";
    assert_eq!(extended(&code.finish()), expected);
}

/// An unrolled loop of 6 rounds.
fn rounds(number_in_last: i32) -> Vec<u64> {
    let mut code = Assembler::new();
    let found = code.label();
    for round in 1..=6 {
        let next = code.label();
        code.jump_if(Register::R2, Condition::Equal, 1, next);
        code.jump_if(Register::R2, Condition::Equal, 2, found);
        code.place(next);
        code.add(Register::R2, if round == 6 { number_in_last } else { 1 });
    }
    code.place(found);
    code.exit();
    code.finish()
}

#[test]
fn a_repeated_block_is_listed_once() {
    let expected = "      if w2 == 1 goto L1
      if w2 == 2 goto L2
L1:   r2 += 1
      (the 3 instructions above, 5 times more)
L2:   exit
";
    assert_eq!(extended(&rounds(1)), expected);
}

#[test]
fn a_copy_that_differs_is_listed() {
    let text = extended(&rounds(7));
    assert!(text.contains("4 times more"), "{text}");
    assert!(text.contains("r2 += 7"), "{text}");
}

#[test]
fn a_field_that_the_instruction_does_not_use_is_shown() {
    assert_eq!(extended(&[instruction(0x95, 0, 0, 0, 0)]), "      exit\n");
    for word in [
        instruction(0x95, 0, 0, 0, 1),
        instruction(0xb7, 0, 1, 0, 1),
        instruction(0xbf, 0, 1, 3, 0),
        instruction(0x61, 0, 1, 0, 1),
        instruction(0x05, 1, 0, 0, 0),
        instruction(0xff, 0, 0, 0, 0),
    ] {
        assert_eq!(extended(&[word]), format!("      unknown {word:#018x}\n"));
    }
}

#[test]
fn a_filter_names_its_results() {
    let word = |code: u64, yes: u64, no: u64, value: u64| code | yes << 16 | no << 24 | value << 32;
    let code = [
        word(0x20, 0, 0, 0),
        word(0x15, 2, 0, 175),
        word(0x15, 0, 2, 41),
        word(0x06, 0, 0, 0x7fff_0000),
        word(0x06, 0, 0, 0x0005_0001),
        word(0x06, 1, 0, 0),
    ];
    let expected = "      a = number
      if a == 175 goto L1
      if a != 41 goto L2
      return allow
L1:   return errno 1
L2:   unknown 0x0000000000010006
";
    assert_eq!(classic(&code), expected);
}
