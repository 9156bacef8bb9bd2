//! PAM's common files, and the files that `su` and `login` need.
//!
//! The host's own files are configuration of the site. A zone gets the packaged templates, with the
//! one profile that every system has: passwords in /etc/shadow. pam-auth-update(8) writes the same
//! if nothing else is installed. But it considers these files as edited by hand: run
//! `pam-auth-update --force` in the zone to let it manage them again.

use std::path::Path;

use crate::install::Error;
use crate::native::fill::Fill;
use crate::native::generated::put;

const TEMPLATES: &str = "usr/share/pam";
const MAX_FILE: u64 = 64 << 10;

/// A file, and the values of its two placeholders.
struct Common {
    name: &'static str,
    kind: &'static str,
    primary: &'static str,
    additional: &'static str,
}

const COMMON: &[Common] = &[
    Common {
        name: "common-account",
        kind: "account",
        primary: "account\t[success=1 new_authtok_reqd=done default=ignore]\tpam_unix.so",
        additional: "",
    },
    Common {
        name: "common-auth",
        kind: "auth",
        primary: "auth\t[success=1 default=ignore]\tpam_unix.so nullok",
        additional: "",
    },
    Common {
        name: "common-password",
        kind: "password",
        primary: "password\t[success=1 default=ignore]\tpam_unix.so obscure yescrypt",
        additional: "",
    },
    Common {
        name: "common-session",
        kind: "session",
        primary: "session\t[default=1]\t\t\tpam_permit.so",
        additional: "session\trequired\tpam_unix.so",
    },
    Common {
        name: "common-session-noninteractive",
        kind: "session_nonint",
        primary: "session\t[default=1]\t\t\tpam_permit.so",
        additional: "session\trequired\tpam_unix.so",
    },
];

/// Services that must work although the host's changed file was not copied: root may become any
/// user, and other users need their password.
const SERVICES: &[(&str, &str)] = &[
    ("login", COMMON_STACK),
    ("other", COMMON_STACK),
    ("su", SU_STACK),
    ("su-l", SU_STACK),
];

const COMMON_STACK: &str = "@include common-auth\n@include common-account\n\
    @include common-password\n@include common-session\n";
const SU_STACK: &str = "auth\tsufficient\tpam_rootok.so\n@include common-auth\n\
    @include common-account\n@include common-session\n";

/// Makes the files if the host has PAM.
pub fn make(fill: &mut Fill<'_>) -> Result<(), Error> {
    let mut any = false;
    for common in COMMON {
        let template = Path::new(TEMPLATES).join(common.name);
        let Some((template, _)) = fill.host.read(&template, MAX_FILE)? else {
            continue;
        };
        let text = String::from_utf8_lossy(&template)
            .replace(&format!("${}_primary", common.kind), common.primary)
            .replace(&format!("${}_additional", common.kind), common.additional);
        put(fill, &format!("etc/pam.d/{}", common.name), text.as_bytes())?;
        any = true;
    }
    if any {
        for (service, stack) in SERVICES {
            put(fill, &format!("etc/pam.d/{service}"), stack.as_bytes())?;
        }
    }
    Ok(())
}
