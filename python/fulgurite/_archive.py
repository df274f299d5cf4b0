"""Archives, read where they are."""

from __future__ import annotations

import builtins
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import cast

from . import _native
from ._errors import IncompleteWarning, Unavailable
from ._objects import ObjectFile, Objects, Part, RawFile, Selection, as_slice, range_of

Entry = _native.Entry

_PAGE = 1_000
#: How often a read begins again because the newest version was replaced before it was read.
_SUCCESSORS_MAX = 9


def _replaced(key: str | bytes) -> Unavailable:
    return Unavailable(f"{key if isinstance(key, str) else repr(key)}: it was replaced again and again before it was read")


class Archive(Objects):
    """An archive in a folder of this machine, open for reading. It needs no server.

    Another program may write to it meanwhile, such as `fulgurite serve` or `fulgurite put`. Several
    threads may use one object. It can be pickled (as its folder), but not used in a process that was
    forked after it was opened: use the start methods "spawn" or "forkserver". If another archive
    replaces it in the folder, reading raises `FulguriteError`.

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
        """Closes its files. Reading fails from then on, in open files too.

        Only `iter_many` goes on, and lists of which an item was taken. They keep the archive's
        files open until they end.
        """
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
        self._warn_of_gaps()
        return cast(Iterator[Entry], self._pages(prefix, versions, folders=False))

    def list_folder(self, prefix: str | bytes = "") -> Iterator[Entry | str]:
        """What is directly in a folder: its objects, and its folders as `str` that end with a slash.

        `prefix` ends with a slash, or is empty for the topmost folder. Warns as `list` does.
        """
        self._warn_of_gaps()
        return self._pages(prefix, versions=False, folders=True)

    def _pages(self, prefix: str | bytes, versions: bool, folders: bool) -> Iterator[Entry | str]:
        after: _native.Cursor | None = None
        while True:
            entries, after = self._native.page(prefix, versions, folders, after, _PAGE)
            yield from entries
            if after is None:
                return

    def info(self, key: str | bytes, *, version_id: str | None = None) -> Entry:
        """The newest version of an object, or the version with this identifier.

        Raises `NotFound` if there is none, also if the identifier is malformed. Warns with
        `IncompleteWarning` if the catalogue has gaps, so that a newer version may exist.
        """
        entry = self._native.info(key, version_id)
        if version_id is None:
            self._warn_if_doubtful(entry)
        return entry

    def versions(self, key: str | bytes) -> Sequence[Entry]:
        """All versions of an object, the newest first, deletion markers included.

        Warns with `IncompleteWarning` if the catalogue has gaps, so that versions may be missing.
        """
        self._warn_of_gaps()
        return self._native.versions(key)

    def get(
        self, key: str | bytes, start: int = 0, end: int | None = None, *, version_id: str | None = None
    ) -> bytes:
        for _ in range(_SUCCESSORS_MAX):
            entry = self.info(key, version_id=version_id)
            content = self._native.read(entry, *as_slice(start, end, entry.size))
            if content is not None:
                return content
        raise _replaced(key)

    def open(self, key: str | bytes, *, version_id: str | None = None) -> ObjectFile:
        """An object as a file, for reading. It stays the version that was opened, also if that is replaced.

        What is read was checked by the tags of its frames of 64 KiB, but not against the digest of
        the whole object: `get` does that.
        """
        for _ in range(_SUCCESSORS_MAX):
            entry = self.info(key, version_id=version_id)
            if (opened := self._native.open(entry)) is not None:
                return ObjectFile(RawFile(entry.name, entry.size, partial(self._native.read_open, opened)))
        raise _replaced(key)

    def _warn_of_gaps(self) -> None:
        if gaps := self._native.gaps():
            warnings.warn(f"the catalogue is incomplete: {gaps}", IncompleteWarning, stacklevel=3)

    def _warn_if_doubtful(self, entry: Entry) -> None:
        if doubts := self._native.doubts(entry):
            message = f"a newer version of {entry.name!r} may exist, because the catalogue is incomplete: {doubts}"
            warnings.warn(message, IncompleteWarning, stacklevel=4)

    def _select(self, names: Sequence[str | bytes], parts: Sequence[Part] | None) -> Selection:
        if parts is None:
            selection = self._native.select(builtins.list(names), None, None)
        else:
            ids = [part.version_id for part in parts]
            ranges = [range_of(part) for part in parts]
            selection = self._native.select(builtins.list(names), ids, ranges)
        if doubts := selection.doubts():
            message = f"newer versions may exist, because the catalogue is incomplete: {doubts}"
            warnings.warn(message, IncompleteWarning, stacklevel=4)
        return selection
