//! Writing.

use model::Config;
use model::config::{Resource, Value};
use model::table::{GLOBAL, PropertySpec, RESOURCES, Xml};
use quick_xml::escape::escape;

/// How the files of Solaris begin. The system identifier is theirs too: it
/// names the format, nothing ever opens it.
const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <!DOCTYPE zone PUBLIC \"-//Sun Microsystems Inc//DTD Zones//EN\" \
    \"file:///usr/share/lib/xml/dtd/zonecfg.dtd.1\">\n\
    <!-- Written by zonecfg; change it with zonecfg. -->\n";

/// The whole file.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut out = String::with_capacity(1024);
    out.push_str(PROLOGUE);
    out.push_str("<zone");
    for spec in GLOBAL {
        attribute(&mut out, spec, config.get(spec.name));
    }
    if config.resources().is_empty() {
        out.push_str("/>\n");
        return out;
    }
    out.push_str(">\n");
    // By type as in the original's files, not in the order of their making.
    for spec in RESOURCES {
        for (_, resource) in config.resources_of(spec.name) {
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
    for property in spec.properties {
        attribute(out, property, resource.get(property.name));
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
}

fn attribute(out: &mut String, spec: &PropertySpec, value: &str) {
    if let (Xml::Attribute(name), false) = (spec.xml, value.is_empty()) {
        pair(out, name, value);
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
        // Lists do not nest: the configuration admits none here.
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
