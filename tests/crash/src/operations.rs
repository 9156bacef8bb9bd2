//! The operations that are killed: the preparation of each, its command, and the check that the
//! next command succeeds.

mod life;
mod machine;
mod moving;
mod operation;
mod patched;
mod places;
mod small;
mod storage;
mod zones;

use e2e::Host;
use e2e::run::run;

pub use operation::Operation;

/// Returns all operations, the quick ones first.
#[must_use]
pub fn all() -> Vec<Operation> {
    [
        storage::all(),
        places::all(),
        life::all(),
        moving::all(),
        machine::all(),
        patched::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Uninstalls and deletes every zone of a host.
pub fn clear(host: &Host) {
    for row in host.rows() {
        if row.state == "mounted" {
            host.on(&row.name, &["unmount"]).quiet();
        }
        zones::remove(host, &row.name);
        run(
            &mut host.command("zonecfg", &["-z", &row.name, "delete -F"]),
            b"",
        )
        .quiet();
    }
}
