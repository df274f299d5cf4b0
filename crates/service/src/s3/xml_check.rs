//! Refuses XML that the framework would read as something else than it says: it skips CDATA
//! sections, so that a prefix in one becomes empty, and it reads numbers up to the first character
//! that isn't a digit, so that `1O0` becomes 1.

use quick_xml::Reader;
use quick_xml::events::Event;
use s3s::{S3Result, s3_error};

/// Elements with whole numbers, in the requests that have an XML body.
const NUMBERS: [&str; 14] = [
    "Days",
    "DaysAfterInitiation",
    "MaxAgeSeconds",
    "Minutes",
    "NewerNoncurrentVersions",
    "NoncurrentDays",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
    "PartNumber",
    "Priority",
    "Size",
    "Start",
    "End",
    "Years",
];

/// Checks a body before the framework parses it.
///
/// # Errors
/// `MalformedXML`.
pub(super) fn check(xml: &[u8]) -> S3Result<()> {
    let mut reader = Reader::from_reader(xml);
    // The text so far of the number that the reader is in.
    let mut number: Option<String> = None;
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                number = NUMBERS.contains(&tag.name().as_ref()).then(String::new);
            }
            Ok(Event::Text(text)) => {
                if let Some(number) = &mut number {
                    number.push_str(&text);
                }
            }
            Ok(Event::End(_)) => {
                if let Some(text) = number.take()
                    && !is_number(&text)
                {
                    return Err(s3_error!(MalformedXML, "{text:?} is not a whole number."));
                }
            }
            Ok(Event::CData(_)) => return Err(s3_error!(MalformedXML, "CDATA sections are not supported.")),
            Ok(Event::GeneralRef(_)) if number.is_some() => return Err(s3_error!(MalformedXML, "A number must have digits only.")),
            Ok(Event::Eof) => return Ok(()),
            Ok(_) => {}
            Err(_) => return Err(s3_error!(MalformedXML)),
        }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_ascii();
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::check;

    fn refused(xml: &str) -> Option<String> {
        check(xml.as_bytes()).err().map(|error| {
            assert_eq!(error.code().as_str(), "MalformedXML");
            error.message().unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn numbers_are_digits_from_end_to_end() {
        for number in ["1", "30", "-1", "+7", "3 ", "\n  3\n", "0", "99999999999999999999", "3<!-- -->4"] {
            assert_eq!(refused(&format!("<A><Days>{number}</Days><Prefix>1O0</Prefix></A>")), None, "{number}");
        }
        for number in ["1O0", "1e3", "10,000", "3650.5", "0x10", "3_650", "", "-", "1 2", "3&#79;", "٣", "<![CDATA[3]]>", "3<![CDATA[0]]>"]
        {
            for name in super::NUMBERS {
                assert!(refused(&format!("<A><{name}>{number}</{name}></A>")).is_some(), "{name} {number}");
            }
        }
        assert_eq!(refused("<A><Days>1O0</Days></A>").as_deref(), Some("\"1O0\" is not a whole number."));
        assert!(refused("<A><Days/></A>").is_none(), "the framework refuses it");
    }

    #[test]
    fn texts_in_cdata_sections_are_not_taken_for_empty() {
        assert!(refused("<A><Prefix><![CDATA[logs/]]></Prefix></A>").expect("refused").contains("CDATA"));
        assert_eq!(refused("<A><Prefix>a&amp;b&#9;</Prefix><!-- <Days>x</Days> --></A>"), None);
        assert!(refused("<A><Prefix></A>").is_some());
        assert_eq!(refused(""), None);
    }
}
