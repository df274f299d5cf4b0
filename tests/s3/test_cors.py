"""Pages of other sites: the rules of a bucket, what a browser asks before a request (OPTIONS), and the headers it finds in answers."""

from __future__ import annotations

import json

import pytest

from test_forms import post_fields
from wire import Reply, refused, status

ORIGIN = "https://app.example"
RULE = {"AllowedOrigins": [ORIGIN], "AllowedMethods": ["GET", "PUT"]}


def put(s3, bucket: str, *rules: dict) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": list(rules)})


def ask(wire, path: str, method: str = "GET", origin: str = ORIGIN, names: str | None = None) -> Reply:
    fields = {"Origin": origin, "Access-Control-Request-Method": method}
    return wire.send("OPTIONS", path, fields | ({"Access-Control-Request-Headers": names} if names else {}), anonymous=True)


def told(reply: Reply) -> dict[str, str]:
    return {name.removeprefix("access-control-"): value for name, value in reply.headers.items() if name.startswith("access-control-")}


def test_rules_come_back_as_they_were_put_until_they_are_removed(s3, bucket):
    with refused("NoSuchCORSConfiguration", 404):
        s3.get_bucket_cors(Bucket=bucket)
    full = RULE | {"ID": "first", "AllowedHeaders": ["x-amz-*", "Content-Type"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 3000}
    rules = [full, {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]}]
    put(s3, bucket, *rules)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == rules
    put(s3, bucket, RULE)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [RULE]
    assert status(s3.delete_bucket_cors(Bucket=bucket)) == 204
    with refused("NoSuchCORSConfiguration", 404):
        s3.get_bucket_cors(Bucket=bucket)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (RULE | {"AllowedMethods": ["PATCH"]}, "InvalidRequest"),
        (RULE | {"AllowedMethods": ["get"]}, "InvalidRequest"),
        (RULE | {"AllowedOrigins": ["https://*.*"]}, "InvalidRequest"),
        (RULE | {"AllowedHeaders": ["*-*"]}, "InvalidRequest"),
        (RULE | {"ExposeHeaders": ["*"]}, "InvalidRequest"),
        (RULE | {"AllowedOrigins": []}, "MalformedXML"),
    ],
    ids=["unknown method", "small letters", "two stars in an origin", "two stars in a header", "a star in an exposed header", "no origin"],
)
def test_a_rule_that_cant_be_one_is_refused_and_those_before_stay(s3, bucket, rule, code):
    put(s3, bucket, RULE)
    with refused(code, 400):
        put(s3, bucket, RULE, rule)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [RULE]


def test_a_bucket_has_a_hundred_rules_at_most(s3, bucket):
    put(s3, bucket, *[RULE] * 100)
    for many in (101, 0):
        with refused("MalformedXML", 400):
            put(s3, bucket, *[RULE] * many)


def test_rules_are_64_kib_long_at_most(s3, bucket):
    put(s3, bucket, RULE)
    for origin in ("https://" + "a" * (64 << 10), "https://" + "a" * 1_500_000):
        with refused("MaxMessageLengthExceeded", 400):
            put(s3, bucket, RULE | {"AllowedOrigins": [origin]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [RULE]
    long = RULE | {"AllowedOrigins": ["https://" + "a" * 60_000]}
    put(s3, bucket, long)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [long]


def test_nobody_else_sees_or_changes_rules(s3, alt, bucket):
    put(s3, bucket, RULE)
    for call in (lambda: alt.get_bucket_cors(Bucket=bucket), lambda: put(alt, bucket, RULE), lambda: alt.delete_bucket_cors(Bucket=bucket)):
        with refused("AccessDenied", 403):
            call()
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [RULE]


def test_a_browser_may_ask_without_a_signature_and_is_told_what_is_allowed(s3, wire, bucket):
    put(s3, bucket, RULE | {"AllowedHeaders": ["X-Amz-*"], "ExposeHeaders": ["ETag", "x-amz-version-id"], "MaxAgeSeconds": 600})
    reply = ask(wire, f"/{bucket}/there/is/none", "PUT", names="X-Amz-Date,x-amz-acl")
    assert (reply.status, reply.body) == (200, b"")
    assert told(reply) == {
        "allow-origin": ORIGIN,
        "allow-credentials": "true",
        "allow-methods": "GET, PUT",
        "allow-headers": "x-amz-date, x-amz-acl",
        "expose-headers": "ETag, x-amz-version-id",
        "max-age": "600",
    }
    assert "origin" in reply.headers["vary"].lower()


def test_what_no_rule_allows_is_refused(s3, wire, bucket):
    put(s3, bucket, RULE | {"AllowedHeaders": ["x-amz-*"]})
    for reply in (
        ask(wire, f"/{bucket}/key", "DELETE"),
        ask(wire, f"/{bucket}/key", origin="https://app.example.org"),
        ask(wire, f"/{bucket}/key", origin="http://app.example"),
        ask(wire, f"/{bucket}/key", names="x-amz-date, content-type"),
    ):
        assert (reply.status, reply.code, told(reply)) == (403, "AccessForbidden", {})


def test_the_first_rule_that_fits_holds(s3, wire, bucket):
    star = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET", "HEAD"]}
    part = {"AllowedOrigins": ["https://*.example"], "AllowedMethods": ["PUT"], "AllowedHeaders": ["*"]}
    put(s3, bucket, star, part)
    assert told(ask(wire, f"/{bucket}")) == {"allow-origin": "*", "allow-methods": "GET, HEAD"}
    assert told(ask(wire, f"/{bucket}", "PUT", names="anything"))["allow-origin"] == ORIGIN
    assert ask(wire, f"/{bucket}", names="anything").status == 403
    assert ask(wire, f"/{bucket}", "PUT", origin="https://example").status == 403


def test_without_rules_or_a_bucket_nothing_is_allowed(wire, bucket, bucket_name):
    for name in (bucket, bucket_name):
        reply = ask(wire, f"/{name}/key")
        assert (reply.status, reply.code) == (403, "AccessForbidden")


@pytest.mark.parametrize(
    "fields",
    [
        {"Access-Control-Request-Method": "GET"},
        {"Origin": ORIGIN},
        {"Origin": ORIGIN, "Access-Control-Request-Method": "BREW"},
    ],
    ids=["no origin", "no method", "unknown method"],
)
def test_a_question_that_leaves_something_out_is_none(s3, wire, bucket, fields):
    put(s3, bucket, RULE)
    assert wire.send("OPTIONS", f"/{bucket}/key", fields, anonymous=True).status == 400


def test_answers_say_it_too_if_the_request_says_where_it_comes_from(s3, wire, bucket):
    put(s3, bucket, RULE | {"ExposeHeaders": ["ETag"]})
    s3.put_object(Bucket=bucket, Key="key", Body=b"body")
    allowed = {"allow-origin": ORIGIN, "allow-credentials": "true", "allow-methods": "GET, PUT", "expose-headers": "ETag"}
    read = wire.send("GET", f"/{bucket}/key", {"Origin": ORIGIN})
    assert (read.status, read.body, told(read)) == (200, b"body", allowed)
    assert told(wire.send("PUT", f"/{bucket}/key", {"Origin": ORIGIN}, b"changed")) == allowed
    assert told(wire.send("HEAD", f"/{bucket}/key", {"Origin": ORIGIN})) == {}
    other = wire.send("GET", f"/{bucket}/key", {"Origin": "https://other.example"})
    assert (other.status, told(other)) == (200, {}) and "origin" in other.headers["vary"].lower()
    assert told(wire.send("GET", f"/{bucket}/key")) == {}


def test_errors_say_it_too(s3, wire, bucket):
    """A page is to see why its request failed."""
    put(s3, bucket, RULE)
    for anonymous, code in ((False, "NoSuchKey"), (True, "AccessDenied")):
        reply = wire.send("GET", f"/{bucket}/nothing", {"Origin": ORIGIN}, anonymous=anonymous)
        assert (reply.code, told(reply)["allow-origin"]) == (code, ORIGIN)


def test_a_rule_gives_nobody_rights(s3, alt, wire, bucket):
    put(s3, bucket, {"AllowedOrigins": ["*"], "AllowedMethods": ["GET", "PUT", "DELETE"]})
    s3.put_object(Bucket=bucket, Key="key", Body=b"body")
    for method in ("GET", "PUT", "DELETE"):
        assert wire.send(method, f"/{bucket}/key", {"Origin": ORIGIN}, anonymous=True).status == 403
    with refused("AccessDenied", 403):
        alt.get_object(Bucket=bucket, Key="key")


def test_a_presigned_url_and_a_form_can_be_used_by_a_page(s3, wire, bucket):
    put(s3, bucket, {"AllowedOrigins": [ORIGIN], "AllowedMethods": ["PUT", "POST"], "AllowedHeaders": ["*"]})
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "key"})
    target = url.removeprefix(wire.server.endpoint)
    assert ask(wire, target, "PUT", names="content-type").status == 200
    reply = wire.send("PUT", target, {"Origin": ORIGIN}, b"body", anonymous=True)
    assert (reply.status, told(reply)["allow-origin"]) == (200, ORIGIN)
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    form = post_fields(wire, bucket, {"key": "form"}, b"body", Origin=ORIGIN)
    assert (form.status, told(form)["allow-origin"]) == (204, ORIGIN)
