//! Checks signatures with gpgv, the verifier of GnuPG.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use catalogue::signed::{self, Signature};
use host::Error;

use super::chosen::refused;

/// The folders in which gpgv is searched. The caller's PATH is not used.
const PROGRAM_DIRS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Maximum number of bytes of the status lines of gpgv that are read.
const MAX_STATUS: u64 = 64 << 10;

/// Fails if a file is not a keyring for gpgv, or if others than root can change it.
pub(super) fn check_keyring(path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let mut file = File::open(path).map_err(Error::io(format!("read the keyring {shown}")))?;
    let about = file.metadata();
    let about = about.map_err(Error::io(format!("read the keyring {shown}")))?;
    if !about.is_file() {
        return Err(refused(format!(
            "{shown}: expected a keyring, found no regular file"
        )));
    }
    if about.uid() != 0 || about.mode() & 0o022 != 0 {
        return Err(refused(format!(
            "{shown}: expected a keyring that only root can change, found owner {} and mode {:o}; chown root and chmod go-w it",
            about.uid(),
            about.mode() & 0o7777
        )));
    }
    let mut begin = [0; 10];
    let read = file.read(&mut begin);
    let read = read.map_err(Error::io(format!("read the keyring {shown}")))?;
    if read == 0 || begin.starts_with(b"-----BEGIN") {
        return Err(refused(format!(
            "{shown}: expected a binary keyring, found {}; make one: gpg --dearmor < KEY.asc > KEYRING.gpg",
            if read == 0 {
                "an empty file"
            } else {
                "an armoured key"
            }
        )));
    }
    Ok(())
}

/// Returns the signed text of a clear-signed document, which is read from the file that gpgv wrote.
pub(super) fn clear_signed(
    keyring: &Path,
    folder: &Path,
    document: &Path,
    most: u64,
) -> Result<(Vec<u8>, Signature), Error> {
    let text = read(document, most)?;
    if !signed::is_one_message(&text) {
        return Err(refused(
            "expected one clear-signed message, found other text in the document".to_owned(),
        ));
    }
    let output = document.with_extension("text");
    let _ = fs::remove_file(&output);
    let signature = gpgv(keyring, folder, &[Path::new("--output"), &output, document])?;
    Ok((read(&output, most)?, signature))
}

/// Returns the text of a document with a detached signature.
pub(super) fn detached(
    keyring: &Path,
    folder: &Path,
    signature: &Path,
    document: &Path,
    most: u64,
) -> Result<(Vec<u8>, Signature), Error> {
    let checked = gpgv(keyring, folder, &[signature, document])?;
    Ok((read(document, most)?, checked))
}

/// Runs gpgv with an empty home folder.
fn gpgv(keyring: &Path, folder: &Path, words: &[&Path]) -> Result<Signature, Error> {
    check_keyring(keyring)?;
    let program = program()?;
    let home = folder.join("gpgv");
    if !home.is_dir() {
        let made = fs::DirBuilder::new().mode(0o700).create(&home);
        made.map_err(Error::io(format!("make folder {}", home.display())))?;
    }
    let fail = || Error::io(format!("run {}", program.display()));
    let mut child = Command::new(&program)
        .env_clear()
        .env("LC_ALL", "C")
        .args(["--status-fd", "1", "--homedir"])
        .arg(&home)
        .arg("--keyring")
        .arg(keyring)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fail())?;
    let mut lines = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(MAX_STATUS).read_to_end(&mut lines);
        read.map_err(fail())?;
    }
    let status = child.wait().map_err(fail())?;
    let lines = String::from_utf8_lossy(&lines);
    let signature = signed::status(&lines).map_err(|why| refused(why.to_string()))?;
    match status.success() {
        true => Ok(signature),
        false => Err(refused(format!(
            "no valid signature ({}: {status})",
            program.display()
        ))),
    }
}

fn program() -> Result<PathBuf, Error> {
    let places = PROGRAM_DIRS
        .iter()
        .map(|folder| Path::new(folder).join("gpgv"));
    places
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            refused(format!(
                "could not find gpgv in {}, which checks signatures; install the package gpgv",
                PROGRAM_DIRS.join(", ")
            ))
        })
}

/// Reads a downloaded file.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(Error::io(format!("read {}", path.display())))?;
    let read = file.take(most).read_to_end(&mut text);
    read.map_err(Error::io(format!("read {}", path.display())))?;
    Ok(text)
}
