//! Reads configurations from XML.

use std::path::Path;

use model::config::{Resource, Value};
use model::table::{self, IGNORED_ELEMENTS, Kind, PropertySpec, RESOURCES, ResourceSpec, Xml};
use model::{Config, ZoneName, verify};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};

use crate::{Damage, Error, Part};

/// Reads a configuration for `zone`. The name in the file must equal `written`. For a template,
/// `written` is the name of the template.
///
/// # Errors
/// Fails with [`Error::Damaged`], which has the line and the problem.
pub fn parse(text: &str, path: &Path, written: &str, zone: &ZoneName) -> Result<Config, Error> {
    read(text, path, Some(written), zone)
}

/// Reads a configuration for `zone`, and accepts any name in the file.
///
/// # Errors
/// Fails like [`parse`].
pub fn parse_any(text: &str, path: &Path, zone: &ZoneName) -> Result<Config, Error> {
    read(text, path, None, zone)
}

fn read(text: &str, path: &Path, written: Option<&str>, zone: &ZoneName) -> Result<Config, Error> {
    let mut file = File {
        reader: Reader::from_str(text),
    };
    file.zone(written, zone).map_err(|reason| {
        let position = usize::try_from(file.reader.buffer_position()).unwrap_or(usize::MAX);
        let before = &text.as_bytes()[..position.min(text.len())];
        Error::Damaged {
            path: path.to_owned(),
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            reason: Box::new(reason),
        }
    })
}

struct File<'a> {
    reader: Reader<&'a [u8]>,
}

/// The next part of a well-formed XML file. Comments and blanks of the file are skipped.
enum Next<'a> {
    /// The start of an element. The second field is true if the element has content.
    Element(BytesStart<'a>, bool),
    /// The end of the enclosing element.
    End,
    /// The end of the XML file.
    Eof,
}

impl<'a> File<'a> {
    fn zone(&mut self, written: Option<&str>, zone: &ZoneName) -> Result<Config, Damage> {
        let Next::Element(start, has_content) = self.next()? else {
            return Err(Damage::NoZone);
        };
        if start.name().as_ref() != b"zone" {
            return Err(unknown(Part::Element, start.name().as_ref()));
        }
        let mut config = Config::new(zone.clone());
        let mut named = false;
        for (name, value) in attributes(&start)? {
            if name == "name" {
                if written.is_some_and(|written| value != written) {
                    return Err(Damage::OfAnotherZone(value));
                }
                named = true;
                continue;
            }
            // The DTD says that the version of the format is 1.
            if name == "version" && value == "1" {
                continue;
            }
            if name == "version" {
                return Err(Damage::Format(value));
            }
            let spec = table::GLOBAL.iter().find(|spec| is_attribute(spec, &name));
            let spec = spec.ok_or_else(|| unknown(Part::AttributeOf("zone"), name.as_bytes()))?;
            if !value.is_empty() {
                config.set(spec.name, &value)?;
            }
        }
        if !named {
            return Err(Damage::NoName);
        }
        if has_content {
            self.resources(&mut config)?;
        }
        match self.next()? {
            Next::Eof => Ok(config),
            Next::Element(start, _) => Err(unknown(Part::Element, start.name().as_ref())),
            Next::End => Err(Damage::ExtraEnd),
        }
    }

    fn resources(&mut self, config: &mut Config) -> Result<(), Damage> {
        // A sibling element may precede the resource element to which it belongs.
        let mut siblings = Vec::new();
        loop {
            let (start, has_content) = match self.next()? {
                Next::Element(start, has_content) => (start, has_content),
                Next::End => break,
                Next::Eof => return Err(Damage::NoEnd("zone")),
            };
            let element = start.name();
            let named = |text: &&str| text.as_bytes() == element.as_ref();
            if IGNORED_ELEMENTS.iter().any(named) {
                if has_content {
                    self.skip()?;
                }
                continue;
            }
            if let Some((spec, property)) = sibling(&start) {
                let pairs = attributes(&start)?;
                if has_content && !matches!(self.next()?, Next::End) {
                    return Err(Damage::Content(spec.xml));
                }
                siblings.push((spec, property, pairs));
                continue;
            }
            let spec = RESOURCES
                .iter()
                .filter(|spec| !spec.xml.is_empty())
                .find(|spec| named(&spec.xml))
                .ok_or_else(|| unknown(Part::Element, element.as_ref()))?;
            let resource = self.resource(spec, &start, has_content)?;
            config.add_stored(resource)?;
        }
        for (spec, property, pairs) in siblings {
            set_sibling(config, spec, property, &pairs)?;
        }
        match config
            .resources()
            .iter()
            .find_map(|one| verify::resource(one).into_iter().next())
        {
            Some(problem) => Err(Damage::Resource(problem)),
            None => Ok(()),
        }
    }

    /// Skips an element that does not belong to a configuration.
    fn skip(&mut self) -> Result<(), Damage> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Next::Element(_, true) => depth += 1,
                Next::Element(_, false) => {}
                Next::End => depth -= 1,
                Next::Eof => return Err(Damage::SkippedNoEnd),
            }
        }
        Ok(())
    }

    fn resource(
        &mut self,
        spec: &'static ResourceSpec,
        start: &BytesStart,
        has_content: bool,
    ) -> Result<Resource, Damage> {
        let mut resource = Resource::new(spec);
        let mut range = (None, None);
        for (name, value) in attributes(start)? {
            match range_end(spec, &name) {
                Some((property, true)) => {
                    range.0 = Some((property, value));
                    continue;
                }
                Some((property, false)) => {
                    range.1 = Some((property, value));
                    continue;
                }
                None => {}
            }
            let property = spec.properties.iter().find(|one| is_attribute(one, &name));
            let property =
                property.ok_or_else(|| unknown(Part::AttributeOf(spec.xml), name.as_bytes()))?;
            if !value.is_empty() {
                resource.set(property.name, &value)?;
            }
        }
        match range {
            (None, None) => {}
            (Some((property, min)), Some((_, max))) => {
                let text = format!("{min}-{max}");
                resource.set(property, &text)?;
            }
            _ => return Err(Damage::HalfRange(spec.xml)),
        }
        if !has_content {
            return Ok(resource);
        }
        loop {
            let (start, nested) = match self.next()? {
                Next::Element(start, nested) => (start, nested),
                Next::End => return Ok(resource),
                Next::Eof => return Err(Damage::NoEnd(spec.xml)),
            };
            let property = spec.properties.iter().find(|one| is_child(one, &start));
            let property = property
                .ok_or_else(|| unknown(Part::ElementIn(spec.xml), start.name().as_ref()))?;
            let value = child(property, &start)?;
            if nested && !matches!(self.next()?, Next::End) {
                return Err(Damage::Content(spec.xml));
            }
            resource.add_value(property.name, value)?;
        }
    }

    fn next(&mut self) -> Result<Next<'a>, Damage> {
        loop {
            match self.reader.read_event()? {
                Event::Start(start) => return Ok(Next::Element(start, true)),
                Event::Empty(start) => return Ok(Next::Element(start, false)),
                Event::End(_) => return Ok(Next::End),
                Event::Eof => return Ok(Next::Eof),
                Event::Text(text) if text.iter().all(u8::is_ascii_whitespace) => {}
                // A document type with an internal subset could define entities.
                Event::DocType(text) if text.contains(&b'[') => {
                    return Err(Damage::InternalSubset);
                }
                Event::DocType(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) => {
                    return Err(Damage::Text);
                }
            }
        }
    }
}

fn is_attribute(spec: &PropertySpec, name: &str) -> bool {
    matches!(spec.xml, Xml::Attribute(attribute) if attribute == name)
}

/// Returns the range property to which an attribute belongs, and true if the attribute is the lower
/// end.
fn range_end(spec: &ResourceSpec, name: &str) -> Option<(&'static str, bool)> {
    spec.properties
        .iter()
        .find_map(|property| match property.xml {
            Xml::Range { min, .. } if min == name => Some((property.name, true)),
            Xml::Range { max, .. } if max == name => Some((property.name, false)),
            _ => None,
        })
}

/// Returns the resource and the property that a sibling element holds.
fn sibling(start: &BytesStart) -> Option<(&'static ResourceSpec, &'static PropertySpec)> {
    RESOURCES.iter().find_map(|spec| {
        let mut properties = spec.properties.iter();
        let holds = |property: &&PropertySpec| match property.xml {
            Xml::Sibling { element, .. } => element.as_bytes() == start.name().as_ref(),
            _ => false,
        };
        properties.find(holds).map(|property| (spec, property))
    })
}

fn set_sibling(
    config: &mut Config,
    spec: &'static ResourceSpec,
    property: &PropertySpec,
    pairs: &[(String, String)],
) -> Result<(), Damage> {
    let Xml::Sibling { element, attribute } = property.xml else {
        return Ok(());
    };
    let [(name, value)] = pairs else {
        return Err(Damage::OneAttribute { element, attribute });
    };
    if name != attribute {
        return Err(Damage::OneAttribute { element, attribute });
    }
    let Some(old) = config.resources_of(spec.name).next().cloned() else {
        return Err(Damage::Alone {
            element,
            resource: spec.xml,
        });
    };
    let mut new = old.clone();
    config.remove(&old);
    new.set(property.name, value)?;
    Ok(config.add_stored(new)?)
}

fn is_child(spec: &PropertySpec, start: &BytesStart) -> bool {
    match spec.xml {
        Xml::Attribute(_) | Xml::Range { .. } | Xml::Sibling { .. } | Xml::Rctl(_) => false,
        Xml::Children { element, .. } => element.as_bytes() == start.name().as_ref(),
    }
}

/// Returns the value of a child element. The element must have exactly the fields that the table
/// names.
fn child(spec: &PropertySpec, start: &BytesStart) -> Result<Value, Damage> {
    let pairs = attributes(start)?;
    let Xml::Children { element, attribute } = spec.xml else {
        return Err(unknown(Part::Element, start.name().as_ref()));
    };
    if matches!(spec.kind, Kind::Complex(_)) {
        return Ok(Value::Complex(pairs));
    }
    match <[_; 1]>::try_from(pairs) {
        Ok([(name, value)]) if name == attribute => Ok(Value::Simple(value)),
        _ => Err(Damage::OneAttribute { element, attribute }),
    }
}

/// Returns the attributes of an element, with character references and the five predefined entities
/// resolved. Fails for any other entity, and for a repeated attribute name.
fn attributes(start: &BytesStart) -> Result<Vec<(String, String)>, Damage> {
    let mut pairs = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute?;
        let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        pairs.push((name, value_of(&attribute)?));
    }
    Ok(pairs)
}

/// Returns the value of an attribute with its entities resolved. Unlike XML's normalization this
/// keeps tabs and line ends, which the writer does not replace by character references.
pub(super) fn value_of(attribute: &Attribute) -> Result<String, Damage> {
    let raw = std::str::from_utf8(&attribute.value).map_err(|_| Damage::NotUtf8)?;
    let value = unescape(raw).map_err(quick_xml::Error::from)?;
    Ok(value.into_owned())
}

fn unknown(part: Part, name: &[u8]) -> Damage {
    let name: String = String::from_utf8_lossy(name).chars().take(80).collect();
    Damage::Unknown {
        part,
        name: name.escape_debug().to_string(),
    }
}
