//! Lists classic BPF, the instruction set of system call filters (seccomp(2)).

use super::{Line, number, print};

/// Lists the instructions of a system call filter; `a` is the accumulator.
#[must_use]
pub fn classic(program: &[u64]) -> String {
    let lines: Vec<Line> = (1..)
        .zip(program)
        .map(|(next, word)| {
            line(next, *word).unwrap_or_else(|| Line {
                text: format!("unknown {word:#018x}"),
                targets: Vec::new(),
            })
        })
        .collect();
    print(&lines)
}

fn line(next: usize, word: u64) -> Option<Line> {
    let value = (word >> 32) as u32;
    let [_, _, yes, no, ..] = word.to_le_bytes();
    let (text, targets) = match (word as u16, yes, no) {
        (0x20, 0, 0) => (format!("a = {}", field(value)?), Vec::new()),
        (0x06, 0, 0) => (format!("return {}", action(value)), Vec::new()),
        (0x15 | 0x45, 0, 0) => return None,
        (0x15, 0, no) => (compare("!=", value), vec![next + usize::from(no)]),
        (0x15, yes, no) => (compare("==", value), targets(next, yes, no)),
        (0x45, yes @ 1.., no) => (compare("&", value), targets(next, yes, no)),
        _ => return None,
    };
    Some(Line { text, targets })
}

fn compare(operator: &str, value: u32) -> String {
    format!("if a {operator} {}", number(value.into()))
}

fn targets(next: usize, yes: u8, no: u8) -> Vec<usize> {
    let mut targets = vec![next + usize::from(yes)];
    if no > 0 {
        targets.push(next + usize::from(no));
    }
    targets
}

/// Returns the name of a field of struct seccomp_data.
fn field(offset: u32) -> Option<&'static str> {
    Some(match offset {
        0 => "number",
        4 => "architecture",
        16 => "low half of argument 1",
        24 => "low half of argument 2",
        _ => return None,
    })
}

/// Returns the name of a result: SECCOMP_RET_*.
fn action(value: u32) -> String {
    match (value >> 16, value & 0xffff) {
        (0x7fff, 0) => "allow".to_owned(),
        (0x7fc0, 0) => "ask the listener".to_owned(),
        (0x0005, errno) => format!("errno {errno}"),
        _ => format!("{value:#x}"),
    }
}
