//! See [`fuzz::tncfg`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(init: fuzz::prepare("tncfg"), |data: &[u8]| {
    fuzz::tncfg::check(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fuzz::mutate::mutate("tncfg", data, size, seed, |data, size| {
        fuzzer_mutate(data, size, max_size)
    })
});
