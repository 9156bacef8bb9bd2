//! The benchmark's command: run it by `bench/lifecycle/run`, which installs the other
//! tools and takes everything away afterwards, also when this program fails.

fn main() -> anyhow::Result<()> {
    lifecycle::run()
}
