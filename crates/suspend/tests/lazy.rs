//! Memory that is used while it is restored. A thread of this process acts as the guest.

mod common;

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Random;
use suspend::{Choice, Error, Image, Io, Key, Ledger, Loading, Pager, Region};
use sys::mapping::Mapping;
use sys::userfault::{Userfault, Whose};

const PAGE: usize = 4096;

/// A guest and its image. The guest has mapped its memory in two separate parts.
struct Host {
    _folder: tempfile::TempDir,
    image: Image,
    memory: Vec<u8>,
    file: OwnedFd,
    target: Mapping,
    guest: Mapping,
    faults: Userfault,
}

impl Host {
    fn new(chunks: usize, seed: u64) -> Option<Self> {
        let made = Userfault::new(Whose::Programs).and_then(|one| one.agree().map(|()| one));
        let faults = match made {
            Ok(faults) => faults,
            Err(error) => {
                println!("skipped: no userfaultfd here: {error}");
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let key = Key::random().unwrap();
        let memory = common::mixed(chunks, seed);
        let options = common::options(Choice::Adaptive, Io::Auto, 2);
        common::save(
            &path,
            &key,
            &[("devices", b"x"), ("memory", &memory)],
            options,
        )
        .unwrap();
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, memory.len() as u64).unwrap();
        Some(Self {
            image: Image::open(&path, &key).unwrap(),
            target: Mapping::new(file.as_fd(), memory.len()).unwrap(),
            guest: Mapping::new(file.as_fd(), memory.len()).unwrap(),
            _folder: folder,
            memory,
            file,
            faults,
        })
    }

    fn regions(&self) -> [Region; 2] {
        // The boundary between the parts is in the middle of a chunk.
        let (cut, all) = (5 * 4096, self.memory.len() as u64);
        let region = |offset, length| Region {
            address: self.guest.address() + offset,
            offset,
            length,
        };
        [region(0, cut), region(cut, all - cut)]
    }

    fn ledger(&self) -> Ledger {
        Ledger::in_memory(self.image.stream("memory").unwrap().chunks()).unwrap()
    }

    fn pager<'a>(&'a self, ledger: &'a Ledger) -> Pager<'a> {
        let (target, faults) = (&self.target, &self.faults);
        Pager::arm(
            &self.image,
            "memory",
            target,
            faults,
            &self.regions(),
            ledger,
        )
        .unwrap()
    }

    /// Acts as a guest: reads the pages in an order of its own, checks that each page has its saved
    /// content, and writes to the pages. No write may be lost.
    fn run(&self, seed: u64, looked: &AtomicU64) {
        let mut random = Random(seed);
        let pages = self.memory.len() / PAGE;
        let mut marked = vec![false; pages];
        for _ in 0..4 * pages {
            let page = random.below(pages);
            let mut bytes = [0; PAGE];
            self.guest.read(page * PAGE, &mut bytes).unwrap();
            let was = &self.memory[page * PAGE..][..PAGE];
            if marked[page] {
                assert_eq!(bytes[..8], [0x77; 8], "page {page} was written again");
                assert!(bytes[8..] == was[8..], "page {page}");
            } else {
                assert!(bytes[..] == *was, "page {page}");
                self.guest.write(page * PAGE, &[0x77; 8]).unwrap();
                marked[page] = true;
            }
            looked.fetch_add(1, Ordering::Relaxed);
        }
        // Checks the whole memory at the end.
        let mut all = vec![0; self.memory.len()];
        self.guest.read(0, &mut all).unwrap();
        for (page, marked) in marked.into_iter().enumerate() {
            let mut was = self.memory[page * PAGE..][..PAGE].to_vec();
            if marked {
                was[..8].fill(0x77);
            }
            assert!(all[page * PAGE..][..PAGE] == was, "page {page} at the end");
        }
    }
}

#[test]
fn a_guest_runs_while_its_memory_comes() {
    for (seed, io) in [(1, Io::Auto), (2, Io::Plain), (3, Io::Auto)] {
        let Some(host) = Host::new(30, seed) else {
            return;
        };
        let ledger = host.ledger();
        let pager = host.pager(&ledger);
        let looked = AtomicU64::new(0);
        thread::scope(|scope| {
            let guest = scope.spawn(|| host.run(seed, &looked));
            let paged = pager.run(&common::loading(io, 2)).unwrap();
            assert!(paged.on_demand <= paged.faults, "{paged:?}");
            guest.join().unwrap();
        });
    }
}

#[test]
fn preloaded_chunks_are_not_loaded_again() {
    for (seed, most) in [(7, 0), (8, 6), (9, u64::MAX)] {
        let Some(host) = Host::new(30, seed) else {
            return;
        };
        let ledger = host.ledger();
        let steps = AtomicU64::new(0);
        let watch = |_| match steps.fetch_add(1, Ordering::Relaxed) < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let loading = Loading {
            watch: &watch,
            ..common::loading(Io::Auto, 2)
        };
        let all = ("memory", 0..usize::MAX);
        let ended = suspend::load_ahead(&host.image, all, &host.target, &ledger, &loading);
        assert_eq!(ended.is_ok(), most == u64::MAX, "{ended:?}");
        ledger.forget_taken();
        let pager = host.pager(&ledger);
        let looked = AtomicU64::new(0);
        thread::scope(|scope| {
            let guest = scope.spawn(|| host.run(seed, &looked));
            let paged = pager.run(&common::loading(Io::Auto, 2)).unwrap();
            assert!(paged.asked.len() as u64 >= paged.on_demand, "{paged:?}");
            if most == u64::MAX {
                assert_eq!(paged.on_demand, 0, "{paged:?}");
            }
            guest.join().unwrap();
        });
    }
}

#[test]
fn a_chunk_is_loaded_only_after_a_fault() {
    // The streaming threads wait until the guest has read every page, so that all chunks are loaded
    // by faults.
    let Some(host) = Host::new(6, 5) else { return };
    let ledger = host.ledger();
    let pager = host.pager(&ledger);
    let (looked, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let guest = scope.spawn(|| {
            host.run(9, &looked);
            ended.store(true, Ordering::Release);
        });
        let wait = |_| {
            while !ended.load(Ordering::Acquire) && !guest.is_finished() {
                thread::yield_now();
            }
            ControlFlow::Continue(())
        };
        let loading = Loading {
            watch: &wait,
            ..common::loading(Io::Plain, 1)
        };
        let paged = pager.run(&loading).unwrap();
        // All stored chunks, except the one that the streaming threads had started to load.
        let chunks = host.image.index().entries[1..].iter();
        let somewhere = chunks.filter(|entry| !entry.is_empty()).count() as u64;
        assert!(paged.on_demand + 1 >= somewhere, "{paged:?} of {somewhere}");
    });
}

#[test]
fn another_pager_goes_on_where_one_ended() {
    let Some(host) = Host::new(40, 7) else { return };
    let file = rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let chunks = host.image.stream("memory").unwrap().chunks();
    let looked = AtomicU64::new(0);
    let ledger = Ledger::new(&file, chunks).unwrap();
    let pager = host.pager(&ledger);
    let run = |after: u64| {
        let seen = AtomicU64::new(0);
        let watch = |_| match seen.fetch_add(1, Ordering::Relaxed) < after {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let loading = Loading {
            watch: &watch,
            ..common::loading(Io::Auto, 2)
        };
        pager.run(&loading)
    };
    // Before the first fault, only the streaming threads load chunks.
    let ended = run(3);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    thread::scope(|scope| {
        let guest = scope.spawn(|| host.run(3, &looked));
        for after in [7, 11] {
            let ended = run(after);
            // If the guest was faster than the streaming threads, all memory may be restored.
            assert!(matches!(ended, Ok(_) | Err(Error::Cancelled)), "{ended:?}");
        }
        // The test acts as a new process: it opens the same ledger file and arms the regions again.
        let again = Ledger::new(&file, chunks).unwrap();
        host.pager(&again)
            .run(&common::loading(Io::Auto, 2))
            .unwrap();
        guest.join().unwrap();
    });
}

#[test]
fn a_fault_that_a_dead_pager_has_read_is_answered_by_the_next_one() {
    let Some(host) = Host::new(6, 17) else { return };
    let ledger = host.ledger();
    let pager = host.pager(&ledger);
    // Pages without content in the image appear only when they are touched.
    let mut pages = host.memory.chunks(PAGE);
    let page = pages.position(|page| page.iter().all(|&byte| byte == 0));
    let page = page.expect("a page of zeros");
    thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let mut byte = [0xff];
            host.guest.read(page * PAGE, &mut byte).unwrap();
            byte[0]
        });
        // The test drops this fault, like a pager that was killed after it read the fault.
        while host.faults.fault().unwrap().is_none() {
            thread::yield_now();
        }
        let began = Instant::now();
        let waited = AtomicBool::new(false);
        let wait = |_| {
            // This limit makes a failing test end.
            while !guest.is_finished() && !waited.load(Ordering::Relaxed) {
                waited.store(began.elapsed() > Duration::from_secs(30), Ordering::Relaxed);
                thread::yield_now();
            }
            ControlFlow::Continue(())
        };
        let loading = Loading {
            watch: &wait,
            ..common::loading(Io::Plain, 1)
        };
        pager.run(&loading).unwrap();
        assert!(!waited.into_inner(), "the guest waits until all is there");
        assert_eq!(guest.join().unwrap(), 0);
    });
}

#[test]
fn damage_stops_the_pager_and_shows_nothing() {
    let Some(host) = Host::new(8, 13) else { return };
    let path = host.image.path().to_owned();
    let first = host.image.stream("memory").unwrap().first;
    let entries = &host.image.index().entries;
    let number = (first..entries.len() as u64)
        .find(|number| !entries[usize::try_from(*number).unwrap()].is_empty())
        .unwrap();
    let entry = entries[usize::try_from(number).unwrap()];
    let file = std::fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", entry.offset + 9).unwrap();
    let ledger = host.ledger();
    let pager = host.pager(&ledger);
    let seen = AtomicBool::new(false);
    let at = usize::try_from((number - first) * suspend::format::CHUNK as u64).unwrap()
        + entry.pages.trailing_zeros() as usize * PAGE;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = [0];
            host.guest.read(at, &mut byte).unwrap();
            seen.store(true, Ordering::Release);
        });
        let error = pager.run(&common::loading(Io::Auto, 2)).unwrap_err();
        assert!(error.is_refusal(), "{error}");
        assert!(
            !seen.load(Ordering::Acquire),
            "the guest saw a page that was refused"
        );
        // The kernel ends the wait when a process ends. Here the guest is only a thread, so the
        // test disarms the regions.
        for region in host.regions() {
            host.faults.disarm(region.address, region.length).unwrap();
        }
    });
}

#[test]
fn a_pager_refuses_a_ledger_or_memory_of_another_image() {
    let Some(host) = Host::new(2, 1) else { return };
    let (ledger, other) = (host.ledger(), Ledger::in_memory(99).unwrap());
    let arm = |name, target, region: &Region, ledger| {
        Pager::arm(&host.image, name, target, &host.faults, &[*region], ledger).map(|_| ())
    };
    let [_, good] = host.regions();
    assert!(arm("disk", &host.target, &good, &ledger).is_err());
    assert!(arm("memory", &host.target, &good, &other).is_err());
    let small = Mapping::new(host.file.as_fd(), PAGE).unwrap();
    assert!(arm("memory", &small, &good, &ledger).is_err());
    for wrong in [
        Region { offset: 1, ..good },
        Region { length: 0, ..good },
        Region {
            length: good.length + 4096,
            ..good
        },
        Region {
            offset: u64::MAX - 4095,
            ..good
        },
    ] {
        assert!(
            arm("memory", &host.target, &wrong, &ledger).is_err(),
            "{wrong:?}"
        );
    }
    arm("memory", &host.target, &good, &ledger).unwrap();
}
