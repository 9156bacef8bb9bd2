//! Tests limits on ext4 and xfs with project quotas. The tests run in the virtual machine of
//! tests/vm/quota, where `ZONES_TEST_PROJECTS` names a folder on such a file system. Without this
//! variable, they are skipped.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::CWD;
use storage::{Dataset, Name, ROOT, WORK};
use sys::mount::MountFd;
use sys::process::ns;
use sys::project::{self, Membership};

const MIB: u64 = 1 << 20;

/// Returns the test's own folder, or `None` if there is no file system with project quotas.
fn place(test: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("ZONES_TEST_PROJECTS") else {
        println!("skipped: ZONES_TEST_PROJECTS names no folder with project quotas");
        return None;
    };
    let place = Path::new(&folder).join(test);
    fs::create_dir(&place).unwrap();
    Some(place)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn membership(path: &Path) -> Membership {
    project::membership(File::open(path).unwrap()).unwrap()
}

fn usage(path: &Path) -> project::Usage {
    project::usage(File::open(path).unwrap(), membership(path).project).unwrap()
}

/// Waits until a project has no files. xfs frees removed files later. Fails if a limit is left.
fn emptied(path: &Path, project: u32) {
    let file = File::open(path).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = project::usage(&file, project).unwrap();
        assert_eq!(left.limit, None);
        if left.files == 0 {
            return;
        }
        assert!(Instant::now() < end, "{left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn top(dataset: &Dataset) -> PathBuf {
    dataset.zonepath().join(ROOT)
}

fn layer(dataset: &Dataset, n: usize) -> PathBuf {
    dataset.stack().unwrap().lowers[n].clone()
}

/// Writes zeros to a file until this fails or the file has this size. Returns the size.
fn write(path: &Path, bytes: u64) -> u64 {
    let mut file = File::create(path).unwrap();
    let block = vec![1; 64 << 10];
    for _ in 0..bytes / (64 << 10) {
        if std::io::Write::write_all(&mut file, &block).is_err() {
            break;
        }
    }
    let _ = file.sync_all();
    file.metadata().unwrap().len()
}

/// Runs `work` in the mounted root of a dataset, with the ids of a zone.
fn mounted(dataset: &Dataset, work: impl FnOnce(&Path) + Send) {
    let alone = || {
        sys::namespace::unshare(ns::MOUNT).unwrap();
        sys::mount::make_private_recursive().unwrap();
        let place = dataset.zonepath().parent().unwrap();
        let (scratch, at) = (place.join("scratch"), place.join("at"));
        for folder in [&scratch, &at] {
            fs::create_dir_all(folder).unwrap();
        }
        let ids = sys::idmap::user_namespace(1 << 20, 65536).unwrap();
        let stack = dataset.stack().unwrap();
        let mount: MountFd =
            storage::assemble(&stack, Some(ids.as_fd()), 1 << 20, &scratch).unwrap();
        sys::mount::attach(&mount, CWD, &at).unwrap();
        sys::idmap::with_fs_ids(1 << 20, || work(&at)).unwrap();
        drop(mount);
        sys::mount::detach(&at).unwrap();
    };
    // A namespace belongs to a thread. A panic here ends the test.
    std::thread::scope(|scope| scope.spawn(alone).join().unwrap());
}

/// Runs `work` in the mounted /export of a dataset, with the ids of a zone.
fn exported(dataset: &Dataset, work: impl FnOnce(&Path) + Send) {
    let alone = || {
        sys::namespace::unshare(ns::MOUNT).unwrap();
        sys::mount::make_private_recursive().unwrap();
        let place = dataset.zonepath().parent().unwrap();
        let (scratch, at) = (place.join("scratch"), place.join("at"));
        for folder in [&scratch, &at] {
            fs::create_dir_all(folder).unwrap();
        }
        let ids = sys::idmap::user_namespace(1 << 20, 65536).unwrap();
        let mount = storage::export(dataset.zonepath(), ids.as_fd(), 1 << 20, &scratch).unwrap();
        sys::mount::attach(&mount, CWD, &at).unwrap();
        sys::idmap::with_fs_ids(1 << 20, || work(&at)).unwrap();
        drop(mount);
        sys::mount::detach(&at).unwrap();
    };
    // A namespace belongs to a thread. A panic here ends the test.
    std::thread::scope(|scope| scope.spawn(alone).join().unwrap());
}

#[test]
fn exported_files_are_in_the_project_of_the_top() {
    with_layer("exported_files", |place, web| {
        let root = web.zonepath().join(storage::EXPORT).join(ROOT);
        exported(web, |at| {
            fs::create_dir(at.join("folder")).unwrap();
            fs::write(at.join("folder/old"), "old").unwrap();
            symlink("old", at.join("folder/link")).unwrap();
        });
        assert_eq!(membership(&root), Membership::NONE);
        // This also works on a file system that has projects, but no limits.
        for project in [(1 << 30) + 7, (1 << 30) + 8] {
            let of_top = Membership {
                project,
                inherited: true,
            };
            project::set_membership(File::open(top(web)).unwrap(), of_top).unwrap();
            let limit = |bytes| project::limit(File::open(top(web)).unwrap(), project, bytes);
            let is_limited = limit(Some(8 * MIB)).is_ok();
            exported(web, |at| {
                fs::rename(at.join("folder/old"), at.join("new")).unwrap();
                fs::hard_link(at.join("new"), at.join("folder/old")).unwrap();
                fs::rename(at.join("folder/link"), at.join("link")).unwrap();
                fs::rename(at.join("link"), at.join("folder/link")).unwrap();
                fs::remove_file(at.join("new")).unwrap();
                let written = write(&at.join("big"), 16 * MIB);
                assert_eq!(written <= 8 * MIB, is_limited, "{written}");
            });
            for path in ["", "folder", "folder/old", "big"] {
                let found = membership(&root.join(path)).project;
                assert_eq!(found, project, "{path}");
            }
            fs::remove_file(root.join("big")).unwrap();
            let _ = limit(None);
        }
        project::set_membership(File::open(top(web)).unwrap(), Membership::NONE).unwrap();
        exported(web, |at| assert!(at.join("folder/old").exists()));
        assert_eq!(membership(&root.join("folder/old")), Membership::NONE);
        fs::remove_dir_all(web.zonepath().join(storage::EXPORT)).unwrap();
        end(place, &[Dataset::open(web.zonepath()).unwrap()]);
    });
}

/// Runs a test with an empty dataset on one layer.
fn with_layer(test: &str, work: impl FnOnce(&Path, &Dataset)) {
    let Some(place) = place(test) else { return };
    let web = Dataset::create(&place.join("web")).unwrap();
    fs::write(top(&web).join("old"), "old").unwrap();
    web.seal().unwrap();
    work(&place, &web);
}

fn end(place: &Path, zones: &[Dataset]) {
    for zone in zones {
        Dataset::destroy(zone.zonepath()).unwrap();
    }
    storage::collect(&place.join(".layers"), storage::Lost::Drop).unwrap();
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_first_limit_counts_every_file_that_exists() {
    let Some(place) = place("a_first_limit") else {
        return;
    };
    let web = Dataset::create(&place.join("web")).unwrap();
    let inner = top(&web).join("a/b");
    fs::create_dir_all(&inner).unwrap();
    write(&inner.join("file"), MIB);
    fs::hard_link(inner.join("file"), top(&web).join("second")).unwrap();
    symlink("file", inner.join("link")).unwrap();
    fs::hard_link(inner.join("link"), inner.join("same link")).unwrap();
    let time = fs::metadata(&inner).unwrap().mtime_nsec();
    let outside = place.join("outside");
    symlink("file", &outside).unwrap();
    assert!(web.needs_halt_for_quota().unwrap());
    web.set_quota(Some(64 * MIB)).unwrap();
    assert!(!web.needs_halt_for_quota().unwrap());
    // xfs counts an inode that was freed until a background thread of the kernel has removed it.
    let mut used = usage(&top(&web));
    for _ in 0..100 {
        if used.files <= 5 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        used = usage(&top(&web));
    }
    // The root, two folders, the file, and the link.
    assert_eq!((used.files, used.limit), (5, Some(64 * MIB)));
    assert!(used.bytes >= MIB, "{used:?}");
    assert_eq!(fs::metadata(&inner).unwrap().mtime_nsec(), time);
    let link = |name| fs::symlink_metadata(inner.join(name)).unwrap();
    assert_eq!(link("link").ino(), link("same link").ino());
    // A file of another project cannot be renamed into the top; its own links and files can.
    let refused = fs::rename(&outside, inner.join("x")).is_err();
    fs::rename(inner.join("link"), top(&web).join("moved")).unwrap();
    fs::rename(inner.join("file"), top(&web).join("file")).unwrap();
    println!("a link of no project is refused: {refused}");
    let other = place.join("file");
    fs::write(&other, "").unwrap();
    let error = fs::rename(&other, inner.join("x")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::CrossesDevices);
    end(&place, &[web]);
}

#[test]
fn the_root_of_a_zone_is_stopped_at_the_limit() {
    with_layer("the_root", |place, web| {
        web.set_quota(Some(8 * MIB)).unwrap();
        let other = Dataset::create(&place.join("other")).unwrap();
        mounted(web, |at| {
            let written = write(&at.join("big"), 32 * MIB);
            assert!((4 * MIB..=8 * MIB).contains(&written), "{written}");
            let seen = rustix::fs::statvfs(at).unwrap();
            assert_eq!(seen.f_blocks * seen.f_frsize, 8 * MIB);
            assert!(seen.f_bavail * seen.f_frsize < MIB);
            fs::remove_file(at.join("big")).unwrap();
            // A larger limit takes effect at once.
            web.set_quota(Some(24 * MIB)).unwrap();
            assert_eq!(write(&at.join("big"), 16 * MIB), 16 * MIB);
            fs::remove_file(at.join("big")).unwrap();
            web.set_quota(None).unwrap();
            assert_eq!(write(&at.join("big"), 32 * MIB), 32 * MIB);
            fs::remove_file(at.join("big")).unwrap();
        });
        mounted(&other, |at| {
            assert_eq!(write(&at.join("file"), 9 * MIB), 9 * MIB);
        });
        end(place, &[Dataset::open(web.zonepath()).unwrap(), other]);
    });
}

#[test]
fn files_of_a_layer_are_changed_renamed_and_removed_below_a_limit() {
    with_layer("files_of_a_layer", |place, web| {
        fs::create_dir_all(top(web).join("folder/inner")).unwrap();
        for n in 0..4 {
            fs::write(top(web).join(format!("folder/{n}")), "text").unwrap();
        }
        web.seal().unwrap();
        web.set_quota(Some(64 * MIB)).unwrap();
        for _ in 0..2 {
            mounted(web, |at| {
                // Copies from the layer, whiteouts, an opaque folder and a renamed folder.
                fs::write(at.join("folder/0"), "new").unwrap();
                fs::hard_link(at.join("folder/1"), at.join("one")).unwrap();
                fs::rename(at.join("folder/2"), at.join("two")).unwrap();
                fs::remove_file(at.join("folder/3")).unwrap();
                fs::rename(at.join("folder"), at.join("moved")).unwrap();
                fs::create_dir(at.join("folder")).unwrap();
                fs::rename(at.join("moved/inner"), at.join("folder/inner")).unwrap();
                fs::remove_dir_all(at.join("folder")).unwrap();
                fs::rename(at.join("moved"), at.join("folder")).unwrap();
                fs::remove_file(at.join("folder/1")).unwrap();
                for (from, to) in [("one", "folder/1"), ("two", "folder/2")] {
                    fs::rename(at.join(from), at.join(to)).unwrap();
                }
                fs::create_dir(at.join("folder/inner")).unwrap();
                fs::write(at.join("folder/3"), "").unwrap();
            });
            // The next round has another top, in another project.
            web.seal().unwrap();
        }
        end(place, &[Dataset::open(web.zonepath()).unwrap()]);
    });
}

#[test]
fn each_top_has_a_project_of_its_own_and_layers_do_not_count() {
    with_layer("each_top", |place, web| {
        web.set_quota(Some(16 * MIB)).unwrap();
        let first = membership(&top(web));
        write(&top(web).join("file"), 2 * MIB);
        web.snapshot(&name("one")).unwrap();
        let second = membership(&top(web));
        assert_ne!(first.project, second.project);
        assert_eq!(usage(&top(web)).files, 1);
        assert_eq!(usage(&top(web)).limit, Some(16 * MIB));
        // The sealed top keeps its project, without the limit.
        assert_eq!(membership(&layer(web, 0)), first);
        assert_eq!(usage(&layer(web, 0)).limit, None);
        let clone = web.clone_to(&place.join("clone")).unwrap();
        assert_eq!(clone.quota().unwrap(), None);
        assert_eq!(membership(&top(&clone)), Membership::NONE);
        clone.set_quota(Some(4 * MIB)).unwrap();
        assert_ne!(membership(&top(&clone)).project, second.project);
        write(&top(web).join("lost"), MIB);
        web.rollback(&name("one")).unwrap();
        assert!(!top(web).join("lost").exists());
        assert_eq!(usage(&top(web)).limit, Some(16 * MIB));
        // No removed top leaves a limit.
        emptied(place, second.project);
        let third = membership(&top(web)).project;
        let cloned = membership(&top(&clone)).project;
        end(place, &[Dataset::open(web.zonepath()).unwrap(), clone]);
        for project in [first.project, third, cloned] {
            emptied(place.parent().unwrap(), project);
        }
    });
}

#[test]
fn layers_of_several_projects_are_merged_by_links() {
    with_layer("layers_of_several", |place, web| {
        web.set_quota(Some(64 * MIB)).unwrap();
        let clone = web.clone_to(&place.join("clone")).unwrap();
        for n in 0..6 {
            mounted(web, |at| {
                fs::write(at.join(format!("file{n}")), n.to_string()).unwrap();
                fs::write(at.join("old"), n.to_string()).unwrap();
            });
            web.seal().unwrap();
        }
        let number = |dataset: &Dataset| {
            let trees = dataset.stack().unwrap().lowers;
            let mut paths = trees.iter().map(|tree| tree.join("file3"));
            paths.find(|path| path.exists()).unwrap()
        };
        let before = fs::metadata(number(web)).unwrap().ino();
        assert_eq!(web.shorten(1).unwrap(), 1);
        assert_eq!(fs::metadata(number(web)).unwrap().ino(), before, "copied");
        mounted(web, |at| {
            assert_eq!(fs::read_to_string(at.join("old")).unwrap(), "5");
            fs::rename(at.join("file2"), at.join("renamed")).unwrap();
        });
        end(place, &[Dataset::open(web.zonepath()).unwrap(), clone]);
    });
}

#[test]
fn a_patch_is_shared_between_projects_by_links() {
    with_layer("a_patch", |place, web| {
        let base = layer(web, 0);
        let other = web.clone_to(&place.join("other")).unwrap();
        for dataset in [web, &other] {
            dataset.set_quota(Some(64 * MIB)).unwrap();
        }
        mounted(web, |at| {
            write(&at.join("patched"), MIB);
            fs::write(at.join("noise"), "noise").unwrap();
        });
        web.seal().unwrap();
        fs::write(top(&other).join("own"), "own").unwrap();
        other.seal().unwrap();
        let noise = |path: &Path| path == Path::new("noise");
        let patch = web.extract(&base, &place.join("patch"), &noise).unwrap();
        other.put_below(&patch, &base).unwrap();
        other.add_part(web, &noise).unwrap();
        assert_eq!(usage(&top(&other)).limit, Some(64 * MIB));
        let inode = |dataset: &Dataset| {
            let trees = dataset.stack().unwrap().lowers;
            let mut paths = trees.iter().map(|tree| tree.join("patched"));
            let path = paths.find(|path| path.exists()).unwrap();
            fs::metadata(path).unwrap().ino()
        };
        assert_eq!(inode(web), inode(&other), "the patch was copied");
        let noise_of = |dataset: &Dataset, n| fs::metadata(layer(dataset, n).join("noise"));
        assert_eq!(
            noise_of(web, 0).unwrap().ino(),
            noise_of(&other, 0).unwrap().ino()
        );
        mounted(&other, |at| {
            for file in ["own", "old", "noise", "patched"] {
                assert!(at.join(file).exists(), "{file}");
                fs::rename(at.join(file), at.join("moved")).unwrap();
            }
        });
        let web = Dataset::open(web.zonepath()).unwrap();
        end(place, &[web, other, patch]);
    });
}

#[test]
fn a_snapshot_of_a_running_zone_is_copied_out_of_its_project() {
    with_layer("a_snapshot", |place, web| {
        web.set_quota(Some(8 * MIB)).unwrap();
        mounted(web, |at| {
            assert_eq!(write(&at.join("file"), 6 * MIB), 6 * MIB);
            fs::hard_link(at.join("file"), at.join("second")).unwrap();
            let copy = web.copy_top().unwrap();
            web.snapshot_of_copy(&name("one"), copy).unwrap();
            assert_eq!(write(&at.join("more"), MIB), MIB);
        });
        assert!(usage(&top(web)).bytes < 8 * MIB);
        web.rollback(&name("one")).unwrap();
        mounted(web, |at| {
            assert!(at.join("second").exists() && !at.join("more").exists());
            fs::rename(at.join("file"), at.join("renamed")).unwrap();
        });
        end(place, &[Dataset::open(web.zonepath()).unwrap()]);
    });
}

#[test]
fn snapshots_of_a_limited_zone_share_files_that_belong_to_no_project() {
    with_layer("snapshots_of_a_limited", |place, web| {
        web.set_quota(Some(8 * MIB)).unwrap();
        mounted(web, |at| {
            assert_eq!(write(&at.join("file"), 2 * MIB), 2 * MIB);
            fs::write(at.join("other"), "one").unwrap();
            std::thread::sleep(Duration::from_millis(1200));
            for snapshot in ["one", "two", "three"] {
                fs::write(at.join("other"), snapshot).unwrap();
                let copy = web.copy_top().unwrap();
                let is_first = snapshot == "one";
                assert_eq!(
                    copy.copied.linked,
                    u64::from(!is_first),
                    "{:?}",
                    copy.copied
                );
                web.snapshot_of_copy(&name(snapshot), copy).unwrap();
            }
        });
        // Only the top counts, and the layers have one file together.
        assert!(usage(&top(web)).bytes < 4 * MIB);
        let tree = |snapshot| web.snapshot_stack(&name(snapshot)).unwrap().top;
        for snapshot in ["one", "two", "three"] {
            let file = tree(snapshot).join("file");
            assert_eq!(membership(&file).project, 0);
            assert_eq!(fs::metadata(&file).unwrap().nlink(), 3);
        }
        web.rollback(&name("two")).unwrap();
        mounted(web, |at| {
            assert_eq!(fs::read_to_string(at.join("other")).unwrap(), "two");
            fs::rename(at.join("file"), at.join("renamed")).unwrap();
            fs::write(at.join("renamed"), "new").unwrap();
        });
        assert_eq!(
            fs::metadata(tree("three").join("file")).unwrap().len(),
            2 * MIB
        );
        end(place, &[Dataset::open(web.zonepath()).unwrap()]);
    });
}

#[test]
fn a_top_that_lost_its_project_is_limited_again_at_the_next_mount() {
    with_layer("a_top_that_lost", |place, web| {
        web.set_quota(Some(8 * MIB)).unwrap();
        project::set_membership(File::open(top(web)).unwrap(), Membership::NONE).unwrap();
        mounted(web, |at| {
            assert!(write(&at.join("big"), 32 * MIB) <= 8 * MIB);
        });
        let work = web.zonepath().join(WORK);
        assert_eq!(membership(&work), membership(&top(web)));
        end(place, &[Dataset::open(web.zonepath()).unwrap()]);
    });
}

/// Runs in a zone, as its root, with `ZONES_TEST_ATTACK` naming a folder of the zone.
#[test]
fn the_root_of_a_zone_keeps_its_project() {
    let Some(folder) = std::env::var_os("ZONES_TEST_ATTACK") else {
        println!("skipped: ZONES_TEST_ATTACK names no folder of a zone");
        return;
    };
    let folder = PathBuf::from(folder).join("attack");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    for path in [Path::new("/"), &folder, &folder.join("file")] {
        let file = File::open(path).unwrap();
        let own = project::membership(&file).unwrap();
        assert_ne!(own.project, 0, "{}", path.display());
        let (project, inherited) = (own.project, own.inherited);
        let mut escapes = vec![
            Membership {
                project: 0,
                inherited,
            },
            Membership::NONE,
        ];
        if inherited {
            escapes.push(Membership {
                project,
                inherited: false,
            });
        }
        for escape in escapes {
            let error = project::set_membership(&file, escape).unwrap_err();
            println!("{} to {escape:?}: refused: {error}", path.display());
        }
        assert_eq!(project::membership(&file).unwrap(), own);
        assert!(project::limit(&file, project, None).is_err());
        assert!(project::limit(&file, project, Some(1 << 40)).is_err());
    }
}

#[test]
fn a_folder_that_passes_a_project_on_is_refused() {
    let Some(place) = place("a_folder_that_passes") else {
        return;
    };
    let passed = Membership {
        project: 7,
        inherited: true,
    };
    project::set_membership(File::open(&place).unwrap(), passed).unwrap();
    let web = Dataset::create(&place.join("web")).unwrap();
    let error = web.set_quota(Some(8 * MIB)).unwrap_err().to_string();
    assert!(
        error.contains("belongs to project 7: run 'chattr"),
        "{error}"
    );
    end(&place, &[web]);
}

#[test]
fn the_cost_of_a_first_limit_is_measured() {
    const FILES: usize = 10_000;
    let Some(place) = place("the_cost") else {
        return;
    };
    let web = Dataset::create(&place.join("web")).unwrap();
    for n in 0..FILES {
        let folder = top(&web).join(format!("{}", n / 100));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{n}")), "text").unwrap();
    }
    assert!(Command::new("sync").status().unwrap().success());
    let began = Instant::now();
    web.set_quota(Some(256 * MIB)).unwrap();
    let first = began.elapsed();
    let began = Instant::now();
    web.set_quota(Some(255 * MIB)).unwrap();
    let second = began.elapsed();
    println!("first limit on {FILES} files: {first:?}; each later limit: {second:?}");
    assert!(usage(&top(&web)).files > FILES as u64);
    assert!(second < first);
    end(&place, &[web]);
}
