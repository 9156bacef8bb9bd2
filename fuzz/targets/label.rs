//! See [`fuzz::label`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(init: fuzz::prepare("label"), |data: &[u8]| {
    fuzz::label::check(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fuzz::mutate::mutate("label", data, size, seed, |data, size| {
        fuzzer_mutate(data, size, max_size)
    })
});
