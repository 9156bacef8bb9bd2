//! Small programs to run in a zone, for what no shell command does.

use crate::Host;

/// A command that makes one system call and prints "result" or the error, as in
/// `-1 Operation not permitted`. Perl is there on every Debian.
#[must_use]
pub fn syscall(number: libc::c_long, arguments: &str) -> String {
    // Perl passes addresses of variables only.
    perl(&format!(
        "my @words = ({arguments}); my $r = syscall({number}, @words); print $r < 0 ? \"-1 $!\" : $r;"
    ))
}

/// A command that runs a piece of Perl.
///
/// # Panics
/// When the piece has a single quote.
#[must_use]
pub fn perl(code: &str) -> String {
    assert!(!code.contains('\''), "no single quotes: {code}");
    format!("perl -e '{code}'")
}

/// What [`syscall`] prints for EPERM.
pub const EPERM: &str = "-1 Operation not permitted";

/// Runs a script of which each line must fail, and says which did not.
///
/// # Panics
/// When one of them succeeds.
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
