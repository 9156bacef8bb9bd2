//! Names of processor architectures. Catalogues use the names of Debian.

/// Names of the same architecture: of Debian, of the kernel, and of other tools.
const NAMES: &[(&str, &[&str])] = &[
    ("amd64", &["x86_64", "x86-64"]),
    ("arm64", &["aarch64"]),
    ("armhf", &["armv7l", "armv7", "arm"]),
    ("i386", &["i686", "i586", "386", "x86"]),
    ("loong64", &["loongarch64"]),
    ("ppc64el", &["ppc64le"]),
    ("riscv64", &[]),
    ("s390x", &[]),
];

/// Returns Debian's name of an architecture. An unknown name is returned unchanged.
#[must_use]
pub fn canonical(name: &str) -> &str {
    NAMES
        .iter()
        .find(|(_, others)| others.contains(&name))
        .map_or(name, |(debian, _)| debian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kernel_become_names_of_debian() {
        for (name, expected) in [
            ("x86_64", "amd64"),
            ("amd64", "amd64"),
            ("aarch64", "arm64"),
            ("ppc64le", "ppc64el"),
            ("mips", "mips"),
        ] {
            assert_eq!(canonical(name), expected);
        }
    }
}
