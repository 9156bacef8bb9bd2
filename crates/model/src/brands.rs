//! The brand names a configuration may carry.
//!
//! Other releases call the brand that shares the host's own software by other names.
//! Those are accepted and kept, so that their scripts and exports read back unchanged;
//! [`Family`] says how they behave here.

/// The behaviour of a brand, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// The host's own distribution.
    Native,
    /// Any other Linux distribution with its own root.
    Lx,
    /// A machine of its own, with its own kernel.
    Kz,
    /// No brand of a zone: the host itself, as far as it has a configuration.
    Global,
}

/// A brand name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brand {
    /// The name as configured, listed and exported.
    pub name: &'static str,
    /// The behaviour that the brand has.
    pub family: Family,
    /// True where the name alone asks for a sparse root.
    pub sparse: bool,
}

/// The brand of a configuration that names none; exports leave it out.
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
