//! Compares versions of Debian packages, as deb-version(7) defines.

use std::cmp::Ordering;

/// Compares two versions: epoch, then upstream version, then revision.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, upstream_a, revision_a) = split(a);
    let (epoch_b, upstream_b, revision_b) = split(b);
    number(epoch_a, epoch_b)
        .then_with(|| part(upstream_a.as_bytes(), upstream_b.as_bytes()))
        .then_with(|| part(revision_a.as_bytes(), revision_b.as_bytes()))
}

/// Returns true if two versions have the same upstream release. They then differ only in the
/// patches of the distribution.
#[must_use]
pub fn same_upstream(a: &str, b: &str) -> bool {
    let (epoch_a, upstream_a, _) = split(a);
    let (epoch_b, upstream_b, _) = split(b);
    number(epoch_a, epoch_b).is_eq() && part(upstream_a.as_bytes(), upstream_b.as_bytes()).is_eq()
}

/// Splits a version `[epoch:]upstream[-revision]` into its three parts.
fn split(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch, upstream, revision)
}

/// Compares two numbers of any length by their digits.
fn number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Compares two texts by their parts: a part without digits and a number, in turn.
fn part(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (text_a, rest_a) = a.split_at(run(a, |byte| !byte.is_ascii_digit()));
        let (text_b, rest_b) = b.split_at(run(b, |byte| !byte.is_ascii_digit()));
        for at in 0..text_a.len().max(text_b.len()) {
            let order = weight(text_a.get(at)).cmp(&weight(text_b.get(at)));
            if order.is_ne() {
                return order;
            }
        }
        let (digits_a, rest_a) = rest_a.split_at(run(rest_a, |byte| byte.is_ascii_digit()));
        let (digits_b, rest_b) = rest_b.split_at(run(rest_b, |byte| byte.is_ascii_digit()));
        let text = |digits| std::str::from_utf8(digits).unwrap_or_default();
        let order = number(text(digits_a), text(digits_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

fn run(text: &[u8], of: impl Fn(u8) -> bool) -> usize {
    text.iter()
        .position(|&byte| !of(byte))
        .unwrap_or(text.len())
}

/// Returns the rank of a character: `~` is before the end of the text, the end before letters, and
/// letters before all other characters.
fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        Some(b'~') => -1,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => i32::from(*other) + 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_are_ordered_as_dpkg_does() {
        // Each version in this list is smaller than the next one.
        let order = [
            "0~~",
            "0~~a",
            "0~",
            "0",
            "0-0.1",
            "0-1",
            "0a",
            "0+1",
            "1.0~rc1-1",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1+deb12u1",
            "1.0-1+deb12u2",
            "1.0-1+deb12u10",
            "1.0-2",
            "1.0.1-1",
            "1.10-1",
            "2.9-1",
            "1:0.1-1",
            "10:0",
        ];
        for (n, a) in order.iter().enumerate() {
            for (m, b) in order.iter().enumerate() {
                assert_eq!(compare(a, b), n.cmp(&m), "{a} {b}");
            }
        }
        for (a, b) in [("1.0", "1.0-0"), ("0:1", "1"), ("1.01", "1.1"), ("", "0")] {
            assert!(compare(a, b).is_eq(), "{a} {b}");
        }
    }

    #[test]
    fn patches_have_the_same_upstream() {
        assert!(same_upstream("3.0.11-1~deb12u1", "3.0.11-1~deb12u2"));
        assert!(same_upstream("1.2", "1.2-3"));
        assert!(!same_upstream("3.0.11-1", "3.0.13-1"));
        assert!(!same_upstream("1:1-1", "1-1"));
    }

    #[test]
    fn dpkg_agrees() {
        let words = ["1", "1a", "1~a", "2:1-1", "1-1+b1", "1.0-1~x", "1.0-1"];
        for a in words {
            for b in words {
                let lt = std::process::Command::new("dpkg")
                    .args(["--compare-versions", a, "lt", b])
                    .stderr(std::process::Stdio::null())
                    .status();
                let Ok(status) = lt else {
                    println!("skipped: dpkg_agrees: no dpkg");
                    return;
                };
                assert_eq!(status.success(), compare(a, b).is_lt(), "{a} {b}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_order_of_versions_is_total(a in "[0-9a-z~+.:-]{0,12}", b in "[0-9a-z~+.:-]{0,12}", c in "[0-9a-z~+.:-]{0,12}") {
            prop_assert!(compare(&a, &a).is_eq());
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
