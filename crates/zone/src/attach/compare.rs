//! Compares a zone's packages with the host's, and reports mismatches.

use std::cmp::Ordering;

use model::Config;
use model::brands::Family;
use packages::{Mismatch, Scope};

use crate::inventory::System;
use host::Error;

/// The package mismatches between a zone and this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// True if the zone runs this host's programs.
    pub(super) is_sparse: bool,
    mismatches: Vec<Mismatch>,
}

impl Comparison {
    pub(super) fn of(config: &Config, source: &System, here: &System) -> Self {
        let is_sparse = brand::sparse::is_sparse(config);
        let (ours, theirs) = (&here.inventory, &source.inventory);
        let mismatches = match config.family() {
            // A zone of these brands has a system of its own, so its packages are not compared.
            Family::Lx | Family::Kz | Family::Global => Vec::new(),
            _ if ours.manager != theirs.manager => Vec::new(),
            _ if is_sparse => theirs.compare(ours, Scope::All),
            _ if here.name == source.name => theirs.compare(ours, Scope::Common),
            // The zone's system is another release, so its package versions cannot be compared with
            // the host's.
            Family::Native => Vec::new(),
        };
        Self {
            is_sparse,
            mismatches,
        }
    }

    pub(super) fn is_same(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Fails with a report unless all packages match.
    pub(super) fn refuse(&self) -> Result<(), Error> {
        match self.is_same() {
            true => Ok(()),
            false => Err(Error::Mismatch(self.report(|_| true))),
        }
    }

    /// Fails with a report of the mismatches that no update can repair: no package is downgraded,
    /// and a sparse zone cannot have a package that this host does not have.
    pub(super) fn refuse_update(&self) -> Result<(), Error> {
        let hopeless =
            |one: &Mismatch| one.order() == Some(Ordering::Greater) || one.here.is_none();
        if !self.mismatches.iter().any(hopeless) {
            return Ok(());
        }
        let mut report = self.report(hopeless);
        report.push(
            "These cannot be downgraded or removed: update this host first, or use attach -F."
                .to_owned(),
        );
        Err(Error::Mismatch(report))
    }

    /// Returns the packages that must become newer in a whole-root zone, in the form that apt-get
    /// takes.
    pub(super) fn wanted(&self) -> Vec<String> {
        let older = self
            .mismatches
            .iter()
            .filter(|one| one.order() == Some(Ordering::Less));
        older
            .filter_map(|one| Some(format!("{}={}", one.package, one.here.as_ref()?)))
            .collect()
    }

    /// Fails with a report if packages are still older than on this host after an update.
    pub(super) fn refuse_older(&self) -> Result<(), Error> {
        let older = |one: &Mismatch| one.order() == Some(Ordering::Less);
        if !self.mismatches.iter().any(older) {
            return Ok(());
        }
        let mut report = self.report(older);
        report.push("The zone's own sources did not bring these.".to_owned());
        Err(Error::Mismatch(report))
    }

    /// Returns a report in the form of Solaris 10. A package with the same upstream release and
    /// another revision corresponds to a patch of Solaris.
    fn report(&self, only: impl Fn(&Mismatch) -> bool) -> Vec<String> {
        let all = || self.mismatches.iter().filter(|one| only(one));
        let mut lines = Vec::new();
        let mut under = |heading: &str, items: Vec<String>| {
            if !items.is_empty() {
                lines.push(heading.to_owned());
                lines.extend(items);
            }
        };
        let changed = all().filter(|one| one.source.is_some() && !one.is_patch());
        under(
            "These packages installed on the source system are inconsistent with this system:",
            changed.map(differs).collect(),
        );
        under(
            "These packages installed on this system were not installed on the source system:",
            all()
                .filter_map(|one| match (&one.source, &one.here) {
                    (None, Some(here)) => Some(format!("\t{} ({here})", one.package)),
                    _ => None,
                })
                .collect(),
        );
        let patch = |order| all().filter(move |one| one.is_patch() && one.order() == Some(order));
        under(
            "These patches installed on the source system are inconsistent with this system:",
            patch(Ordering::Greater).map(differs).collect(),
        );
        under(
            "These patches installed on this system were not installed on the source system:",
            patch(Ordering::Less).map(differs).collect(),
        );
        lines
    }
}

fn differs(one: &Mismatch) -> String {
    let source = one.source.as_deref().unwrap_or_default();
    match &one.here {
        Some(here) => format!(
            "\t{} ({source}) version mismatch\n\t\t({here})",
            one.package
        ),
        None => format!("\t{} ({source}) is not installed", one.package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packages::Inventory;
    use packages::inventory::Key;

    fn system(words: &[(&str, &str)]) -> System {
        let packages = words.iter().map(|(name, version)| {
            let key = Key {
                name: (*name).to_owned(),
                architecture: String::new(),
            };
            (key, (*version).to_owned())
        });
        System {
            inventory: Inventory {
                manager: "dpkg".to_owned(),
                packages: packages.collect(),
                broken: Vec::new(),
            },
            name: "debian 12".to_owned(),
            unknown: None,
        }
    }

    fn sparse() -> Config {
        let mut config = Config::new("web".parse().unwrap());
        let spec = model::table::resource("inherit-pkg-dir").unwrap();
        let mut dir = model::config::Resource::new(spec);
        dir.set("dir", "/usr").unwrap();
        config.add(dir).unwrap();
        config
    }

    fn report(comparison: &Comparison) -> String {
        match comparison.refuse() {
            Err(Error::Mismatch(lines)) => lines.join("\n"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_report_has_four_headings() {
        let source = system(&[
            ("apache2", "2.4.57-2"),
            ("curl", "7.88.1-10+deb12u5"),
            ("gone", "1.0-1"),
            ("openssl", "3.0.9-1"),
            ("same", "1"),
        ]);
        let here = system(&[
            ("apache2", "2.4.62-1"),
            ("curl", "7.88.1-10+deb12u4"),
            ("new", "2.0-1"),
            ("openssl", "3.0.9-1+deb12u2"),
            ("same", "1"),
        ]);
        let comparison = Comparison::of(&sparse(), &source, &here);
        assert_eq!(
            report(&comparison),
            "These packages installed on the source system are inconsistent with this system:\n\
             \tapache2 (2.4.57-2) version mismatch\n\t\t(2.4.62-1)\n\
             \tgone (1.0-1) is not installed\n\
             These packages installed on this system were not installed on the source system:\n\
             \tnew (2.0-1)\n\
             These patches installed on the source system are inconsistent with this system:\n\
             \tcurl (7.88.1-10+deb12u5) version mismatch\n\t\t(7.88.1-10+deb12u4)\n\
             These patches installed on this system were not installed on the source system:\n\
             \topenssl (3.0.9-1) version mismatch\n\t\t(3.0.9-1+deb12u2)"
        );
        let Err(Error::Mismatch(lines)) = comparison.refuse_update() else {
            panic!("a downgrade");
        };
        let text = lines.join("\n");
        assert!(text.contains("curl") && text.contains("gone"), "{text}");
        assert!(
            !text.contains("openssl") && !text.contains("apache2"),
            "{text}"
        );
    }

    #[test]
    fn a_whole_root_has_packages_of_its_own() {
        let whole = Config::new("web".parse().unwrap());
        let source = system(&[("a", "1-1"), ("own", "1")]);
        let here = system(&[("a", "1-2"), ("new", "2")]);
        let comparison = Comparison::of(&whole, &source, &here);
        assert_eq!(comparison.wanted(), ["a=1-2"]);
        assert!(comparison.refuse().is_err());
        assert!(comparison.refuse_update().is_ok());
        // Packages of another release are not compared.
        let other = System {
            name: "debian 11".to_owned(),
            ..source.clone()
        };
        assert!(Comparison::of(&whole, &other, &here).refuse().is_ok());
        assert!(Comparison::of(&whole, &source, &source).wanted().is_empty());
    }
}
