//! The first boot of a zone, as the administrator describes it.

mod bundle;
mod profile;
mod values;
