//! Roots with programs for another processor architecture.
//!
//! The kernel runs such programs with a registered interpreter of the host, the user-mode emulation
//! of qemu (binfmt_misc). Since Linux 6.7, a zone has its own registrations. The kernel opens the
//! interpreter at registration, so the zone does not need the file.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use model::plan::Interpreter;

/// A processor architecture, as the header of an ELF program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    /// The name of the architecture in qemu.
    name: &'static str,
    /// The class of the ELF file: 1 for 32 bits, 2 for 64 bits.
    class: u8,
    /// The byte order of the ELF file: 1 for little endian, 2 for big endian.
    order: u8,
    /// The ELF field `e_machine`.
    number: u16,
}

const fn machine(name: &'static str, class: u8, order: u8, number: u16) -> Machine {
    Machine {
        name,
        class,
        order,
        number,
    }
}

const MACHINES: &[Machine] = &[
    machine("x86_64", 2, 1, 62),
    machine("i386", 1, 1, 3),
    machine("aarch64", 2, 1, 183),
    machine("arm", 1, 1, 40),
    machine("riscv64", 2, 1, 243),
    machine("ppc64le", 2, 1, 21),
    machine("ppc64", 2, 2, 21),
    machine("s390x", 2, 2, 22),
    machine("loongarch64", 2, 1, 258),
    machine("mips64el", 2, 1, 8),
    machine("mipsel", 1, 1, 8),
];

/// The architectures whose programs the host's processor runs without an interpreter.
#[cfg(target_arch = "x86_64")]
const OWN: &[&str] = &["x86_64", "i386"];
#[cfg(target_arch = "aarch64")]
const OWN: &[&str] = &["aarch64", "arm"];

/// Programs that every system has as ELF files.
const PROGRAMS: &[&str] = &["/bin/busybox", "/bin/sh", "/usr/bin/env", "/sbin/init"];

/// Size of the header part that shows the architecture, in bytes.
const HEADER: usize = 20;

/// Returns the interpreter that the programs of a root need. `None` if the host runs them, or if
/// their architecture is unknown.
pub(crate) fn interpreter(root: BorrowedFd<'_>, host_root: &Path) -> Option<Interpreter> {
    let header = PROGRAMS.iter().find_map(|path| header(root, path))?;
    let machine = MACHINES.iter().find(|machine| machine.is(&header))?;
    if OWN.contains(&machine.name) {
        return None;
    }
    let name = machine.name;
    let places = [
        format!("usr/bin/qemu-{name}-static"),
        format!("usr/libexec/qemu-binfmt/{name}-binfmt-P"),
        format!("usr/bin/qemu-{name}"),
    ];
    let found = places.iter().find(|place| host_root.join(place).is_file());
    Some(Interpreter {
        machine: name.to_owned(),
        program: found.map(|place| PathBuf::from("/").join(place)),
        line: found.map_or_else(String::new, |place| machine.line(place)),
    })
}

impl Machine {
    fn is(&self, header: &[u8; HEADER]) -> bool {
        let number = [header[18], header[19]];
        let number = match header[5] {
            1 => u16::from_le_bytes(number),
            _ => u16::from_be_bytes(number),
        };
        (header[4], header[5], number) == (self.class, self.order, self.number)
    }

    /// Returns the line that registers the program at `place` with binfmt_misc, for every ELF
    /// program of this architecture. The flags make the kernel open the interpreter at once, and
    /// keep the name and credentials of the program.
    fn line(&self, place: &str) -> String {
        let word = |number: u16| match self.order {
            1 => number.to_le_bytes(),
            _ => number.to_be_bytes(),
        };
        let mut magic = vec![0x7f, b'E', b'L', b'F', self.class, self.order, 1];
        magic.resize(16, 0);
        magic.extend(word(2));
        magic.extend(word(self.number));
        // The byte for the operating system is ignored, and position-independent programs count as
        // well.
        let mut mask = vec![0xff; 16];
        mask[7] = 0;
        mask.extend(word(0xfffe));
        mask.extend(word(0xffff));
        let escaped = |bytes: &[u8]| -> String {
            bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
        };
        format!(
            ":qemu-{}:M::{}:{}:/{place}:POCF",
            self.name,
            escaped(&magic),
            escaped(&mask)
        )
    }
}

/// Returns the header of a program in the root; `None` if the file does not exist or is not an ELF
/// program.
fn header(root: BorrowedFd<'_>, path: &str) -> Option<[u8; HEADER]> {
    let file = sys::root::file(root, path).ok()??;
    let mut header = [0; HEADER];
    let length = rustix::io::pread(file, &mut header[..], 0).ok()?;
    (length == HEADER && header.starts_with(b"\x7fELF")).then_some(header)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::*;

    fn root(machine: u16, class: u8, order: u8) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let mut program = vec![0x7f, b'E', b'L', b'F', class, order, 1];
        program.resize(18, 0);
        program.extend(match order {
            1 => machine.to_le_bytes(),
            _ => machine.to_be_bytes(),
        });
        program.resize(64, 0);
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(root.path().join("bin/busybox"), program).unwrap();
        root
    }

    fn find(root: &Path, host: &Path) -> Option<Interpreter> {
        let root = fs::File::open(root).unwrap();
        interpreter(root.as_fd(), host)
    }

    #[test]
    fn programs_name_their_processor() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("usr/bin")).unwrap();
        fs::write(host.path().join("usr/bin/qemu-s390x-static"), "").unwrap();
        let found = find(root(22, 2, 2).path(), host.path()).unwrap();
        assert_eq!(found.program, Some("/usr/bin/qemu-s390x-static".into()));
        assert_eq!(
            found.line,
            ":qemu-s390x:M::\\x7f\\x45\\x4c\\x46\\x02\\x02\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\
             \\x00\\x02\\x00\\x16:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\
             \\xff\\xfe\\xff\\xff:/usr/bin/qemu-s390x-static:POCF"
        );
        let lacking = find(root(243, 2, 1).path(), host.path()).unwrap();
        assert_eq!(
            (lacking.machine.as_str(), lacking.program),
            ("riscv64", None)
        );
    }

    #[test]
    fn programs_of_the_host_s_processor_need_no_emulator() {
        let own = MACHINES.iter().filter(|one| OWN.contains(&one.name));
        for one in own {
            let root = root(one.number, one.class, one.order);
            assert_eq!(find(root.path(), Path::new("/")), None, "{}", one.name);
        }
        let unknown = root(9999, 2, 1);
        assert_eq!(find(unknown.path(), Path::new("/")), None);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(find(empty.path(), Path::new("/")), None);
    }
}
