//! Text in aligned columns, for people.

/// A table: a row of titles and rows of as many cells.
#[derive(Clone, Debug)]
pub struct Columns {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table with these titles.
    pub fn new(titles: &[&str]) -> Self {
        Self { titles: titles.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell under each title.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.titles.len(), "there is a cell under each title");
        self.rows.push(cells);
    }

    /// Whether there is nothing under the titles.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table. Columns of numbers are aligned to the right, all others to the left.
    pub fn lines(&self) -> Vec<String> {
        let columns: Vec<(usize, bool)> = (0..self.titles.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| &row[column]);
                let is_number = cells.clone().all(|cell| is_number(cell));
                let widths = cells.chain([&self.titles[column]]).map(|cell| cell.chars().count());
                (widths.max().unwrap_or(0), is_number)
            })
            .collect();
        let cell = |(cell, &(width, is_number)): (&String, &(usize, bool))| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().zip(&columns).map(cell).collect();
            cells.join("  ").trim_end().to_owned()
        };
        [&self.titles].into_iter().chain(&self.rows).map(line).collect()
    }
}

/// Whether a cell reads as a number; an address does not.
fn is_number(cell: &str) -> bool {
    cell == "-" || cell.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | '.' | '%'))
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let mut table = Columns::new(&["NAME", "COUNT"]);
        table.row(["a".to_owned(), grouped(7)]);
        table.row(["lines".to_owned(), grouped(1_234_567)]);
        assert_eq!(table.lines(), ["NAME       COUNT", "a              7", "lines  1 234 567"]);
    }
}
