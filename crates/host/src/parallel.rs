//! Work on many zones at once.

use std::collections::VecDeque;
use std::sync::Mutex;

/// Hands the items to as many threads as are worth while; a single one to none.
pub fn for_each<T: Sync>(items: &[T], act: impl Fn(&T) + Sync) {
    if let [item] = items {
        return act(item);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // Half of a boot is waiting for the kernel and the disk.
    let workers = (2 * cpus).min(items.len());
    let queue = Mutex::new(items.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = next() {
                    act(item);
                }
            });
        }
    });
}
