//! The column of labels in the reports for people.

use std::collections::HashMap;

use stat::Row;

use crate::number::NONE;

/// The labels of the zones of a report. Without a zone that has a label, there is no column.
#[derive(Debug, Default)]
pub(super) struct Labels<'a>(HashMap<&'a str, &'a str>);

impl<'a> Labels<'a> {
    /// Returns the labels of the zones that are shown.
    pub(super) fn of(rows: &[&'a Row]) -> Self {
        let labeled = |row: &&'a Row| Some((&*row.name, row.setting.label.as_deref()?));
        Self(rows.iter().filter_map(labeled).collect())
    }

    /// Returns the end of the line above the column.
    pub(super) fn header(&self) -> String {
        self.cell("LABEL")
    }

    /// Returns the end of the line of a zone, or of a sum, which has no label.
    pub(super) fn after(&self, user: &str) -> String {
        self.cell(self.0.get(user).copied().unwrap_or(NONE))
    }

    fn cell(&self, text: &str) -> String {
        match self.0.is_empty() {
            true => String::new(),
            false => format!(" {text}"),
        }
    }
}
