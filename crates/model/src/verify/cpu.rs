//! Finds CPU settings of a zone that exclude each other.

use crate::Config;
use crate::verify::problem::Problem;

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let has_rctl = |name: &str| {
        config
            .resources_of("rctl")
            .any(|one| one.get("name") == name)
    };
    if config.dedicated_cpu().is_some() {
        for (there, other) in [
            (!config.pool().is_empty(), "pool"),
            (has_rctl("zone.cpu-cap"), "capped-cpu"),
            (has_rctl("zone.cpu-shares"), "cpu-shares"),
        ] {
            if there {
                problems.push(Problem::Incompatible("dedicated-cpu", other));
            }
        }
    }
    let class = config.scheduling_class();
    if has_rctl("zone.cpu-shares") && !class.is_empty() && !class.eq_ignore_ascii_case("FSS") {
        problems.push(Problem::Incompatible(
            "cpu-shares",
            "a scheduling-class other than FSS",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

    #[test]
    fn a_zone_gets_its_cpus_in_one_way() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("cpu-shares", "5").unwrap();
        config.set("scheduling-class", "FSS").unwrap();
        assert_eq!(problems(&config), []);
        config.set("scheduling-class", "RT").unwrap();
        assert_eq!(problems(&config).len(), 1);
        config.clear("scheduling-class").unwrap();
        config.set("pool", "web").unwrap();
        let mut dedicated = Resource::new(table::resource("dedicated-cpu").unwrap());
        dedicated.set("ncpus", "1-2").unwrap();
        config.add(dedicated).unwrap();
        assert_eq!(
            problems(&config),
            [
                Problem::Incompatible("dedicated-cpu", "pool"),
                Problem::Incompatible("dedicated-cpu", "cpu-shares"),
            ]
        );
    }
}
