//! The brand names that a configuration may have.
//!
//! Other releases use other names for the brand that shares the host's own software. These other
//! brand names are accepted and stored, so that scripts and exports of other releases read back
//! unchanged. On Linux, [`Family`] is the behaviour of each brand name.

/// The behaviour of a brand. Several brand names may have the same behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// The zone runs the host's own distribution.
    Native,
    /// The zone runs another Linux distribution with its own root.
    Lx,
    /// The zone is a kernel zone: a guest of QEMU with its own kernel.
    Kz,
    /// The global zone, which has no brand: the host itself, as far as it has a configuration.
    Global,
}

/// A brand name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brand {
    /// The name as configured, listed and exported.
    pub name: &'static str,
    /// The behaviour that the brand has.
    pub family: Family,
    /// True if the brand name alone asks for a sparse root.
    pub sparse: bool,
}

/// The brand of a configuration that names no brand. Exports leave the default brand out.
pub const DEFAULT: &str = "native";

/// Every known brand name.
pub static BRANDS: &[Brand] = &[
    brand("native", Family::Native),
    brand("lx", Family::Lx),
    brand("kz", Family::Kz),
    brand("solaris-kz", Family::Kz),
    brand("solaris", Family::Native),
    brand("ipkg", Family::Native),
    brand("lipkg", Family::Native),
    Brand {
        name: "sparse",
        family: Family::Native,
        sparse: true,
    },
];

const fn brand(name: &'static str, family: Family) -> Brand {
    Brand {
        name,
        family,
        sparse: false,
    }
}

/// Finds a brand by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Brand> {
    BRANDS.iter().find(|brand| brand.name == name)
}
