//! Writes configurations as XML.

use model::Config;
use model::config::{Resource, Value};
use model::table::{GLOBAL, PropertySpec, RESOURCES, Show, Xml};
use quick_xml::escape::escape;

/// The first lines of a file, as Solaris writes them. The system identifier is also that of
/// Solaris. The system identifier only names the format, and no program opens that file.
const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <!DOCTYPE zone PUBLIC \"-//Sun Microsystems Inc//DTD Zones//EN\" \
    \"file:///usr/share/lib/xml/dtd/zonecfg.dtd.1\">\n\
    <!-- Written by zonecfg; change it with zonecfg. -->\n";

/// Returns the text of the whole file.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut out = String::with_capacity(1024);
    out.push_str(PROLOGUE);
    out.push_str("<zone");
    for spec in GLOBAL {
        let value = config.get(spec.name);
        if spec.show == Show::Always || value != spec.default {
            attribute(&mut out, spec, value);
        }
    }
    if config.resources().is_empty() {
        out.push_str("/>\n");
        return out;
    }
    out.push_str(">\n");
    // The resources are sorted by type, as in files of Solaris, not by the order in which they were
    // added.
    for spec in RESOURCES {
        for resource in config.resources_of(spec.name) {
            element(&mut out, resource);
        }
    }
    out.push_str("</zone>\n");
    out
}

fn element(out: &mut String, resource: &Resource) {
    let spec = resource.spec();
    out.push_str("  <");
    out.push_str(spec.xml);
    let mut children = String::new();
    let mut siblings = String::new();
    for property in spec.properties {
        let value = resource.get(property.name);
        attribute(out, property, value);
        if let (Xml::Sibling { element, attribute }, false) = (property.xml, value.is_empty()) {
            siblings.push_str("  <");
            siblings.push_str(element);
            pair(&mut siblings, attribute, value);
            siblings.push_str("/>\n");
        }
        if let Xml::Children { element, attribute } = property.xml {
            for value in resource.list(property.name) {
                child(&mut children, element, attribute, value);
            }
        }
    }
    if children.is_empty() {
        out.push_str("/>\n");
    } else {
        out.push_str(">\n");
        out.push_str(&children);
        out.push_str("  </");
        out.push_str(spec.xml);
        out.push_str(">\n");
    }
    out.push_str(&siblings);
}

fn attribute(out: &mut String, spec: &PropertySpec, value: &str) {
    if value.is_empty() {
        return;
    }
    match spec.xml {
        Xml::Attribute(name) => pair(out, name, value),
        Xml::Range { min, max } => {
            let (low, high) = value.split_once('-').unwrap_or((value, value));
            pair(out, min, low);
            pair(out, max, high);
        }
        // Limits, lists and siblings are written as elements, not as attributes.
        Xml::Rctl(_) | Xml::Children { .. } | Xml::Sibling { .. } => {}
    }
}

fn child(out: &mut String, element: &str, attribute: &str, value: &Value) {
    out.push_str("    <");
    out.push_str(element);
    match value {
        Value::Simple(text) => pair(out, attribute, text),
        Value::Complex(fields) => {
            for (name, text) in fields {
                pair(out, name, text);
            }
        }
        // A list in a list does not occur, because configurations do not accept nested lists.
        Value::List(_) => {}
    }
    out.push_str("/>\n");
}

fn pair(out: &mut String, name: &str, value: &str) {
    out.push(' ');
    out.push_str(name);
    out.push_str("=\"");
    out.push_str(&escape(value));
    out.push('"');
}
