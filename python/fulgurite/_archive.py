"""Archives, read where they are."""

from __future__ import annotations

import builtins
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from . import _native
from ._errors import IncompleteWarning
from ._objects import Objects, Part, Selection

Entry = _native.Entry

_PAGE = 1_000
#: Content that is fetched at once from a file's position.
_BUFFER_BYTES = 1 << 20


class Archive(Objects):
    """An archive in a folder of this machine, open for reading. It needs no server.

    Another program may write to it meanwhile, such as `fulgurite serve` or `fulgurite put`. Several
    threads may use one object. It survives a fork (the child opens the archive again) and can be
    pickled (as its folder).

    Objects that `fulgurite serve` stores are named `BUCKET/KEY`. Names are `str`; where they aren't
    UTF-8, their bytes become lone surrogates, as in names of files. `bytes` are accepted too.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._native = _native.Archive(os.fspath(folder))

    @property
    def folder(self) -> Path:
        """The archive's folder."""
        return Path(self._native.home)

    @property
    def id(self) -> str:
        """The archive's identifier."""
        return self._native.id

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.closed

    def close(self) -> None:
        """Closes its files. Reading fails from then on."""
        self._native.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Archive], tuple[str]]:
        return type(self), (str(self.folder),)

    def __repr__(self) -> str:
        return f"<Archive {self.folder}{' (closed)' if self.closed else ''}>"

    def list(self, prefix: str | bytes = "", *, versions: bool = False) -> Iterator[Entry]:
        """The objects whose names begin with `prefix`, in the order of the bytes of their names.

        With `versions=True` all versions of each name, the newest first, deletion markers included.
        Warns with `IncompleteWarning` if the catalogue has gaps, so that objects may be missing.
        """
        if gaps := self._native.gaps():
            warnings.warn(f"the catalogue is incomplete: {gaps}", IncompleteWarning, stacklevel=2)
        return self._listed(prefix, versions)

    def _listed(self, prefix: str | bytes, versions: bool) -> Iterator[Entry]:
        after: Entry | None = None
        while True:
            entries, after = self._native.page(prefix, versions, after, _PAGE)
            yield from entries
            if after is None:
                return

    def info(self, key: str | bytes, *, version_id: str | None = None) -> Entry:
        """The newest version of an object, or the version with this identifier.

        Raises `NotFound` if there is none. Warns with `IncompleteWarning` if the catalogue has gaps,
        so that a newer version may exist.
        """
        entry = self._native.info(key, version_id)
        if version_id is None:
            self._warn_if_doubtful(entry)
        return entry

    def versions(self, key: str | bytes) -> Sequence[Entry]:
        """All versions of an object, the newest first, deletion markers included."""
        return self._native.versions(key)

    def get(
        self, key: str | bytes, start: int = 0, end: int | None = None, *, version_id: str | None = None
    ) -> bytes:
        entry = self.info(key, version_id=version_id)
        return self._read(entry, start, end)

    def _read(self, entry: Entry, start: int, end: int | None) -> bytes:
        start, end = _range(start, end, entry.size)
        return self._native.read(entry, start, end)[0]

    def open(self, key: str | bytes, *, version_id: str | None = None) -> io.BufferedReader:
        """An object as a file, for reading. It stays the version that was opened.

        What is read was checked by the tags of its frames of 64 KiB, but not against the digest of
        the whole object: `get` does that.
        """
        entry = self.info(key, version_id=version_id)
        return io.BufferedReader(_ObjectFile(self, entry), _BUFFER_BYTES)

    def _warn_if_doubtful(self, entry: Entry) -> None:
        if doubts := self._native.doubts(entry):
            message = f"a newer version of {entry.name!r} may exist, because the catalogue is incomplete: {doubts}"
            warnings.warn(message, IncompleteWarning, stacklevel=4)

    def _select(self, names: Sequence[str | bytes], parts: Sequence[Part] | None) -> Selection:
        if parts is None:
            selection = self._native.select(builtins.list(names), None, None)
        else:
            ids = [part.version_id for part in parts]
            ranges = [_range_or_none(part) for part in parts]
            selection = self._native.select(builtins.list(names), ids, ranges)
        if doubts := selection.doubts():
            message = f"newer versions may exist, because the catalogue is incomplete: {doubts}"
            warnings.warn(message, IncompleteWarning, stacklevel=4)
        return selection


def _range(start: int, end: int | None, size: int) -> tuple[int, int]:
    """A range within `size` bytes, as in a slice, but without negative numbers."""
    if start < 0 or (end is not None and end < 0):
        raise ValueError("start and end are counted from the beginning, and not negative")
    start = min(start, size)
    return start, max(start, size if end is None else min(end, size))


def _range_or_none(part: Part) -> tuple[int, int | None] | None:
    if part.start < 0 or (part.end is not None and part.end < part.start):
        raise ValueError(f"{part} is not a range")
    return None if part.start == 0 and part.end is None else (part.start, part.end)


class _ObjectFile(io.RawIOBase):
    """An object as a raw file."""

    def __init__(self, archive: Archive, entry: Entry) -> None:
        super().__init__()
        self._archive = archive
        self._entry = entry
        self._at = 0

    @property
    def name(self) -> str:
        return self._entry.name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._entry.size}.get(whence)
        if base is None:
            raise ValueError("whence is 0, 1 or 2")
        if base + offset < 0:
            raise ValueError("a position before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._check_open()
        view = memoryview(buffer).cast("B")
        content = self._archive._read(self._entry, self._at, self._at + len(view))
        view[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
