//! Runs work on many zones in parallel threads.

use std::collections::VecDeque;
use std::sync::Mutex;

/// Calls `act` for each item, in as many threads as the processors and the items are worth. A
/// single item is processed without an extra thread.
pub fn for_each<T: Sync>(items: &[T], act: impl Fn(&T) + Sync) {
    if let [item] = items {
        return act(item);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // A boot spends half of its time in waiting for the kernel and the disk, so two threads per CPU
    // are used.
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
