//! Ports below 1024 for the root of a shared-IP zone.
//!
//! A shared network belongs to the host, and the zone's root has no capability there:
//! CAP_NET_BIND_SERVICE in the zone is none. The sysctl `ip_unprivileged_port_start`
//! would open these ports to every user of the zone. So a BPF program at bind(2) of the
//! zone's processes lets those of its root have them.

use std::os::fd::AsFd;

use sys::bpf::{Assembler, Condition, Register};

use crate::{Error, ZoneCgroups};

/// The number of the kernel's function bpf_get_current_uid_gid(): it returns the real user id on
/// the host in the lower 32 bits.
const GET_CURRENT_UID_GID: i32 = 15;

/// The process may bind the ports that its capabilities allow.
const AS_USUAL: i32 = 1;
/// It needs no capability.
const ANY_PORT: i32 = 3;

impl ZoneCgroups {
    /// Lets the zone's processes with this real user id of the host's, that of the
    /// zone's root, bind ports below 1024. Other processes of the zone are as before.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses the program.
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
