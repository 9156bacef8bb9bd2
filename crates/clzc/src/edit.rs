//! The commands of zonecfg that change one configuration into another.

use std::collections::BTreeSet;

use model::Config;
use model::config::Resource;
use model::table::{GLOBAL, Kind};
use syntax::export;

/// Type of the resources in which limits are stored.
const LIMITS: &str = "rctl";

/// Returns the commands that change the configuration `from` of a zone into `to`; no commands if they are equal. A
/// zone that is not configured gets all of `to`.
#[must_use]
pub fn edit(from: Option<&Config>, to: &Config) -> String {
    let Some(from) = from else {
        return export::export(to);
    };
    let mut out = String::new();
    for spec in GLOBAL {
        let (before, after) = (from.get(spec.name), to.get(spec.name));
        let is_limit = spec.alias().is_some();
        if is_limit || spec.kind == Kind::ZoneName || before == after {
            continue;
        }
        if after == spec.default && spec.clearable {
            out.push_str(&format!("clear {}\n", spec.name));
        } else {
            export::set(&mut out, spec.name, after);
        }
    }
    let changed = changed_types(from, to);
    for name in &changed {
        // With -F, a missing resource is no error: a change of ip-type may have removed the default link.
        if from.resources_of(name).next().is_some() {
            out.push_str(&format!("remove -F {name}\n"));
        }
    }
    for resource in to.resources() {
        if changed.contains(resource.spec().name) {
            export::resource(&mut out, resource);
        }
    }
    out
}

/// Returns the types whose resources differ. All resources of such a type are removed and added again.
fn changed_types(from: &Config, to: &Config) -> BTreeSet<&'static str> {
    let all = from.resources().iter().chain(to.resources());
    let names: BTreeSet<&'static str> = all.map(|one| one.spec().name).collect();
    let of = |config: &Config, name: &str| -> Vec<Resource> {
        config.resources_of(name).cloned().collect()
    };
    let mut changed: BTreeSet<_> = names
        .into_iter()
        .filter(|name| of(from, name) != of(to, name))
        .collect();
    // The removal of a resource with aliases also removes limits.
    let takes_limits = |name: &&str| {
        model::table::resource(name).is_some_and(model::table::ResourceSpec::has_aliases)
    };
    if changed.iter().any(takes_limits) {
        changed.insert(LIMITS);
    }
    changed
}

#[cfg(test)]
mod tests {
    use model::ZoneName;
    use proptest::prelude::*;

    use super::*;
    use crate::memory::read_script;

    fn name() -> ZoneName {
        "pg".parse().unwrap()
    }

    fn config(text: &str) -> Config {
        read_script(
            &name(),
            None,
            &format!("create -b\nset zonepath=/zones/pg\n{text}"),
        )
        .unwrap()
    }

    fn edited(from: &Config, to: &Config) -> Config {
        let script = edit(Some(from), to);
        read_script(&name(), Some(from.clone()), &script)
            .unwrap_or_else(|error| panic!("{error} in\n{script}"))
    }

    #[test]
    fn equal_configurations_need_no_command() {
        let one =
            config("set autoboot=true\nadd fs\nset dir=/a\nset special=/b\nset type=lofs\nend");
        assert_eq!(edit(Some(&one), &one), "");
    }

    #[test]
    fn a_changed_link_is_replaced_and_other_resources_stay() {
        let fs = "add fs\nset dir=/a\nset special=/b\nset type=lofs\nend\n";
        let net =
            "set ip-type=exclusive\nadd anet\nset lower-link=br0\nset allowed-address=10.0.0.";
        let from = config(&format!("{fs}{net}1/24\nend"));
        let to = config(&format!("{fs}{net}2/24\nend\nset autoboot=true"));
        insta::assert_snapshot!(edit(Some(&from), &to));
        assert_eq!(edited(&from, &to), to);
    }

    #[test]
    fn limits_survive_the_removal_of_their_aliases() {
        let from = config("set cpu-shares=5\nadd capped-memory\nset physical=1g\nset swap=2g\nend");
        let to = config("set cpu-shares=5\nset max-lwps=100");
        assert_eq!(edited(&from, &to), to);
        assert_eq!(edited(&to, &from), from);
    }

    #[test]
    fn the_way_from_shared_to_exclusive_addresses_and_back() {
        let shared = config("add net\nset physical=eth0\nset address=10.0.0.1/24\nend");
        let exclusive = config("set ip-type=exclusive\nadd anet\nset lower-link=br0\nend");
        assert_eq!(edited(&shared, &exclusive), exclusive);
        assert_eq!(edited(&exclusive, &shared), shared);
    }

    proptest! {
        #[test]
        fn the_commands_make_the_wanted_configuration(
            from in proptest::collection::vec(any::<u8>(), 0..400),
            to in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let (from, to) = (model::generate::config(&name(), &from), model::generate::config(&name(), &to));
            prop_assert_eq!(edited(&from, &to), to);
        }
    }
}
