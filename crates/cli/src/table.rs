//! Tables for terminals. A column is as wide as on Solaris, or wider if a cell is longer.

use std::fmt::Write as _;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    heading: &'static str,
    least: usize,
    right: bool,
}

impl Column {
    /// Returns a left-aligned column of texts with a width of at least `least` characters. If the
    /// last column of a table has width 0, the lines of the table end without blanks.
    #[must_use]
    pub const fn left(heading: &'static str, least: usize) -> Self {
        Self {
            heading,
            least,
            right: false,
        }
    }

    /// Returns a right-aligned column of numbers with a width of at least `least` characters.
    #[must_use]
    pub const fn right(heading: &'static str, least: usize) -> Self {
        Self {
            heading,
            least,
            right: true,
        }
    }
}

/// A table: headings, and rows below them.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        let headings = columns.iter().map(|one| one.heading.to_owned()).collect();
        Self {
            columns,
            rows: vec![headings],
        }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Returns the lines of the table.
    #[must_use]
    pub fn render(&self) -> String {
        let width = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let longest = cells.map(|cell| cell.chars().count()).max();
            // A long cell in the last column does not make the other cells of this column wider.
            let grows = column.right || at + 1 < self.columns.len();
            let longest = longest.filter(|_| grows).unwrap_or(0);
            longest.max(column.least)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let is_open = widths.last() == Some(&0);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, column), width) in row.iter().zip(&self.columns).zip(&widths) {
                if !line.is_empty() {
                    line.push(' ');
                }
                // Writing to a string cannot fail.
                let _ = match column.right {
                    true => write!(line, "{cell:>width$}"),
                    false => write!(line, "{cell:<width$}"),
                };
            }
            text.push_str(if is_open { line.trim_end() } else { &line });
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(last: usize, rows: &[[&str; 3]]) -> String {
        let columns = [
            Column::right("ID", 4),
            Column::left("NAME", 8),
            Column::left("IP", last),
        ];
        let mut table = Table::new(columns);
        for row in rows {
            table.row(row.map(str::to_owned).to_vec());
        }
        table.render()
    }

    #[test]
    fn short_cells_leave_the_columns_as_they_are() {
        assert_eq!(
            table(6, &[["1", "web", "shared"], ["-", "db", "excl"]]),
            "  ID NAME     IP    \n   1 web      shared\n   - db       excl  \n"
        );
    }

    #[test]
    fn a_column_grows_with_its_longest_cell_but_for_the_last() {
        assert_eq!(
            table(
                0,
                &[["100000", "ünder-a-name", ""], ["1", "web", "a long one"]]
            ),
            "    ID NAME         IP\n100000 ünder-a-name\n     1 web          a long one\n"
        );
    }
}
