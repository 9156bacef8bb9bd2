//! Makes the BPF program (type cgroup device) that lets a zone open its device nodes.

use sys::bpf::instruction;

/// The type of a device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A character device.
    Character,
    /// A block device.
    Block,
}

/// A device that processes of a zone may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The type of the device node.
    pub kind: Kind,
    /// The major number.
    pub major: u32,
    /// The minor number; `None` allows every minor number.
    pub minor: Option<u32>,
}

/// Returns a character device.
#[must_use]
pub const fn one(major: u32, minor: u32) -> Device {
    Device {
        kind: Kind::Character,
        major,
        minor: Some(minor),
    }
}

/// Returns the devices of a zone's console, /dev/ptmx and pseudo-terminals.
pub const TERMINALS: &[Device] = &[
    one(5, 1),
    one(5, 2),
    Device {
        kind: Kind::Character,
        major: 136,
        minor: None,
    },
];

/// Returns the device /dev/net/tun, for zones that configure their own network.
pub const TUN: Device = one(10, 200);

/// The values of BPF_DEVCG_DEV_BLOCK and BPF_DEVCG_DEV_CHAR in the kernel.
const fn type_of(kind: Kind) -> i32 {
    match kind {
        Kind::Block => 1,
        Kind::Character => 2,
    }
}

// Opcodes of the BPF instructions that are used; see the kernel's instruction-set.rst.
const LOAD_WORD: u8 = 0x61;
const AND_IMMEDIATE: u8 = 0x54;
const MOVE_IMMEDIATE: u8 = 0xb7;
const JUMP_NOT_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

/// Returns the program that allows the devices of `allowed` and refuses all others.
///
/// The kernel calls the program with r1 pointing to `struct bpf_cgroup_dev_ctx` (access and type,
/// major, minor; a 32-bit word each). The return value 1 allows the access.
#[must_use]
pub fn program(allowed: &[Device]) -> Vec<u64> {
    let (kind, major, minor) = (2, 3, 4);
    let mut code = vec![
        instruction(LOAD_WORD, kind, 1, 0, 0),
        instruction(AND_IMMEDIATE, kind, 0, 0, 0xffff),
        instruction(LOAD_WORD, major, 1, 4, 0),
        instruction(LOAD_WORD, minor, 1, 8, 0),
    ];
    for device in allowed {
        let skip = if device.minor.is_some() { 3 } else { 2 };
        let number = type_of(device.kind);
        code.push(instruction(JUMP_NOT_EQUAL, kind, 0, skip + 1, number));
        // A device number of the kernel has at most 20 bits, so the cast keeps it.
        code.push(instruction(
            JUMP_NOT_EQUAL,
            major,
            0,
            skip,
            device.major as i32,
        ));
        if let Some(number) = device.minor {
            code.push(instruction(JUMP_NOT_EQUAL, minor, 0, 2, number as i32));
        }
        code.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 1));
        code.push(instruction(EXIT, 0, 0, 0, 0));
    }
    code.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 0));
    code.push(instruction(EXIT, 0, 0, 0, 0));
    code
}

#[cfg(test)]
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "taking bits apart"
)]
mod tests {
    use super::*;

    /// Interprets the program as the kernel would: only the few instructions that it uses.
    fn admits(code: &[u64], access_and_type: u32, major: u32, minor: u32) -> bool {
        let context = [access_and_type, major, minor];
        let mut registers = [0i64; 5];
        let mut at = 0usize;
        loop {
            let word = code[at];
            let (target, offset) = ((word >> 8 & 0xf) as usize, (word >> 16) as i16);
            let immediate = i64::from((word >> 32) as i32);
            at += 1;
            let jump = match word as u8 {
                LOAD_WORD => {
                    registers[target] = i64::from(context[offset as usize / 4]);
                    false
                }
                AND_IMMEDIATE => {
                    registers[target] &= immediate;
                    false
                }
                MOVE_IMMEDIATE => {
                    registers[target] = immediate;
                    false
                }
                JUMP_NOT_EQUAL => registers[target] != immediate,
                EXIT => return registers[0] == 1,
                other => panic!("opcode {other:#x}"),
            };
            if jump {
                at += offset as usize;
            }
        }
    }

    #[test]
    fn the_instructions() {
        let disk = Device {
            kind: Kind::Block,
            major: 254,
            minor: Some(0),
        };
        let code = program(&[TERMINALS, &[disk]].concat());
        let text = sys::bpf::listing::extended(&code);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn admits_what_is_listed_and_nothing_else() {
        let code = program(&[&[one(1, 3)], TERMINALS].concat());
        let (block, character, read_write) = (1, 2, 6 << 16);
        assert!(admits(&code, read_write | character, 1, 3));
        assert!(admits(&code, read_write | character, 136, 77));
        assert!(!admits(&code, read_write | character, 1, 1), "/dev/mem");
        assert!(
            !admits(&code, read_write | character, 10, 200),
            "/dev/net/tun"
        );
        assert!(!admits(&code, read_write | block, 1, 3), "a ram disk");
        assert!(!admits(&code, read_write | block, 254, 0), "a virtio disk");
        assert!(admits(&program(&[TUN]), read_write | character, 10, 200));
        assert!(!admits(&program(&[]), read_write | character, 1, 3));
        let disk = Device {
            kind: Kind::Block,
            major: 254,
            minor: Some(0),
        };
        let code = program(&[disk, TUN]);
        assert!(admits(&code, read_write | block, 254, 0));
        assert!(!admits(&code, read_write | block, 254, 1));
        assert!(!admits(&code, read_write | character, 254, 0));
        assert!(!admits(&code, read_write | block, 10, 200));
        assert!(admits(&code, read_write | character, 10, 200));
    }
}
