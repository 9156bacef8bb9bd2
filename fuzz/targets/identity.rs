//! See [`fuzz::identity`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(init: fuzz::prepare("identity"), |data: &[u8]| {
    fuzz::identity::check(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fuzz::mutate::mutate("identity", data, size, seed, |data, size| {
        fuzzer_mutate(data, size, max_size)
    })
});
