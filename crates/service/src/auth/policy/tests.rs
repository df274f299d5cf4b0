use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::Tag;

use super::*;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;

fn with(condition: &str) -> String {
    statement(&format!(r#""Effect": "Allow", "Condition": {condition}"#))
}

fn statement(members: &str) -> String {
    format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"], {members}}}}}"#
    )
}

fn answer(policy: &str, account: Option<&str>, action: &str, key: Option<&str>, context: RequestContext<'_>) -> Decision {
    let policy = Policy::parse(policy).expect("a policy");
    policy.check("b").expect("a policy of this bucket");
    let account = account.map(|name| Account { name: name.to_owned(), id: "0".repeat(64), admin: false });
    policy.decide(&PolicyRequest { account: account.as_ref(), action, bucket: "b", key, context })
}

fn ask(policy: &str, account: Option<&str>, action: &str, key: Option<&str>) -> Decision {
    answer(policy, account, action, key, RequestContext::of(&Origin::default(), NEW_YEAR_MS))
}

/// Whether the condition holds, both in a statement that allows and in one that denies.
fn holds(condition: &str, context: RequestContext<'_>) -> bool {
    let allowed = answer(&with(condition), None, "s3:PutObject", Some("k"), context);
    let denies = statement(&format!(r#""Effect": "Deny", "Condition": {condition}"#));
    let denied = answer(&denies, None, "s3:PutObject", Some("k"), context);
    assert_eq!(allowed == Decision::Allowed, denied == Decision::Denied, "{condition}");
    allowed == Decision::Allowed
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

fn tags(name: &str, value: &str) -> Vec<Tag> {
    vec![Tag { key: Some(name.to_owned()), value: Some(value.to_owned()) }]
}

#[test]
fn a_denial_overrides_every_grant() {
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/public/*"},
        {"Effect": "Deny", "Principal": {"AWS": ["eve"]}, "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]}]}"#;
    assert_eq!(ask(policy, None, "s3:GetObject", Some("public/a/b")), Decision::Allowed);
    assert_eq!(ask(policy, None, "s3:GetObject", Some("private")), Decision::NotApplicable);
    assert_eq!(ask(policy, None, "s3:PutObject", Some("public/a")), Decision::NotApplicable);
    assert_eq!(ask(policy, Some("eve"), "s3:GetObject", Some("public/a")), Decision::Denied);
    assert_eq!(ask(policy, Some("eve"), "s3:ListBucket", None), Decision::Denied);
    assert_eq!(ask(policy, Some("ada"), "s3:ListBucket", None), Decision::NotApplicable);
}

#[test]
fn not_elements_exclude_what_they_list() {
    let policy = r#"{"Statement": [
        {"Effect": "Allow", "Principal": "*", "NotAction": ["s3:Delete*", "s3:Put*"], "Resource": "arn:aws:s3:::b/*"},
        {"Effect": "Deny", "NotPrincipal": {"AWS": "arn:aws:iam::ada:root"}, "Action": "s3:*", "NotResource": "arn:aws:s3:::b/public/*"}]}"#;
    assert_eq!(ask(policy, None, "s3:GetObject", Some("public/a")), Decision::Allowed);
    assert_eq!(ask(policy, None, "s3:PutObject", Some("public/a")), Decision::NotApplicable);
    assert_eq!(ask(policy, None, "s3:GetObject", Some("private")), Decision::Denied);
    assert_eq!(ask(policy, Some("eve"), "s3:GetObject", Some("private")), Decision::Denied);
    assert_eq!(ask(policy, Some("ada"), "s3:GetObject", Some("private")), Decision::Allowed);
}

#[test]
fn conditions_test_parameters_of_lists() {
    let origin = Origin::default();
    let query = |query| RequestContext { query: Some(query), ..RequestContext::of(&origin, NEW_YEAR_MS) };
    let prefix = r#"{"StringLike": {"s3:prefix": ["a/*", "b"]}}"#;
    assert!(holds(prefix, query("list-type=2&prefix=a%2Fx")) && holds(prefix, query("%70refix=b")));
    assert!(!holds(prefix, query("prefix=c")) && !holds(prefix, query("")));
    let few = r#"{"NumericLessThanEquals": {"s3:max-keys": "10"}}"#;
    assert!(holds(few, query("max-keys=10")) && holds(few, query("max-keys=9")));
    assert!(!holds(few, query("max-keys=11")) && !holds(few, query("")) && !holds(few, query("max-keys=many")));
}

#[test]
fn conditions_test_the_origin_of_a_request() {
    let from = |peer: &str, is_tls, fields: &[(&'static str, &'static str)]| Origin::new(peer.parse().ok(), is_tls, &headers(fields));
    let is = |condition: &str, origin: &Origin| holds(condition, RequestContext::of(origin, NEW_YEAR_MS));
    let network = r#"{"IpAddress": {"aws:SourceIp": ["10.1.0.0/16", "10.3.0.1"]}}"#;
    assert!(is(network, &from("10.1.255.1", false, &[])) && is(network, &from("::ffff:10.3.0.1", false, &[])));
    assert!(!is(network, &from("10.2.0.1", false, &[])) && !is(network, &Origin::default()));
    assert!(!is(r#"{"NotIpAddress": {"aws:SourceIp": "0.0.0.0/0"}}"#, &from("10.2.0.1", false, &[])));
    let plain = r#"{"Bool": {"aws:SecureTransport": "false"}}"#;
    assert!(is(plain, &from("10.1.0.1", false, &[])) && !is(plain, &from("10.1.0.1", true, &[])));
    let referer = r#"{"StringLike": {"aws:Referer": "https://example.org/*"}, "StringNotLike": {"AWS:useragent": "curl/*"}}"#;
    assert!(is(referer, &from("10.1.0.1", false, &[("referer", "https://example.org/a")])));
    assert!(!is(referer, &from("10.1.0.1", false, &[("referer", "https://example.org/a"), ("user-agent", "curl/8")])));
    assert!(!is(referer, &from("10.1.0.1", false, &[])));
    let perhaps = r#"{"StringLikeIfExists": {"aws:Referer": "https://example.org/*"}}"#;
    assert!(is(perhaps, &from("10.1.0.1", false, &[])) && !is(perhaps, &from("10.1.0.1", false, &[("referer", "https://example.com/")])));
}

#[test]
fn conditions_test_the_current_time() {
    let now = Origin::default();
    let is = |condition: &str| holds(condition, RequestContext::of(&now, NEW_YEAR_MS));
    assert!(is(r#"{"DateGreaterThanEquals": {"aws:CurrentTime": "2026-01-01"}}"#));
    assert!(!is(r#"{"DateGreaterThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}}"#));
    assert!(is(r#"{"DateLessThan": {"aws:CurrentTime": "2026-01-01T00:00:01Z"}, "NumericEquals": {"aws:EpochTime": 1767225600}}"#));
}

#[test]
fn conditions_test_headers_of_puts() {
    let origin = Origin::default();
    let is = |condition: &str, fields: &[(&'static str, &'static str)]| {
        let headers = headers(fields);
        holds(condition, RequestContext { headers: Some(&headers), ..RequestContext::of(&origin, NEW_YEAR_MS) })
    };
    let plain = r#"{"Null": {"s3:x-amz-server-side-encryption": "true"}}"#;
    assert!(is(plain, &[]) && !is(plain, &[("x-amz-server-side-encryption", "AES256")]));
    let other = r#"{"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}"#;
    assert!(is(other, &[]) && is(other, &[("x-amz-server-side-encryption", "aws:kms")]));
    assert!(!is(other, &[("x-amz-server-side-encryption", "AES256")]));
    let source = r#"{"StringLike": {"s3:x-amz-copy-source": "/from/public/*"}}"#;
    assert!(is(source, &[("x-amz-copy-source", "from/public/a")]) && is(source, &[("x-amz-copy-source", "/from/%70ublic/a?versionId=7")]));
    assert!(!is(source, &[("x-amz-copy-source", "from/private/a")]) && !is(source, &[]));
    let acl = r#"{"StringEqualsIgnoreCase": {"s3:x-amz-acl": ["PRIVATE", "public-read"]}}"#;
    assert!(is(acl, &[("x-amz-acl", "private")]) && !is(acl, &[("x-amz-acl", "public-read-write")]));
}

#[test]
fn conditions_tested_at_the_start_of_an_upload_are_not_tested_for_its_parts() {
    let origin = Origin::default();
    let part = RequestContext { continues_upload: true, ..RequestContext::of(&origin, NEW_YEAR_MS) };
    let condition = r#"{"Null": {"s3:x-amz-server-side-encryption": "true"}}"#;
    let denies = statement(&format!(r#""Effect": "Deny", "Condition": {condition}"#));
    assert_eq!(answer(&denies, None, "s3:PutObject", Some("k"), part), Decision::NotApplicable);
    let needs = with(r#"{"StringEquals": {"s3:RequestObjectTag/rank": "one"}}"#);
    assert_eq!(answer(&needs, None, "s3:PutObject", Some("k"), part), Decision::Allowed);
    let network = with(r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#);
    assert_eq!(answer(&network, None, "s3:PutObject", Some("k"), part), Decision::NotApplicable);
}

#[test]
fn conditions_test_tags_by_name() {
    let origin = Origin::default();
    let (rank, other) = (tags("rank", "one"), tags("Rank", "one"));
    let context = RequestContext::of(&origin, NEW_YEAR_MS);
    let existing = r#"{"StringEquals": {"s3:ExistingObjectTag/rank": "one"}}"#;
    assert!(
        holds(existing, RequestContext { tags: &rank, ..context })
            && !holds(existing, RequestContext { tags: &other, new_tags: &rank, ..context })
    );
    let new = r#"{"StringEquals": {"s3:RequestObjectTag/rank": "one"}}"#;
    assert!(holds(new, RequestContext { new_tags: &rank, ..context }) && !holds(new, RequestContext { tags: &rank, ..context }));
    let policy = Policy::parse(&with(existing)).expect("a policy");
    assert!(policy.asks_tags("s3:GetObject") && !policy.asks_tags("s3:PutObject") && !policy.asks_new_tags());
}

#[test]
fn unknown_elements_are_refused() {
    let allow = r#""Effect": "Allow""#;
    assert!(Policy::parse(&statement(allow)).is_ok());
    for wrong in [
        r#""Effect": "Allow", "NotAction": "s3:PutObject""#,
        r#""Effect": "Allow", "NotResource": "arn:aws:s3:::b/a""#,
        r#""Effect": "Allow", "NotPrincipal": {"AWS": "ada"}"#,
        r#""Effect": "Allow", "Effect": "Deny""#,
        r#""Effect": "Allow", "Nobody": true"#,
    ] {
        assert!(Policy::parse(&statement(wrong)).is_err(), "{wrong}");
    }
    for wrong in [
        r#"{"Bool": {"aws:MultiFactorAuthPresent": true}}"#,
        r#"{"IpAddress": {"aws:SourceIp": "10.1.0.0/33"}}"#,
        r#"{"StringLike": {"aws:SourceIp": "10.*"}}"#,
        r#"{"StringIsh": {"s3:prefix": "a"}}"#,
        r#"{"ForAllValues:StringEquals": {"s3:prefix": "a"}}"#,
        r#"{"StringEquals": {"s3:prefix": []}}"#,
        r#"{"StringEquals": {}}"#,
        r#"{"StringEquals": {"s3:prefix": "a"}, "StringEquals": {"s3:delimiter": "/"}}"#,
        r#"{"StringEquals": {"s3:prefix": "a", "s3:prefix": "b"}}"#,
        r#"{"StringLike": {"s3:prefix": "${aws:username}/*"}}"#,
        r#"{"StringEquals": {"s3:ExistingObjectTag": "a"}}"#,
        r#"{"StringEquals": {"s3:ExistingObjectTag/": "a"}}"#,
        r#"{"NullIfExists": {"s3:prefix": "true"}}"#,
        r#"{"Null": {"s3:prefix": "perhaps"}}"#,
        r#"{"Null": {"s3:prefix": ["true", "false"]}}"#,
        r#"{"NumericEquals": {"s3:max-keys": "many"}}"#,
        r#"{"NumericEquals": {"s3:prefix": "1"}}"#,
        r#"{"DateLessThan": {"aws:CurrentTime": "soon"}}"#,
        r#"{"Bool": {"aws:SecureTransport": "1"}}"#,
    ] {
        assert!(Policy::parse(&with(wrong)).is_err(), "{wrong}");
    }
    assert!(Policy::parse("[]").is_err());
    let not_allowed =
        r#"{"Statement": {"Effect": "Allow", "NotPrincipal": {"AWS": "ada"}, "Action": "s3:*", "Resource": "arn:aws:s3:::b"}}"#;
    assert!(Policy::parse(not_allowed).is_err());
    assert!(Policy::parse(&not_allowed.replace("Allow", "Deny")).is_ok());
}

#[test]
fn resources_must_be_in_the_bucket() {
    let check = |resource: &str| {
        let policy =
            format!(r#"{{"Statement": {{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::{resource}"}}}}"#);
        Policy::parse(&policy).expect("a policy").check("bucket").is_ok()
    };
    assert!(["bucket", "bucket/*", "*", "*/*", "b*t/a?", "bucke?"].into_iter().all(check));
    assert!(!["other/*", "bucket2", "b", "", "/*", "*2/*"].into_iter().any(check));
}

#[test]
fn a_policy_for_everyone_is_public_unless_limited_to_a_network() {
    let is_public = |policy: &str| Policy::parse(policy).expect("a policy").is_public();
    assert!(is_public(&statement(r#""Effect": "Allow""#)));
    assert!(!is_public(&statement(r#""Effect": "Deny""#)));
    assert!(!is_public(&statement(r#""Effect": "Allow""#).replace(r#""*""#, r#"{"AWS": "ada"}"#)));
    assert!(is_public(&statement(r#""Effect": "Allow""#).replace(r#""*""#, r#"{"AWS": ["ada", "*"]}"#)));
    assert!(!is_public(&with(r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#)));
    assert!(is_public(&with(r#"{"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "0.0.0.0/1"]}}"#)));
    assert!(is_public(&with(r#"{"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#)));
    assert!(is_public(&with(r#"{"StringLike": {"aws:Referer": "https://example.org/*"}}"#)));
}
