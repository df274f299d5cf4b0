//! The schema of a file: records each setting that is declared, and prints the reference page.

use std::fmt::Write as _;

use super::quantity::Dimension;
use super::setting_type::SettingType;

/// Columns of a line of comments, at most.
const COMMENT_COLUMNS: usize = 100;

/// All sections with their settings, in order of declaration.
#[derive(Debug)]
pub(super) struct Schema(Vec<SectionRecord>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SectionId(usize);

#[derive(Debug, Default)]
struct SectionRecord {
    path: String,
    about: &'static str,
    is_repeated: bool,
    settings: Vec<SettingRecord>,
    children: Vec<(&'static str, SectionId)>,
}

#[derive(Debug)]
struct SettingRecord {
    name: &'static str,
    unit: String,
    default: String,
    range: String,
    about: &'static str,
}

impl Schema {
    pub(super) const TOP: SectionId = SectionId(0);

    pub(super) fn new() -> Self {
        Self(vec![SectionRecord::default()])
    }

    /// Adds a section inside of `parent`, or returns the existing one.
    pub(super) fn add_section(&mut self, parent: SectionId, name: &'static str, about: &'static str, is_repeated: bool) -> SectionId {
        if let Some(known) = self.child(parent, name) {
            return known;
        }
        let id = SectionId(self.0.len());
        let path = match self.0[parent.0].path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        self.0.push(SectionRecord { path, about, is_repeated, ..SectionRecord::default() });
        self.0[parent.0].children.push((name, id));
        id
    }

    /// Adds each name once: all elements of an array of tables declare the same settings.
    pub(super) fn add_setting(
        &mut self,
        section: SectionId,
        name: &'static str,
        setting_type: &impl SettingType,
        default: String,
        about: &'static str,
    ) {
        if !self.has_setting(section, name) {
            let setting = SettingRecord { name, unit: setting_type.unit(), default, range: setting_type.range(), about };
            self.0[section.0].settings.push(setting);
        }
    }

    pub(super) fn has_setting(&self, section: SectionId, name: &str) -> bool {
        self.0[section.0].settings.iter().any(|setting| setting.name == name)
    }

    pub(super) fn child(&self, section: SectionId, name: &str) -> Option<SectionId> {
        self.0[section.0].children.iter().find(|(known, _)| *known == name).map(|(_, id)| *id)
    }

    /// True if the section is an array of tables.
    pub(super) fn is_repeated(&self, section: SectionId) -> bool {
        self.0[section.0].is_repeated
    }

    pub(super) fn names(&self, section: SectionId) -> Vec<&'static str> {
        let SectionRecord { settings, children, .. } = &self.0[section.0];
        settings.iter().map(|setting| setting.name).chain(children.iter().map(|(name, _)| *name)).collect()
    }

    /// The full name of a setting called `name` in another section.
    pub(super) fn find_elsewhere(&self, section: SectionId, name: &str) -> Option<String> {
        let others = self.0.iter().enumerate().filter(|(index, _)| *index != section.0);
        let whole = |record: &SectionRecord| if record.path.is_empty() { name.to_owned() } else { format!("{}.{name}", record.path) };
        others.filter(|(_, record)| record.settings.iter().any(|setting| setting.name == name)).map(|(_, record)| whole(record)).next()
    }

    pub(super) fn reference(&self, introduction: &str) -> String {
        let mut out = introduction.to_owned();
        self.print_section(Self::TOP, &mut out);
        out.push_str(&units());
        out
    }

    /// As [`Reader::commented`](super::Reader::commented).
    pub(super) fn commented(&self, given: &[(&str, String)]) -> String {
        let mut out = String::new();
        self.comment_section(Self::TOP, given, &mut out);
        out
    }

    fn comment_section(&self, section: SectionId, given: &[(&str, String)], out: &mut String) {
        let SectionRecord { path, about, is_repeated, settings, children } = &self.0[section.0];
        if *is_repeated {
            return;
        }
        let of = |setting: &SettingRecord| {
            let name = if path.is_empty() { setting.name.to_owned() } else { format!("{path}.{}", setting.name) };
            given.iter().find(|(of, _)| *of == name).map(|(_, value)| value.as_str())
        };
        if !path.is_empty() && !settings.is_empty() {
            out.push('\n');
            comment(about, out);
            let mark = if settings.iter().any(|setting| of(setting).is_some()) { "" } else { "#" };
            writeln!(out, "{mark}[{path}]").expect("writing to a string");
        }
        for setting in settings {
            let default = setting.default.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
            let (mark, value) = match (of(setting), default) {
                (Some(value), _) => ("", value),
                (None, Some(default)) => ("#", default),
                (None, None) => continue,
            };
            comment(setting.about, out);
            writeln!(out, "{mark}{} = {value}", setting.name).expect("writing to a string");
        }
        for (_, child) in children {
            self.comment_section(*child, given, out);
        }
    }

    fn print_section(&self, section: SectionId, out: &mut String) {
        let SectionRecord { path, about, is_repeated, settings, children } = &self.0[section.0];
        match (path.is_empty(), *is_repeated) {
            (true, _) if settings.is_empty() => {}
            (true, _) => out.push_str("\n## Before the first section\n"),
            (false, false) => write!(out, "\n## `[{path}]`\n\n{about}\n").expect("writing to a string"),
            (false, true) => write!(out, "\n## `[[{path}]]`\n\n{about} May be repeated.\n").expect("writing to a string"),
        }
        if !settings.is_empty() {
            out.push_str("\n| setting | unit | default | values | meaning |\n| --- | --- | --- | --- | --- |\n");
        }
        for SettingRecord { name, unit, default, range, about } in settings {
            let [unit, default, range, about] =
                [unit.as_str(), default, range, about].map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            writeln!(out, "| `{name}` | {unit} | {default} | {range} | {about} |").expect("writing to a string");
        }
        for (_, child) in children {
            self.print_section(*child, out);
        }
    }
}

/// Writes a text as comments of at most [`COMMENT_COLUMNS`] columns.
fn comment(text: &str, out: &mut String) {
    let mut columns = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count() + 1;
        if columns == 0 || columns + width > COMMENT_COLUMNS {
            out.push_str(if columns == 0 { "#" } else { "\n#" });
            columns = 1;
        }
        out.push(' ');
        out.push_str(word);
        columns += width;
    }
    out.push('\n');
}

fn units() -> String {
    use Dimension::{Acceleration, Drag, Duration, Energy, Frequency, Length, Mass, Power, Rate, Share, Size, Speed};
    let mut out = String::from("\n## Units\n\n| quantity | units |\n| --- | --- |\n");
    for dimension in [Duration, Length, Size, Rate, Frequency, Speed, Acceleration, Mass, Energy, Drag, Power, Share] {
        let (first, more) = dimension.units();
        let units: Vec<_> = first.iter().chain(more).map(|unit| format!("`{unit}`")).collect();
        writeln!(out, "| {} | {} |", dimension.noun(), units.join(", ")).expect("writing to a string");
    }
    out.push_str(
        "\n`kB` is 1000 bytes, `KiB` is 1024, and so on. Rates and frequencies accept any unit of time after\n\
         the `/`. A `year` has 365.25 days. `µs`, `µm`, `m/s²` and `Hz` are also accepted.\n",
    );
    out
}
