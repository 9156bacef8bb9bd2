//! See [`fuzz::image`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(init: fuzz::prepare("image"), |data: &[u8]| {
    fuzz::image::check(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fuzz::mutate::mutate("image", data, size, seed, |data, size| {
        fuzzer_mutate(data, size, max_size)
    })
});
