//! The digests that an HTTP answer states about the content it is about.
//!
//! Only digests of the whole content count. Stores state others in the same headers, such as a
//! digest of the digests of an upload's parts, and those are left out.

use fulgurite_digest::{Algorithm, Digest};
use http::HeaderMap;

use super::super::StatedDigest;

/// Reads the headers of S3's answer to HEAD.
///
/// ETag is the MD5 of the content, unless the content was uploaded in parts or is encrypted with a
/// key of the caller or of KMS, and except in directory buckets. Other servers than Amazon's may
/// choose ETags as they like, but those that look like an MD5 usually are one: if one isn't, the
/// copy is read.
///
/// Source: Amazon S3 API Reference, `Object` and `HeadObject`; S3 User Guide, "Checking object
/// integrity".
pub(super) fn of_s3(headers: &HeaderMap) -> Vec<StatedDigest> {
    let is_whole = !matches!(text(headers, "x-amz-checksum-type"), Some(kind) if !kind.eq_ignore_ascii_case("FULL_OBJECT"));
    let sum = |name, algorithm| text(headers, name).filter(|_| is_whole).and_then(|value| base64(algorithm, value));
    let mut stated: Vec<StatedDigest> = [sum("x-amz-checksum-sha256", Algorithm::Sha256), sum("x-amz-checksum-sha1", Algorithm::Sha1)]
        .into_iter()
        .flatten()
        .map(certain)
        .collect();
    let is_encrypted_otherwise = headers.contains_key("x-amz-server-side-encryption-customer-algorithm")
        || headers.contains_key("x-amz-server-side-encryption-aws-kms-key-id")
        || text(headers, "x-amz-server-side-encryption").is_some_and(|kind| kind != "AES256");
    let is_in_directory = text(headers, "x-amz-storage-class").is_some_and(|class| class.starts_with("EXPRESS"));
    let is_certain = !is_encrypted_otherwise && !is_in_directory;
    stated.extend(etag(headers).map(|digest| StatedDigest { digest, is_certain }));
    stated
}

/// Reads the headers of Swift's answer to HEAD. The ETag of a large object is a digest of the ETags
/// of its segments.
///
/// Source: OpenStack Object Storage API, "Show object metadata".
pub(super) fn of_swift(headers: &HeaderMap) -> Vec<StatedDigest> {
    let is_large = headers.contains_key("x-object-manifest") || headers.contains_key("x-static-large-object");
    etag(headers).filter(|_| !is_large).map(certain).into_iter().collect()
}

/// Reads the headers of B2's answer to a download. Large files have the SHA-1 `none`; one that
/// begins with `unverified:` is what the client claimed.
///
/// Source: Backblaze B2 API, `b2_download_file_by_name`.
pub(super) fn of_b2(headers: &HeaderMap) -> Vec<StatedDigest> {
    let sha1 = text(headers, "x-bz-content-sha1").and_then(|digits| Digest::from_hex(Algorithm::Sha1, digits));
    sha1.map(certain).into_iter().collect()
}

/// The length of the whole content, from an answer with a part of it or with all.
pub(super) fn whole_length(headers: &HeaderMap) -> Option<u64> {
    match text(headers, "content-range") {
        Some(range) => range.rsplit_once('/')?.1.parse().ok(),
        None => text(headers, "content-length")?.parse().ok(),
    }
}

/// Reads the headers of a web server's answer to HEAD: those of RFC 9530 and its predecessors, and
/// `OC-Checksum` of ownCloud and Nextcloud.
pub(super) fn of_web(headers: &HeaderMap) -> Vec<StatedDigest> {
    let mut digests: Vec<Digest> = Vec::new();
    digests.extend(text(headers, "content-md5").and_then(|value| base64(Algorithm::Md5, value)));
    let lists = ["repr-digest", "digest"].into_iter().filter_map(|name| text(headers, name));
    for (name, value) in lists.flat_map(|list| list.split(',')).filter_map(|member| member.split_once('=')) {
        // RFC 9530 puts colons around base64.
        let value = value.trim().split(';').next().unwrap_or_default().trim_matches(':');
        digests.extend(name.trim().parse().ok().and_then(|algorithm| base64(algorithm, value)));
    }
    let sums = text(headers, "oc-checksum").unwrap_or_default().split_whitespace();
    digests.extend(sums.filter_map(|sum| {
        let (name, digits) = sum.split_once(':')?;
        Digest::from_hex(name.parse().ok()?, digits)
    }));
    digests.into_iter().map(certain).collect()
}

/// A digest in base64 that is known to be one.
pub(super) fn md5(value: &str) -> Option<StatedDigest> {
    base64(Algorithm::Md5, value).map(certain)
}

fn certain(digest: Digest) -> StatedDigest {
    StatedDigest { digest, is_certain: true }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The ETag as an MD5, if it looks like one. A weak one isn't about the exact bytes.
fn etag(headers: &HeaderMap) -> Option<Digest> {
    let value = text(headers, "etag")?;
    Digest::from_hex(Algorithm::Md5, value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value))
}

/// A digest of parts ends with `-` and their number, which base64 in full length can't.
fn base64(algorithm: Algorithm, value: &str) -> Option<Digest> {
    Digest::new(algorithm, &base64_simd::STANDARD.decode_to_vec(value).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const MD5_BASE64: &str = "kAFQmDzST7DWlj99KOF/cg==";
    const SHA256_BASE64: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    const SHA1_BASE64: &str = "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value of this test"))).collect()
    }

    /// As `algorithm` or `algorithm?`.
    fn shown(stated: &[StatedDigest]) -> String {
        let mut abc = fulgurite_digest::Digester::new(&Algorithm::ALL);
        abc.update(b"abc");
        let known = abc.finish();
        let show = |stated: &StatedDigest| {
            assert!(known.contains(&stated.digest), "{stated:?}");
            format!("{}{}", stated.digest.algorithm(), if stated.is_certain { "" } else { "?" })
        };
        stated.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn s3_states_checksums_of_whole_objects() {
        let (sha256, sha1) = (("x-amz-checksum-sha256", SHA256_BASE64), ("x-amz-checksum-sha1", SHA1_BASE64));
        assert_eq!(shown(&of_s3(&headers(&[sha256, sha1]))), "sha256 sha1");
        assert_eq!(shown(&of_s3(&headers(&[sha256, ("x-amz-checksum-type", "FULL_OBJECT")]))), "sha256");
        assert_eq!(shown(&of_s3(&headers(&[sha256, ("x-amz-checksum-type", "COMPOSITE")]))), "");
        let of_parts = format!("{SHA256_BASE64}-3");
        assert_eq!(shown(&of_s3(&headers(&[("x-amz-checksum-sha256", &of_parts)]))), "");
        assert_eq!(shown(&of_s3(&headers(&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")]))), "");
        for broken in ["", "=", "short", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0", MD5_BASE64] {
            assert_eq!(of_s3(&headers(&[("x-amz-checksum-sha256", broken)])), [], "{broken}");
        }
    }

    #[test]
    fn an_etag_of_s3_is_an_md5_only_where_it_is_documented_to_be() {
        let quoted = format!("\"{MD5}\"");
        let etag = ("etag", quoted.as_str());
        assert_eq!(shown(&of_s3(&headers(&[etag]))), "md5");
        assert_eq!(shown(&of_s3(&headers(&[etag, ("x-amz-server-side-encryption", "AES256")]))), "md5");
        for doubtful in [
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption", "aws:kms:dsse"),
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-storage-class", "EXPRESS_ONEZONE"),
        ] {
            assert_eq!(shown(&of_s3(&headers(&[etag, doubtful]))), "md5?", "{doubtful:?}");
        }
        for other in [format!("\"{MD5}-2\""), format!("W/\"{MD5}\""), "\"abc\"".into(), format!("\"{MD5}0\"")] {
            assert_eq!(of_s3(&headers(&[("etag", &other)])), [], "{other}");
        }
    }

    #[test]
    fn large_objects_of_swift_state_nothing() {
        let etag = ("etag", MD5);
        assert_eq!(shown(&of_swift(&headers(&[etag]))), "md5");
        assert_eq!(of_swift(&headers(&[etag, ("x-object-manifest", "c/p")])), []);
        assert_eq!(of_swift(&headers(&[etag, ("x-static-large-object", "True")])), []);
    }

    #[test]
    fn claims_that_b2_did_not_verify_are_left_out() {
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(shown(&of_b2(&headers(&[("x-bz-content-sha1", sha1)]))), "sha1");
        assert_eq!(of_b2(&headers(&[("x-bz-content-sha1", "none")])), []);
        assert_eq!(of_b2(&headers(&[("x-bz-content-sha1", &format!("unverified:{sha1}"))])), []);
    }

    #[test]
    fn the_length_of_the_whole_content_is_read() {
        assert_eq!(whole_length(&headers(&[("content-range", "bytes 0-0/1234"), ("content-length", "1")])), Some(1234));
        assert_eq!(whole_length(&headers(&[("content-length", "1")])), Some(1));
        assert_eq!(whole_length(&headers(&[("content-range", "bytes 0-0/*"), ("content-length", "1")])), None);
        assert_eq!(whole_length(&headers(&[])), None);
    }

    #[test]
    fn web_servers_state_digests_in_several_headers() {
        assert_eq!(shown(&of_web(&headers(&[("content-md5", MD5_BASE64)]))), "md5");
        let list = format!("crc32c=AAAA, sha-256=:{SHA256_BASE64}:, sha=:{SHA1_BASE64}:");
        assert_eq!(shown(&of_web(&headers(&[("repr-digest", &list)]))), "sha256");
        let list = format!("SHA-256={SHA256_BASE64},md5={MD5_BASE64};q=1");
        assert_eq!(shown(&of_web(&headers(&[("digest", &list)]))), "sha256 md5");
        let list = format!("MD5:{MD5} ADLER32:0x1 SHA1:a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(shown(&of_web(&headers(&[("oc-checksum", &list)]))), "md5 sha1");
        // An ETag of a web server may be anything.
        assert_eq!(of_web(&headers(&[("etag", MD5), ("digest", "="), ("oc-checksum", ":")])), []);
    }
}
