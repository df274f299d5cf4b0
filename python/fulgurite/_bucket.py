"""Buckets of servers."""

from __future__ import annotations

import builtins
import dataclasses
import http.client
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote_plus

from . import _native
from ._errors import FulguriteError, NotFound, Refused, Unavailable
from ._objects import ObjectFile, Objects, Part, RawFile, Selection, as_range, range_of

#: What S3's errors mean, where the status doesn't say it.
_BY_CODE = {"InvalidObjectState": Unavailable, "SlowDown": Unavailable}
_ABSENT = {"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "MethodNotAllowed"}
#: The status of a response, among its headers.
_STATUS = ":status"


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
    """The version, if the bucket keeps versions. Only `info`, `versions` and
    `list(versions=True)` have it."""
    storage_class: str | None = None
    """`GLACIER` or `DEEP_ARCHIVE` if it must be restored before it can be read."""
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    """Metadata stored by the client. Lists don't have it."""
    content_type: str | None = None
    """Its media type. Lists don't have it."""
    kind: str = "file"
    """`file`, or `deletion-marker` in lists of versions."""


class Bucket(Objects):
    """A bucket at a server, open for reading. `fulgurite.connect` makes one.

    Several threads may use one object, and so may processes that were forked. It can be pickled; a
    pickle has the keys, if they were given.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        """Made by `fulgurite.connect`."""
        self._native = _native.Server(*arguments)
        self._arguments = arguments

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
        """Closes its connections. Reading fails from then on, except in `iter_many` that began."""
        self._native.close()

    def __enter__(self) -> Bucket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Bucket {self.name} at {self.endpoint}{' (closed)' if self.closed else ''}>"

    def __reduce__(self) -> tuple[Callable[..., Bucket], tuple[Any, ...]]:
        return _bucket_of, self._arguments

    def list(self, prefix: str | bytes = "", *, versions: bool = False) -> Iterator[Object]:
        """The objects whose keys begin with `prefix`, in the order of the bytes of their keys.

        With `versions=True` all versions of each key, the newest first, deletion markers included.
        """
        prefix = _text(prefix)
        if versions:
            return self._versions(prefix)
        return (entry for entry in self._pages(prefix, "") if isinstance(entry, Object))

    def list_folder(self, prefix: str | bytes = "") -> Iterator[Object | str]:
        """What is directly in a folder: its objects, and its folders as `str` that end with a slash.

        `prefix` ends with a slash, or is empty for the topmost folder.
        """
        return self._pages(_text(prefix), "/")

    def versions(self, key: str | bytes) -> Sequence[Object]:
        """All versions of an object, the newest first, deletion markers included."""
        key = _text(key)
        found = []
        # Longer keys follow.
        for entry in self._versions(key):
            if entry.name != key:
                break
            found.append(entry)
        return found

    def _names_of_buckets(self) -> builtins.list[str]:
        """The names of the buckets that the server lists for the account."""
        names: builtins.list[str] = []
        query: dict[str, str] = {}
        while True:
            _, body = self._send("GET", "/", query, what=f"the buckets at {self.endpoint}")
            page = _parse(body, "ListAllMyBucketsResult")
            names += [element.findtext("Name") or "" for element in page.iter("Bucket")]
            more = page.findtext("ContinuationToken")
            if not more or more == query.get("continuation-token"):
                return sorted(names)
            query = {"continuation-token": more}

    def _pages(self, prefix: str, delimiter: str) -> Iterator[Object | str]:
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, "delimiter": delimiter}
        more = {"continuation-token": "NextContinuationToken"}
        for page in self._listing(query, "ListBucketResult", more):
            yield from _listed(page)

    def _versions(self, prefix: str) -> Iterator[Object]:
        query = {"versions": "", "encoding-type": "url", "prefix": prefix}
        more = {"key-marker": "NextKeyMarker", "version-id-marker": "NextVersionIdMarker"}
        for page in self._listing(query, "ListVersionsResult", more):
            yield from _listed_versions(page)

    def _listing(self, query: dict[str, str], tag: str, more: dict[str, str]) -> Iterator[ElementTree.Element]:
        """The pages of a list. `more` says which parameters of the next page are where in a page."""
        seen: set[tuple[str, ...]] = set()
        while True:
            page = _parse(self._request("GET", "", query, what=f"the bucket {self.name}")[1], tag)
            yield page
            if (page.findtext("IsTruncated") or "").lower() != "true":
                return
            decode = _decoder(page)
            at = tuple(decode(page.findtext(element) or "") for element in more.values())
            if not at[0] or at in seen:
                raise FulguriteError("the server's list is cut off, and doesn't say where it continues")
            seen.add(at)
            query |= dict(zip(more, at, strict=True))

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
        start, end = as_range(start, end)
        headers = {} if etag is None else {"If-Match": f'"{etag}"'}
        if end is not None and end <= start:
            self._request("HEAD", key, query, headers)
            return b""
        if start == 0 and end is None:
            return self._request("GET", key, query, headers)[1]
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        received, body = self._request("GET", key, query, headers)
        found = received.get("content-range")
        if received[_STATUS] == "416":
            # A range beyond the end is empty, as in slices.
            size = re.fullmatch(r"bytes \*/(\d+)", found or "")
            if size is not None and start < int(size[1]):
                raise FulguriteError(f"{key}: the server refuses a range within the object")
            return b""
        if received[_STATUS] == "200":
            # The server ignores ranges.
            return body[start:end]
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", found or "")
        if match is None or int(match[1]) != start or int(match[2]) - start + 1 != len(body) or (end is not None and int(match[2]) >= end):
            raise FulguriteError(f"{key}: the server sent another range than was requested: {found}")
        return body

    def open(self, key: str | bytes, *, version_id: str | None = None) -> ObjectFile:
        """An object as a file, for reading.

        If the object is replaced meanwhile, reading fails: a file never has bytes of two versions.
        """
        described = self.info(key, version_id=version_id)
        query = _version(version_id or described.version_id)

        def read(start: int, end: int) -> bytes:
            return self._read(described.name, start, end, query, described.etag or None)

        return ObjectFile(RawFile(described.name, described.size, read))

    def _select(self, names: Sequence[str | bytes], parts: Sequence[Part] | None) -> Selection:
        keys = builtins.list(names)
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
    ) -> tuple[dict[str, str], bytes]:
        key = _text(key)
        # An empty key would be the bucket.
        if not key and what is None:
            raise NotFound("an empty key")
        path = f"/{quote(self.name)}" + (f"/{quote(key)}" if key else "")
        return self._send(method, path, query, headers, what=what or f"{self.name}/{key}")

    def _send(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str] | None = None, *, what: str
    ) -> tuple[dict[str, str], bytes]:
        """Requests an escaped path. Errors name `what` was requested."""
        if query:
            path += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
        sent = builtins.list((headers or {}).items())
        status, received, body = self._native.request(method, path, sent)
        expected = (200, 206, 416) if "Range" in (headers or {}) else (200,)
        if status in expected:
            return dict(received) | {_STATUS: str(status)}, body
        raise _error(what, method, status, body)


def _version(version_id: str | None) -> dict[str, str]:
    return {} if version_id is None else {"versionId": version_id}


def _text(key: str | bytes) -> str:
    """A key of S3, which is UTF-8."""
    if not isinstance(key, (str, bytes)):
        raise TypeError("a key is a str or bytes")
    try:
        text = key.decode() if isinstance(key, bytes) else key
        text.encode()
    except UnicodeError:
        raise NotFound(f"{key!r} isn't UTF-8, so it is no key of S3") from None
    return text


def _parse(body: bytes, tag: str) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise FulguriteError(f"the server's response isn't XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != tag:
        raise FulguriteError(f"the server's response isn't one of S3: it is <{root.tag}>, and <{tag}> was expected")
    return root


def _bucket_of(*arguments: Any) -> Bucket:
    return Bucket(arguments)


def _decoder(page: ElementTree.Element) -> Callable[[str], str]:
    return unquote_plus if page.findtext("EncodingType") == "url" else str


def _object_of(element: ElementTree.Element, decode: Callable[[str], str]) -> Object:
    def text(name: str) -> str:
        return element.findtext(name) or ""

    storage_class = text("StorageClass")
    return Object(
        name=decode(text("Key")),
        size=int(text("Size")) if element.tag != "DeleteMarker" else 0,
        etag=text("ETag").strip('"'),
        modified=datetime.fromisoformat(text("LastModified")) if text("LastModified") else None,
        version_id=text("VersionId") or None,
        storage_class=storage_class if storage_class not in ("", "STANDARD") else None,
        kind="deletion-marker" if element.tag == "DeleteMarker" else "file",
    )


def _listed_versions(page: ElementTree.Element) -> list[Object]:
    decode = _decoder(page)
    try:
        return [_object_of(element, decode) for element in page if element.tag in ("Version", "DeleteMarker")]
    except ValueError as error:
        raise FulguriteError(f"the server's list is malformed: {error}") from None


def _listed(page: ElementTree.Element) -> list[Object | str]:
    decode = _decoder(page)
    try:
        listed: list[Object | str] = [_object_of(element, decode) for element in page.iter("Contents")]
    except ValueError as error:
        raise FulguriteError(f"the server's list is malformed: {error}") from None
    listed += [decode(element.findtext("Prefix") or "") for element in page.iter("CommonPrefixes")]
    return sorted(listed, key=lambda one: (one if isinstance(one, str) else one.name).encode())


def _described(key: str, headers: dict[str, str]) -> Object:
    prefix = "x-amz-meta-"
    try:
        size = int(headers["content-length"])
        modified = headers.get("last-modified")
        date = parsedate_to_datetime(modified).astimezone(UTC) if modified else None
    except (KeyError, ValueError):
        size, date = -1, None
    if size < 0:
        raise FulguriteError(f"{key}: the server doesn't say how large it is, or when it was stored")
    return Object(
        name=key,
        size=size,
        etag=headers.get("etag", "").strip('"'),
        modified=date,
        version_id=headers.get("x-amz-version-id"),
        storage_class=headers.get("x-amz-storage-class"),
        metadata={name.removeprefix(prefix): text for name, text in headers.items() if name.startswith(prefix)},
        content_type=headers.get("content-type"),
    )


def _error(what: str, method: str, status: int, body: bytes) -> FulguriteError:
    code = message = ""
    if body:
        try:
            root = _parse(body, "Error")
            code, message = root.findtext("Code") or "", root.findtext("Message") or ""
        except FulguriteError:
            pass
    reason = message or http.client.responses.get(status, "")
    if code == "InvalidObjectState":
        reason = reason.removesuffix(".") + ". It must be restored first."
    words = ": ".join(filter(None, [what, f"{status} {code}".strip(), reason]))
    if code in _BY_CODE:
        return _BY_CODE[code](words)
    # A response to HEAD has no body, and 405 is that of a deletion marker.
    if code in _ABSENT or method == "HEAD" and status in (404, 405):
        return NotFound(words)
    if status == 403:
        return Refused(words)
    if status == 412:
        return Unavailable(f"{what}: it was replaced while it was read")
    return Unavailable(words) if status >= 500 else FulguriteError(words)
