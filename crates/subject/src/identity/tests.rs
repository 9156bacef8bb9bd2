use super::*;

const UUID: &str = "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10";

struct World {
    folder: tempfile::TempDir,
    hosts: [Root; 2],
    entry: Entry,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["a", "b"].map(|name| Root::new(&folder.path().join(name)));
        std::fs::create_dir(folder.path().join("web")).unwrap();
        let entry = Entry::configured("web".parse().unwrap(), "/zones/web".into());
        Self {
            folder,
            hosts,
            entry,
        }
    }

    fn zonepath(&self) -> PathBuf {
        self.folder.path().join("web")
    }

    fn write(&self, host: usize) -> Result<(), Error> {
        write(&self.hosts[host], &self.entry, &self.zonepath(), uuid())
    }

    fn claim(&self, host: usize, rule: Claim) -> Result<Former, Error> {
        claim(
            &self.hosts[host],
            &self.entry,
            &self.zonepath(),
            uuid(),
            rule,
        )
    }

    fn release(&self, host: usize) -> Result<Former, Error> {
        release(&self.hosts[host], &self.entry, &self.zonepath())
    }

    fn other_owner(&self, host: usize) -> Option<Owner> {
        other_owner(&self.hosts[host], &self.zonepath()).unwrap()
    }
}

fn uuid() -> Uuid {
    UUID.parse().unwrap()
}

#[test]
fn a_zonepath_has_one_owner_until_it_is_released_or_taken_over() {
    let world = World::new();
    world.write(0).unwrap();
    assert_eq!(world.other_owner(0), None);
    assert!(world.other_owner(1).is_some());
    assert_eq!(read(&world.zonepath()).generation, 1);
    // Without a change, nothing is written.
    let made = std::fs::metadata(world.zonepath().join(FILE)).unwrap();
    world.write(0).unwrap();
    let still = std::fs::metadata(world.zonepath().join(FILE)).unwrap();
    assert_eq!(made.modified().unwrap(), still.modified().unwrap());

    for error in [
        world.write(1).unwrap_err(),
        world.claim(1, Claim::Free).unwrap_err(),
        world.release(1).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, Error::Owner(_)), "{text}");
        assert!(
            text.contains("belongs to host ") && text.contains(" since 20"),
            "{text}"
        );
    }
    let _ = world.claim(1, Claim::TakeOver).unwrap();
    assert!(world.other_owner(0).is_some() && world.other_owner(1).is_none());
    assert_eq!(read(&world.zonepath()).generation, 2);
    let _ = world.release(1).unwrap();
    assert!(world.other_owner(0).is_none() && world.other_owner(1).is_none());
    assert_eq!(read(&world.zonepath()).uuid, Some(uuid()));
    let _ = world.claim(0, Claim::Free).unwrap();
    assert!(world.other_owner(1).is_some());
    assert_eq!(read(&world.zonepath()).generation, 3);
}

#[test]
fn an_error_after_a_change_of_the_owner_restores_the_former_file() {
    let world = World::new();
    world.claim(0, Claim::Free).unwrap().restore().unwrap();
    assert!(!world.zonepath().join(FILE).exists());
    world.write(0).unwrap();
    let before = read(&world.zonepath());
    let changes: [fn(&World) -> Former; 3] = [
        |world| world.claim(0, Claim::Free).unwrap(),
        |world| world.claim(1, Claim::TakeOver).unwrap(),
        |world| world.release(0).unwrap(),
    ];
    for change in changes {
        change(&world).restore().unwrap();
        assert_eq!(read(&world.zonepath()), before);
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_new_owner() {
    for change in [0, 1] {
        for at in 0.. {
            let world = World::new();
            world.write(0).unwrap();
            let old = read(&world.zonepath()).owner;
            let ended = sys::crash::run(at, || {
                let _ = match change {
                    0 => world.claim(1, Claim::TakeOver).unwrap(),
                    _ => world.release(0).unwrap(),
                };
            });
            let found = read(&world.zonepath());
            let new = match change {
                0 => known_host_id(&world.hosts[1].host_id()),
                _ => None,
            };
            assert!(found.uuid == Some(uuid()), "{found:?}");
            assert!(found.owner == old || found.owner == new, "{found:?}");
            // The same command completes the change.
            let _ = match change {
                0 => world.claim(1, Claim::TakeOver).unwrap(),
                _ => world.release(0).unwrap(),
            };
            if ended.is_ok() {
                assert!(at > 1);
                break;
            }
        }
    }
}

#[test]
fn the_lock_keeps_another_command_from_changing_the_owner() {
    let world = World::new();
    world.write(0).unwrap();
    let held = hold(&world.zonepath()).unwrap();
    let error = world.claim(1, Claim::TakeOver).unwrap_err().to_string();
    assert!(error.contains(".owner-lock is locked"), "{error}");
    assert!(world.other_owner(0).is_none());
    drop(held);
    let _ = world.claim(1, Claim::TakeOver).unwrap();
}

#[test]
fn a_zonepath_of_older_programs_gets_an_owner() {
    let world = World::new();
    let file = world.zonepath().join(FILE);
    std::fs::write(&file, format!("format=1\nuuid={UUID}\nhost=b\n")).unwrap();
    assert_eq!(world.other_owner(0), None);
    world.write(0).unwrap();
    assert!(world.other_owner(1).is_some());
    // At a detach, older programs left their host as the owner.
    let other = "format=1\nowner=0b7e7a52-5d1c-4d5d-9f2d-1f6f0d8f3c11\nhost=b\n";
    std::fs::write(&file, other).unwrap();
    assert!(world.claim(0, Claim::Free).is_err());
    std::fs::write(world.zonepath().join(crate::DETACHED), "").unwrap();
    let _ = world.claim(0, Claim::Free).unwrap();
    assert!(world.other_owner(1).is_some());
}

#[test]
fn a_boot_writes_its_configuration_only_if_it_has_changed() {
    let world = World::new();
    world.write(0).unwrap();
    let mut config = Config::new("web".parse().unwrap());
    let store = |config: &Config| {
        store_configuration(&world.entry, &world.zonepath(), config).unwrap();
        read(&world.zonepath())
    };
    let first = store(&config);
    let stored = first.configuration.as_ref().unwrap();
    assert_eq!(stored.generation, 1);
    let made = std::fs::metadata(world.zonepath().join(FILE)).unwrap();
    assert_eq!(store(&config), first);
    let still = std::fs::metadata(world.zonepath().join(FILE)).unwrap();
    assert_eq!(made.modified().unwrap(), still.modified().unwrap());
    assert_eq!(other_configuration(&world.entry, &first, &config), None);
    config.set("autoboot", "true").unwrap();
    let warning = other_configuration(&world.entry, &first, &config).unwrap();
    assert!(warning.contains("(generation 1)"), "{warning}");
    let second = store(&config).configuration.unwrap();
    assert_eq!(second.generation, 2);
    assert!(second.text.contains("autoboot"));
}

#[test]
fn the_mark_of_a_clone_becomes_the_file_of_its_identity() {
    let world = World::new();
    let (root, zonepath) = (&world.hosts[0], world.zonepath());
    std::fs::write(zonepath.join(".mark"), "a longer text that a kill left").unwrap();
    write_over_mark(root, &zonepath, ".mark", uuid());
    assert!(!zonepath.join(".mark").exists());
    assert!(Known::of(root, &zonepath).unwrap().is_of(uuid()));
    // A mark that cannot be renamed to the file is removed.
    std::fs::remove_file(zonepath.join(FILE)).unwrap();
    std::fs::create_dir(zonepath.join(FILE)).unwrap();
    std::fs::write(zonepath.join(".mark"), "").unwrap();
    write_over_mark(root, &zonepath, ".mark", uuid());
    assert!(!zonepath.join(".mark").exists());
    assert!(!Known::of(root, &zonepath).unwrap().is_of(uuid()));
    // A zonepath that does not exist is not created.
    let gone = world.folder.path().join("gone");
    write(root, &world.entry, &gone, uuid()).unwrap();
    assert!(!gone.exists());
}
