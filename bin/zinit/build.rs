//! Links the small form of zinit: see src/main.rs for when that is.

// These lines are for cargo.
#![allow(clippy::disallowed_macros)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // Nothing but our own code, beginning at our own entry point; and no page
    // of padding between the parts of so small a file.
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
