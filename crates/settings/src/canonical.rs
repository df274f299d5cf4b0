//! The complete file as TOML, with every setting and its value. It is printed and stored with
//! each result, so that results stay repeatable after defaults change.

use std::fmt::Write as _;

/// The tables read so far, with their values as TOML.
#[derive(Debug)]
pub(super) struct Tables(Vec<Table>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableId(usize);

#[derive(Debug, Default)]
struct Table {
    values: Vec<(&'static str, String)>,
    children: Vec<(&'static str, TableId, IsElement)>,
}

/// True for an element of an array of tables.
type IsElement = bool;

impl Tables {
    pub(super) const TOP: TableId = TableId(0);

    pub(super) fn new() -> Self {
        Self(vec![Table::default()])
    }

    /// Adds a table inside of `parent`: a new element, or the one table of that name.
    pub(super) fn add(&mut self, parent: TableId, name: &'static str, is_element: IsElement) -> TableId {
        // Every element is new, so the lookup, which is slow for many elements, is skipped.
        if !is_element && let Some((_, id, _)) = self.0[parent.0].children.iter().find(|(known, ..)| *known == name) {
            return *id;
        }
        let id = TableId(self.0.len());
        self.0.push(Table::default());
        self.0[parent.0].children.push((name, id, is_element));
        id
    }

    pub(super) fn set(&mut self, table: TableId, name: &'static str, value: String) {
        let values = &mut self.0[table.0].values;
        assert!(values.iter().all(|(known, _)| *known != name), "the setting `{name}` was declared twice");
        values.push((name, value));
    }

    /// The value of a setting by its full name, such as `drives.count` or `faults.0.at`.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let mut table = &self.0[Self::TOP.0];
        let mut steps = name.split('.');
        let mut step = steps.next()?;
        while let Some(next) = steps.next() {
            let mut children = table.children.iter().filter(|(name, ..)| *name == step);
            let child = match next.parse() {
                Ok(index) => children.nth(index).filter(|(.., is_element)| *is_element),
                Err(_) => children.next(),
            };
            table = &self.0[child?.1.0];
            step = if next.parse::<usize>().is_ok() { steps.next()? } else { next };
        }
        table.values.iter().find(|(name, _)| *name == step).map(|(_, value)| value.as_str())
    }

    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        self.print_table(Self::TOP, "", &mut out);
        out
    }

    fn print_table(&self, table: TableId, path: &str, out: &mut String) {
        let Table { values, children } = &self.0[table.0];
        for (name, value) in values {
            writeln!(out, "{name} = {value}").expect("writing to a string");
        }
        for (name, child, is_element) in children {
            let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            // A table that only contains tables needs no header. An element always needs one, or it
            // would be lost.
            if *is_element || !self.0[child.0].values.is_empty() {
                let header = if *is_element { format!("[[{path}]]") } else { format!("[{path}]") };
                writeln!(out, "{}{header}", if out.is_empty() { "" } else { "\n" }).expect("writing to a string");
            }
            self.print_table(*child, &path, out);
        }
    }
}

/// True if TOML accepts the name as a key without quotes.
pub(super) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
