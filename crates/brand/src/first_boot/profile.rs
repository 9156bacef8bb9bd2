//! The settings of a system that a profile of Solaris names (sysconfig).
//!
//! | property | effect |
//! |---|---|
//! | `system/identity` `config/nodename` | the host name |
//! | `system/config-user` `root_account/password`, `expire`, `ssh_public_keys` | the root user |
//! | `system/config-user` `user_account/login` and others | a user, with a group, a home, keys and a rule of sudo |
//! | `system/timezone` `timezone/localtime` | the time zone |
//! | `system/environment` `environment/LANG` and others | the locale |
//! | `network/dns/client` `config/nameserver`, `search`, `domain` | the resolver |
//! | `system/name-service/switch` `config/host` | the sources of host names |
//! | `site/first-boot` `run/packages`, `run/command` | packages and commands of the first boot |
//!
//! The last service is not one of Solaris. Every other property gets a remark and has no effect.

use std::fmt;
use std::net::IpAddr;

use super::bundle::{Bundle, Property};
use super::values::{
    is_category, is_crypted, is_domain, is_host_name, is_key, is_line, is_locale_name, is_login,
    is_package, is_sources, is_time_zone,
};

/// Maximum length of a value other than a command, in bytes.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// Maximum length of a command of the first boot, in bytes.
const MAX_COMMAND_BYTES: usize = 256 << 10;

/// Maximum number of commands, packages, keys or addresses.
const MAX_VALUES: usize = 256;

/// The settings of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) host_name: Option<String>,
    pub(super) root: Account,
    pub(super) user: Account,
    pub(super) timezone: Option<String>,
    /// Variables of the locale with their values, such as LANG.
    pub(super) locale: Vec<(String, String)>,
    pub(super) name_servers: Vec<IpAddr>,
    pub(super) search: Vec<String>,
    pub(super) domain: Option<String>,
    /// The sources of host names in nsswitch.conf.
    pub(super) host_sources: Option<String>,
    pub(super) packages: Vec<String>,
    pub(super) commands: Vec<String>,
}

/// The settings of one account.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) login: Option<String>,
    /// The crypted password, as shadow(5) has it.
    pub(super) password: Option<String>,
    /// True if the user must set a new password at the first login.
    pub(super) expired: bool,
    pub(super) description: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    /// The rule of sudo, without the name of the user.
    pub(super) sudoers: Option<String>,
    pub(super) keys: Vec<String>,
}

/// Prints no password.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("login", &self.login)
            .field("uid", &self.uid)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

/// Adds the settings of a bundle to the profile. Returns a remark, of one line and without values,
/// for each property that has no effect.
///
/// # Errors
/// Fails with the property and the expected form of its value, but without the value.
pub(super) fn add(profile: &mut Profile, bundle: &Bundle) -> Result<Vec<String>, String> {
    let mut remarks: Vec<String> = bundle
        .skipped
        .iter()
        .map(|element| format!("element {element} has no effect"))
        .collect();
    for property in &bundle.properties {
        let set = set(profile, property);
        let set = set.map_err(|expected| {
            format!(
                "{} {}: expected {expected}",
                property.service, property.name
            )
        })?;
        if let Some(remark) = set {
            remarks.push(format!("{} {}: {remark}", property.service, property.name));
        }
    }
    if profile.user != Account::default() && profile.user.login.is_none() {
        return Err("system/config-user user_account/login is missing".to_owned());
    }
    Ok(remarks)
}

/// Carries out one property. Returns a remark if the property has no effect; the error is the
/// expected form of the value.
fn set(profile: &mut Profile, property: &Property) -> Result<Option<&'static str>, &'static str> {
    const NETWORK: &str = "has no effect: zonecfg configures the network of a zone";
    const NO_EFFECT: &str = "has no effect in a zone on Linux";
    let values = &property.values;
    if values.len() > MAX_VALUES {
        return Err("at most 256 values");
    }
    match (property.service.as_str(), property.name.as_str()) {
        ("system/identity", "config/nodename") => {
            profile.host_name = Some(one(values, is_host_name, "a host name")?);
        }
        ("system/config-user", name) => {
            let Some((group, name)) = name.split_once('/') else {
                return Ok(Some(NO_EFFECT));
            };
            return match group {
                "root_account" => account(&mut profile.root, name, values, true),
                "user_account" => account(&mut profile.user, name, values, false),
                _ => Ok(Some(NO_EFFECT)),
            };
        }
        ("system/timezone", "timezone/localtime") => {
            profile.timezone = Some(one(
                values,
                is_time_zone,
                "a time zone such as Europe/Berlin",
            )?);
        }
        ("system/environment", name) => {
            let name = name.strip_prefix("environment/").unwrap_or_default();
            let is_locale = matches!(name, "LANG" | "LANGUAGE") || is_category(name);
            if !is_locale {
                return Ok(Some(NO_EFFECT));
            }
            let value = one(values, is_locale_name, "a locale such as C.UTF-8")?;
            profile.locale.retain(|(known, _)| known != name);
            profile.locale.push((name.to_owned(), value));
        }
        ("network/dns/client", "config/nameserver") => {
            let addresses: Result<_, _> = values.iter().map(|value| value.parse()).collect();
            profile.name_servers = addresses.map_err(|_| "IP addresses")?;
        }
        ("network/dns/client", "config/search") => {
            profile.search = all(values, is_domain, "domains")?;
        }
        ("network/dns/client", "config/domain") => {
            profile.domain = Some(one(values, is_domain, "a domain")?);
        }
        ("system/name-service/switch", "config/host") => {
            let expected = "words of nsswitch.conf such as: files dns";
            profile.host_sources = Some(one(values, is_sources, expected)?);
        }
        ("site/first-boot", "run/command") => {
            let legal = |text: &str| !text.is_empty() && !text.contains('\0');
            if values.iter().any(|text| text.len() > MAX_COMMAND_BYTES) {
                return Err("commands of at most 256 KiB");
            }
            if !values.iter().all(|text| legal(text)) {
                return Err("commands of the shell");
            }
            profile.commands.extend(values.iter().cloned());
        }
        ("site/first-boot", "run/packages") => {
            profile
                .packages
                .extend(all(values, is_package, "names of packages")?);
        }
        (service, _) if service.starts_with("network/") => return Ok(Some(NETWORK)),
        _ => return Ok(Some(NO_EFFECT)),
    }
    Ok(None)
}

/// Carries out a property of an account.
fn account(
    account: &mut Account,
    name: &str,
    values: &[String],
    is_root: bool,
) -> Result<Option<&'static str>, &'static str> {
    match name {
        "login" if is_root => {
            one(values, |login| login == "root", "root")?;
        }
        "login" => account.login = Some(one(values, is_login, "the name of a user, not root")?),
        "password" => {
            let expected =
                "a crypted password such as mkpasswd(1) or openssl passwd -6 prints, or NP";
            let value = one(values, is_crypted, expected)?;
            account.password = Some(match value.as_str() {
                "NP" => "*".to_owned(),
                "*LK*" => "!".to_owned(),
                _ => value,
            });
        }
        "expire" => {
            let value = one(values, |_| true, "a date")?;
            // Solaris sets 0, which means that the password is expired at the first login.
            account.expired = value == "0";
        }
        "ssh_public_keys" => account.keys = all(values, is_key, "public keys of ssh, of one line")?,
        "description" if !is_root => {
            let legal = |text: &str| !text.contains(':') && is_line(text);
            account.description = Some(one(values, legal, "one line without a colon")?);
        }
        "shell" => {
            let legal = |text: &str| {
                text.starts_with('/')
                    && text.bytes().all(|byte| byte.is_ascii_graphic())
                    && !text.contains(':')
            };
            account.shell = Some(one(values, legal, "the path of a shell")?);
        }
        "uid" if !is_root => account.uid = id(values)?,
        "gid" if !is_root => account.gid = id(values)?,
        "sudoers" if !is_root => {
            let expected = "a rule such as: ALL=(ALL) ALL";
            let legal = |text: &str| !text.is_empty() && is_line(text) && !text.ends_with('\\');
            account.sudoers = Some(one(values, legal, expected)?);
        }
        // Solaris' root may be a role, into which a user changes; here root is a user.
        "type" => {}
        _ => return Ok(Some("has no effect in a zone on Linux")),
    }
    Ok(None)
}

/// Returns the number of a user or group; `None` for 0, with which Solaris chooses a free number.
fn id(values: &[String]) -> Result<Option<u32>, &'static str> {
    const EXPECTED: &str = "a number from 100 to 60000, or 0 for a free number";
    match one(values, |_| true, EXPECTED)?.parse() {
        Ok(0) => Ok(None),
        Ok(id @ 100..=60_000) => Ok(Some(id)),
        _ => Err(EXPECTED),
    }
}

/// Returns the single value of a property.
fn one(
    values: &[String],
    legal: impl Fn(&str) -> bool,
    expected: &'static str,
) -> Result<String, &'static str> {
    match values {
        [value] if value.len() <= MAX_VALUE_BYTES && legal(value) => Ok(value.clone()),
        _ => Err(expected),
    }
}

/// Returns all values of a property.
fn all(
    values: &[String],
    legal: impl Fn(&str) -> bool,
    expected: &'static str,
) -> Result<Vec<String>, &'static str> {
    let good = |value: &String| value.len() <= MAX_VALUE_BYTES && legal(value);
    match values.iter().all(good) {
        true => Ok(values.to_vec()),
        false => Err(expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(properties: &[(&str, &str, &[&str])]) -> Bundle {
        let properties = properties.iter().map(|(service, name, values)| Property {
            service: (*service).to_owned(),
            name: (*name).to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        });
        Bundle {
            properties: properties.collect(),
            skipped: Vec::new(),
        }
    }

    const USER: &str = "system/config-user";

    #[test]
    fn takes_the_properties_of_sysconfig() {
        let mut profile = Profile::default();
        let remarks = add(
            &mut profile,
            &bundle(&[
                ("system/identity", "config/nodename", &["db-1.example"]),
                (USER, "root_account/login", &["root"]),
                (USER, "root_account/password", &["$6$salt$hash"]),
                (USER, "root_account/type", &["role"]),
                (USER, "user_account/login", &["jack"]),
                (USER, "user_account/password", &["NP"]),
                (USER, "user_account/uid", &["0"]),
                (USER, "user_account/gid", &["100"]),
                (USER, "user_account/sudoers", &["ALL=(ALL) ALL"]),
                (USER, "user_account/roles", &["root"]),
                (
                    USER,
                    "user_account/ssh_public_keys",
                    &["ssh-ed25519 AAAA jack"],
                ),
                ("system/timezone", "timezone/localtime", &["Europe/Berlin"]),
                ("system/environment", "environment/LC_ALL", &["C.UTF-8"]),
                ("system/environment", "environment/PATH", &["/x"]),
                (
                    "network/dns/client",
                    "config/nameserver",
                    &["192.0.2.1", "2001:db8::1"],
                ),
                ("network/physical", "netcfg/active_ncp", &["DefaultFixed"]),
                ("system/console-login", "ttymon/terminal_type", &["vt100"]),
                ("site/first-boot", "run/command", &["echo a", "echo b"]),
            ]),
        )
        .unwrap();
        assert_eq!(
            remarks,
            [
                "system/config-user user_account/roles: has no effect in a zone on Linux",
                "system/environment environment/PATH: has no effect in a zone on Linux",
                "network/physical netcfg/active_ncp: has no effect: zonecfg configures the network of a zone",
                "system/console-login ttymon/terminal_type: has no effect in a zone on Linux",
            ]
        );
        assert_eq!(profile.host_name.as_deref(), Some("db-1.example"));
        assert_eq!(profile.root.password.as_deref(), Some("$6$salt$hash"));
        assert_eq!(profile.user.password.as_deref(), Some("*"));
        assert_eq!((profile.user.uid, profile.user.gid), (None, Some(100)));
        assert_eq!(profile.name_servers.len(), 2);
        assert_eq!(profile.commands, ["echo a", "echo b"]);
        assert!(!format!("{profile:?}").contains("hash"));
    }

    #[test]
    fn refuses_values_that_files_of_the_zone_cannot_hold() {
        for (service, name, value) in [
            ("system/identity", "config/nodename", "a b"),
            ("system/identity", "config/nodename", "../x"),
            (USER, "root_account/password", "plain geheim"),
            (USER, "root_account/password", "$6$geheim:0:0"),
            (USER, "root_account/password", "$6$geheim\nroot2::0:0"),
            (USER, "root_account/login", "toor"),
            (USER, "user_account/login", "root"),
            (USER, "user_account/login", "a:b"),
            (USER, "user_account/login", "../../etc"),
            (USER, "user_account/uid", "99"),
            (USER, "user_account/description", "a:b"),
            (USER, "user_account/shell", "bin/sh"),
            (USER, "user_account/sudoers", "ALL=ALL\nother ALL=ALL"),
            (USER, "user_account/ssh_public_keys", "ssh-rsa A\nssh-rsa B"),
            (
                "system/timezone",
                "timezone/localtime",
                "../../../etc/shadow",
            ),
            ("system/timezone", "timezone/localtime", "/etc/shadow"),
            ("system/environment", "environment/LANG", "$(id)"),
            ("network/dns/client", "config/nameserver", "example.org"),
            (
                "network/dns/client",
                "config/search",
                "a\nnameserver 1.2.3.4",
            ),
            (
                "system/name-service/switch",
                "config/host",
                "files\npasswd: x",
            ),
            ("site/first-boot", "run/packages", "-oDir::Etc=/x"),
            ("site/first-boot", "run/command", ""),
        ] {
            let bundle = bundle(&[(service, name, &[value])]);
            let error = add(&mut Profile::default(), &bundle).unwrap_err();
            assert!(
                error.starts_with(&format!("{service} {name}: expected ")),
                "{error}"
            );
            assert!(!error.contains("geheim"), "{error}");
        }
        let nameless = bundle(&[(USER, "user_account/shell", &["/bin/sh"])]);
        let error = add(&mut Profile::default(), &nameless).unwrap_err();
        assert_eq!(error, "system/config-user user_account/login is missing");
    }
}
