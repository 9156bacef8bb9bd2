//! Lists extended BPF, the instruction set of the kernel's hooks.

use super::{Line, number, print};

/// Lists the instructions of a program; see the kernel's instruction-set.rst. `w2` is the lower
/// half of `r2`, and `&map[3]` is the fourth number of the program's map.
#[must_use]
pub fn extended(program: &[u64]) -> String {
    let mut lines = Vec::new();
    // The line number of each word. An instruction has one or two words.
    let mut line_of = Vec::new();
    let mut at = 0;
    while let Some(word) = program.get(at) {
        let second = program.get(at + 1).copied();
        let parts = Parts::of(*word);
        let (size, line) = match parts.opcode {
            LOAD_LONG => (2, second.and_then(|second| long(&parts, second))),
            _ => (1, short(&parts, at)),
        };
        for _ in 0..size {
            line_of.push(lines.len());
        }
        at += size;
        lines.push(line.unwrap_or_else(|| plain(format!("unknown {word:#018x}"))));
    }
    for target in lines.iter_mut().flat_map(|line| &mut line.targets) {
        *target = line_of.get(*target).copied().unwrap_or(usize::MAX);
    }
    print(&lines)
}

const LOAD_LONG: u8 = 0x18;
/// The value of BPF_PSEUDO_MAP_VALUE.
const IN_MAP: u8 = 2;
/// The value of BPF_PSEUDO_MAP_FD.
const OF_MAP: u8 = 1;

/// The fields of an instruction.
struct Parts {
    opcode: u8,
    target: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

impl Parts {
    fn of(word: u64) -> Self {
        Self {
            opcode: word as u8,
            target: (word >> 8) as u8 & 0xf,
            source: (word >> 12) as u8 & 0xf,
            offset: (word >> 16) as i16,
            immediate: (word >> 32) as i32,
        }
    }
}

fn plain(text: String) -> Line {
    Line {
        text,
        targets: Vec::new(),
    }
}

/// Returns the line of an instruction of two words. The number of the map's descriptor is left out,
/// because it differs from process to process.
fn long(parts: &Parts, second: u64) -> Option<Line> {
    let low = parts.immediate as u32;
    let high = second >> 32;
    let is_whole = second as u32 == 0 && parts.offset == 0;
    let text = match parts.source {
        0 => format!("r{} = {:#x} ll", parts.target, high << 32 | u64::from(low)),
        OF_MAP if high == 0 => format!("r{} = map", parts.target),
        IN_MAP if high % 8 == 0 => format!("r{} = &map[{}]", parts.target, high / 8),
        _ => return None,
    };
    is_whole.then(|| plain(text))
}

/// Returns the line of the one-word instruction at index `at`.
fn short(parts: &Parts, at: usize) -> Option<Line> {
    let Parts {
        opcode,
        target,
        source,
        offset,
        immediate,
    } = *parts;
    let text = match (opcode, target, source, offset, immediate) {
        (0x95, 0, 0, 0, 0) => "exit".to_owned(),
        (0x85, 0, 0, 0, function) => format!("call {}", helper(function)),
        // This instruction converts a number to network byte order.
        (0xdc, target, 0, 0, bits) => format!("r{target} = be{bits} r{target}"),
        (0xdb, target, source, offset, 0) => {
            format!("lock {} += r{source}", memory(0x18, target, offset))
        }
        (0xdb, target, source, offset, 0xf1) => {
            let place = memory(0x18, target, offset);
            format!("r0 = cmpxchg({place}, r0, r{source})")
        }
        _ => match (opcode & 0x07, opcode & 0xe0) {
            (1, 0x60) if immediate == 0 => {
                format!("r{target} = {}", memory(opcode, source, offset))
            }
            (2, 0x60) if source == 0 => {
                format!(
                    "{} = {}",
                    memory(opcode, target, offset),
                    number(immediate.into())
                )
            }
            (3, 0x60) if immediate == 0 => {
                format!("{} = r{source}", memory(opcode, target, offset))
            }
            (4 | 7, _) if offset == 0 => {
                let (target, operand) = operands(parts)?;
                format!("{target} {} {operand}", arithmetic(opcode)?)
            }
            (5 | 6, _) => return jump(parts, at),
            _ => return None,
        },
    };
    Some(plain(text))
}

fn jump(parts: &Parts, at: usize) -> Option<Line> {
    let text = match (parts.opcode, parts.target, parts.source, parts.immediate) {
        (0x05, 0, 0, 0) => String::new(),
        _ => {
            let (left, right) = operands(parts)?;
            format!("if {left} {} {right}", condition(parts.opcode)?)
        }
    };
    let target = (at + 1).checked_add_signed(parts.offset.into());
    Some(Line {
        text,
        targets: vec![target.unwrap_or(usize::MAX)],
    })
}

/// Returns the first and the second operand. The second one is a register or a number.
fn operands(parts: &Parts) -> Option<(String, String)> {
    let letter = if matches!(parts.opcode & 0x07, 5 | 7) {
        'r'
    } else {
        'w'
    };
    let is_register = parts.opcode & 0x08 != 0;
    let right = match (is_register, parts.source, parts.immediate) {
        (true, source, 0) => format!("{letter}{source}"),
        (false, 0, immediate) => number(immediate.into()),
        _ => return None,
    };
    Some((format!("{letter}{}", parts.target), right))
}

fn arithmetic(opcode: u8) -> Option<&'static str> {
    Some(match opcode & 0xf0 {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x50 => "&=",
        0x60 => "<<=",
        0xa0 => "^=",
        0xb0 => "=",
        _ => return None,
    })
}

fn condition(opcode: u8) -> Option<&'static str> {
    Some(match opcode & 0xf0 {
        0x10 => "==",
        0x20 => ">",
        0x40 => "&",
        0x50 => "!=",
        0xa0 => "<",
        0xb0 => "<=",
        _ => return None,
    })
}

/// Returns a memory operand, with the width of the load or store.
fn memory(opcode: u8, register: u8, offset: i16) -> String {
    let width = match opcode & 0x18 {
        0x00 => 32,
        0x08 => 16,
        0x10 => 8,
        _ => 64,
    };
    let sign = if offset < 0 { '-' } else { '+' };
    format!(
        "*(u{width} *)(r{register} {sign} {})",
        offset.unsigned_abs()
    )
}

/// Returns the name of a kernel function, as in bpf-helpers(7).
fn helper(number: i32) -> String {
    let name = match number {
        1 => "map_lookup_elem",
        5 => "ktime_get_ns",
        15 => "get_current_uid_gid",
        18 => "skb_vlan_push",
        19 => "skb_vlan_pop",
        23 => "redirect",
        26 => "skb_load_bytes",
        39 => "skb_pull_data",
        101 => "sysctl_get_name",
        _ => return number.to_string(),
    };
    format!("{name}#{number}")
}
