//! Changes to the text of Pacemaker's configuration (the CIB).

use crate::failover::{Failover, group_id};
use crate::guest::guest_constraints;

/// A CIB that cannot be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadCib {
    /// The element is not there.
    #[error(
        "the configuration of Pacemaker has no element '{0}': expected the output of cibadmin --query"
    )]
    Lacks(&'static str),
    /// It is not XML.
    #[error("the configuration of Pacemaker cannot be read: {0}")]
    Xml(String),
}

/// Returns true if an element of the CIB has this id.
pub fn has_id(cib: &str, id: &str) -> bool {
    cib.contains(&format!(" id=\"{id}\""))
}

/// Returns the CIB with the resources and constraints of a zone.
///
/// # Errors
/// Fails if the text is no CIB.
pub fn with_failover(cib: &str, zone: &Failover, members: &[String]) -> Result<String, BadCib> {
    let mut constraints = zone.constraints(members);
    if let Some(guest) = &zone.guest {
        constraints += &guest_constraints(cib, &guest.name, &group_id(&zone.zone))
            .map_err(|error| BadCib::Xml(error.to_string()))?;
    }
    let cib = append(cib, "resources", &zone.resources())?;
    append(&cib, "constraints", &constraints)
}

/// Adds text at the end of an element that occurs once.
fn append(cib: &str, element: &'static str, text: &str) -> Result<String, BadCib> {
    let empty = format!("<{element}/>");
    if cib.contains(&empty) {
        return Ok(cib.replacen(&empty, &format!("<{element}>{text}</{element}>"), 1));
    }
    let end = format!("</{element}>");
    if cib.contains(&end) {
        return Ok(cib.replacen(&end, &format!("{text}{end}"), 1));
    }
    Err(BadCib::Lacks(element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::tests::web;

    const CIB: &str = "<cib><configuration><resources><primitive id=\"f\"/></resources>\
        <constraints/></configuration><status><lrm_resources></lrm_resources></status></cib>";

    #[test]
    fn adds_both_parts_in_their_places() {
        let text = with_failover(CIB, &web(), &[]).unwrap();
        assert!(text.contains("<primitive id=\"f\"/><group id=\"g-web\">"));
        assert!(text.contains("</group></resources>"));
        assert!(text.contains("<constraints><rsc_location"));
        assert!(text.contains("<lrm_resources></lrm_resources>"));
        assert!(has_id(&text, "g-web") && !has_id(CIB, "g-web"));
    }

    #[test]
    fn refuses_text_that_is_no_cib() {
        assert_eq!(
            with_failover("<html/>", &web(), &[]),
            Err(BadCib::Lacks("resources"))
        );
    }
}
