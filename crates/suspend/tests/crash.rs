//! Full disks, errors and SIGKILL during a save: afterwards the path has a whole image or none.

mod common;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Page, Random};
use suspend::codec::Codec;
use suspend::{Choice, Durability, Error, Image, Io, Key, Options, Request, Space, Stream};

/// The variable that names the folder in which a test's other process works.
const FOLDER: &str = "SUSPEND_TEST_FOLDER";
const KEY: [u8; 32] = [0x42; 32];

/// Returns a command that runs one test of this program in another process. In a normal run, this
/// test does nothing.
fn again(test: &str, folder: &Path, before: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let words: Vec<&std::ffi::OsStr> = before.iter().map(std::ffi::OsStr::new).collect();
    let words = [words, vec![program.as_os_str()]].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args([test, "--exact", "--nocapture"])
        .env(FOLDER, folder);
    command
}

fn told() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Saves one image after another forever, each of different memory.
#[test]
fn writer() {
    let Some(folder) = told() else { return };
    let path = folder.join("image");
    for round in 1u64.. {
        let memory = common::memory(&[Page::Noise, Page::Text].repeat(600), 0, round);
        let mut options = common::options(Choice::Adaptive, Io::Auto, 2);
        if round % 2 == 0 {
            options.io = Io::Plain;
        }
        options.durability = Durability::Stable;
        common::save(&path, &Key::from(KEY), &[("memory", &memory)], options).unwrap();
    }
}

#[test]
fn killed_at_any_moment_there_is_a_whole_image_or_none() {
    let kills = if std::env::var_os("ZONES_TEST_LONG").is_some() {
        300
    } else {
        24
    };
    let mut random = Random(0xdead);
    let (mut whole, mut halves) = (0, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let aside = folder.path().join(".image.part");
    for round in 0..kills {
        let mut child = again("writer", folder.path(), &[])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Wait until the writer writes its first image, and then kill the writer during one of the
        // next images.
        let began = Instant::now();
        while !aside.exists() && began.elapsed() < Duration::from_secs(60) {
            assert!(child.try_wait().unwrap().is_none(), "the writer ended");
            thread::sleep(Duration::from_micros(500));
        }
        // The rounds use in turn no delay, so that the writer has surely not finished, and random
        // delays of up to 5 ms and 60 ms.
        let most = [1, 5_000, 60_000][round % 3];
        thread::sleep(Duration::from_micros(random.next() % most));
        child.kill().unwrap();
        child.wait().unwrap();
        if path.exists() {
            let image = Image::open(&path, &Key::from(KEY)).unwrap();
            suspend::verify(&image, &common::loading(Io::Auto, 2)).unwrap();
            whole += 1;
        }
        if aside.exists() {
            // An unfinished image must not open under its temporary name either, unless only the
            // rename was missing.
            if let Err(error) = Image::open(&aside, &Key::from(KEY)) {
                assert!(error.is_refusal(), "{error}");
                halves += 1;
            }
        }
    }
    assert!(
        halves > 0,
        "no kill came in the middle ({whole} whole images)"
    );
    suspend::remove_remains(&path).unwrap();
    assert!(!aside.exists());
}

/// Saves to a file system that is too small, with all options, in a separate mount namespace.
#[test]
fn child_process_with_a_small_disk() {
    let Some(folder) = told() else { return };
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "small"])
        .arg(&folder)
        .status()
        .unwrap();
    assert!(mount.success());
    let path = folder.join("image");
    let key = Key::from(KEY);
    let small = common::memory(&[Page::Text; 64], 0, 1);
    let large = common::memory(&[Page::Noise; 2048], 0, 2);
    let save = |memory: &[u8], space, io| {
        let options = Options {
            space,
            ..common::options(Choice::Always(Codec::Raw), io, 2)
        };
        common::save(&path, &key, &[("memory", memory)], options)
    };
    for io in [Io::Auto, Io::Plain] {
        save(&small, Space::Reserve, io).unwrap();
        let refused = save(&large, Space::Reserve, io).unwrap_err();
        assert!(matches!(refused, Error::NoSpace { needed, free, .. } if needed > free));
        match save(&large, Space::Try, io).unwrap_err() {
            Error::File { source, .. } => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
            other => panic!("{other}"),
        }
        // The folder has the old image and no other file.
        let image = Image::open(&path, &key).unwrap();
        assert!(image.bytes_of("memory").unwrap() == small);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
    // The memory is a file on a full file system. The restore must fail with an error, not with
    // SIGBUS.
    let ram = fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.join("ram"))
        .unwrap();
    ram.set_len(large.len() as u64).unwrap();
    let target = sys::mapping::Mapping::new(std::os::fd::AsFd::as_fd(&ram), large.len()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("image");
    let options = common::options(Choice::Adaptive, Io::Auto, 2);
    common::save(&path, &key, &[("memory", &large)], options).unwrap();
    let image = Image::open(&path, &key).unwrap();
    match suspend::restore(&image, "memory", &target, &common::loading(Io::Auto, 2)) {
        Err(Error::Target { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
    println!("all of it was tried");
}

#[test]
fn a_full_disk_leaves_the_old_image() {
    let folder = tempfile::tempdir().unwrap();
    let ways: [&[&str]; 2] = [
        &["unshare", "--mount", "--propagation", "private"],
        &["unshare", "--mount", "--map-root-user"],
    ];
    let able = |way: &&&[&str]| {
        let tried = Command::new(way[0])
            .args(&way[1..])
            .args(["mount", "-t", "tmpfs", "none"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(way) = ways.iter().find(able) else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let done = again("child_process_with_a_small_disk", folder.path(), way)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("all of it was tried"),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Memory that cannot be read at one offset.
struct Broken(u64);

impl suspend::Source for Broken {
    fn size(&self) -> u64 {
        16 << 20
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(1);
        match (offset..offset + bytes.len() as u64).contains(&self.0) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

#[test]
fn memory_that_cannot_be_read_is_no_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for at in [0, 9 << 20, (16 << 20) - 1] {
        let saved = suspend::save(&Request {
            path: &path,
            key: &Key::from(KEY),
            identity: &common::identity(),
            streams: &[Stream {
                name: "memory",
                source: &Broken(at),
            }],
            options: common::options(Choice::Adaptive, Io::Auto, 3),
        });
        match saved {
            Err(Error::Source { stream, offset, .. }) => {
                assert_eq!(
                    (&stream[..], offset / (256 << 10)),
                    ("memory", at / (256 << 10))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn two_cannot_write_one_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let memory = common::memory(&[Page::Text; 640], 0, 4);
    let options = common::options(Choice::Adaptive, Io::Auto, 1);
    let other = |_| {
        let saved = common::save(&path, &Key::from(KEY), &[("memory", &memory)], options);
        assert!(matches!(saved, Err(Error::Busy { .. })));
        suspend::remove_remains(&path).unwrap();
        std::ops::ControlFlow::Continue(())
    };
    let watched = Options {
        watch: &other,
        ..options
    };
    common::save(&path, &Key::from(KEY), &[("memory", &memory)], watched).unwrap();
    Image::open(&path, &Key::from(KEY)).unwrap();

    // A file at the path of the unfinished image is not written to.
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let aside = folder.path().join(".image.part");
    std::os::unix::fs::symlink(&victim, &aside).unwrap();
    assert!(common::save(&path, &Key::from(KEY), &[("memory", &memory)], options).is_err());
    fs::remove_file(&aside).unwrap();
    fs::hard_link(&victim, &aside).unwrap();
    assert!(common::save(&path, &Key::from(KEY), &[("memory", &memory)], options).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
