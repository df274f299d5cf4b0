"""Requests made by hand: what an SDK refuses to send, or mends on the way, and what it hides of the answer.

    Wire.send        one request with signature V4 in its header, or none; every part of it can be falsified
    Wire.send_chunks a PUT in chunks (aws-chunked), signed or unsigned, with a trailer or without
    Wire.exchange    bytes onto a socket, as they are

The signature is written from AWS's "Signature Calculations for the Authorization Header" and shares no code with boto3.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import pytest
from botocore.exceptions import ClientError

# Long enough for a busy machine; whoever has not answered by then hangs.
ANSWER_S = 30
# Between one machine and the next only, so they are not signed.
FRAMING = {"content-length", "transfer-encoding", "expect"}
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@contextmanager
def refused(code: str | set[str], status: int | set[int]):
    """The call inside is refused with this error. HEAD has no body, so botocore gives its status as code."""
    with pytest.raises(ClientError) as caught:
        yield caught
    response = caught.value.response
    found = (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"])
    codes, statuses = ({code} if isinstance(code, str) else code), ({status} if isinstance(status, int) else status)
    assert found[0] in codes and found[1] in statuses, f"refused with {found}, expected {codes} with status {statuses}"


def status(answer: dict) -> int:
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def headers(answer: dict) -> dict[str, str]:
    return answer["ResponseMetadata"]["HTTPHeaders"]


@dataclass(frozen=True)
class Account:
    access_key: str
    secret_key: str


@dataclass(frozen=True)
class Server:
    endpoint: str
    region: str
    main: Account
    alt: Account | None


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def code(self) -> str | None:
        """The error code of S3, if the body is an error."""
        try:
            return ElementTree.fromstring(self.body).findtext("{*}Code")
        except ElementTree.ParseError:
            return None


def encode(text: str, safe: str = "-_.~") -> str:
    return quote(text, safe=safe)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Signer:
    """The signature of one request, and of the chunks that follow it."""

    account: Account
    region: str
    when: datetime
    service: str = "s3"
    signature: str = ""

    @property
    def stamp(self) -> str:
        return self.when.strftime("%Y%m%dT%H%M%SZ")

    @property
    def scope(self) -> str:
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def _sign(self, text: str) -> str:
        key = f"AWS4{self.account.secret_key}".encode()
        for step in self.scope.split("/"):
            key = hmac.digest(key, step.encode(), "sha256")
        self.signature = hmac.digest(key, text.encode(), "sha256").hex()
        return self.signature

    def _request(self, method: str, target: str, fields: dict[str, str], payload: str) -> str:
        path, _, query = target.partition("?")
        query = "&".join(sorted(part if "=" in part else f"{part}=" for part in query.split("&") if part))
        signed = sorted((name.lower(), " ".join(value.split())) for name, value in fields.items())
        names = ";".join(name for name, _ in signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed)
        request = "\n".join([method, path, query, lines, names, payload])
        return self._sign("\n".join(["AWS4-HMAC-SHA256", self.stamp, self.scope, _sha256(request.encode())]))

    def authorization(self, method: str, target: str, fields: dict[str, str], payload: str) -> str:
        signature = self._request(method, target, fields, payload)
        names = ";".join(sorted(name.lower() for name in fields))
        return f"AWS4-HMAC-SHA256 Credential={self.account.access_key}/{self.scope}, SignedHeaders={names}, Signature={signature}"

    def presign(self, method: str, target: str, host: str, seconds: int) -> str:
        """`target` with a signature in its query, for a client that sends no header but its host."""
        credential = encode(f"{self.account.access_key}/{self.scope}")
        query = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={self.stamp}"
        target += f"{'&' if '?' in target else '?'}{query}&X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host"
        return f"{target}&X-Amz-Signature={self._request(method, target, {'Host': host}, UNSIGNED)}"

    def form(self, policy: str) -> dict[str, str]:
        """The fields of a form that sign its policy, in Base64."""
        own = {"x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-credential": f"{self.account.access_key}/{self.scope}", "x-amz-date": self.stamp}
        return own | {"policy": policy, "x-amz-signature": self._sign(policy)}

    def chunk(self, data: bytes) -> str:
        lines = ["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, self.signature, _sha256(b""), _sha256(data)]
        return self._sign("\n".join(lines))

    def trailer(self, line: str) -> str:
        return self._sign("\n".join(["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, self.signature, _sha256(line.encode())]))


@dataclass(frozen=True)
class Wire:
    server: Server

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.server.endpoint)
        return parts.hostname or "", parts.port or 80

    @property
    def host(self) -> str:
        return urlsplit(self.server.endpoint).netloc

    def signer(self, account: Account | None = None, when: datetime | None = None, region: str | None = None) -> Signer:
        return Signer(account or self.server.main, region or self.server.region, when or datetime.now(UTC))

    def seal(self, method: str, target: str, fields: dict[str, str], payload: str, signer: Signer) -> dict[str, str]:
        """`fields` with those of the signature."""
        given = {name.lower() for name in fields}
        own = {"Host": self.host, "x-amz-date": signer.stamp, "x-amz-content-sha256": payload}
        fields = fields | {name: value for name, value in own.items() if name.lower() not in given}
        signed = {name: value for name, value in fields.items() if name.lower() not in FRAMING}
        return fields | {"Authorization": signer.authorization(method, target, signed, payload)}

    def send(
        self,
        method: str,
        target: str,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        signer: Signer | None = None,
        payload: str | None = None,
        anonymous: bool = False,
        tamper: Callable[[dict[str, str]], object] = lambda fields: None,
    ) -> Reply:
        """Sends one request. `target` is the path and query, encoded. `tamper` changes the headers after they were signed."""
        fields = {"Host": self.host} | (fields or {})
        if not {"Content-Length", "Transfer-Encoding"} & fields.keys() and (body or method in ("PUT", "POST")):
            fields["Content-Length"] = str(len(body))
        if not anonymous:
            payload = payload or _sha256(body)
            fields = self.seal(method, target, fields, payload, signer or self.signer())
        tamper(fields)
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        reply = self.exchange(head.encode() + b"Connection: close\r\n\r\n" + body, method=method)
        assert reply is not None, f"{method} {target}: the connection was closed without an answer"
        return reply

    def send_chunks(
        self,
        target: str,
        chunks: list[bytes],
        *,
        payload: str = SIGNED_CHUNKS,
        trailer: tuple[str, str] | None = None,
        declared: str | None = None,
        fields: dict[str, str] | None = None,
        length: int | None = None,
        tamper: Callable[[bytes], bytes] = lambda body: body,
    ) -> Reply:
        """Puts `chunks`. `declared` is the name in x-amz-trailer, if it is to differ; `tamper` changes the framed body."""
        signer, signed = self.signer(), payload != UNSIGNED_CHUNKS_TRAILER
        size = sum(map(len, chunks)) if length is None else length
        own = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(size)}
        if trailer or declared:
            own["x-amz-trailer"] = declared or trailer[0]
        # The length is part of what is signed, and doesn't depend on what the signatures are.
        framed = self._frame(chunks, trailer, signer if signed else None)
        own["Content-Length"] = str(len(framed))
        sealed = self.seal("PUT", target, own | (fields or {}), payload, signer)
        framed = self._frame(chunks, trailer, signer if signed else None)
        return self.send("PUT", target, sealed, tamper(framed), anonymous=True)

    @staticmethod
    def _frame(chunks: list[bytes], trailer: tuple[str, str] | None, signer: Signer | None) -> bytes:
        framed = b""
        for chunk in [*chunks, b""]:
            extension = f";chunk-signature={signer.chunk(chunk)}" if signer else ""
            framed += f"{len(chunk):x}{extension}\r\n".encode() + (chunk + b"\r\n" if chunk else b"")
        if trailer:
            name, value = trailer
            framed += f"{name}:{value}\r\n".encode()
            if signer:
                signature = signer.trailer(f"{name}:{value}\n")
                framed += f"x-amz-trailer-signature:{signature}\r\n".encode()
        return framed + b"\r\n"

    def exchange(self, data: bytes, *, method: str = "GET", hang_up: bool = False) -> Reply | None:
        """Sends bytes and reads one answer, or nothing if the server closes the connection first. `hang_up` ends our side after them."""
        with socket.create_connection(self.address, timeout=ANSWER_S) as connection:
            try:
                connection.sendall(data)
                if hang_up:
                    connection.shutdown(socket.SHUT_WR)
            except TimeoutError:
                raise
            except OSError:
                # Closed before all was read, with an answer or without.
                pass
            response = http.client.HTTPResponse(connection, method=method)
            try:
                response.begin()
                body = response.read()
            except TimeoutError:
                raise
            except (http.client.HTTPException, OSError):
                return None
            return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)
