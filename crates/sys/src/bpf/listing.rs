//! BPF programs as text, for tests that compare a program with a file in the repository.
//!
//! Each instruction is one line, in the notation of bpftool(8). Jumps have labels as targets. A
//! line shows every field of its instruction, except the descriptor of a map, and the target of a
//! jump that the kernel refuses.

mod classic;
mod extended;

pub use classic::classic;
pub use extended::extended;

/// Minimum number of lines that the folding of repeated blocks must save.
const MIN_FOLDED: usize = 12;
/// Maximum length, in lines, of a block that is recognized as repeated.
const MAX_BLOCK: usize = 60;

/// An instruction in the listing.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// The line numbers of the jump targets: if the condition is true, and otherwise.
    targets: Vec<usize>,
}

/// Returns the text of all lines with their labels. Repetitions of a block are listed once.
fn print(lines: &[Line]) -> String {
    let mut wanted: Vec<usize> = Vec::new();
    let mut shown = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let folded = folded(lines, at);
        let length = folded.map_or(1, |(length, _)| length);
        let copies = folded.map_or(0, |(_, copies)| copies);
        for (number, line) in (at..).zip(&lines[at..at + length]) {
            wanted.extend(&line.targets);
            shown.push((number, line.text.clone(), line.targets.as_slice()));
        }
        at += length;
        if copies > 0 {
            let text = format!("(the {length} instructions above, {copies} times more)");
            shown.push((at, text, &[]));
        }
        at += length * copies;
    }
    wanted.sort_unstable();
    wanted.dedup();
    let label = |number: usize| {
        let place = wanted.binary_search(&number).ok();
        place.map_or(String::new(), |place| format!("L{}", place + 1))
    };
    let mut text = String::new();
    for (number, line, targets) in shown {
        let mut name = label(number);
        if !name.is_empty() {
            name.push(':');
        }
        let jumps = ["goto", "else"].into_iter().zip(targets);
        let mut words = vec![line];
        for (word, target) in jumps {
            // A jump out of the program has no label as its target.
            let to = Some(label(*target)).filter(|_| *target < lines.len());
            words.push(format!("{word} {}", to.as_deref().unwrap_or("nowhere")));
        }
        words.retain(|word| !word.is_empty());
        text.push_str(&format!("{name:<6}{}\n", words.join(" ")));
    }
    text
}

/// Returns the length of the block that starts at `at` and the number of its repetitions, if
/// folding the block saves enough lines.
fn folded(lines: &[Line], at: usize) -> Option<(usize, usize)> {
    (1..=MAX_BLOCK).find_map(|length| {
        let same = |copy: usize| {
            (at..at + length).all(|number| {
                lines.get(number + copy * length).is_some_and(|other| {
                    let line = &lines[number];
                    let moved = line.targets.iter().map(|target| {
                        let inside = (at..=at + length).contains(target);
                        target + if inside { copy * length } else { 0 }
                    });
                    line.text == other.text && moved.eq(other.targets.iter().copied())
                })
            })
        };
        let copies = (1..).take_while(|copy| same(*copy)).count();
        let hidden = at + length + 1..at + length * (copies + 1);
        let others = lines[..at + length.min(lines.len() - at)].iter();
        let others = others.chain(lines.get(hidden.end..).unwrap_or_default());
        let jumped_into = others
            .flat_map(|line| &line.targets)
            .any(|target| hidden.contains(target));
        (length * copies >= MIN_FOLDED && !jumped_into).then_some((length, copies))
    })
}

/// Returns a number in the more readable form: addresses, masks and patterns are hexadecimal.
fn number(value: i64) -> String {
    match value {
        -0xfff..=0xfff => value.to_string(),
        _ => format!("{:#x}", value as u32),
    }
}

#[cfg(test)]
mod tests;
