//! Escapes text from outside, for each syntax that a report is written in.

/// Characters shown of a name or a detail. A place can answer with any amount of text.
const SHOWN: usize = 300;

/// A name or detail on one line: control characters and marks that change the direction of writing
/// are escaped, and long texts are cut.
pub(super) fn line(text: &str) -> String {
    let mut shown = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == SHOWN {
            shown.push('…');
            break;
        }
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' | '\u{feff}');
        if c.is_control() || turns { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Text of an HTML page, also within quoted attributes.
pub(super) fn html(text: &str) -> String {
    let mut escaped = String::new();
    for c in line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The value of a label, between quotes. Source: the text format of Prometheus, version 0.0.4.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A field of a CSV file. Source: RFC 4180.
pub(super) fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_text_in_every_syntax() {
        assert_eq!(line("a\u{1b}[31m\nb\u{202e}c"), "a\\u{1b}[31m\\nb\\u{202e}c");
        assert_eq!(line(&"x".repeat(1_000)).chars().count(), SHOWN + 1);
        assert_eq!(html("<a href='x'>&\"\n"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\n");
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!((csv("plain"), csv("a,\"b\"\n")), ("plain".into(), "\"a,\"\"b\"\"\n\"".into()));
    }
}
