//! Small programs that run in a zone, for actions without a shell command.

use crate::Host;

/// Returns a command that makes one system call and prints "result" or the error, for example `-1
/// Operation not permitted`. It uses Perl, which every Debian has.
#[must_use]
pub fn syscall(number: libc::c_long, arguments: &str) -> String {
    // Perl passes only the addresses of variables.
    perl(&format!(
        "my @words = ({arguments}); my $r = syscall({number}, @words); print $r < 0 ? \"-1 $!\" : $r;"
    ))
}

/// Returns a command that runs a Perl script.
///
/// # Panics
/// Panics if the script contains a single quote.
#[must_use]
pub fn perl(code: &str) -> String {
    assert!(!code.contains('\''), "no single quotes: {code}");
    format!("perl -e '{code}'")
}

/// Returns an i386 program (an ELF file) that makes one system call by its number in the 32-bit
/// table. Its exit status is the error number, or the negated result. A last argument of `None` is
/// the address of `words`.
#[must_use]
pub fn call_of_32_bits(number: u32, arguments: [Option<u32>; 3], words: [u32; 3]) -> Vec<u8> {
    const START: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    const CODE: u32 = 4 * 5 + 2 + 2 + 2 + 5 + 2;
    let whole = HEADERS + CODE + 12;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    let mut add = |numbers: &[u32]| {
        for number in numbers {
            file.extend(number.to_le_bytes());
        }
    };
    // The fields are: version, entry, offsets of the program headers and of no section headers,
    // sizes.
    add(&[1, START + HEADERS, 52, 0, 0, 52 | 32 << 16, 1, 0]);
    // One segment holds the whole file, readable and executable.
    add(&[1, 0, START, START, whole, whole, 5, 0x1000]);
    let arguments = arguments.map(|one| one.unwrap_or(START + HEADERS + CODE));
    // The instructions are: mov to eax, ebx, ecx, edx.
    let values = [number, arguments[0], arguments[1], arguments[2]];
    for (opcode, value) in [0xb8, 0xbb, 0xb9, 0xba].into_iter().zip(values) {
        file.push(opcode);
        file.extend(value.to_le_bytes());
    }
    // The instructions are: int 0x80; neg eax; mov ebx, eax; mov eax, 1 (exit); int 0x80.
    file.extend(b"\xcd\x80\xf7\xd8\x89\xc3\xb8\x01\0\0\0\xcd\x80");
    for word in words {
        file.extend(word.to_le_bytes());
    }
    file
}

/// The output of [`syscall`] for EPERM.
pub const EPERM: &str = "-1 Operation not permitted";

/// Runs a script in which each line must fail, and prints the lines that did not.
///
/// # Panics
/// Panics if a line succeeds.
#[track_caller]
pub fn all_fail(host: &Host, zone: &str, lines: &[&str]) {
    let script: String = lines
        .iter()
        .map(|line| {
            format!(
                "if ( {line} ) >/dev/null 2>&1; then echo DONE: '{}'; fi\n",
                line.replace('\'', "\"")
            )
        })
        .collect();
    let ran = host.zlogin_with(&[zone], script.as_bytes()).ok();
    assert_eq!(ran.text(), "", "root in the zone could do this");
}
