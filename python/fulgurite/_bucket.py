"""Buckets of servers."""

from __future__ import annotations

import dataclasses
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from urllib.parse import quote, unquote_plus

from . import _native
from ._errors import FulguriteError, NotFound, Refused, Unavailable
from ._objects import BUFFER_BYTES, Objects, Part, RawFile, Selection, as_slice, range_of

#: What S3's errors mean, where the status doesn't say it.
_BY_CODE = {"InvalidObjectState": Unavailable, "SlowDown": Unavailable}


@dataclasses.dataclass(frozen=True, slots=True)
class Object:
    """An object of a bucket, as the server describes it."""

    name: str
    """Its key."""
    size: int
    """Length of the content in bytes."""
    etag: str
    """Its ETag, without quotes: the MD5 of the content, unless it was uploaded in parts."""
    modified: datetime | None
    """When it was stored, in UTC."""
    version_id: str | None = None
    """The version, if the bucket keeps versions. Lists don't have it."""
    storage_class: str | None = None
    """`GLACIER` or `DEEP_ARCHIVE` if it must be restored before it can be read."""
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    """Metadata stored by the client. Lists don't have it."""
    content_type: str | None = None
    """Its media type. Lists don't have it."""


class Bucket(Objects):
    """A bucket at a server, open for reading. `fulgurite.connect` makes one.

    Several threads may use one object. It survives a fork.
    """

    def __init__(self, native: _native.Server) -> None:
        self._native = native

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return self._native.endpoint

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self._native.bucket

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.closed

    def close(self) -> None:
        """Closes its connections. Reading fails from then on."""
        self._native.close()

    def __enter__(self) -> Bucket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Bucket {self.name} at {self.endpoint}{' (closed)' if self.closed else ''}>"

    def list(self, prefix: str = "", *, delimiter: str = "") -> Iterator[Object | str]:
        """The objects whose keys begin with `prefix`, in the order of the bytes of their keys.

        With a `delimiter`, usually `/`, keys that have it after the prefix are left out; for each
        beginning up to the delimiter, that beginning is returned as a `str`.
        """
        token: str | None = None
        while True:
            query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, "delimiter": delimiter}
            if token is not None:
                query["continuation-token"] = token
            page = _parse(self._request("GET", "", query, what=f"the bucket {self.name}")[1])
            yield from _listed(page)
            token = page.findtext("NextContinuationToken")
            if page.findtext("IsTruncated") != "true":
                return
            if token is None:
                raise FulguriteError("the server's list is cut off, and doesn't say where it continues")

    def info(self, key: str | bytes, *, version_id: str | None = None) -> Object:
        """The newest version of an object, or the version with this identifier.

        Raises `NotFound` if there is none, and `Refused` if the account may not read it.
        """
        headers, _ = self._request("HEAD", key, _version(version_id))
        return _described(_text(key), headers)

    def get(
        self, key: str | bytes, start: int = 0, end: int | None = None, *, version_id: str | None = None
    ) -> bytes:
        return self._read(_text(key), start, end, _version(version_id))

    def _read(
        self, key: str, start: int, end: int | None, query: dict[str, str], etag: str | None = None
    ) -> bytes:
        as_slice(start, end, 0)
        headers = {} if etag is None else {"If-Match": f'"{etag}"'}
        if end is not None and end <= start:
            self._request("HEAD", key, query, headers)
            return b""
        if start > 0 or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        return self._request("GET", key, query, headers, beyond_is_empty=True)[1]

    def open(self, key: str | bytes, *, version_id: str | None = None) -> io.BufferedReader:
        """An object as a file, for reading.

        If the object is replaced meanwhile, reading fails: a file never has bytes of two versions.
        """
        described = self.info(key, version_id=version_id)
        query = _version(version_id or described.version_id)

        def read(start: int, end: int) -> bytes:
            return self._read(described.name, start, end, query, described.etag)

        return io.BufferedReader(RawFile(described.name, described.size, read), BUFFER_BYTES)

    def _select(self, names: Sequence[str | bytes], parts: Sequence[Part] | None) -> Selection:
        keys = [_text(name) for name in names]
        if parts is None:
            return self._native.select(keys, None, None)
        return self._native.select(keys, [part.version_id for part in parts], [range_of(part) for part in parts])

    def _request(
        self,
        method: str,
        key: str | bytes,
        query: dict[str, str],
        headers: dict[str, str] | None = None,
        *,
        what: str | None = None,
        beyond_is_empty: bool = False,
    ) -> tuple[dict[str, str], bytes]:
        key = _text(key)
        # An empty key would be the bucket.
        if not key and what is None:
            raise NotFound("an empty key")
        path = f"/{quote(self.name)}" + (f"/{quote(key)}" if key else "")
        if query:
            path += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
        status, received, body = self._native.request(method, path, list((headers or {}).items()))
        if status in (200, 206):
            return dict(received), body
        if status == 416 and beyond_is_empty:
            return {}, b""
        raise _error(what or key, status, body)


def _version(version_id: str | None) -> dict[str, str]:
    return {} if version_id is None else {"versionId": version_id}


def _text(key: str | bytes) -> str:
    """A key of S3, which is UTF-8."""
    try:
        text = key.decode() if isinstance(key, bytes) else key
        text.encode()
    except UnicodeError:
        raise NotFound(f"{key!r} isn't UTF-8, and no key of S3") from None
    if not isinstance(text, str):
        raise TypeError("a key is a str or bytes")
    return text


def _parse(body: bytes) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise FulguriteError(f"the server's response isn't XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _listed(page: ElementTree.Element) -> list[Object | str]:
    def object_of(element: ElementTree.Element) -> Object:
        def text(name: str) -> str:
            return element.findtext(name) or ""

        storage_class = text("StorageClass")
        return Object(
            name=unquote_plus(text("Key")),
            size=int(text("Size")),
            etag=text("ETag").strip('"'),
            modified=datetime.fromisoformat(text("LastModified")),
            storage_class=storage_class if storage_class != "STANDARD" else None,
        )

    listed: list[Object | str] = [object_of(element) for element in page.iter("Contents")]
    listed += [unquote_plus(element.findtext("Prefix") or "") for element in page.iter("CommonPrefixes")]
    return sorted(listed, key=lambda one: (one if isinstance(one, str) else one.name).encode())


def _described(key: str, headers: dict[str, str]) -> Object:
    modified = headers.get("last-modified")
    prefix = "x-amz-meta-"
    return Object(
        name=key,
        size=int(headers.get("content-length", "0")),
        etag=headers.get("etag", "").strip('"'),
        modified=parsedate_to_datetime(modified).astimezone(UTC) if modified else None,
        version_id=headers.get("x-amz-version-id"),
        storage_class=headers.get("x-amz-storage-class"),
        metadata={name.removeprefix(prefix): text for name, text in headers.items() if name.startswith(prefix)},
        content_type=headers.get("content-type"),
    )


def _error(what: str, status: int, body: bytes) -> FulguriteError:
    code = message = ""
    if body:
        try:
            root = _parse(body)
            code, message = root.findtext("Code") or "", root.findtext("Message") or ""
        except FulguriteError:
            pass
    words = ": ".join(filter(None, [what, f"{status} {code}".strip(), message]))
    if code in _BY_CODE:
        return _BY_CODE[code](words)
    if status in (404, 405):
        return NotFound(words)
    if status == 403:
        return Refused(words)
    if status == 412:
        return Unavailable(f"{what}: it was replaced while it was read")
    return Unavailable(words) if status >= 500 else FulguriteError(words)
