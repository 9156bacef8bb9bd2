//! Reads the description of the processor from CPUID, which is the same for every kernel.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// The model of a processor and its features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The name of the vendor.
    pub vendor: String,
    /// The family, model and stepping, in the format of the CPUID register.
    pub signature: u32,
    /// The feature bits of each CPUID register.
    pub features: Vec<(&'static str, u32)>,
}

/// Returns the description of the core that runs this code. Other cores may be of another kind.
#[must_use]
pub fn find() -> Processor {
    let most = ask(0, 0).eax;
    let most_extended = ask(0x8000_0000, 0).eax;
    // For an unsupported leaf, CPUID returns the values of another leaf.
    let leaf = |number: u32, part: u32| match number <= most
        || (number >= 0x8000_0000 && number <= most_extended)
    {
        true => ask(number, part),
        false => CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        },
    };
    let names = ask(0, 0);
    let vendor = [names.ebx, names.edx, names.ecx].map(u32::to_le_bytes);
    let first = leaf(1, 0);
    let seventh = leaf(7, 0);
    let more = match seventh.eax {
        0 => [0; 2],
        _ => [leaf(7, 1).eax, leaf(7, 1).edx],
    };
    let extended = leaf(0x8000_0001, 0);
    Processor {
        vendor: String::from_utf8_lossy(&vendor.concat()).into_owned(),
        signature: first.eax,
        features: vec![
            // These feature bits depend on the kernel's settings and are left out: OSXSAVE, the
            // APIC, OSPKE.
            ("1.ecx", first.ecx & !(1 << 27)),
            ("1.edx", first.edx & !(1 << 9)),
            ("7.ebx", seventh.ebx),
            ("7.ecx", seventh.ecx & !(1 << 4)),
            ("7.edx", seventh.edx),
            ("7-1.eax", more[0]),
            ("7-1.edx", more[1]),
            ("d.eax", leaf(0xd, 0).eax),
            ("d-1.eax", leaf(0xd, 1).eax),
            ("80000001.ecx", extended.ecx),
            ("80000001.edx", extended.edx),
            ("80000007.edx", leaf(0x8000_0007, 0).edx),
            ("80000008.ebx", leaf(0x8000_0008, 0).ebx),
        ],
    }
}

fn ask(leaf: u32, part: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    // SAFETY: every x86-64 processor has the instruction, which takes two numbers and changes only
    // the registers with its result.
    unsafe {
        __cpuid_count(leaf, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_described_the_same_each_time() {
        let one = find();
        assert_eq!(one.vendor.len(), 12);
        assert_ne!(one.signature, 0);
        // Every x86-64 processor has SSE2.
        let bits = one.features.iter().find(|(name, _)| *name == "1.edx");
        assert_ne!(bits.unwrap().1 & 1 << 26, 0);
        // The test may run on any core.
        for _ in 0..100 {
            assert_eq!(find(), one);
            std::thread::yield_now();
        }
    }
}
