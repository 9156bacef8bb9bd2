//! Whatever a configuration or a line holds.

use model::config::Value;
use model::table::{Kind, RESOURCES};
use proptest::prelude::*;

use super::*;

/// Text such as any property may hold.
fn text() -> impl Strategy<Value = String> {
    "[^\"\\p{C}]{0,20}"
}

fn path() -> impl Strategy<Value = String> {
    "(/[a-zA-Z0-9 _;=,()#\\[\\]-]{1,8}){1,3}"
}

prop_compose! {
    fn resource()(
        which in 0..RESOURCES.len(),
        path in path(),
        text in text(),
        word in "[a-z0-9]{1,8}",
        options in prop::collection::vec("[a-z=,;#()]{1,6}", 0..4),
    ) -> Resource {
        let mut resource = Resource::new(&RESOURCES[which]);
        for property in RESOURCES[which].properties {
            let value = match property.kind {
                Kind::Path => path.as_str(),
                Kind::FsType | Kind::AttrName => word.as_str(),
                Kind::Enum(_) => "string",
                Kind::List => {
                    let list = options.iter().map(|one| one.as_str().into()).collect();
                    resource.set_value(property.name, Value::List(list)).unwrap();
                    continue;
                }
                _ if property.required && text.is_empty() => "x",
                _ => text.as_str(),
            };
            resource.set(property.name, value).unwrap();
        }
        resource
    }
}

prop_compose! {
    fn config()(
        zonepath in path(),
        brand in 0..model::brands::BRANDS.len(),
        autoboot: bool,
        exclusive: bool,
        texts in prop::collection::vec(text(), 5),
        resources in prop::collection::vec(resource(), 0..6),
    ) -> Config {
        let mut config = Config::new(name("web1"));
        config.set("zonepath", &zonepath).unwrap();
        config.set("brand", model::brands::BRANDS[brand].name).unwrap();
        config.set("autoboot", if autoboot { "true" } else { "false" }).unwrap();
        config.set("ip-type", if exclusive { "exclusive" } else { "shared" }).unwrap();
        let properties = ["bootargs", "pool", "limitpriv", "scheduling-class", "fs-allowed"];
        for (property, text) in properties.into_iter().zip(&texts) {
            config.set(property, text).unwrap();
        }
        for spec in RESOURCES {
            for resource in resources.iter().filter(|one| one.spec() == spec) {
                // A second one with the same keys is refused.
                let _ = config.add(resource.clone());
            }
        }
        config
    }
}

proptest! {
    #[test]
    fn an_export_makes_the_same_configuration(config in config()) {
        let mut session = Session::new(name("web1"), Mode::File, Memory::default(), User::default());
        for line in export::export(&config).lines() {
            session.line(line);
        }
        prop_assert_eq!(session.console.printed, "");
        prop_assert_eq!(session.config, Some(config));
    }

    #[test]
    fn no_line_is_a_panic(lines in prop::collection::vec("(add |set |end|select |remove |info |clear |fs|dir|attr|options|=|/x|;|,|\\[|\\]|\\(|\\)|\"|#| |[a-z]{1,3}){0,12}", 1..6)) {
        let mut session = Session::new(name("web1"), Mode::Words, with_web1(State::Configured), User::default());
        for line in &lines {
            session.line(line);
        }
        session.finish();
    }
}
