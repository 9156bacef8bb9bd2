//! Authorizations, and the rule that decides which user has which of them.

use std::fmt;

use model::Config;

/// The authorizations that the `auths` of an `admin` resource can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Auth {
    /// Entering the zone with zlogin, as root of the zone.
    Login,
    /// Installing, booting, halting and uninstalling the zone.
    Manage,
    /// Making clones of the zone.
    Clonefrom,
    /// Creating zones whose configuration is a copy of this zone's.
    Copyfrom,
    /// Changing the stored configuration of the zone.
    Config,
    /// Changing the configuration of the zone while the zone runs.
    Liveconfig,
    /// Moving the zone to another host.
    Migrate,
}

impl Auth {
    /// All authorizations.
    pub const ALL: [Self; 7] = [
        Self::Login,
        Self::Manage,
        Self::Clonefrom,
        Self::Copyfrom,
        Self::Config,
        Self::Liveconfig,
        Self::Migrate,
    ];

    /// Returns the word for this authorization in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Manage => "manage",
            Self::Clonefrom => "clonefrom",
            Self::Copyfrom => "copyfrom",
            Self::Config => "config",
            Self::Liveconfig => "liveconfig",
            Self::Migrate => "migrate",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A set of authorizations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auths(u8);

impl Auths {
    /// Returns the authorizations in a comma-separated list. Unknown words in the list are ignored,
    /// because a newer release may have written them.
    #[must_use]
    pub fn of_list(list: &str) -> Self {
        let words = list.split(',').map(str::trim);
        let known = words.filter_map(|word| Auth::ALL.into_iter().find(|a| a.as_str() == word));
        Self(known.fold(0, |bits, auth| bits | auth.bit()))
    }

    /// Returns true if `auth` is in the set.
    #[must_use]
    pub const fn has(self, auth: Auth) -> bool {
        self.0 & auth.bit() != 0
    }

    /// Returns true if at least one of `wanted` is in the set. If `wanted` is empty, returns false.
    #[must_use]
    pub fn has_any(self, wanted: &[Auth]) -> bool {
        wanted.iter().any(|&auth| self.has(auth))
    }
}

/// Returns the authorizations that the `admin` resources of a configuration give to the user whose
/// names `is_user` knows.
#[must_use]
pub fn given(config: &Config, mut is_user: impl FnMut(&str) -> bool) -> Auths {
    let mut bits = 0;
    for admin in config.resources_of("admin") {
        if is_user(admin.get("user")) {
            bits |= Auths::of_list(admin.get("auths")).0;
        }
    }
    Auths(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bits_are_unique() {
        for (place, auth) in Auth::ALL.into_iter().enumerate() {
            assert_eq!(Auths::of_list(auth.as_str()).0, 1 << place);
        }
    }

    #[test]
    fn only_exact_known_authorizations_count() {
        let auths = Auths::of_list("login, manage");
        assert!(auths.has(Auth::Login) && auths.has(Auth::Manage));
        assert!(!auths.has(Auth::Config));
        for none in [
            "",
            ",",
            "Login",
            "logins",
            "log in",
            "all",
            "*",
            "login\n,",
            "migrate.cold",
            "login;manage",
        ] {
            let auths = Auths::of_list(none);
            if none == "login\n," {
                // White space around a word of the list is ignored.
                assert!(auths.has(Auth::Login));
            } else {
                assert_eq!(auths, Auths::default(), "{none:?}");
            }
        }
        assert!(!auths.has_any(&[]));
        assert!(auths.has_any(&[Auth::Config, Auth::Login]));
    }
}
