//! Starts and stops the enabled services of a zone, as sysvinit does for runlevel 2.
//!
//! update-rc.d(8) and `systemctl enable` make a link `/etc/rc2.d/S01NAME` to the script
//! `/etc/init.d/NAME` of a service, if the package of the service has such a script. At boot, each
//! script with a link `S*` gets the argument `start`, in the order of the names. At shutdown, each
//! script with a link `K*` in `/etc/rc0.d` gets the argument `stop`. A zone without links in
//! `/etc/rc2.d`, such as a new sparse zone, starts no shell for this.

use core::ffi::CStr;

use crate::console::{Digits, say};

/// The folder with the links of the enabled services.
const ENABLED: &CStr = c"/etc/rc2.d";

const SHELL: &CStr = c"/bin/sh";

/// The environment of the scripts, with the names that the rc program of sysvinit sets.
const ENVIRONMENT: [&CStr; 4] = [
    c"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    c"HOME=/root",
    c"RUNLEVEL=2",
    c"PREVLEVEL=N",
];

/// An order to the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Start,
    Stop,
}

/// Starts a shell that gives the order to each enabled service. Returns the pid of the shell;
/// `None` if no service is enabled.
pub(crate) fn run(order: Order) -> Option<i32> {
    if !start::has_name(ENABLED, b'S') {
        return None;
    }
    let commands = match order {
        Order::Start => c"for s in /etc/rc2.d/S*; do [ -x $s ] && $s start; done; :",
        Order::Stop => c"for s in /etc/rc0.d/K*; do [ -x $s ] && $s stop; done; :",
    };
    match start::spawn(SHELL, &[c"-c", commands], &ENVIRONMENT) {
        Ok(pid) => Some(pid),
        Err(errno) => {
            let number = Digits::of(u8::try_from(errno.0).unwrap_or(u8::MAX));
            say(&[b"/etc/rc2.d: error ", number.as_bytes()]);
            None
        }
    }
}
