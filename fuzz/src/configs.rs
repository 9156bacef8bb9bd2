//! Configurations from which inputs are made.

use std::sync::LazyLock;

use model::{Config, ZoneName};

/// Returns the name of the configured zone.
pub(crate) fn web1() -> ZoneName {
    "web1".parse().expect("a legal name")
}

/// Returns configurations that together have every row of the table. They are small, because small
/// inputs are tried fast: a configuration with a resource has only this resource.
pub(crate) fn configs() -> &'static [Config] {
    static CONFIGS: LazyLock<Vec<Config>> = LazyLock::new(small);
    &CONFIGS
}

fn small() -> Vec<Config> {
    let large = model::generate::every_row(&web1()).expect("every row can be set");
    let mut small = Vec::new();
    for config in large {
        for resource in config.resources() {
            let mut one = Config::new(web1());
            one.add(resource.clone()).expect("it is the only one");
            small.push(one);
        }
        let mut properties = config;
        properties.retain(|_| false);
        small.push(properties);
    }
    small
}
