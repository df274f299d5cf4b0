//! Generates requests from bytes: every operation, with any header and parameter that the server
//! reads, and valid and invalid values.

use std::fmt::Write;

/// An operation: method, target, and suitable bodies.
struct Operation(&'static str, &'static str, &'static [&'static str]);

const OBJECT_LOCK: &str = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::bbb", "arn:aws:s3:::bbb/*"]}]}"#;
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-*</AllowedHeader></CORSRule></CORSConfiguration>";
const TAGGING: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const DELETE: &str = "<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object><Object><Key>other</Key></Object></Delete>";
const COMPLETE: &str = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part></CompleteMultipartUpload>";
const RETENTION: &str = "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate></Retention>";
const NONE: &[&str] = &[""];

const OPERATIONS: &[Operation] = &[
    Operation("GET", "/", NONE),
    Operation(
        "PUT",
        "/made",
        &["", "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>"],
    ),
    Operation("HEAD", "/bbb", NONE),
    Operation("DELETE", "/made", NONE),
    Operation("GET", "/bbb", NONE),
    Operation("GET", "/versioned?list-type=2", NONE),
    Operation("GET", "/versioned?versions", NONE),
    Operation("GET", "/bbb?uploads", NONE),
    Operation("GET", "/bbb?location", NONE),
    Operation("GET", "/bbb?versioning", NONE),
    Operation("PUT", "/suspended?versioning", &["<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"]),
    Operation("GET", "/bbb?tagging", NONE),
    Operation("PUT", "/bbb?tagging", &[TAGGING]),
    Operation("DELETE", "/bbb?tagging", NONE),
    Operation("GET", "/bbb?policy", NONE),
    Operation("GET", "/bbb?policyStatus", NONE),
    Operation("PUT", "/bbb?policy", &[POLICY]),
    Operation("DELETE", "/made?policy", NONE),
    Operation("GET", "/locked?object-lock", NONE),
    Operation("PUT", "/locked?object-lock", &[OBJECT_LOCK]),
    Operation("GET", "/bbb?acl", NONE),
    Operation("PUT", "/bbb?acl", &["", "<AccessControlPolicy/>"]),
    Operation("GET", "/bbb/k?acl", NONE),
    Operation("PUT", "/bbb/k?acl", &["", "<AccessControlPolicy/>"]),
    Operation("GET", "/bbb?ownershipControls", NONE),
    Operation(
        "PUT",
        "/bbb?ownershipControls",
        &["<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>"],
    ),
    Operation("GET", "/bbb?publicAccessBlock", NONE),
    Operation(
        "PUT",
        "/made?publicAccessBlock",
        &["<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>"],
    ),
    Operation("DELETE", "/bbb?publicAccessBlock", NONE),
    Operation("GET", "/bbb?cors", NONE),
    Operation("PUT", "/bbb?cors", &[CORS]),
    Operation("DELETE", "/made?cors", NONE),
    Operation("OPTIONS", "/bbb/k", NONE),
    Operation("GET", "/bbb?encryption", NONE),
    Operation(
        "PUT",
        "/bbb?encryption",
        &[
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>",
        ],
    ),
    Operation("DELETE", "/bbb?encryption", NONE),
    Operation("GET", "/bbb?requestPayment", NONE),
    Operation("GET", "/bbb?logging", NONE),
    Operation("GET", "/bbb?notification", NONE),
    Operation("GET", "/bbb?accelerate", NONE),
    Operation("GET", "/bbb?lifecycle", NONE),
    Operation("GET", "/bbb?replication", NONE),
    Operation("GET", "/bbb?website", NONE),
    Operation("PUT", "/bbb/k", &["body", ""]),
    Operation("PUT", "/suspended/k", &["body"]),
    Operation("PUT", "/versioned/k", &["body"]),
    Operation("PUT", "/locked/new", &["body"]),
    Operation("GET", "/bbb/k", NONE),
    Operation("HEAD", "/bbb/k", NONE),
    Operation("GET", "/versioned/k", NONE),
    Operation("GET", "/bbb/k?attributes", NONE),
    Operation("DELETE", "/bbb/k", NONE),
    Operation("DELETE", "/suspended/k", NONE),
    Operation("POST", "/suspended?delete", &[DELETE]),
    Operation("PUT", "/bbb/copy", NONE),
    Operation("POST", "/bbb/parts?uploads", NONE),
    Operation("PUT", "/bbb/parts?partNumber=1", &["body"]),
    Operation("POST", "/bbb/parts", &[COMPLETE]),
    Operation("DELETE", "/bbb/parts", NONE),
    Operation("GET", "/bbb/parts", NONE),
    Operation("GET", "/bbb/k?tagging", NONE),
    Operation("PUT", "/bbb/k?tagging", &[TAGGING]),
    Operation("DELETE", "/bbb/k?tagging", NONE),
    Operation("GET", "/locked/k?retention", NONE),
    Operation("PUT", "/locked/k?retention", &[RETENTION]),
    Operation("GET", "/locked/k?legal-hold", NONE),
    Operation("PUT", "/locked/k?legal-hold", &["<LegalHold><Status>ON</Status></LegalHold>"]),
    Operation("POST", "/bbb/cold?restore", &["<RestoreRequest><Days>2</Days></RestoreRequest>"]),
    Operation("POST", "/bbb?retrieve", &[r#"{"objects": ["k", {"key": "cold"}]}"#]),
    Operation("POST", "/bbb", NONE),
    Operation("GET", "/-/health", NONE),
    Operation("GET", "/-/metrics", NONE),
];

/// Parameters that some operation reads.
const PARAMETERS: &[&str] = &[
    "allow-unordered",
    "bucket-region",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "start-after",
    "upload-id-marker",
    "uploadId",
    "version-id-marker",
    "versionId",
    "x-id",
    "X-Amz-Expires",
    "X-Amz-Algorithm",
    "events",
];

/// Headers that some operation, or the router, reads.
const HEADERS: &[&str] = &[
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "date",
    "expect",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "range",
    "referer",
    "user-agent",
    "transfer-encoding",
    "x-amz-acl",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-bypass-governance-retention",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-md5",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha512",
    "x-amz-checksum-type",
    "x-amz-checksum-xxhash3",
    "x-amz-checksum-xxhash64",
    "x-amz-checksum-xxhash128",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-copy-source-range",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-max-parts",
    "x-amz-metadata-directive",
    "x-amz-mfa",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-ownership",
    "x-amz-optional-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-trailer",
    "x-amz-transition-default-minimum-object-size",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-fulgurite-more",
];

/// Form fields other than headers.
const FIELDS: &[&str] = &[
    "acl",
    "tagging",
    "policy",
    "success_action_status",
    "success_action_redirect",
    "redirect",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signature",
    "AWSAccessKeyId",
    "signature",
    "bucket",
    "x-ignore-a",
];

/// Values that are valid for some header or parameter.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "-1",
    "5",
    "1000",
    "1001",
    "2147483648",
    "9223372036854775807",
    "18446744073709551616",
    "null",
    "true",
    "false",
    "*",
    "/",
    "a",
    "k",
    "cold",
    "url",
    "bbb",
    "main",
    "ada",
    "us-east-1",
    "a=b",
    "a=b&c=d",
    "%C3%A9=%F0%9F%A6%80",
    "a=b&a=c",
    "aws:a=b",
    "bytes=0-1",
    "bytes=-1",
    "bytes=0-0,2-3",
    "bytes=5-",
    "/bbb/k",
    "bbb/cold",
    "/versioned/k?versionId=null",
    "versioned/k",
    "/bbb/",
    "/",
    "arn:aws:s3:::x",
    "GOVERNANCE",
    "COMPLIANCE",
    "ON",
    "OFF",
    "2099-01-01T00:00:00Z",
    "99999-01-01T00:00:00Z",
    "0000-00-00T00:00:00Z",
    "Thu, 01 Jan 2026 02:03:04 GMT",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "COPY",
    "REPLACE",
    "GLACIER",
    "DEEP_ARCHIVE",
    "STANDARD",
    "CRC32",
    "CRC32C",
    "CRC64NVME",
    "SHA1",
    "SHA256",
    "SHA512",
    "MD5",
    "COMPOSITE",
    "FULL_OBJECT",
    "ENABLED",
    "Enabled",
    "AES256",
    "aws:kms",
    "NhCmhg==",
    "AAAAAA==",
    "hBotaJrYawY1Y0k+4QmDNQ==",
    "\"a\"",
    "\"a\", \"b\"",
    "W/\"a\"",
    "d41d8cd98f00b204e9800998ecf8427e",
    "ETag,Checksum,ObjectParts,StorageClass,ObjectSize",
    "RestoreStatus",
    "requester",
    "private",
    "public-read",
    "id=1",
    "emailAddress=a@b",
    "aws-chunked",
    "gzip, aws-chunked",
    "text/plain",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "100-continue",
    "https://a.example",
    "PUT",
    "x-a, x-b",
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "http://a.example/?b=c#d",
    "x-amz-checksum-crc32",
    "chunked",
    "AWS4-HMAC-SHA256",
    "201",
    "eyJhIjoxfQ==",
];

/// Lengths around limits: of attribute names, metadata, keys, tags and heads.
const LENGTHS: &[usize] = &[1, 127, 128, 250, 251, 255, 256, 257, 1_024, 1_025, 2_048, 2_049, 8_192, 20_000];

/// Draws numbers from bytes; zeroes follow the last one.
struct Draws<'a>(&'a [u8]);

impl Draws<'_> {
    fn below(&mut self, end: usize) -> usize {
        let mut byte = || {
            let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
            self.0 = rest;
            usize::from(*first)
        };
        (byte() | byte() << 8) % end
    }

    fn of<'b>(&mut self, all: &[&'b str]) -> &'b str {
        all[self.below(all.len())]
    }

    fn value(&mut self) -> String {
        match self.below(10) {
            0 => {
                let length = LENGTHS[self.below(LENGTHS.len())];
                let unit = self.of(&["a", "9", "=", "/", ",", "é", "%41", "a=b&", "*", "-", "a,"]);
                unit.repeat(length.div_ceil(unit.len()))
            }
            1 => format!("{}{}", self.of(VALUES), self.of(VALUES)),
            _ => self.of(VALUES).to_owned(),
        }
    }

    fn metadata(&mut self) -> String {
        let length = LENGTHS[self.below(LENGTHS.len())];
        format!("x-amz-meta-{}", self.of(&["a", "9", "-", "A"]).repeat(length))
    }
}

/// Generates a request in the format of [`Requests::answer`](super::Requests::answer).
pub(super) fn draw(data: &[u8]) -> Vec<u8> {
    let mut draws = Draws(data);
    let caller = draws.of(&["0", "0", "0", "1", "-"]);
    let Operation(method, target, bodies) = &OPERATIONS[draws.below(OPERATIONS.len())];
    let mut body = draws.of(bodies).to_owned();
    if draws.below(12) == 0 {
        body = draws.value();
    }
    let is_form = *method == "POST" && *target == "/bbb";
    let mut head = format!("{caller}{method} {target}");
    for _ in 0..draws.below(4) {
        let joint = if head.contains('?') { '&' } else { '?' };
        let _ = write!(head, "{joint}{}={}", draws.of(PARAMETERS), crate::s3::tags::encode_text(&draws.value()));
    }
    let mut lines = String::new();
    if is_form {
        lines.push_str("\ncontent-type: multipart/form-data; boundary=x");
        body = form(&mut draws);
    }
    if *target == "/bbb/copy" {
        let _ = write!(lines, "\nx-amz-copy-source: {}", draws.of(&["/bbb/k", "/versioned/k?versionId=null", "/bbb/cold", "/suspended/k"]));
    }
    for _ in 0..draws.below(5) {
        let name = if draws.below(5) == 0 { draws.metadata() } else { draws.of(HEADERS).to_owned() };
        let _ = write!(lines, "\n{name}: {}", draws.value());
    }
    [head.as_bytes(), lines.as_bytes(), b"\n\n", body.as_bytes()].concat()
}

fn form(draws: &mut Draws<'_>) -> String {
    let mut form = String::new();
    let mut part = |name: &str, value: &str| {
        let _ = write!(form, "--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    };
    part("key", if draws.below(4) == 0 { "a/${filename}" } else { "form" });
    for _ in 0..draws.below(6) {
        let name = match draws.below(4) {
            0 => draws.metadata(),
            1 => draws.of(HEADERS).to_owned(),
            _ => draws.of(FIELDS).to_owned(),
        };
        part(&name, &draws.value());
    }
    // Many short metadata headers exceed the number of attributes of a record.
    if draws.below(8) == 0 {
        (0..300).for_each(|number| part(&format!("x-amz-meta-{number}"), ""));
    }
    form + "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbody\r\n--x--\r\n"
}
