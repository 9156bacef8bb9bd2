//! Links the release build of zinit without a standard library; src/main.rs describes its two
//! forms.

// This build script prints instructions for cargo.
#![allow(clippy::disallowed_macros)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // Links only zinit's own code with its own entry point, and without a page of padding between
    // the sections of so small a file.
    for argument in [
        "-nostartfiles",
        "-nodefaultlibs",
        "-Wl,-e,zone_start",
        "-Wl,--build-id=none",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,norelro",
    ] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
