//! Aliases: properties that are other names for resource controls.
//!
//! `set cpu-shares=5` and an rctl resource `zone.cpu-shares` with the one value
//! `(priv=privileged,limit=5,action=none)` are the same setting. The rctl is stored and exported.
//! `info` shows the alias, and users set the alias.

/// An alias: the resource control for which a property is another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The name of the resource control.
    pub rctl: &'static str,
    /// The action of the limit that the alias sets.
    pub action: &'static str,
    /// The unit of the limit in the property.
    pub unit: Unit,
}

/// The unit in which a property writes a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// A number of bytes: a size, printed with a suffix.
    Bytes,
    /// Hundredths of a CPU: the property writes `1.50` for the limit 150.
    Cpus,
}

impl Alias {
    /// Returns a limit in the form of the property, or `None` if the property cannot express the
    /// limit.
    #[must_use]
    pub fn value(&self, limit: &str) -> Option<String> {
        let number: u64 = limit.parse().ok()?;
        match self.unit {
            Unit::Count | Unit::Bytes => Some(number.to_string()),
            Unit::Cpus => (number > 0).then(|| format!("{}.{:02}", number / 100, number % 100)),
        }
    }

    /// Converts a value of the property, in canonical form, to the limit.
    #[must_use]
    pub fn limit(&self, value: &str) -> String {
        match self.unit {
            Unit::Count | Unit::Bytes => value.to_owned(),
            Unit::Cpus => {
                let digits: String = value.chars().filter(|c| *c != '.').collect();
                let digits = digits.trim_start_matches('0');
                if digits.is_empty() { "0" } else { digits }.to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_values_are_each_others_inverse() {
        let alias = |unit| Alias {
            rctl: "",
            action: "",
            unit,
        };
        for (unit, limit, value) in [
            (Unit::Count, "7", "7"),
            (Unit::Bytes, "1024", "1024"),
            (Unit::Cpus, "150", "1.50"),
            (Unit::Cpus, "1", "0.01"),
            (Unit::Cpus, "10000", "100.00"),
        ] {
            assert_eq!(alias(unit).value(limit).as_deref(), Some(value));
            assert_eq!(alias(unit).limit(value), limit);
        }
        assert_eq!(alias(Unit::Count).value("many"), None);
        assert_eq!(alias(Unit::Cpus).value("0"), None);
    }
}
