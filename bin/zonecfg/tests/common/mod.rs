//! Runs the built program on a root of its own.

// Each test file is a program of its own and uses only some of these helpers.
#![allow(dead_code)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The program under test.
pub const ZONECFG: &str = env!("CARGO_BIN_EXE_zonecfg");

/// A root with no zones.
pub struct Host {
    dir: TempDir,
}

impl Host {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a root with the zone `web1`, made by `create -b`.
    pub fn with_web1() -> Self {
        let host = Self::new();
        assert_eq!(host.status(&["-z", "web1", "create -b"]), 0);
        host
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn root(&self) -> store::Root {
        store::Root::new(self.dir())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ZONECFG);
        command
            .args(args)
            .env_clear()
            .env("ZONES_ROOT", self.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn status(&self, args: &[&str]) -> i32 {
        self.command(args).status().unwrap().code().unwrap()
    }

    /// Returns the output and the status of a call, normalized for a snapshot.
    pub fn run(&self, args: &[&str]) -> String {
        self.report(args, None)
    }

    /// Runs the program with `input` at standard input. Returns its output and status, normalized
    /// for a snapshot.
    pub fn run_with(&self, args: &[&str], input: &str) -> String {
        self.report(args, Some(input))
    }

    /// Runs several calls, each with `-z web1`.
    pub fn transcript(&self, commands: &[&str]) -> String {
        let runs = commands
            .iter()
            .map(|words| self.run(&["-z", "web1", words]));
        runs.collect::<Vec<_>>().join("\n")
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn set_state(&self, zone: &str, state: model::State) {
        store::index::update::<_, store::Error>(&self.root(), |index| {
            let mut entry = index.get(&zone.parse().unwrap())?.clone();
            entry.state = state;
            index.put(entry);
            Ok(())
        })
        .unwrap();
    }

    fn report(&self, args: &[&str], input: Option<&str>) -> String {
        let mut command = self.command(args);
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some(input) = input {
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let mut text = format!("$ zonecfg {}\n", args.join(" "));
        if let Some(input) = input {
            for line in input.lines() {
                text.push_str(&format!("< {line}\n"));
            }
        }
        text.push_str(&String::from_utf8(output.stdout).unwrap());
        for line in String::from_utf8(output.stderr).unwrap().lines() {
            text.push_str(&format!("! {line}\n"));
        }
        text.push_str(&format!("[{}]\n", output.status.code().unwrap()));
        text.replace(self.dir().to_str().unwrap(), "<root>")
    }
}
