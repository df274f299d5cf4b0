//! Names of buckets, and of their objects in the archive.
//!
//! An S3 object has the name `bucket/key` in the archive. So files that the command line puts under
//! `photos/` are in the bucket `photos`, if that bucket exists.

use fulgurite_domain::ObjectName;
use s3s::validation::{AwsNameValidation, NameValidation};

/// The object's name in the archive.
pub(crate) fn object_name(bucket: &str, key: &str) -> ObjectName {
    let mut name = Vec::with_capacity(bucket.len() + 1 + key.len());
    name.extend_from_slice(bucket.as_bytes());
    name.push(b'/');
    name.extend_from_slice(key.as_bytes());
    ObjectName(name)
}

/// The key of an object in a bucket; `None` if it isn't UTF-8. The command line can put such names,
/// but S3 can't express them.
pub(crate) fn key_of<'a>(bucket: &str, name: &'a ObjectName) -> Option<&'a str> {
    str::from_utf8(&name.0[(bucket.len() + 1).min(name.0.len())..]).ok()
}

/// The shortest prefix of a name without a key that no key shares. A listing resumes after all
/// names with this prefix. A name that is only an incomplete UTF-8 sequence may itself be a prefix
/// of keys, so a zero byte is appended.
pub(crate) fn unreadable_start(name: &[u8]) -> Vec<u8> {
    let valid = str::from_utf8(name).map_or_else(|error| error.valid_up_to(), str::len);
    let is_wrong = |end: &usize| str::from_utf8(&name[valid..*end]).is_err_and(|error| error.error_len().is_some());
    (valid..=name.len()).find(is_wrong).map_or_else(|| [name, &[0]].concat(), |end| name[..end].to_vec())
}

/// Validates bucket names: AWS's rules, including its reserved names.
#[derive(Debug)]
pub(crate) struct BucketNames;

impl NameValidation for BucketNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        let is_reserved = ["sthree-", "amzn-s3-demo-"].iter().any(|start| name.starts_with(start))
            || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|end| name.ends_with(end));
        // Each label between dots must be a valid name itself.
        let is_broken = [".-", "-."].iter().any(|pair| name.contains(pair));
        AwsNameValidation::new().validate_bucket_name(name) && !is_reserved && !is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_that_no_key_shares_is_found() {
        for (name, start) in [
            (b"a\xff/f1".as_slice(), b"a\xff".as_slice()),
            (b"M\x80ller/old", b"M\x80"),
            (b"a\xc3(b", b"a\xc3("),
            (b"a\xe2\x82(b", b"a\xe2\x82("),
            (b"a\xe2\x82", b"a\xe2\x82\0"),
            (b"\xed\xa0\x80", b"\xed\xa0"),
        ] {
            assert_eq!(unreadable_start(name), start, "{name:?}");
        }
    }
}
