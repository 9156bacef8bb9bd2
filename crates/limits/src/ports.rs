//! Lets the root of a shared-IP zone bind ports below 1024.
//!
//! A shared network namespace belongs to the host, so the CAP_NET_BIND_SERVICE of the zone's root
//! has no effect there. The sysctl `ip_unprivileged_port_start` would open these ports to every
//! user of the zone. Therefore a BPF program at bind(2) of the zone's processes allows these ports
//! for the zone's root.

use std::os::fd::AsFd;

use sys::bpf::{Assembler, Condition, Register};

use crate::{Error, ZoneCgroups};

/// The number of the kernel's function bpf_get_current_uid_gid(), which returns the real user id on
/// the host in the lower 32 bits.
const GET_CURRENT_UID_GID: i32 = 15;

/// The process may bind only the ports that its capabilities allow.
const AS_USUAL: i32 = 1;
/// The process may bind every port without a capability.
const ANY_PORT: i32 = 3;

impl ZoneCgroups {
    /// Lets the zone's processes with this real user id on the host, the id of the zone's root,
    /// bind ports below 1024. For the zone's other processes nothing changes.
    ///
    /// # Errors
    /// Fails with [`Error::File`] if the kernel refuses the program.
    pub fn admit_low_ports(&self, root: u32) -> Result<(), Error> {
        let folder = self.open_v2()?;
        sys::bpf::attach_bind_filters(folder.as_fd(), &program(root))
            .map_err(Error::file("admit to low ports the root of", &self.v2))
    }
}

fn program(root: u32) -> Vec<u64> {
    use Register::R0;
    let mut code = Assembler::new();
    let others = code.label();
    code.call(GET_CURRENT_UID_GID);
    code.jump_if(R0, Condition::NotEqual, root, others);
    code.set(R0, ANY_PORT);
    code.exit();
    code.place(others);
    code.set(R0, AS_USUAL);
    code.exit();
    code.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_instructions() {
        let text = sys::bpf::listing::extended(&super::program(100_000));
        insta::assert_snapshot!(text);
    }
}
