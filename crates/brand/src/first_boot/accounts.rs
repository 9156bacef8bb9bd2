//! Changes the accounts of a root: passwd, shadow and group.
//!
//! The files may come from a hostile image, so they are bounded, and every line that is no plain
//! entry is kept as it is.

use std::path::Path;

use super::profile::Account;
use crate::Error;
use crate::identity::Stack;
use crate::tree::Meta;

/// Maximum size of an account file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The first and the last id that a new user gets, as login.defs of most distributions has them.
const FREE_IDS: std::ops::Range<u32> = 1000..60_000;

/// Sets the password, the shell and the keys of the root user.
pub(super) fn set_root(stack: &mut Stack, account: &Account) -> Result<(), Error> {
    if let Some(shell) = &account.shell {
        let mut passwd = Table::read(stack, "etc/passwd")?;
        passwd.set("root", 6, shell);
        passwd.write(stack, 0o644)?;
    }
    set_password(stack, "root", account)?;
    write_keys(stack, Path::new("root"), Meta::root(0o700), &account.keys)
}

/// Makes a user with a group and a home, or changes the user of this name.
pub(super) fn set_user(stack: &mut Stack, login: &str, account: &Account) -> Result<(), Error> {
    let mut passwd = Table::read(stack, "etc/passwd")?;
    let mut group = Table::read(stack, "etc/group")?;
    let (uid, gid, home);
    match passwd.find(login) {
        Some(entry) => {
            let number = |field: usize| entry.get(field).and_then(|id| id.parse().ok());
            uid = number(2).unwrap_or(0);
            gid = number(3).unwrap_or(0);
            home = entry.get(5).cloned().unwrap_or_default();
            let same = |wanted: Option<u32>, found| wanted.is_none_or(|wanted| wanted == found);
            if uid == 0 || !same(account.uid, uid) || !same(account.gid, gid) {
                return Err(Error::Refused(format!(
                    "the root has a user {login} with the ids {uid} and {gid}: expected another name, or these ids"
                )));
            }
        }
        None => {
            uid = account.uid.map_or_else(|| passwd.free(&group), Ok)?;
            gid = match account.gid {
                Some(gid) => gid,
                None => group.add_group(login, uid)?,
            };
            home = format!("/home/{login}");
            passwd.add(format!("{login}:x:{uid}:{gid}::{home}:/bin/sh"));
        }
    }
    if let Some(text) = &account.description {
        passwd.set(login, 4, text);
    }
    let bash = ["bin/bash", "usr/bin/bash"];
    let new_shell = match &account.shell {
        Some(shell) => Some(shell.as_str()),
        None if stack.has_any(&bash)? => Some("/bin/bash"),
        None => None,
    };
    if let Some(shell) = new_shell {
        passwd.set(login, 6, shell);
    }
    group.write(stack, 0o644)?;
    passwd.write(stack, 0o644)?;
    set_password(stack, login, account)?;
    if let Some(rule) = &account.sudoers {
        // sudo reads no file with a dot in its name.
        let name = format!("etc/sudoers.d/zone-{}", login.replace('.', "_"));
        let text = format!("{login} {rule}\n");
        stack.replace(Path::new(&name), Meta::root(0o440), text.as_bytes())?;
    }
    let Some(home) = home.strip_prefix('/').filter(|home| !home.is_empty()) else {
        return Ok(());
    };
    let owner = Meta {
        mode: 0o700,
        uid,
        gid,
    };
    if !stack.has_any(&[home])? {
        stack.folder(Path::new(home), owner)?;
    }
    write_keys(stack, Path::new(home), owner, &account.keys)
}

/// Writes the password into shadow. An account that is new there, and for which no password is set,
/// gets none: no password is right for it.
fn set_password(stack: &mut Stack, login: &str, account: &Account) -> Result<(), Error> {
    let mut shadow = Table::read(stack, "etc/shadow")?;
    let is_new = shadow.find(login).is_none();
    if is_new {
        shadow.add(format!("{login}:*::0:99999:7:::"));
    }
    if let Some(password) = &account.password {
        shadow.set(login, 1, password);
        // Without a date of the last change, the age of a password is not checked.
        shadow.set(login, 2, "");
    }
    if account.expired {
        shadow.set(login, 2, "0");
    }
    match is_new || account.password.is_some() || account.expired {
        true => shadow.write(stack, 0o600),
        false => Ok(()),
    }
}

/// Writes the keys with which the user may log in. `owner` is the meta data of the home.
fn write_keys(stack: &mut Stack, home: &Path, owner: Meta, keys: &[String]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    stack.folder(&home.join(".ssh"), owner)?;
    let mut text = keys.join("\n");
    text.push('\n');
    let meta = Meta {
        mode: 0o600,
        ..owner
    };
    stack.replace(&home.join(".ssh/authorized_keys"), meta, text.as_bytes())
}

/// A file of lines whose fields are separated by colons.
struct Table {
    name: &'static str,
    lines: Vec<String>,
    meta: Option<Meta>,
}

impl Table {
    fn read(stack: &Stack, name: &'static str) -> Result<Self, Error> {
        let found = stack.read_with_meta(Path::new(name), MAX_FILE_BYTES)?;
        let (lines, meta) = match found {
            Some((content, meta)) => {
                let text = String::from_utf8(content).map_err(|_| {
                    Error::Refused(format!("/{name} of the root: expected text in UTF-8"))
                })?;
                (text.lines().map(str::to_owned).collect(), Some(meta))
            }
            None => (Vec::new(), None),
        };
        Ok(Self { name, lines, meta })
    }

    /// Returns the fields of an entry.
    fn find(&self, key: &str) -> Option<Vec<String>> {
        self.fields()
            .find(|fields| fields.first() == Some(&key))
            .map(|fields| fields.iter().map(|&field| field.to_owned()).collect())
    }

    fn fields(&self) -> impl Iterator<Item = Vec<&str>> {
        self.lines.iter().map(|line| line.split(':').collect())
    }

    /// Sets a field of an entry that has this field.
    fn set(&mut self, key: &str, field: usize, value: &str) {
        for line in &mut self.lines {
            let mut fields: Vec<&str> = line.split(':').collect();
            if fields.first() == Some(&key) && fields.len() > field {
                fields[field] = value;
                *line = fields.join(":");
                return;
            }
        }
    }

    fn add(&mut self, line: String) {
        self.lines.push(line);
    }

    fn has_id(&self, id: u32) -> bool {
        let id = id.to_string();
        self.fields()
            .any(|fields| fields.get(2) == Some(&id.as_str()))
    }

    /// Returns a number that is free in this table and in `other`.
    fn free(&self, other: &Self) -> Result<u32, Error> {
        let mut ids = FREE_IDS;
        let free = ids.find(|&id| !self.has_id(id) && !other.has_id(id));
        free.ok_or_else(|| Error::Refused(format!("/{}: no id is free", self.name)))
    }

    /// Adds a group, with this number if it is free. Returns the number of the group.
    fn add_group(&mut self, name: &str, wanted: u32) -> Result<u32, Error> {
        if let Some(found) = self.find(name) {
            let id = found.get(2).and_then(|id| id.parse().ok());
            return id.ok_or_else(|| Error::Refused(format!("/etc/group: {name} has no number")));
        }
        let id = match self.has_id(wanted) {
            true => self.free(self)?,
            false => wanted,
        };
        self.add(format!("{name}:x:{id}:"));
        Ok(id)
    }

    /// Writes the file with its present mode, or with `mode` if it is new.
    fn write(&self, stack: &mut Stack, mode: u32) -> Result<(), Error> {
        let mut text = self.lines.join("\n");
        text.push('\n');
        let meta = self.meta.unwrap_or(Meta::root(mode));
        stack.replace(Path::new(self.name), meta, text.as_bytes())
    }
}
