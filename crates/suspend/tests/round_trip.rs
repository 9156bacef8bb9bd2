//! Tests that every saved memory is restored unchanged, whatever the options.

mod common;

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{CHOICES, PAGES, Page};
use proptest::prelude::*;
use serde_json::json;
use suspend::codec::Codec;
use suspend::{Choice, Error, Image, Io, Key, Older, Options, Request, Space, Stream};

fn kinds() -> impl Strategy<Value = Vec<Page>> {
    let runs = prop::collection::vec((prop::sample::select(&PAGES[..]), 1..70usize), 0..8);
    runs.prop_map(|runs| {
        let pages = runs.into_iter();
        pages
            .flat_map(|(kind, count)| std::iter::repeat_n(kind, count))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_saved_comes_back(
        kinds in kinds(),
        more in 0..4096usize,
        devices in 0..9000usize,
        seed: u64,
        choice in prop::sample::select(&CHOICES[..]),
        io in prop::sample::select(&[Io::Auto, Io::Plain][..]),
        (saving, restoring) in (1..4usize, 1..4usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let key = Key::random().unwrap();
        let memory = common::memory(&kinds, more, seed);
        let devices = common::memory(&[], devices, seed ^ 5);
        let streams = [("cpu", &devices[..]), ("memory", &memory), ("none", &[])];
        let saved = common::save(&path, &key, &streams, common::options(choice, io, saving)).unwrap();
        prop_assert_eq!(saved.stored, fs::metadata(&path).unwrap().len());
        prop_assert_eq!(saved.size, (memory.len() + devices.len()) as u64);

        let image = Image::open(&path, &key).unwrap();
        let loading = common::loading(io, restoring);
        prop_assert_eq!(suspend::verify(&image, &loading).unwrap().raw, saved.raw);
        prop_assert!(common::load(&image, "memory", &loading).unwrap() == memory);
        prop_assert!(image.bytes_of("cpu").unwrap() == devices);
        prop_assert_eq!(image.bytes_of("none").unwrap(), b"");
        image.check_identity(&common::identity()).unwrap();
    }
}

#[test]
fn large_images_fill_many_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let memory = common::mixed(100, 3);
    for io in [Io::Auto, Io::Plain] {
        let options = common::options(Choice::Always(Codec::Raw), io, 2);
        let saved = common::save(&path, &key, &[("memory", &memory)], options).unwrap();
        assert!(saved.stored > 12 << 20, "{saved:?}");
        // The headers of the sealed chunks are very small.
        assert!(
            saved.stored < saved.raw + saved.raw / 100 + (64 << 10),
            "{saved:?}"
        );
        let image = Image::open(&path, &key).unwrap();
        assert!(common::load(&image, "memory", &common::loading(io, 3)).unwrap() == memory);
        assert_eq!(image.bytes_of("memory").unwrap().len(), memory.len());
    }
}

#[test]
fn preferred_chunks_are_written_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let memory = common::mixed(40, 5);
    // The requested chunks are not in ascending order, two of them are requested twice, and one
    // number is not a chunk.
    let wanted = [31, 7, 7, 39, 0, 1 << 40, 31];
    for threads in [1, 3] {
        let options = Options {
            first: Some(("memory", &wanted)),
            ..common::options(Choice::Always(Codec::Raw), Io::Auto, threads)
        };
        let streams: [(&str, &[u8]); 2] = [("devices", b"abc"), ("memory", &memory)];
        common::save(&path, &key, &streams, options).unwrap();
        let image = Image::open(&path, &key).unwrap();
        assert!(common::load(&image, "memory", &common::loading(Io::Auto, 2)).unwrap() == memory);
        assert_eq!(image.bytes_of("devices").unwrap(), b"abc");
        let stream = image.stream("memory").unwrap();
        let entries = &image.index().entries[usize::try_from(stream.first).unwrap()..];
        let mut order: Vec<usize> = (0..40).filter(|at| !entries[*at].is_empty()).collect();
        order.sort_by_key(|at| entries[*at].offset);
        if threads == 1 {
            let wanted = [31, 7, 39, 0].into_iter();
            let there: Vec<usize> = wanted.filter(|at| !entries[*at].is_empty()).collect();
            assert_eq!(order[..there.len()], there);
        }
    }
    let nowhere = Options {
        first: Some(("other", &wanted)),
        ..common::options(Choice::Adaptive, Io::Auto, 2)
    };
    common::save(&path, &key, &[("memory", &memory)], nowhere).unwrap();
}

#[test]
fn a_file_with_holes_is_read_where_it_has_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let ram = File::from(rustix::fs::memfd_create("ram", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    ram.set_len(1 << 30).unwrap();
    ram.write_all_at(b"in the middle", 700 << 20).unwrap();
    let saved = suspend::save(&Request {
        path: &path,
        key: &key,
        identity: &json!({}),
        streams: &[Stream {
            name: "memory",
            source: &ram,
        }],
        // A hole after the requested first chunk must not hide the content before it.
        options: Options {
            first: Some(("memory", &[4000])),
            ..Options::default()
        },
    })
    .unwrap();
    assert_eq!(saved.raw, 4096);
    // The save must not allocate pages in the holes of the memory.
    assert!(suspend::Source::stored(&ram).unwrap() <= 2 << 20);
    let image = Image::open(&path, &key).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let other = rustix::fs::memfd_create("ram", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&other, 1 << 30).unwrap();
    let target = sys::mapping::Mapping::new(std::os::fd::AsFd::as_fd(&other), 1 << 30).unwrap();
    suspend::restore(&image, "memory", &target, &common::loading(Io::Auto, 2)).unwrap();
    let mut bytes = [0; 13];
    target.read(700 << 20, &mut bytes).unwrap();
    assert_eq!(&bytes, b"in the middle");
    assert!(suspend::Source::stored(&File::from(other)).unwrap() <= 2 << 20);
}

#[test]
fn the_image_has_no_plain_text_of_memory_or_identity() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let marker = b"the marker that nobody may find";
    let memory: Vec<u8> = marker.iter().copied().cycle().take(3 << 18).collect();
    for choice in CHOICES {
        let options = common::options(choice, Io::Auto, 2);
        common::save(&path, &key, &[("memory", &memory)], options).unwrap();
        let image = fs::read(&path).unwrap();
        for secret in [&marker[..12], b"pc-q35", b"memory", &key.bytes()[..8]] {
            let found = image.windows(secret.len()).any(|window| window == secret);
            assert!(!found, "{choice:?}: {}", secret.escape_ascii());
        }
    }
    // A second image of the same memory differs from the first one in its first chunk.
    let first = fs::read(&path).unwrap();
    let options = common::options(Choice::Adaptive, Io::Auto, 1);
    common::save(&path, &key, &[("memory", &memory)], options).unwrap();
    assert_ne!(first[4096..8192], fs::read(&path).unwrap()[4096..8192]);
}

#[test]
fn an_image_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let memory = common::mixed(3, 9);
    let save = || {
        let options = common::options(Choice::Adaptive, Io::Auto, 1);
        common::save(&path, &key, &[("memory", &memory)], options).unwrap()
    };
    save();
    let image = Image::open(&path, &key).unwrap();
    image.claim().unwrap();
    let other = Image::open(&path, &key).unwrap();
    assert!(matches!(other.claim(), Err(Error::Busy { .. })));
    image.consume().unwrap();
    assert!(matches!(image.consume(), Err(Error::Gone { .. })));
    assert!(matches!(Image::open(&path, &key), Err(Error::File { .. })));
    // An open image can still be read: a pager needs this.
    assert!(common::load(&image, "memory", &common::loading(Io::Auto, 2)).unwrap() == memory);
    drop(image);
    // The image that replaced the opened image at the same path is a different image.
    save();
    assert!(matches!(other.claim(), Err(Error::Gone { .. })));
    assert!(matches!(other.consume(), Err(Error::Gone { .. })));
    Image::open(&path, &key).unwrap().claim().unwrap();
}

#[test]
fn images_of_another_machine_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let options = || common::options(Choice::Adaptive, Io::Auto, 1);
    common::save(&path, &key, &[("memory", &[1; 8192])], options()).unwrap();
    let image = Image::open(&path, &key).unwrap();
    let error = image.check_identity(&json!({"machine": "pc-q35-10.0", "memory": 1 << 30}));
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "{}: does not fit this zone: machine was \"pc-q35-7.2\" and is \"pc-q35-10.0\"",
            path.display()
        )
    );
    let small = std::sync::Mutex::new(vec![0; 4096]);
    let error = suspend::restore(&image, "memory", &small, &common::loading(Io::Auto, 1));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("size of memory was 8192 and is 4096")
    );
    assert!(matches!(
        image.bytes_of("disk"),
        Err(Error::NoStream { .. })
    ));
    let other = Image::open(&path, &Key::random().unwrap()).unwrap_err();
    assert!(matches!(other, Error::Key { .. }) && other.is_refusal());
    let fraction = suspend::save(&Request {
        path: &path,
        key: &key,
        identity: &json!({"load": 0.5}),
        streams: &[],
        options: options(),
    });
    assert!(matches!(fraction, Err(Error::Request(_))));
    for names in [["a", "a"], ["a", "b/c"]] {
        let streams = [(names[0], &[1][..]), (names[1], &[2][..])];
        let saved = common::save(&path, &key, &streams, options());
        assert!(matches!(saved, Err(Error::Request(_))));
    }
    // The failed calls did not change the existing image.
    assert_eq!(
        Image::open(&path, &key)
            .unwrap()
            .bytes_of("memory")
            .unwrap(),
        [1; 8192]
    );
}

#[test]
fn a_file_that_appeared_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let memory = common::mixed(3, 5);
    let appears = |_| {
        fs::write(&path, "precious").unwrap();
        ControlFlow::Continue(())
    };
    let options = Options {
        older: Older::Refuse,
        watch: &appears,
        ..common::options(Choice::Adaptive, Io::Auto, 1)
    };
    let refused = common::save(&path, &key, &[("memory", &memory)], options).unwrap_err();
    assert!(matches!(refused, Error::Occupied { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::remove_file(&path).unwrap();
    let options = Options {
        watch: &suspend::unwatched,
        ..options
    };
    common::save(&path, &key, &[("memory", &memory)], options).unwrap();
    Image::open(&path, &key).unwrap();
}

#[test]
fn an_observer_sees_the_progress_and_can_cancel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let memory = common::mixed(40, 77);
    let most = AtomicU64::new(0);
    let watch = |progress: suspend::Progress| {
        assert_eq!(progress.total, memory.len() as u64);
        most.fetch_max(progress.done, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let mut options = common::options(Choice::Adaptive, Io::Auto, 2);
    options.watch = &watch;
    options.space = Space::Try;
    common::save(&path, &key, &[("memory", &memory)], options).unwrap();
    assert_eq!(most.load(Ordering::Relaxed), memory.len() as u64);

    options.watch = &|_| ControlFlow::Break(());
    for io in [Io::Auto, Io::Plain] {
        options.io = io;
        let saved = common::save(&path, &key, &[("memory", &memory)], options);
        assert!(matches!(saved, Err(Error::Cancelled)));
    }
    // The old image is still whole, and the folder has no other file.
    let image = Image::open(&path, &key).unwrap();
    assert!(image.bytes_of("memory").unwrap() == memory);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let mut loading = common::loading(Io::Auto, 2);
    loading.watch = &|_| ControlFlow::Break(());
    assert!(matches!(
        suspend::verify(&image, &loading),
        Err(Error::Cancelled)
    ));
}

/// Returns the memory and the key of the images in `fixtures`.
fn of_fixtures() -> (Vec<u8>, Key) {
    let mut kinds = vec![Page::Text; 4];
    kinds.extend([Page::Zero; 60]);
    kinds.extend([Page::Byte, Page::Noise, Page::Zero]);
    (
        common::memory(&kinds, 100, 21),
        Key::parse(&[7; 32]).unwrap(),
    )
}

#[test]
fn images_of_format_1_are_read() {
    let (memory, key) = of_fixtures();
    for name in ["raw", "lz4", "zstd"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/format-1.{name}"));
        let image = Image::open(&path, &key).unwrap();
        image.check_identity(&common::identity()).unwrap();
        assert_eq!(image.bytes_of("devices").unwrap(), b"state of devices");
        let loading = common::loading(Io::Auto, 2);
        assert!(
            common::load(&image, "memory", &loading).unwrap() == memory,
            "{name}"
        );
    }
}
