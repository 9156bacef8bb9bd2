//! Reading.

use std::path::Path;

use model::config::{Resource, Value};
use model::table::{self, Kind, PropertySpec, RESOURCES, ResourceSpec, Xml};
use model::{Config, ZoneName, verify};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::Error;

/// Reads a configuration. The file must call itself `written`; the
/// configuration is that of `zone` (they differ for templates).
///
/// # Errors
/// [`Error::Damaged`] with the line and what is wrong there.
pub fn parse(text: &str, path: &Path, written: &str, zone: &ZoneName) -> Result<Config, Error> {
    let mut file = File {
        reader: Reader::from_str(text),
    };
    file.zone(written, zone).map_err(|reason| {
        let position = usize::try_from(file.reader.buffer_position()).unwrap_or(usize::MAX);
        let before = &text.as_bytes()[..position.min(text.len())];
        Error::Damaged {
            path: path.to_owned(),
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            reason,
        }
    })
}

struct File<'a> {
    reader: Reader<&'a [u8]>,
}

/// What a well-formed file holds next, without comments and blanks.
enum Next<'a> {
    /// An element; true when content follows.
    Element(BytesStart<'a>, bool),
    /// The end of the element around it.
    End,
    /// The end of the file.
    Eof,
}

impl<'a> File<'a> {
    fn zone(&mut self, written: &str, zone: &ZoneName) -> Result<Config, String> {
        let Next::Element(start, has_content) = self.next()? else {
            return Err("no zone element".to_owned());
        };
        if start.name().as_ref() != b"zone" {
            return Err(unknown("element", start.name().as_ref()));
        }
        let mut config = Config::new(zone.clone());
        let mut named = false;
        for (name, value) in attributes(&start)? {
            if name == "name" {
                if value != written {
                    return Err(format!("it is the configuration of '{value}'"));
                }
                named = true;
                continue;
            }
            // The DTD fixes the version of the format.
            if name == "version" && value == "1" {
                continue;
            }
            let spec = table::GLOBAL.iter().find(|spec| is_attribute(spec, &name));
            let spec = spec.ok_or_else(|| unknown("attribute of zone", name.as_bytes()))?;
            if !value.is_empty() {
                config.set(spec.name, &value).map_err(|e| e.to_string())?;
            }
        }
        if !named {
            return Err("the zone has no name".to_owned());
        }
        if has_content {
            self.resources(&mut config)?;
        }
        match self.next()? {
            Next::Eof => Ok(config),
            Next::Element(start, _) => Err(unknown("element", start.name().as_ref())),
            Next::End => Err("more ends than elements".to_owned()),
        }
    }

    fn resources(&mut self, config: &mut Config) -> Result<(), String> {
        loop {
            let (start, has_content) = match self.next()? {
                Next::Element(start, has_content) => (start, has_content),
                Next::End => return Ok(()),
                Next::Eof => return Err("the zone element has no end".to_owned()),
            };
            let spec = RESOURCES
                .iter()
                .find(|spec| spec.xml.as_bytes() == start.name().as_ref())
                .ok_or_else(|| unknown("element", start.name().as_ref()))?;
            let resource = self.resource(spec, &start, has_content)?;
            if let Some(problem) = verify::resource(&resource).first() {
                return Err(problem.to_string());
            }
            config.add(resource).map_err(|error| error.to_string())?;
        }
    }

    fn resource(
        &mut self,
        spec: &'static ResourceSpec,
        start: &BytesStart,
        has_content: bool,
    ) -> Result<Resource, String> {
        let mut resource = Resource::new(spec);
        for (name, value) in attributes(start)? {
            let property = spec.properties.iter().find(|one| is_attribute(one, &name));
            let property = property
                .ok_or_else(|| unknown(&format!("attribute of {}", spec.xml), name.as_bytes()))?;
            if !value.is_empty() {
                resource
                    .set(property.name, &value)
                    .map_err(|error| error.to_string())?;
            }
        }
        if !has_content {
            return Ok(resource);
        }
        loop {
            let (start, nested) = match self.next()? {
                Next::Element(start, nested) => (start, nested),
                Next::End => return Ok(resource),
                Next::Eof => return Err(format!("the {} element has no end", spec.xml)),
            };
            let property = spec.properties.iter().find(|one| is_child(one, &start));
            let property = property.ok_or_else(|| {
                unknown(&format!("element in {}", spec.xml), start.name().as_ref())
            })?;
            let value = child(property, &start)?;
            if nested && !matches!(self.next()?, Next::End) {
                return Err(format!("unexpected content in a {} element", spec.xml));
            }
            resource
                .add_value(property.name, value)
                .map_err(|error| error.to_string())?;
        }
    }

    fn next(&mut self) -> Result<Next<'a>, String> {
        loop {
            match self.reader.read_event().map_err(|e| e.to_string())? {
                Event::Start(start) => return Ok(Next::Element(start, true)),
                Event::Empty(start) => return Ok(Next::Element(start, false)),
                Event::End(_) => return Ok(Next::End),
                Event::Eof => return Ok(Next::Eof),
                Event::Text(text) if text.iter().all(u8::is_ascii_whitespace) => {}
                // An internal subset could define entities.
                Event::DocType(text) if text.contains(&b'[') => {
                    return Err("a document type with an internal subset".to_owned());
                }
                Event::DocType(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) => {
                    return Err("text between the elements".to_owned());
                }
            }
        }
    }
}

fn is_attribute(spec: &PropertySpec, name: &str) -> bool {
    matches!(spec.xml, Xml::Attribute(attribute) if attribute == name)
}

fn is_child(spec: &PropertySpec, start: &BytesStart) -> bool {
    match spec.xml {
        Xml::Attribute(_) => false,
        Xml::Children { element, .. } => element.as_bytes() == start.name().as_ref(),
    }
}

/// The value in a child element: the field or fields the table names, no others.
fn child(spec: &PropertySpec, start: &BytesStart) -> Result<Value, String> {
    let pairs = attributes(start)?;
    let Xml::Children { element, attribute } = spec.xml else {
        return Err(unknown("element", start.name().as_ref()));
    };
    if matches!(spec.kind, Kind::Complex(_)) {
        return Ok(Value::Complex(pairs));
    }
    match <[_; 1]>::try_from(pairs) {
        Ok([(name, value)]) if name == attribute => Ok(Value::Simple(value)),
        _ => Err(format!(
            "{element} must have just the attribute {attribute}"
        )),
    }
}

/// Attributes with the five predefined entities and character references
/// resolved; any other entity is an error, as is a second one of the same name.
fn attributes(start: &BytesStart) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        let value = attribute.unescape_value().map_err(|e| e.to_string())?;
        pairs.push((name, value.into_owned()));
    }
    Ok(pairs)
}

fn unknown(what: &str, name: &[u8]) -> String {
    let name: String = String::from_utf8_lossy(name).chars().take(80).collect();
    format!("unknown {what}: '{}'", name.escape_debug())
}
