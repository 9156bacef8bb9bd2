//! Communication with a zoneadmd: its protocol, its client, its log, and the socket of beadm inside
//! a zone.

pub mod audit;
pub mod beadm_socket;
pub mod client;
pub mod log;
pub mod protocol;
