//! Which query parameters a request may have.
//!
//! A parameter such as `tagging` decides which operation is meant. The framework takes a request
//! with one that it doesn't know for the operation without it: a PUT of an object's `annotation`,
//! which S3 got later, would replace the object, and a DELETE would delete it. So writes with
//! unknown parameters get `NotImplemented`. Reads with unknown ones are carried out, as with S3:
//! web pages add some to get past caches, or for scripts. Only those of operations that S3 got
//! later are refused.

use http::{HeaderMap, Method, StatusCode, Uri};
use s3s::{S3Error, S3Result, s3_error};

use crate::http::addressing::Addresses;
use crate::http::url_encoding::decode;
use crate::s3::errors::custom;

/// What a request addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Service,
    Bucket,
    Object,
}

/// The parameters of operations, except those of lists and those that set headers of the response.
/// Some of these operations answer that they aren't supported.
const BUCKET_READS: &str = "accelerate acl analytics cors encryption intelligent-tiering inventory lifecycle list-type location logging \
     metadataTable metrics notification object-lock ownershipControls policy policyStatus publicAccessBlock replication requestPayment \
     session tagging uploads versioning versions website";
const BUCKET_PUTS: &str = "accelerate acl cors encryption lifecycle logging notification object-lock ownershipControls policy \
     publicAccessBlock replication requestPayment tagging versioning website";
const BUCKET_POSTS: &str = "delete metadataTable";
const BUCKET_DELETES: &str =
    "cors encryption lifecycle metadataTable ownershipControls policy publicAccessBlock replication tagging website";
const OBJECT_READS: &str = "acl attributes fixity legal-hold partNumber retention tagging torrent uploadId versionId";
const OBJECT_PUTS: &str = "acl legal-hold partNumber retention tagging uploadId versionId";
const OBJECT_POSTS: &str = "restore select select-type uploadId uploads versionId";
const OBJECT_DELETES: &str = "tagging uploadId versionId";
/// Parameters of operations that don't decide which one is meant.
const DETAILS: [&str; 3] = ["partNumber", "select-type", "versionId"];
/// Writes with one of these are of a version.
const OF_VERSIONS: [&str; 6] = ["acl", "legal-hold", "restore", "retention", "select", "tagging"];
/// Parameters of operations that S3 got after the framework was written, and that change what a
/// read means.
const LATER: [&str; 8] = [
    "abac",
    "annotation",
    "encryption",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "renameObject",
];
/// Parameters of writes that say nothing of the operation: headers that the AWS SDK for JavaScript,
/// version 2, moves into a presigned URL, and version 2 of the signature, which is refused as such.
const IGNORED: [&str; 9] = [
    "AWSAccessKeyId",
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-MD5",
    "Content-Type",
    "Expires",
    "Signature",
];

/// Refuses a request whose parameters ask for an operation that this server doesn't have.
///
/// # Errors
/// `NotImplemented`, or `InvalidArgument` if the operation takes no part or version.
pub(crate) fn check(method: &Method, uri: &Uri, headers: &HeaderMap, addresses: &Addresses) -> S3Result<()> {
    let Some(query) = uri.query() else { return Ok(()) };
    let level = match addresses.find(uri, headers) {
        None => Level::Service,
        Some((_, key)) if key.is_empty() => Level::Bucket,
        Some(_) => Level::Object,
    };
    check_query(method, level, query)
}

/// Refuses a request to a bucket that is no operation of S3, such as a bulk put or a form, if it
/// has other parameters than those in `known`, or one of them twice.
///
/// # Errors
/// `NotImplemented` or `InvalidArgument`.
pub(crate) fn check_extension(uri: &Uri, known: &[&str]) -> S3Result<()> {
    let mut seen = Vec::new();
    for name in names(uri.query().unwrap_or_default()) {
        if !known.contains(&name.as_str()) {
            if is_ignored(&name) {
                continue;
            }
            return Err(unknown(&name));
        }
        if seen.contains(&name) {
            return Err(s3_error!(InvalidArgument, "The parameter {name:?} is given twice."));
        }
        seen.push(name);
    }
    Ok(())
}

fn check_query(method: &Method, level: Level, query: &str) -> S3Result<()> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let known = match (level, method.as_str()) {
        (Level::Service, _) => "",
        (Level::Bucket, "GET" | "HEAD") => BUCKET_READS,
        (Level::Bucket, "PUT") => BUCKET_PUTS,
        (Level::Bucket, "POST") => BUCKET_POSTS,
        (Level::Bucket, "DELETE") => BUCKET_DELETES,
        (Level::Object, "GET" | "HEAD") => OBJECT_READS,
        (Level::Object, "PUT") => OBJECT_PUTS,
        (Level::Object, "POST") => OBJECT_POSTS,
        (Level::Object, "DELETE") => OBJECT_DELETES,
        _ => return Ok(()),
    };
    let (mut has_part, mut has_upload, mut has_version, mut is_of_version) = (false, false, false, false);
    let mut operation: Option<String> = None;
    for name in names(query) {
        if !known.split_ascii_whitespace().any(|known| known == name) {
            let is_harmless = if is_read { !LATER.contains(&name.as_str()) } else { is_ignored(&name) };
            if is_harmless {
                continue;
            }
            return Err(unknown(&name));
        }
        has_part |= name == "partNumber";
        has_upload |= name == "uploadId";
        has_version |= name == "versionId";
        is_of_version |= OF_VERSIONS.contains(&name.as_str());
        if is_read || DETAILS.contains(&name.as_str()) {
            continue;
        }
        // The framework would carry out one of them, and answer as if it were all.
        if let Some(other) = operation.replace(name.clone()).filter(|other| *other != name) {
            return Err(s3_error!(InvalidArgument, "Conflicting query string parameters: {other}, {name}"));
        }
    }
    if *method == Method::PUT && has_part != has_upload {
        return Err(s3_error!(InvalidArgument, "A part has a partNumber and an uploadId."));
    }
    if matches!(*method, Method::PUT | Method::POST) && has_version && !is_of_version {
        return Err(s3_error!(InvalidArgument, "This operation does not accept a version-id."));
    }
    Ok(())
}

/// The names of the parameters, without those of signatures and of SDKs, and those that S3 leaves
/// to users, for their logs.
fn names(query: &str) -> impl Iterator<Item = String> {
    let names = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        decode(name).unwrap_or_else(|| name.to_owned())
    });
    names.filter(|name| !name.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case("x-")))
}

fn is_ignored(name: &str) -> bool {
    IGNORED.iter().any(|ignored| ignored.eq_ignore_ascii_case(name))
}

fn unknown(name: &str) -> S3Error {
    let mut unknown = custom("NotImplemented", StatusCode::NOT_IMPLEMENTED, "");
    unknown.set_message(format!("The parameter {name:?} asks for an operation that this server does not have. Nothing was done."));
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &Method, level: Level, query: &str) -> String {
        check_query(method, level, query).map_or_else(|error| error.code().as_str().to_owned(), |()| "accepted".to_owned())
    }

    #[test]
    fn a_write_with_an_unknown_parameter_does_nothing() {
        for query in
            ["annotation&annotationName=n", "annotation=", "%61nnotation", "encryption", "renameObject", "append&position=0", "foo=bar"]
        {
            for method in [Method::PUT, Method::DELETE, Method::POST] {
                assert_eq!(code(&method, Level::Object, query), "NotImplemented", "{method} {query}");
            }
        }
        // The framework knows these only with an `id`, and would delete the bucket.
        for query in ["analytics", "inventory", "metrics", "intelligent-tiering", "metadataConfiguration", "abac", "website&foo"] {
            assert_eq!(code(&Method::DELETE, Level::Bucket, query), "NotImplemented", "{query}");
            assert_eq!(code(&Method::PUT, Level::Bucket, query), "NotImplemented", "{query}");
        }
    }

    #[test]
    fn presigned_writes_may_have_headers_in_the_url() {
        for query in
            ["Content-Type=image%2Fpng&X-Amz-Signature=a", "content-md5=a&Cache-Control=b", "AWSAccessKeyId=a&Expires=1&Signature=b"]
        {
            assert_eq!(code(&Method::PUT, Level::Object, query), "accepted", "{query}");
        }
        assert_eq!(code(&Method::PUT, Level::Object, "partNumber=1&uploadId=a&Content-MD5=b&X-Amz-Signature=c"), "accepted");
    }

    #[test]
    fn a_read_may_have_unknown_parameters_but_those_of_later_operations() {
        for query in ["v=1700000000", "1700000000", "download", "prefix=&part-number-marker=", "x-id=GetObject&X-Amz-Date=1&x-log"] {
            for level in [Level::Bucket, Level::Object] {
                assert_eq!(code(&Method::GET, level, query), "accepted", "{query}");
            }
        }
        for (level, query) in [(Level::Object, "annotation&annotationName=n"), (Level::Object, "encryption"), (Level::Bucket, "abac")] {
            assert_eq!(code(&Method::GET, level, query), "NotImplemented", "{query}");
            assert_eq!(code(&Method::HEAD, level, query), "NotImplemented", "{query}");
        }
        assert_eq!(code(&Method::GET, Level::Bucket, "encryption"), "accepted");
    }

    #[test]
    fn a_put_has_a_part_or_a_version_only_where_there_is_one() {
        for query in ["partNumber=1", "uploadId=a", "versionId=null", "partNumber=1&uploadId=a&versionId=null"] {
            assert_eq!(code(&Method::PUT, Level::Object, query), "InvalidArgument", "{query}");
        }
        for query in ["partNumber=1&uploadId=a", "uploadId=a&partNumber=1&x-id=UploadPart", "tagging&versionId=null", "versionId=a&acl"] {
            assert_eq!(code(&Method::PUT, Level::Object, query), "accepted", "{query}");
        }
        assert_eq!(code(&Method::POST, Level::Object, "uploads&versionId=a"), "InvalidArgument");
        assert_eq!(code(&Method::POST, Level::Object, "restore&versionId=a"), "accepted");
        assert_eq!(code(&Method::DELETE, Level::Object, "versionId=a"), "accepted");
    }

    #[test]
    fn a_write_asks_for_one_operation() {
        for (method, level, query) in [
            (Method::DELETE, Level::Bucket, "policy&tagging"),
            (Method::DELETE, Level::Bucket, "lifecycle=&x-id=a&tagging"),
            (Method::DELETE, Level::Object, "tagging&uploadId=a"),
            (Method::PUT, Level::Object, "tagging&partNumber=1&uploadId=a"),
            (Method::PUT, Level::Bucket, "acl&p%6flicy"),
            (Method::POST, Level::Object, "uploads&uploadId=a"),
        ] {
            assert_eq!(code(&method, level, query), "InvalidArgument", "{method} {query}");
        }
        for (method, level, query) in
            [(Method::DELETE, Level::Object, "tagging&versionId=a"), (Method::POST, Level::Object, "select&select-type=2")]
        {
            assert_eq!(code(&method, level, query), "accepted", "{method} {query}");
        }
    }

    #[test]
    fn a_bulk_put_or_a_form_with_an_unknown_parameter_does_nothing() {
        let code = |query: &str, known: &[&str]| {
            let uri: Uri = format!("/b?{query}").parse().expect("a URI");
            check_extension(&uri, known).map_or_else(|error| error.code().as_str().to_owned(), |()| "accepted".to_owned())
        };
        for query in ["store&prefix=a%2F", "store&X-Amz-Signature=a&x-id=b", "prefix=a&store&Content-MD5=b"] {
            assert_eq!(code(query, &["store", "prefix"]), "accepted", "{query}");
        }
        for query in ["prefx=2026%2F&store=", "annotation&store", "foo=1&store", "delete&store", "store&retrieve"] {
            assert_eq!(code(query, &["store", "prefix"]), "NotImplemented", "{query}");
        }
        assert_eq!(code("prefix=a&prefix=b&store", &["store", "prefix"]), "InvalidArgument");
        assert_eq!(code("annotation=x", &[]), "NotImplemented");
        assert_eq!(code("", &[]), "accepted");
    }
}
