//! Reads the service bundles of Solaris (XML), the format of profiles such as `sc_profile.xml`.
//!
//! A bundle sets properties of services. The reader knows no service: it returns each property with
//! its path. The input may be hostile, so its size, depth and number of elements are bounded, and
//! only the five entities of XML itself are allowed.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Maximum size of a profile, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of elements of a profile.
const MAX_ELEMENTS: usize = 10_000;

/// Maximum depth of elements. A profile of Solaris has a depth of 7.
const MAX_DEPTH: usize = 16;

/// A property of a service, with its values. No error and no message may contain a value, because a
/// value may be a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Property {
    /// The name of the service, without `svc:/` and without an instance.
    pub(super) service: String,
    /// The property group and the name of the property, as `GROUP/NAME`.
    pub(super) name: String,
    /// The values; empty if the property has none.
    pub(super) values: Vec<String>,
}

/// Prints no value, because a value may be a password.
impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} ({} values)",
            self.service,
            self.name,
            self.values.len()
        )
    }
}

/// A service bundle.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    /// The properties in their order.
    pub(super) properties: Vec<Property>,
    /// The names of elements that the reader skipped, each once.
    pub(super) skipped: Vec<String>,
}

/// The reason why a text is no usable bundle, for the end of a message.
pub(super) type Problem = String;

/// Reads a bundle. The error has the line of the problem.
pub(super) fn read(text: &str) -> Result<Bundle, Problem> {
    let mut reader = Reader::from_str(text);
    let mut parser = Parser::default();
    loop {
        let done = match reader.read_event() {
            Ok(event) => parser.take(&event),
            Err(error) => Err(error.to_string()),
        };
        match done {
            Ok(false) => {}
            Ok(true) => return Ok(parser.bundle),
            Err(problem) => {
                let position = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
                let before = &text.as_bytes()[..position.min(text.len())];
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(format!("line {line}: {problem}"));
            }
        }
    }
}

/// An element that is open.
enum Open {
    Service(String),
    Group(String),
    /// A property whose values follow, by its place in the bundle.
    Property(usize),
    Other,
}

#[derive(Default)]
struct Parser {
    bundle: Bundle,
    open: Vec<Open>,
    elements: usize,
    /// True after the element `service_bundle` has begun.
    begun: bool,
}

impl Parser {
    /// Takes one part of the file. Returns true at the end of a complete file.
    fn take(&mut self, event: &Event<'_>) -> Result<bool, Problem> {
        match event {
            Event::Start(start) => {
                let open = self.element(start)?;
                if self.open.len() == MAX_DEPTH {
                    return Err(format!("more than {MAX_DEPTH} elements in each other"));
                }
                self.open.push(open);
            }
            Event::Empty(start) => {
                self.element(start)?;
            }
            Event::End(_) => {
                self.open.pop();
            }
            Event::Eof if self.begun && self.open.is_empty() => return Ok(true),
            Event::Eof => return Err("the end of service_bundle is missing".to_owned()),
            // A document type with an internal subset could define entities.
            Event::DocType(text) if text.contains(&b'[') => {
                return Err("the document type has declarations of its own".to_owned());
            }
            Event::Text(text) if !text.iter().all(u8::is_ascii_whitespace) => {
                return Err("text between the elements".to_owned());
            }
            Event::CData(_) | Event::GeneralRef(_) => {
                return Err("text between the elements".to_owned());
            }
            _ => {}
        }
        Ok(false)
    }

    fn element(&mut self, start: &BytesStart<'_>) -> Result<Open, Problem> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(format!("more than {MAX_ELEMENTS} elements"));
        }
        let element = start.name();
        let element = element.as_ref();
        if !self.begun {
            self.begun = element == b"service_bundle";
            return match self.begun {
                true => Ok(Open::Other),
                false => Err("expected the element service_bundle first".to_owned()),
            };
        }
        match element {
            b"service" => {
                let name = required(start, "name")?;
                let name = name.strip_prefix("svc:/").unwrap_or(&name);
                let name = name.split(':').next().unwrap_or_default();
                Ok(Open::Service(shown(name.as_bytes())))
            }
            b"property_group" => Ok(Open::Group(shown(required(start, "name")?.as_bytes()))),
            b"propval" => {
                let value = required(start, "value")?;
                self.add(start, vec![value])?;
                Ok(Open::Other)
            }
            b"property" => Ok(Open::Property(self.add(start, Vec::new())?)),
            b"value_node" => {
                let value = required(start, "value")?;
                let place = self.open.iter().rev().find_map(|open| match open {
                    Open::Property(place) => Some(*place),
                    _ => None,
                });
                let place = place.ok_or("a value_node outside a property")?;
                self.bundle.properties[place].values.push(value);
                Ok(Open::Other)
            }
            b"instance" | b"create_default_instance" | b"single_instance" => Ok(Open::Other),
            other if other.ends_with(b"_list") => Ok(Open::Other),
            other => {
                let name = shown(other);
                if !self.bundle.skipped.contains(&name) {
                    self.bundle.skipped.push(name);
                }
                Ok(Open::Other)
            }
        }
    }

    /// Adds a property of the open service and group. Returns its place.
    fn add(&mut self, start: &BytesStart<'_>, values: Vec<String>) -> Result<usize, Problem> {
        let name = shown(required(start, "name")?.as_bytes());
        let (mut service, mut group) = (None, None);
        for open in &self.open {
            match open {
                Open::Service(name) => service = Some(name.clone()),
                Open::Group(name) => group = Some(name.clone()),
                Open::Property(_) | Open::Other => {}
            }
        }
        let (Some(service), Some(group)) = (service, group) else {
            return Err(format!(
                "property {name} is not in a property_group of a service"
            ));
        };
        self.bundle.properties.push(Property {
            service,
            name: format!("{group}/{name}"),
            values,
        });
        Ok(self.bundle.properties.len() - 1)
    }
}

/// Returns an attribute that the element must have.
fn required(start: &BytesStart<'_>, wanted: &str) -> Result<String, Problem> {
    let element = shown(start.name().as_ref());
    for attribute in start.attributes() {
        // The message of the parser has positions and no values.
        let attribute = attribute.map_err(|error| error.to_string())?;
        if attribute.key.as_ref() == wanted.as_bytes() {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|_| format!("{element}: {wanted}: an unknown entity"))?;
            return Ok(value.into_owned());
        }
    }
    Err(format!("{element} has no {wanted}"))
}

/// Returns a name of the input, short and printable.
fn shown(name: &[u8]) -> String {
    let name: String = String::from_utf8_lossy(name).chars().take(80).collect();
    name.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROFILE: &str = r#"<?xml version='1.0' encoding='US-ASCII'?>
<!DOCTYPE service_bundle SYSTEM "/usr/share/lib/xml/dtd/service_bundle.dtd.1">
<!-- comment -->
<service_bundle type="profile" name="sysconfig">
  <service version="1" type="service" name="system/identity">
    <instance enabled="true" name="node">
      <property_group type="application" name="config">
        <propval type="astring" name="nodename" value="a&amp;b"/>
      </property_group>
    </instance>
  </service>
  <service version="1" type="service" name="svc:/network/dns/client:default">
    <property_group type="application" name="config">
      <property type="net_address" name="nameserver">
        <net_address_list><value_node value="192.0.2.1"/><value_node value="192.0.2.2"/></net_address_list>
      </property>
    </property_group>
    <stability value="Unstable"/>
  </service>
</service_bundle>
"#;

    #[test]
    fn reads_properties_with_their_paths() {
        let bundle = read(PROFILE).unwrap();
        let found: Vec<_> = bundle
            .properties
            .iter()
            .map(|one| (&*one.service, &*one.name, one.values.join(" ")))
            .collect();
        assert_eq!(
            found,
            [
                ("system/identity", "config/nodename", "a&b".to_owned()),
                (
                    "network/dns/client",
                    "config/nameserver",
                    "192.0.2.1 192.0.2.2".to_owned()
                ),
            ]
        );
        assert_eq!(bundle.skipped, ["stability"]);
    }

    #[test]
    fn refuses_hostile_files_and_names_the_line() {
        let deep = format!("<service_bundle>{}", "<a>".repeat(100));
        let many = format!(
            "<service_bundle>{}</service_bundle>",
            "<a/>".repeat(MAX_ELEMENTS)
        );
        let secret = "<service_bundle>\n<service name='s'><property_group name='g'>\n\
                      <propval name='p' value='$5$geheim&x;'/>";
        for (text, expected) in [
            ("", "the end of service_bundle"),
            ("<zone name='a'/>", "line 1: expected the element"),
            ("<service_bundle>", "the end of service_bundle"),
            (
                "<!DOCTYPE a [<!ENTITY x 'y'>]><service_bundle/>",
                "declarations",
            ),
            ("<service_bundle>text</service_bundle>", "text between"),
            ("<service_bundle>&x;</service_bundle>", "text between"),
            (
                "<service_bundle><value_node value='1'/>",
                "outside a property",
            ),
            (
                "<service_bundle><propval name='a' value='b'/>",
                "property_group",
            ),
            ("<service_bundle><service/>", "service has no name"),
            (&deep, "in each other"),
            (&many, "elements"),
            (secret, "line 3: propval: value: an unknown entity"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(expected), "{text:.60}: {problem}");
            assert!(!problem.contains("geheim"), "{problem}");
        }
    }

    #[test]
    fn debug_output_has_no_values() {
        let text = format!("{:?}", read(PROFILE).unwrap());
        assert!(text.contains("config/nameserver") && !text.contains("192.0.2.1"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[<>/&;a-z='\" \n]{0,200}") {
            let _ = read(&text);
            let _ = read(&format!("<service_bundle>{text}"));
        }
    }
}
