"""What no client sends by accident. Each ends with an error of S3 or a closed connection: never with a 500, a hang or a dead server."""

from __future__ import annotations

import base64
import os
import re
import socket
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from digests import content_md5
from wire import SIGNED_CHUNKS, UNSIGNED, UNSIGNED_CHUNKS_TRAILER, Reply


@pytest.fixture
def target(s3, bucket, wire):
    s3.put_object(Bucket=bucket, Key="object", Body=b"kept")
    yield f"/{bucket}/object"
    # Whatever came in, the server still answers, and the object is as it was.
    reply = wire.send("GET", f"/{bucket}/object")
    assert (reply.status, reply.body) == (200, b"kept")


def turned_away(reply: Reply | None) -> bool:
    return reply is None or 400 <= reply.status < 500 or reply.status in (501, 505)


AUTHORIZATIONS = {
    "empty": "",
    "word": "AWS4-HMAC-SHA256",
    "blank": " ",
    "other scheme": "Basic dXNlcjpwYXNzd29yZA==",
    "bearer": "Bearer token",
    "unknown algorithm": "AWS9-HMAC-SHA999 Credential=a/20300101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
    "no credential": "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=00",
    "no signed headers": "AWS4-HMAC-SHA256 Credential=a/20300101/us-east-1/s3/aws4_request, Signature=00",
    "no signature": "AWS4-HMAC-SHA256 Credential=a/20300101/us-east-1/s3/aws4_request, SignedHeaders=host",
    "short credential": "AWS4-HMAC-SHA256 Credential=a/20300101, SignedHeaders=host, Signature=00",
    "slashes": "AWS4-HMAC-SHA256 Credential=////////, SignedHeaders=;;;, Signature=",
    "no date": "AWS4-HMAC-SHA256 Credential=a/yesterday/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
    "headers that aren't there": "AWS4-HMAC-SHA256 Credential=a/20300101/us-east-1/s3/aws4_request, SignedHeaders=x;y;z, Signature=00",
    "twice the same": "AWS4-HMAC-SHA256 Credential=a, Credential=b, SignedHeaders=host, Signature=00",
    "quotes and commas": 'AWS4-HMAC-SHA256 Credential=",,,", SignedHeaders=",", Signature=","',
    "long": "AWS4-HMAC-SHA256 Credential=" + "a" * 5000 + ", SignedHeaders=host, Signature=00",
    "version 2": "AWS key:signature",
    "version 2 without a signature": "AWS key",
}


@pytest.mark.parametrize("case", AUTHORIZATIONS)
def test_an_authorization_that_is_none_is_refused(wire, target, case):
    for method in ("GET", "PUT", "DELETE"):
        reply = wire.send(method, target, {"Authorization": AUTHORIZATIONS[case]}, anonymous=True)
        assert reply.status in (400, 403), reply
        assert method != "GET" or reply.code, reply


SIZE = 65_536
CHUNK = os.urandom(SIZE)
FRAMES = {
    "no size": lambda body: body.replace(b"10000;", b";", 1),
    "a size that is no number": lambda body: body.replace(b"10000;", b"zebra;", 1),
    "a negative size": lambda body: body.replace(b"10000;", b"-0000;", 1),
    "a size beyond all numbers": lambda body: body.replace(b"10000;", b"f" * 40 + b";", 1),
    "a larger size": lambda body: body.replace(b"10000;", b"20000;", 1),
    "a smaller size": lambda body: body.replace(b"10000;", b"00001;", 1),
    "no signature": lambda body: body[: body.index(b";")] + body[body.index(b"\r\n") :],
    "no line ends": lambda body: body.replace(b"\r\n", b"  ", 1),
    "bare line feeds": lambda body: body.replace(b"\r\n", b"\n\n", 1),
    "a first line without end": lambda body: b"1" * len(body),
    "an endless extension": lambda body: b"10000;chunk-signature=" + b"0" * (len(body) - 22),
    "zeroes": lambda body: bytes(len(body)),
    "no last chunk": lambda body: body[: body.rindex(b"\r\n0;")] + b"\r\n",
}


@pytest.mark.parametrize("case", FRAMES)
def test_chunks_with_a_bad_frame_store_nothing(wire, target, case):
    def tamper(body: bytes) -> bytes:
        # As long as was announced, so that the server isn't left waiting for a rest.
        changed = FRAMES[case](body)[: len(body)]
        return changed + b" " * (len(body) - len(changed))

    reply = wire.send_chunks(target, [CHUNK], payload=SIGNED_CHUNKS, tamper=tamper)
    assert reply.status in (400, 403), reply


@pytest.mark.parametrize(
    "trailer", ["x-amz-checksum-crc32", "x-amz-checksum-crc32:", ":", "a: b\r\nc: d", "x" * 20_000, "x-amz-checksum-crc32:A\r\n" * 500]
)
def test_a_trailer_with_a_bad_frame_stores_nothing(wire, target, trailer):
    body = b"3\r\nabc\r\n0\r\n" + trailer.encode() + b"\r\n\r\n"
    fields = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": "3", "x-amz-trailer": "x-amz-checksum-crc32"}
    sealed = wire.seal("PUT", target, fields, UNSIGNED_CHUNKS_TRAILER, wire.signer())
    assert wire.send("PUT", target, sealed, body, anonymous=True).status == 400


def test_chunks_that_end_too_soon_store_nothing(wire, target):
    sealed = wire.seal(
        "PUT", target, {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(SIZE)}, SIGNED_CHUNKS, wire.signer()
    )
    head = f"PUT {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items())
    head += f"Content-Length: {SIZE + 200}\r\n\r\n10000;chunk-signature={'0' * 64}\r\n"
    assert turned_away(wire.exchange(head.encode() + CHUNK[:1000], hang_up=True))


ENTITIES = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + index)} "{f"&{chr(97 + index)};" * 10}">' for index in range(10)
)
BODIES = {
    "an entity bomb": f"{ENTITIES}]><Delete><Object><Key>&k;</Key></Object></Delete>",
    "an external entity": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&e;</Key></Object></Delete>',
    "an external document type": '<?xml version="1.0"?><!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><Delete></Delete>',
    "deep nesting": "<Delete>" * 20_000,
    "deep nesting that ends": "<Delete>" * 5_000 + "</Delete>" * 5_000,
    "many attributes": "<Delete " + " ".join(f'a{index}="x"' for index in range(20_000)) + "></Delete>",
    "a long name": f"<{'x' * 500_000}>",
    "bytes that are no text": "\x00\x01\x02<Delete>",
    "half a character": "<Delete>\ud800</Delete>",
    "json": '{"Delete": []}',
    "nothing but space": " " * 10_000,
    "an open comment": "<!-- " + "x" * 10_000,
    "an open section": "<Delete><![CDATA[" + "x" * 10_000,
}
CALLS = {
    "delete": "POST /{bucket}?delete",
    "complete": "POST /{bucket}/object?uploadId=none",
    "tagging": "PUT /{bucket}/object?tagging",
    "versioning": "PUT /{bucket}?versioning",
    "lock": "PUT /{bucket}?object-lock",
    "restore": "POST /{bucket}/object?restore",
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("case", BODIES)
def test_a_hostile_body_is_refused(wire, target, case, call):
    method, path = CALLS[call].format(bucket=target.split("/")[1]).split(" ")
    body = BODIES[case].encode("utf-8", "surrogatepass")
    reply = wire.send(method, path, {"Content-MD5": content_md5(body)}, body)
    assert 400 <= reply.status < 500 and reply.code, reply
    assert b"root:" not in reply.body


RULE = "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter>{}</Filter>{}</Rule></LifecycleConfiguration>"
CORS = "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>{}</CORSRule></CORSConfiguration>"
ALL = "<Prefix></Prefix>"


def number_bodies(number: str) -> dict[str, str]:
    versions = f"<NewerNoncurrentVersions>{number}</NewerNoncurrentVersions><NoncurrentDays>1</NoncurrentDays>"
    return {
        "lifecycle, days": RULE.format(ALL, f"<Expiration><Days>{number}</Days></Expiration>"),
        "lifecycle, versions": RULE.format(ALL, f"<NoncurrentVersionExpiration>{versions}</NoncurrentVersionExpiration>"),
        "lifecycle, size": RULE.format(f"<ObjectSizeGreaterThan>{number}</ObjectSizeGreaterThan>", "<Expiration><Days>1</Days></Expiration>"),
        "cors": CORS.format(f"<MaxAgeSeconds>{number}</MaxAgeSeconds>"),
    }


@pytest.mark.parametrize("number", ["1O0", "1e3", "10,000", "36.5", "0x10", "3_650", "1 2", "3<![CDATA[0]]>0", "1&#79;0"])
@pytest.mark.parametrize("case", number_bodies("1"))
def test_a_number_with_something_else_in_it_is_refused(s3, wire, bucket, case, number):
    """Read as 1, `1O0` would remove versions that were to be kept."""
    kind = case.split(",")[0]
    for value, expected in ((number, 400), ("100", 200), (number, 400)):
        body = number_bodies(value)[case].encode()
        reply = wire.send("PUT", f"/{bucket}?{kind}", {"Content-MD5": content_md5(body)}, body)
        assert (reply.status, reply.code) == (expected, "MalformedXML" if expected == 400 else None), reply
    assert b">100<" in wire.send("GET", f"/{bucket}?{kind}").body, "the first one that is valid stays"


def test_the_number_of_a_part_is_read_to_its_end(s3, wire, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    for number, expected in (("1O", 400), ("1", 200)):
        body = f"<CompleteMultipartUpload><Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        assert wire.send("POST", f"/{bucket}/parts?uploadId={upload}", {}, body.encode()).status == expected, number


def test_a_text_in_a_cdata_section_is_not_taken_for_empty(s3, wire, bucket):
    """A rule for an empty prefix would be one for all objects."""
    body = RULE.format("<Prefix><![CDATA[logs/]]></Prefix>", "<Expiration><Days>1</Days></Expiration>").encode()
    reply = wire.send("PUT", f"/{bucket}?lifecycle", {"Content-MD5": content_md5(body)}, body)
    assert (reply.status, reply.code) == (400, "MalformedXML")
    assert wire.send("GET", f"/{bucket}?lifecycle").status == 404
    body = b"<Delete><Object><Key><![CDATA[a<b]]></Key></Object></Delete>"
    assert wire.send("POST", f"/{bucket}?delete", {"Content-MD5": content_md5(body)}, body).status == 400


NESTED = {
    "new bucket": ("PUT /hostile-nesting", "CreateBucketConfiguration"),
    "delete": ("POST /{bucket}?delete", "Delete"),
    "complete": ("POST /{bucket}/object?uploadId=none", "CompleteMultipartUpload"),
    "tagging": ("PUT /{bucket}/object?tagging", "Tagging"),
    "bucket tagging": ("PUT /{bucket}?tagging", "Tagging"),
    "versioning": ("PUT /{bucket}?versioning", "VersioningConfiguration"),
    "lock": ("PUT /{bucket}?object-lock", "ObjectLockConfiguration"),
    "retention": ("PUT /{bucket}/object?retention", "Retention"),
    "legal hold": ("PUT /{bucket}/object?legal-hold", "LegalHold"),
    "restore": ("POST /{bucket}/object?restore", "RestoreRequest"),
    "cors": ("PUT /{bucket}?cors", "CORSConfiguration"),
    "acl": ("PUT /{bucket}?acl", "AccessControlPolicy"),
    "encryption": ("PUT /{bucket}?encryption", "ServerSideEncryptionConfiguration"),
    "ownership": ("PUT /{bucket}?ownershipControls", "OwnershipControls"),
    "public access": ("PUT /{bucket}?publicAccessBlock", "PublicAccessBlockConfiguration"),
}


@pytest.mark.parametrize("call", NESTED)
def test_unknown_elements_nested_deeply_do_no_harm(wire, target, call):
    request, root = NESTED[call]
    method, path = request.format(bucket=target.split("/")[1]).split(" ")
    body = f"<{root}>{'<a>' * 200_000}{'</a>' * 200_000}</{root}>".encode()
    reply = wire.send(method, path, {"Content-MD5": content_md5(body)}, body)
    # S3 ignores elements that it doesn't know.
    assert reply.status < 500, reply
    if call == "new bucket":
        assert reply.status == 200 and wire.send("DELETE", path).status == 204


@pytest.mark.parametrize("opened", ["[", '{"a":'])
@pytest.mark.parametrize("path", ["PUT /{bucket}?policy", "POST /{bucket}/object?retrieve", "POST /{bucket}?retrieve"])
def test_json_nested_deeply_is_refused(wire, target, path, opened):
    method, path = path.format(bucket=target.split("/")[1]).split(" ")
    body = (opened * 500_000).encode()
    reply = wire.send(method, path, {"Content-MD5": content_md5(body)}, body)
    assert 400 <= reply.status < 500 and reply.code, reply


def test_a_body_larger_than_any_configuration_is_refused(wire, target):
    body = b"<Tagging>" + b" " * (20 * 2**20)
    fields = {"Content-MD5": content_md5(body), "Content-Length": str(len(body)), "Connection": "close"}
    sealed = wire.seal("PUT", f"{target}?tagging", fields, UNSIGNED, wire.signer())
    head = f"PUT {target}?tagging HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items()) + "\r\n"
    assert turned_away(wire.exchange(head.encode() + body))


HEADS = {
    "a header of 1 MB": "GET {target} HTTP/1.1\r\nHost: a\r\nX-Long: " + "x" * 2**20 + "\r\n\r\n",
    "20,000 headers": "GET {target} HTTP/1.1\r\nHost: a\r\n" + "X-Many: x\r\n" * 20_000 + "\r\n",
    "a target of 1 MB": "GET {target}?" + "x" * 2**20 + " HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": "GET {target} HTTP/1.1\r\n\r\n",
    "two hosts": "GET {target} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "an unknown version": "GET {target} HTTP/9.9\r\nHost: a\r\n\r\n",
    "an unknown method": "BREAK {target} HTTP/1.1\r\nHost: a\r\n\r\n",
    "no method": "{target}\r\n\r\n",
    "a header without a colon": "GET {target} HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a space before the colon": "GET {target} HTTP/1.1\r\nHost: a\r\nX-Odd : b\r\n\r\n",
    "a folded header": "GET {target} HTTP/1.1\r\nHost: a\r\nX-Fold: a\r\n  b\r\n\r\n",
    "a zero in a header": "GET {target} HTTP/1.1\r\nHost: a\r\nX-Zero: a\x00b\r\n\r\n",
    "two lengths": "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length and chunks": "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length that is no number": "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    "a length beyond all numbers": "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "an unknown transfer encoding": "PUT {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zebra\r\n\r\n",
    "the start of TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "noise": "\x00\xff\x10" * 1000,
    "empty lines": "\r\n" * 1000,
}


@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_is_none_is_turned_away(wire, target, case):
    data = HEADS[case].replace("{target}", target).encode("latin-1")
    assert turned_away(wire.exchange(data, method=data.split(b" ")[0].decode("latin-1"), hang_up=True))


def test_a_second_request_hidden_in_the_first_is_not_carried_out(wire, target):
    """A length and chunks disagree on where the first one ends."""
    hidden = f"DELETE {target} HTTP/1.1\r\nHost: {wire.host}\r\n\r\n"
    first = f"PUT {target}-other HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: {len(hidden) + 5}\r\n"
    first += f"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
    assert turned_away(wire.exchange(first.encode()))


PATHS = [
    "/..",
    "/../..",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/.",
    "//",
    "///",
    "/%00",
    "/%",
    "/%zz",
    "/\\",
    "/bucket%2fkey",
    "/" + "a/" * 5000,
    "/?&&&===",
    "/?" + "a&" * 5000,
]


@pytest.mark.parametrize("path", PATHS, ids=[path[:24] for path in PATHS])
def test_a_path_with_a_trick_leads_nowhere(wire, target, path):
    for anonymous in (True, False):
        reply = (
            wire.exchange(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()) if anonymous else wire.send("GET", path)
        )
        assert reply is None or reply.status < 500, reply
        assert reply is None or b"root:" not in reply.body


@pytest.mark.parametrize("path", ["/../{rest}", "/%2e%2e/{rest}", "/{bucket}/../{rest}", "/{bucket}/%2e%2e/{rest}"])
def test_no_path_leads_from_one_bucket_into_another(s3, alt, wire, target, make_bucket, path):
    theirs = make_bucket(alt)
    alt.put_object(Bucket=theirs, Key="secret", Body=b"secret")
    path = path.format(bucket=target.split("/")[1], rest=f"{theirs}/secret")
    reply = wire.send("GET", path)
    # An error names the path and the key that were asked for.
    assert reply.status in (400, 403, 404) and b"secret" not in re.sub(rb"<(Key|Resource)>[^<]*", b"", reply.body)


QUERIES = [
    "uploads&uploadId=x",
    "acl&tagging",
    "versionId=x&versionId=y",
    "partNumber=1&uploadId=",
    "list-type=9",
    "restore&select",
    "unknown-subresource",
    "x-id=GetObject",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_makes_no_sense_is_answered(wire, target, query):
    for method in ("GET", "PUT", "POST", "DELETE"):
        reply = wire.send(method, f"{target}-other?{query}", {}, b"")
        assert reply.status < 500 or reply.status == 501, (method, reply)


METADATA = {
    "value of 100 KB": {"x-amz-meta-a": "x" * 100_000},
    "many": {f"x-amz-meta-{index}": "x" * 20 for index in range(500)},
    "empty name": {"x-amz-meta-": "x"},
}


@pytest.mark.parametrize("case", METADATA)
def test_metadata_without_measure_is_refused(wire, target, case):
    reply = wire.exchange(_put(wire, target, METADATA[case]))
    assert turned_away(reply) or (case == "empty name" and reply.status == 200)
    if reply is not None and reply.status == 200:
        wire.send("PUT", target, {}, b"kept")


def _put(wire, target: str, fields: dict[str, str]) -> bytes:
    sealed = wire.seal("PUT", target, fields, UNSIGNED, wire.signer())
    head = "".join(f"{name}: {value}\r\n" for name, value in sealed.items())
    return f"PUT {target} HTTP/1.1\r\n{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()


def test_metadata_that_was_not_what_was_signed_is_refused_whatever_its_bytes(wire, target):
    sealed = wire.seal("PUT", target, {"x-amz-meta-a": "PLACE"}, UNSIGNED, wire.signer())
    head = "".join(f"{name}: {value}\r\n" for name, value in sealed.items()).replace("PLACE", "\xff\xfe")
    assert turned_away(wire.exchange(f"PUT {target} HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n".encode("latin-1"), hang_up=True))


@pytest.mark.parametrize("sent", [0, 1, 1000, 99_999])
def test_a_body_that_ends_too_soon_stores_nothing(wire, target, sent):
    sealed = wire.seal("PUT", target, {"Content-Length": "100000"}, UNSIGNED, wire.signer())
    head = f"PUT {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items()) + "\r\n"
    assert turned_away(wire.exchange(head.encode() + (CHUNK * 2)[:sent], hang_up=True))


def test_a_client_that_stops_in_the_middle_holds_up_nobody_else(wire, target):
    sealed = wire.seal("PUT", target, {"Content-Length": "100000"}, UNSIGNED, wire.signer())
    head = f"PUT {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items())
    stopped = []
    try:
        for index in range(64):
            connection = socket.create_connection(wire.address, timeout=30)
            # Some stop in the head, some in the body.
            connection.sendall(head.encode()[: 100 + index] if index % 2 else head.encode() + b"\r\n" + CHUNK[:1000])
            stopped.append(connection)
        with ThreadPoolExecutor(4) as pool:
            assert all(reply.body == b"kept" for reply in pool.map(lambda _: wire.send("GET", target), range(8)))
    finally:
        for connection in stopped:
            connection.close()


def test_clients_that_do_not_read_hold_up_nobody_else(s3, wire, bucket, target):
    s3.put_object(Bucket=bucket, Key="large", Body=bytes(20_000_000))
    sealed = wire.seal("GET", f"/{bucket}/large", {}, UNSIGNED, wire.signer())
    head = f"GET /{bucket}/large HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items()) + "\r\n"
    deaf = []
    try:
        # More than may read at once.
        for _ in range(80):
            connection = socket.create_connection(wire.address, timeout=30)
            connection.sendall(head.encode())
            deaf.append(connection)
        assert wire.send("GET", target).body == b"kept"
        assert s3.get_object(Bucket=bucket, Key="large")["Body"].read() == bytes(20_000_000)
        # Whoever begins to read after all gets everything.
        received = b""
        while len(received) < 20_000_000:
            piece = deaf[0].recv(1 << 20)
            assert piece, f"the answer ended after {len(received)} bytes"
            received += piece
    finally:
        for connection in deaf:
            connection.close()


def test_a_chunk_that_is_all_of_the_content_is_passed_on_as_it_comes(wire, target):
    content = bytes(range(256)) * 20_000
    body = b"%x\r\n" % len(content) + content + b"\r\n0\r\nx-amz-checksum-crc32:" + base64.b64encode(zlib.crc32(content).to_bytes(4)) + b"\r\n\r\n"
    fields = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(len(content)), "x-amz-trailer": "x-amz-checksum-crc32"}
    sealed = wire.seal("PUT", f"{target}-2", fields, UNSIGNED_CHUNKS_TRAILER, wire.signer())
    assert wire.send("PUT", f"{target}-2", sealed, body, anonymous=True).status == 200
    assert wire.send("GET", f"{target}-2").body == content


def test_a_signed_chunk_without_measure_is_refused(wire, target):
    body = b"%x;chunk-signature=%s\r\n" % (1 << 32, b"a" * 64) + bytes(1 << 20)
    fields = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(1 << 20)}
    sealed = wire.seal("PUT", target, fields, SIGNED_CHUNKS, wire.signer())
    reply = wire.send("PUT", target, sealed, body, anonymous=True)
    assert (reply.status, reply.code) == (400, "InvalidChunkSizeError")
    assert wire.send("GET", target).body == b"kept"


def test_requests_in_one_go_are_answered_in_turn(wire, target):
    one = f"GET {target} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in wire.seal("GET", target, {}, UNSIGNED, wire.signer()).items())
    with socket.create_connection(wire.address, timeout=30) as connection:
        connection.sendall((one + "\r\n").encode() * 2 + (one + "Connection: close\r\n\r\n").encode())
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    assert answer.count(b"HTTP/1.1 200") == 3 and answer.count(b"kept") == 3


def test_an_answer_that_comes_before_the_end_of_the_body_is_not_lost(s3, wire, bucket):
    """The client sends on for a while. If its connection were reset meanwhile, it would see an error and no 412."""
    s3.put_object(Bucket=bucket, Key="object", Body=b"kept")
    body = bytes(2 * 2**20)
    for _ in range(30):
        reply = wire.send("PUT", f"/{bucket}/object", {"If-None-Match": "*"}, body, payload=UNSIGNED)
        assert (reply.status, reply.code) == (412, "PreconditionFailed")
    assert wire.send("GET", f"/{bucket}/object").body == b"kept"


def test_a_client_that_waits_to_send_is_answered_before_it_does(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"kept")
    fields = {"If-None-Match": "*", "Expect": "100-continue", "Content-Length": "1000000"}
    sealed = wire.seal("PUT", f"/{bucket}/object", fields, UNSIGNED, wire.signer())
    head = f"PUT /{bucket}/object HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items()) + "\r\n"
    reply = wire.exchange(head.encode(), method="PUT")
    assert (reply.status, reply.code) == (412, "PreconditionFailed")
