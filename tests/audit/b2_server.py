"""A stand-in for Backblaze B2, which has no emulator: the calls of its native API that opendal makes.

    python b2_server.py FOLDER PORT TOKEN_LIFE_S

Written from Backblaze's documentation of version 2. A file is kept in FOLDER under its percent-encoded name, with the SHA-1 that
it had at the upload beside it. There is one bucket, `bucket`, with the identifier `b0b0`, and one key, `key` with `testing`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

BUCKET, BUCKET_ID, KEY_ID, KEY = "bucket", "b0b0", "key", "testing"
# Of a part, except the last.
PART_BYTES_MIN = 5_000_000


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.answer = (status, {"status": status, "code": code, "message": message})


class Store:
    def __init__(self, folder: Path, token_life_s: float) -> None:
        self.folder, self.token_life_s = folder, token_life_s
        self.tokens: dict[str, float] = {}
        # Tokens that permit downloads of names that begin with a prefix.
        self.prefixes: dict[str, str] = {}
        self.large: dict[str, tuple[str, dict[int, bytes]]] = {}
        self.lock = threading.Lock()

    def token(self, prefix: str | None = None, life_s: float | None = None) -> str:
        token = f"4_{uuid.uuid4().hex}"
        self.tokens[token] = time.monotonic() + (life_s or self.token_life_s)
        if prefix is not None:
            self.prefixes[token] = prefix
        return token

    def check(self, token: str, name: str | None = None) -> None:
        if token not in self.tokens or (token in self.prefixes and not (name or "").startswith(self.prefixes[token])):
            raise Refused(401, "bad_auth_token", "Invalid authorization token")
        if time.monotonic() > self.tokens[token]:
            raise Refused(401, "expired_auth_token", "Authorization token has expired")

    def path(self, name: str) -> Path:
        return self.folder / quote(name, safe="")

    def add(self, name: str, content: bytes, sha1: str) -> dict[str, object]:
        self.path(name).with_name(self.path(name).name + ".sha1").write_text(sha1)
        self.path(name).write_bytes(content)
        return self.describe(name)

    def describe(self, name: str) -> dict[str, object]:
        path = self.path(name)
        sha1 = path.with_name(path.name + ".sha1").read_text()
        length = path.stat().st_size
        return {"action": "upload", "fileId": f"4_{path.name}", "fileName": name, "contentLength": length, "contentSha1": sha1, "contentType": "text/plain", "fileInfo": {}}

    def names(self) -> list[str]:
        return sorted((unquote(path.name) for path in self.folder.iterdir() if path.suffix != ".sha1"), key=str.encode)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise a body waits until its head was acknowledged.
    disable_nagle_algorithm = True
    store: Store

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        try:
            with self.store.lock:
                if url.path.startswith("/file/"):
                    self.download(unquote(url.path).removeprefix("/file/"))
                    return
                call = getattr(self, url.path.rsplit("/", 1)[-1].removeprefix("b2_"), None)
                if not re.fullmatch(r"/b2api/v2/b2_[a-z_]+", url.path) or call is None:
                    raise Refused(400, "bad_request", f"no such call: {url.path}")
                if not url.path.endswith("/b2_authorize_account"):
                    self.store.check(self.headers.get("Authorization", ""))
                self.answer(200, call())
        except Refused as refused:
            self.answer(*refused.answer)

    do_GET = do_HEAD = do_POST = handle_any

    def answer(self, status: int, body: object) -> None:
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass

    def origin(self) -> str:
        return f"http://{self.headers['Host']}"

    def json(self) -> dict[str, object]:
        return json.loads(self.body)

    def of_bucket(self, identifier: object) -> None:
        if identifier != BUCKET_ID:
            raise Refused(400, "bad_bucket_id", f"Invalid bucketId: {identifier}")

    # The calls, by their names without b2_.

    def authorize_account(self) -> object:
        expected = base64.b64encode(f"{KEY_ID}:{KEY}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {expected}":
            raise Refused(401, "unauthorized", f"invalid key: {self.headers.get('Authorization')}")
        return {"accountId": "a", "authorizationToken": self.store.token(), "apiUrl": self.origin(), "downloadUrl": self.origin()}

    def list_file_names(self) -> object:
        self.of_bucket(self.query["bucketId"])
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        names = [name for name in self.store.names() if name.startswith(prefix) and name.encode() >= self.query.get("startFileName", "").encode()]
        found: list[dict[str, object]] = []
        for name in names:
            rest = name.removeprefix(prefix)
            folder = prefix + rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else None
            entry = {"action": "folder", "fileId": None, "fileName": folder, "contentLength": 0} if folder else self.store.describe(name)
            if not found or found[-1]["fileName"] != entry["fileName"]:
                found.append(entry)
        limit = int(self.query.get("maxFileCount", 100))
        return {"files": found[:limit], "nextFileName": found[limit]["fileName"] if len(found) > limit else None}

    def download(self, path: str) -> None:
        bucket, _, name = path.partition("/")
        self.store.check(self.headers.get("Authorization") or self.query.get("Authorization", ""), name)
        if bucket != BUCKET or not self.store.path(name).is_file():
            raise Refused(404, "not_found", "File with such name does not exist.")
        content = self.store.path(name).read_bytes()
        headers = {"X-Bz-Content-Sha1": str(self.store.describe(name)["contentSha1"]), "Content-Type": "text/plain", "Accept-Ranges": "bytes"}
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            if first > last:
                raise Refused(416, "range_not_satisfiable", "The Range header in the request is outside the size of the file.")
            self.send(206, content[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(content)}"})
        else:
            self.send(200, content, headers)

    def get_upload_url(self) -> object:
        self.of_bucket(self.query["bucketId"])
        return {"bucketId": BUCKET_ID, "uploadUrl": f"{self.origin()}/b2api/v2/b2_upload_file", "authorizationToken": self.store.token()}

    def upload_file(self) -> object:
        return self.store.add(unquote(self.headers["X-Bz-File-Name"]), self.body, self.uploaded_sha1())

    def uploaded_sha1(self) -> str:
        claimed, sha1 = self.headers["X-Bz-Content-Sha1"], hashlib.sha1(self.body).hexdigest()
        if claimed not in (sha1, "do_not_verify"):
            raise Refused(400, "bad_request", "Checksum did not match data received")
        return sha1 if claimed == sha1 else f"unverified:{sha1}"

    def hide_file(self) -> object:
        name = str(self.json()["fileName"])
        self.of_bucket(self.json()["bucketId"])
        if not self.store.path(name).is_file():
            raise Refused(400, "no_such_file", "File not present: " + name)
        hidden = self.store.describe(name)
        self.store.path(name).unlink()
        return hidden | {"action": "hide"}

    def get_download_authorization(self) -> object:
        body = self.json()
        self.of_bucket(body["bucketId"])
        prefix = str(body["fileNamePrefix"])
        return {"bucketId": BUCKET_ID, "fileNamePrefix": prefix, "authorizationToken": self.store.token(prefix, float(str(body["validDurationInSeconds"])))}

    def start_large_file(self) -> object:
        self.of_bucket(self.json()["bucketId"])
        identifier = f"4_{uuid.uuid4().hex}"
        self.store.large[identifier] = (str(self.json()["fileName"]), {})
        return {"fileId": identifier}

    def get_upload_part_url(self) -> object:
        identifier = self.query["fileId"]
        return {"fileId": identifier, "uploadUrl": f"{self.origin()}/b2api/v2/b2_upload_part?id={identifier}", "authorizationToken": self.store.token()}

    def upload_part(self) -> object:
        self.store.large[self.query["id"]][1][int(self.headers["X-Bz-Part-Number"])] = self.body
        return {"fileId": self.query["id"], "contentLength": len(self.body), "contentSha1": self.uploaded_sha1()}

    def finish_large_file(self) -> object:
        name, parts = self.store.large.pop(str(self.json()["fileId"]))
        pieces = [parts[number] for number in range(1, len(parts) + 1)]
        if self.json()["partSha1Array"] != [hashlib.sha1(piece).hexdigest() for piece in pieces] or len(pieces) < 2:
            raise Refused(400, "bad_request", "wrong checksums of parts")
        if any(len(piece) < PART_BYTES_MIN for piece in pieces[:-1]):
            raise Refused(400, "bad_request", "a part is too small")
        return self.store.add(name, b"".join(pieces), "none")

    def cancel_large_file(self) -> object:
        self.store.large.pop(str(self.json()["fileId"]))
        return {}


if __name__ == "__main__":
    (Path(sys.argv[1]) / "files").mkdir()
    Handler.store = Store(Path(sys.argv[1]) / "files", float(sys.argv[3]))
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
