//! Compares the facts stored in an image with the present facts.

use std::fmt;

use serde_json::Value;

/// A fact that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name of the fact: the names of nested fields, joined with points.
    pub what: String,
    /// The value when the image was saved; `null` for a field that was absent.
    pub then: Value,
    /// The present value.
    pub now: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {} and is {}", self.what, self.then, self.now)
    }
}

/// Returns true if every JSON reader returns these facts unchanged. Readers may change fractions.
pub(crate) fn is_exact(facts: &Value) -> bool {
    match facts {
        Value::Number(number) => !number.is_f64(),
        Value::Array(all) => all.iter().all(is_exact),
        Value::Object(all) => all.values().all(is_exact),
        _ => true,
    }
}

/// Returns the differences between two sets of facts, in the order of their names.
#[must_use]
pub fn differences(then: &Value, now: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", then, now, &mut found);
    found
}

fn compare(what: &str, then: &Value, now: &Value, found: &mut Vec<Difference>) {
    let (Value::Object(old), Value::Object(new)) = (then, now) else {
        if then != now {
            found.push(Difference {
                what: what.to_owned(),
                then: then.clone(),
                now: now.clone(),
            });
        }
        return;
    };
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let what = match what {
            "" => name.clone(),
            outer => format!("{outer}.{name}"),
        };
        let value = |side: &serde_json::Map<String, Value>| side.get(name).cloned();
        compare(
            &what,
            &value(old).unwrap_or_default(),
            &value(new).unwrap_or_default(),
            found,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_the_changed_fields() {
        let then = json!({"qemu": "7.2.22", "memory": {"size": 1024, "id": "ram0"}, "cpus": 2});
        let now = json!({"qemu": "7.2.22", "memory": {"size": 2048, "id": "ram0"}, "tpm": true});
        let found = differences(&then, &now);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "cpus was 2 and is null",
                "memory.size was 1024 and is 2048",
                "tpm was null and is true"
            ]
        );
        assert!(differences(&then, &then).is_empty());
        assert!(is_exact(&then) && !is_exact(&json!({"a": [1, {"b": 0.5}]})));
    }
}
