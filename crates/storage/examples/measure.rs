//! Measures the duration of a clone, of a seal and of the mount of a root.
//!
//! `measure DIR [N]` makes N clones (default: 1,000) of a small origin in the folder DIR, and
//! prints the minimum and median duration in microseconds. The program creates DIR and removes it
//! at the end. It needs root and runs in its own mount namespace.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use storage::{Dataset, Stack};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const BASE: u32 = 200_000;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: measure DIR [N]")?);
    let count = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    sys::namespace::unshare(sys::process::ns::MOUNT)?;
    sys::mount::make_private_recursive()?;
    fs::create_dir(&dir)?;
    let done = measure(&dir, count);
    fs::remove_dir_all(&dir)?;
    done
}

fn time<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = work();
    times.push(start.elapsed().as_secs_f64() * 1e6);
    value
}

fn report(name: &str, times: &[f64]) {
    if times.is_empty() {
        return;
    }
    let part = |name: &str, times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        println!(
            "{name:44} n={:<5} min {:8.1}  median {:8.1}  p95 {:8.1}",
            sorted.len(),
            sorted[0],
            sorted[sorted.len() / 2],
            sorted[sorted.len() * 95 / 100]
        );
    };
    part(name, times);
    if times.len() >= 1000 {
        part("   the last 100", &times[times.len() - 100..]);
    }
}

fn measure(dir: &Path, count: usize) -> Outcome<()> {
    let scratch = dir.join("scratch");
    fs::create_dir(&scratch)?;
    let index = dir.join("index");
    fs::write(&index, "")?;
    let origin = Dataset::create(&dir.join("origin"))?;
    for n in 0..100 {
        let folder = origin.stack()?.top.join(format!("d{n}"));
        fs::create_dir(&folder)?;
        fs::write(folder.join("file"), "text")?;
    }

    let mut times = Vec::new();
    for _ in 0..20 {
        time(&mut times, || sys::idmap::user_namespace(BASE, 65_536))?;
    }
    report("user namespace for the id map", &times);
    let userns = sys::idmap::user_namespace(BASE, 65_536)?;

    let (mut clone, mut settle, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut clones = Vec::new();
    for n in 0..count {
        let path = dir.join(format!("web{n}"));
        let origin = time(&mut open, || Dataset::open(origin.zonepath()))?;
        let made = time(&mut clone, || origin.clone_to(&path))?;
        time(&mut settle, || made.settle(&index))?;
        clones.push(made);
    }
    println!("first clone (seals the origin): {:.1}", clone[0]);
    report("open", &open);
    report("clone of an unchanged origin", &clone[1.min(count - 1)..]);
    report("settle, index on the same file system", &settle);

    // The mounts stay, as the roots of running zones stay mounted.
    let (mut mount, mut tidy, mut unmount) = (Vec::new(), Vec::new(), Vec::new());
    let mut alive = Vec::new();
    for made in &clones {
        let (root, layers) = time(&mut mount, || {
            storage::assemble_keeping(&made.stack()?, Some(userns.as_fd()), BASE, &scratch)
        })?;
        time(&mut tidy, || drop(layers));
        alive.push(root);
    }
    for root in alive {
        time(&mut unmount, || drop(root));
    }
    report("stack and mount, 1 layer", &mount);
    report("tidy up its scratch folder", &tidy);
    report("unmount", &unmount);

    let plain = Stack {
        volatile: false,
        lowers: Vec::new(),
        ..clones[0].stack()?
    };
    let mut times = Vec::new();
    for _ in 0..100 {
        drop(time(&mut times, || {
            storage::assemble(&plain, Some(userns.as_fd()), BASE, &scratch)
        })?);
    }
    report("mount without layers", &times);

    let mut seal = Vec::new();
    for made in &clones {
        fs::write(made.stack()?.top.join("own"), "text")?;
        time(&mut seal, || made.seal())?;
    }
    report("seal of a changed top", &seal);

    let deep = clones.pop().ok_or("no clones")?;
    while deep.stack()?.lowers.len() < 8 {
        fs::write(deep.stack()?.top.join("own"), "text")?;
        deep.seal()?;
    }
    let (mut mount, mut tidy, mut unmount) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        let stack = deep.stack()?;
        let (root, layers) = time(&mut mount, || {
            storage::assemble_keeping(&stack, Some(userns.as_fd()), BASE, &scratch)
        })?;
        time(&mut tidy, || drop(layers));
        time(&mut unmount, || drop(root));
    }
    report("mount, 8 layers", &mount);
    report("tidy up its scratch folder", &tidy);
    report("unmount", &unmount);

    let mut destroy = Vec::new();
    for made in &clones {
        time(&mut destroy, || Dataset::destroy(made.zonepath()))?;
    }
    report("destroy", &destroy);
    Ok(())
}
