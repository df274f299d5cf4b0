"""`fulgurite://` URLs, for programs that open files with fsspec: pandas, xarray, zarr, dask, astropy.

In an archive of this machine, the URL's path is the object's name:

>>> import pandas
>>> pandas.read_parquet("fulgurite://survey/night.parquet", storage_options={"archive": "/srv/archive"})

At a server, its first component is the bucket:

>>> pandas.read_parquet("fulgurite://survey/night.parquet", storage_options={"endpoint": "http://127.0.0.1:9000"})

Without options, `FULGURITE_ARCHIVE` names the archive; without that, `AWS_ENDPOINT_URL` the server.
The file system is read-only.

What can't be known now raises: nothing is called absent because a server is down or a store is not
there. A name can belong to a file and a folder at once; `ls` has both, and `get` of the folder
raises, because a local folder can't hold both. Keys that end with a slash are folders, and those
with an empty component (`//`) are not listed by folder, but found by `find`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NoReturn, cast

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import make_path_posix
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import isfilelike, other_paths, tokenize

from . import connect
from ._archive import Archive, Entry
from ._bucket import Bucket, Object
from ._errors import FulguriteError, IsFolder, NotFound, NotListed
from ._objects import Item, ObjectFile, Objects, Part


_OPTIONS = ("endpoint", "access_key", "secret_key", "region", "profile", "ca_file", "connections")
_CONNECTIONS = 2
#: Options that are left out where passwords are.
_SECRETS = ("access_key", "secret_key")
#: Options that fsspec takes for any file system.
_OPTIONS_OF_FSSPEC = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}


class FulguriteFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The objects of an archive or a server, as files. Read-only.

    Options: `archive` (the folder of an archive), or `endpoint` with `access_key`, `secret_key`,
    `region`, `profile`, `ca_file` and `connections` as `fulgurite.connect` takes them.
    """

    protocol = "fulgurite"
    root_marker = ""
    # Options don't say all: the environment and the current folder count too.
    cachable = False

    def __init__(
        self,
        archive: str | os.PathLike[str] | None = None,
        endpoint: str | None = None,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        connections: int = _CONNECTIONS,
        **options: Any,
    ) -> None:
        if unknown := options.keys() - _OPTIONS_OF_FSSPEC:
            raise ValueError(f"unknown option {min(unknown)!r}: known are archive, or {', '.join(_OPTIONS)}")
        given = [endpoint, access_key, secret_key, region, profile, ca_file]
        if archive is not None and any(one is not None for one in given):
            raise ValueError("archive and the options of a server exclude each other")
        if archive is not None and not os.fspath(archive):
            raise ValueError("archive is an empty string")
        if archive is None and endpoint is None:
            archive = os.environ.get("FULGURITE_ARCHIVE") or None
            if archive is None:
                endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            if archive is None and not endpoint:
                raise ValueError("give archive or endpoint, or set FULGURITE_ARCHIVE or AWS_ENDPOINT_URL")
        archive = None if archive is None else os.path.abspath(archive)
        super().__init__(**options)
        self._server: dict[str, Any] = {
            "endpoint": endpoint,
            "access_key": access_key,
            "secret_key": secret_key,
            "region": region,
            "profile": profile,
            "ca_file": None if ca_file is None else os.fspath(ca_file),
            "connections": connections,
        }
        # What a copy in another process is made of: the same place, whatever its environment.
        server = {name: value for name, value in self._server.items() if value is not None}
        if connections == _CONNECTIONS:
            del server["connections"]
        self._options = {**options, **({"archive": archive} if archive is not None else server)}
        self._archive = None if archive is None else _archive_at(archive)
        self._buckets: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    @property
    def storage_options(self) -> dict[str, Any]:
        """The options of a copy, with what came from the environment."""
        return self._options

    @storage_options.setter
    def storage_options(self, _: Any) -> None:
        """Ignores what fsspec sets after construction: the options as given."""

    @property
    def storage_args(self) -> tuple[Any, ...]:
        """None: all arguments are among the options."""
        return ()

    @storage_args.setter
    def storage_args(self, _: Any) -> None:
        pass

    @property
    def _fs_token(self) -> str:
        """Identifies the place and its options. A copy has the same token."""
        return cast(str, tokenize(type(self), **self._options))

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """The options of a copy, for `from_dict`. They contain the keys if those were given.

        `include_password=False` leaves the keys out.
        """
        packed = cast("dict[str, Any]", super().to_dict(include_password=include_password))
        return packed if include_password else {name: value for name, value in packed.items() if name not in _SECRETS}

    @property
    def fsid(self) -> str:
        """What identifies the archive or the server."""
        return f"fulgurite:{self._archive.id}" if self._archive is not None else f"fulgurite:{self._server['endpoint']}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return os.fspath(path).removeprefix("fulgurite://").strip("/")

    def _place(self, path: str) -> tuple[Objects, str, str]:
        """Where a path leads: to objects, the path of their place, and the name of one."""
        path = self._strip_protocol(path)
        if self._archive is not None:
            return self._archive, "", path
        name, _, key = path.partition("/")
        if not name:
            raise NotFound("a path at a server begins with a bucket")
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = connect(bucket=name, **self._server)
            return self._buckets[name], f"{name}/", key

    def _is_root(self, path: str) -> bool:
        """Whether a path is the root of a server, which contains the buckets."""
        return self._archive is None and not self._strip_protocol(path)

    def _names_of_buckets(self) -> list[str]:
        # Any bucket can send the request.
        with connect(bucket="none", **self._server) as bucket:
            return bucket._names_of_buckets()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Size and kind of a file or a folder."""
        if self._is_root(path):
            return _folder("")
        objects, root, name = self._place(path)
        absent: FulguriteError = NotFound(path)
        try:
            if name:
                return _described(root, cast("Archive | Bucket", objects).info(name))
        except IsFolder:
            return _folder(root + name)
        except NotFound:
            pass
        except NotListed as error:
            # A folder has no entry of its own.
            absent = error
        if self._has_content(objects, name) or not name:
            return _folder(root + name)
        raise absent

    def exists(self, path: str, **options: Any) -> bool:
        """Whether there is a file or a folder. Raises if that can't be known."""
        try:
            self.info(path, **options)
        except NotFound:
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Whether there is a file. Raises if that can't be known.

        If the catalogue has gaps, a listed folder is not taken for a file that could have its name.
        """
        try:
            return bool(self.info(path)["type"] == "file")
        except NotFound:
            return False

    def isdir(self, path: str) -> bool:
        """Whether there is a folder. Raises if that can't be known."""
        if self._is_root(path):
            return True
        objects, root, name = self._place(path)
        try:
            # A bucket may be empty.
            if self._has_content(objects, name) or not name:
                return True
            # An archive may have a folder without content, or a catalogue with gaps.
            return isinstance(objects, Archive) and bool(self.info(path)["type"] == "directory")
        except NotFound:
            return False

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[dict[str, Any]] | list[str]:
        """What is directly in a folder; or the file itself, if the path leads to one.

        The root at a server has the buckets that the server lists for the account.
        """
        name = ""
        if self._is_root(path):
            below: Iterable[dict[str, Any]] = map(_folder, self._names_of_buckets())
        else:
            objects, root, name = self._place(path)
            below = self._below(objects, root, name)
        # The name of a file may also be that of a folder.
        found = {(entry["name"], entry["type"]): entry for entry in below}
        if not found and name:
            entry = self.info(path)
            # A folder without content has an entry of its own in an archive.
            if entry["type"] == "file":
                found = {(entry["name"], entry["type"]): entry}
        entries = sorted(found.values(), key=lambda entry: (str(entry["name"]), str(entry["type"])))
        return entries if detail else [entry["name"] for entry in entries]

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "raise", **options: Any
    ) -> Iterator[Any]:
        """Folders with their folders and files. A missing path has none; other errors raise."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        detail = options.pop("detail", False)
        try:
            entries = cast("list[dict[str, Any]]", self.ls(path, detail=True))
        except NotFound:
            entries = []
        below = [entry for entry in entries if entry["name"] != path or entry["type"] == "directory"]
        folders = {_last(entry): entry for entry in below if entry["type"] == "directory"}
        files = {_last(entry): entry for entry in below if entry["type"] == "file"}
        here = (path, folders, files) if detail else (path, list(folders), list(files))
        if topdown:
            yield here
        if maxdepth is None or maxdepth > 1:
            deeper = None if maxdepth is None else maxdepth - 1
            names = [folders[name]["name"] for name in list(here[1]) if name in folders]
            for name in names:
                yield from self.walk(name, deeper, topdown, on_error, detail=detail, **options)
        if not topdown:
            yield here

    def _listed(self, objects: Objects, name: str) -> Iterator[Entry | Object | str]:
        """What is listed directly in a folder, with the empty object that may mark it."""
        prefix = f"{name}/" if name else ""
        if isinstance(objects, Bucket):
            return objects.list_folder(prefix)
        return cast(Archive, objects).list_folder(prefix)

    def _has_content(self, objects: Objects, name: str) -> bool:
        """Whether a folder has anything, if only what marks it."""
        return any(True for _ in self._listed(objects, name))

    def _below(self, objects: Objects, root: str, name: str) -> Iterator[dict[str, Any]]:
        """Files and folders directly in a folder; folders repeatedly."""
        prefix = f"{name}/" if name else ""
        for entry in self._listed(objects, name):
            if isinstance(entry, str):
                # An empty component can't be told from its folder.
                if entry.removeprefix(prefix) != "/":
                    yield _folder(root + entry)
            # Some programs mark a folder with an empty object.
            elif entry.name != prefix:
                yield _described(root, entry)

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """All files below a folder, and the file of that name. `prefix` narrows it down."""
        beginning = options.pop("prefix", "") or ""
        if maxdepth is not None or withdirs:
            found = self._find_by_folder(self._strip_protocol(path), maxdepth, withdirs)
        else:
            found = self._find_by_name(path, beginning)
        root = f"{self._strip_protocol(path)}/{beginning}".lstrip("/")
        if beginning:
            found = {name: entry for name, entry in found.items() if name.startswith(root)}
        found = dict(sorted(found.items()))
        return found if detail else list(found)

    def _find_by_name(self, path: str, beginning: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        if self._is_root(path):
            first = beginning.partition("/")[0]
            for bucket in self._names_of_buckets():
                if bucket.startswith(first):
                    found |= self._find_by_name(bucket, "")
            return found
        objects, root, name = self._place(path)
        prefix = (f"{name}/" if name else "") + beginning
        if name and not beginning and self.isfile(path):
            described = self.info(path)
            found[described["name"]] = described
        for entry in cast("Archive | Bucket", objects).list(prefix):
            if not isinstance(entry, str) and _is_file(entry) and not entry.name.endswith("/"):
                described = _described(root, entry)
                found[described["name"]] = described
        return found

    def _find_by_folder(self, path: str, maxdepth: int | None, withdirs: bool) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        if path and self.isfile(path):
            found[path] = self.info(path)
        elif path and withdirs and self.isdir(path):
            found[path] = _folder(path)
        for _folder_path, folders, files in self.walk(path, maxdepth, detail=True):
            # A file goes before a folder of the same name.
            if withdirs:
                found |= {entry["name"]: entry for entry in folders.values() if entry["name"] not in found}
            found |= {entry["name"]: entry for entry in files.values()}
        return found

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        if mode != "rb":
            _read_only()
        objects, _root, name = self._place(path)
        return _File(self, self._strip_protocol(path), objects.open(name), block_size, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The content of a file, or of a part of it. Negative numbers count from its end."""
        objects, _root, name = self._place(path)
        if (start or 0) < 0 or (end is not None and end < 0):
            start, end, _step = slice(start, end).indices(self.info(path)["size"])
        return objects.get(name, start or 0, end)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **_: Any) -> Any:
        """The contents of files, by path; or, for one path without wildcards, its content."""
        # A name may contain what is special in patterns.
        if isinstance(path, str) and not recursive and (not _is_pattern(path) or self.isfile(path)):
            try:
                return self.cat_file(path)
            except Exception as error:
                if on_error == "raise":
                    raise
                return {path: error} if on_error == "return" else {}
        found: list[str] = []
        for one in [path] if isinstance(path, str) else path:
            is_pattern = _is_pattern(one) and not self.exists(one)
            if recursive:
                roots = self.glob(one) if is_pattern else [one]
                found += [name for root in roots for name in self.find(root)]
            elif is_pattern:
                found += [name for name, entry in self.glob(one, detail=True).items() if entry["type"] == "file"]
            else:
                found.append(self._strip_protocol(one))
        if not found:
            raise NotFound(f"nothing matches {path}")
        paths = list(dict.fromkeys(found))
        parts = [(one, self._place(one)) for one in paths]
        return self._many([(one, objects, Part(name)) for one, (objects, _root, name) in parts], on_error)

    def cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **_: Any
    ) -> list[bytes | Exception]:
        """Parts of files, read in the order in which they are stored."""
        starts = [starts] * len(paths) if not isinstance(starts, Iterable) else list(starts)
        ends = [ends] * len(paths) if not isinstance(ends, Iterable) else list(ends)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("as many starts and ends as paths")
        found: dict[int, Any] = {}
        wanted = []
        for number, (path, start, end) in enumerate(zip(paths, starts, ends, strict=True)):
            try:
                objects, _root, name = self._place(path)
                if (start or 0) < 0 or (end is not None and end < 0):
                    start, end, _step = slice(start, end).indices(self.info(path)["size"])
                wanted.append((number, objects, Part(name, start or 0, end)))
            except Exception as error:
                if on_error == "raise":
                    raise
                found[number] = error
        found |= self._many(wanted, on_error if on_error == "raise" else "return")
        return [found[number] for number in range(len(paths))]

    def _many(self, wanted: list[tuple[Any, Objects, Part]], on_error: str) -> dict[Any, Any]:
        """Contents, by what names them."""
        places: dict[int, tuple[Objects, list[tuple[Any, Part]]]] = {}
        for name, objects, part in wanted:
            places.setdefault(id(objects), (objects, []))[1].append((name, part))
        found: dict[Any, Any] = {}
        for objects, parts in places.values():
            items: Iterator[Item] = objects.iter_many([part for _, part in parts], on_error="keep")
            for item in items:
                name = parts[item.number][0]
                if item.error is None:
                    found[name] = item.content
                elif on_error == "raise":
                    raise item.error
                elif on_error == "return":
                    found[name] = item.error
        return found

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Fetches files, or with `recursive=True` folders, into local files or a local folder.

        If two of them would have the same local name, or a file and a folder do, it raises before
        anything is written. A path is that of the file if there is one, but of the folder with
        `recursive=True` and a slash at its end.
        """
        if isinstance(rpath, list) and isinstance(lpath, list):
            super().get(rpath, lpath, callback=callback, **options)
            return
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        is_one = isinstance(rpath, (str, os.PathLike))
        sources: dict[str, str | None] = {}
        for path in [rpath] if is_one else rpath:
            sources |= self._sources(os.fspath(path), recursive, maxdepth)
        if is_one and (not recursive or maxdepth is not None):
            sources = {path: kind for path, kind in sources.items() if (kind or self._kind(path)) != "directory"}
            if not sources:
                return
        if isinstance(lpath, list):
            targets = [os.fspath(one) for one in lpath]
            if len(targets) != len(sources):
                raise ValueError(f"{len(targets)} local paths for {len(sources)} files")
        else:
            targets = self._targets(rpath, list(sources), make_path_posix(os.fspath(lpath)))
        self._check_targets(sources, targets)
        super().get(list(sources), targets, callback=callback, **options)

    def _kind(self, path: str) -> str | None:
        try:
            return str(self.info(path)["type"])
        except NotFound:
            return None

    def _sources(self, path: str, recursive: bool, maxdepth: int | None) -> dict[str, str | None]:
        """The paths that a path or a pattern selects for `get`, with their kinds if known."""
        if _is_pattern(path) and not self.exists(path):
            return dict.fromkeys(self.expand_path(path, recursive=recursive, maxdepth=maxdepth))
        stripped = self._strip_protocol(path)
        if not recursive:
            return {stripped: None}
        found = self.find(stripped, maxdepth=maxdepth, withdirs=True, detail=True)
        if not found and not self.exists(stripped):
            raise NotFound(path)
        if path.endswith("/") and len(found) > 1 and found.get(stripped, {}).get("type") == "file":
            # The slash says that the folder is meant.
            return {name: entry["type"] for name, entry in found.items() if name != stripped}
        return {stripped: "directory"} | {name: entry["type"] for name, entry in found.items()}

    def _targets(self, rpath: Any, sources: list[str], lpath: str) -> list[str]:
        """Absolute local paths, chosen as fsspec does."""
        into = lpath.rstrip("/") or "/"
        if not isinstance(rpath, (str, os.PathLike)):
            targets = [os.path.join(into, source.rpartition("/")[2]) for source in sources]
        elif _is_pattern(path := os.fspath(rpath)) and not self.exists(path):
            # The leading slash also gives top-level names a folder to be relative to.
            targets = other_paths([f"/{source}" for source in sources], into, exists=len(sources) == 1)
        else:
            top = self._strip_protocol(path)
            # Into an existing folder, under its own name.
            if (lpath.endswith("/") or os.path.isdir(lpath)) and not path.endswith("/") and top:
                into = os.path.join(into, top.rpartition("/")[2])
            below = [source[len(top) :].lstrip("/") for source in sources]
            targets = [os.path.join(into, name) if name else into for name in below]
        # Names can contain components such as "..".
        root, targets = os.path.abspath(lpath), [os.path.abspath(target) for target in targets]
        for source, target in zip(sources, targets, strict=True):
            if os.path.commonpath([root, target]) != root:
                raise ValueError(f"{source} would be written to {target}, which is outside {lpath}")
        return targets

    def _check_targets(self, sources: dict[str, str | None], targets: list[str]) -> None:
        """Raises if files would replace one another, or a file and a folder have the same name."""
        places = [os.path.abspath(target) for target in targets]
        parents = {parent for place in places for parent in _parents(place)}
        taken: dict[str, str] = {}
        for source, place in zip(sources, places, strict=True):
            before = taken.setdefault(place, source)
            if before == source and place not in parents:
                continue
            # Folders may share a local folder.
            if all((sources[one] or self._kind(one)) == "directory" for one in {source, before}):
                continue
            why = "needs a folder there for other files" if before == source else f"also writes {before} there"
            raise FulguriteError(
                f"{source} would be the local file {place}, but `get` {why}; nothing was written."
                " Fetch them one by one, or give a list of local paths"
            )

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **options: Any
    ) -> None:
        """Fetches a file into a local file or an open one; of a folder, makes a local folder."""
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        try:
            file = self.open(rpath, "rb", **options)
        except NotFound:
            if outfile is not None or not self.isdir(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)
            return
        with file:
            if outfile is not None:
                self._copy(file, outfile, callback)
                return
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            with open(lpath, "wb") as made:
                self._copy(file, made, callback)

    def _copy(self, file: Any, outfile: Any, callback: Any) -> None:
        callback.set_size(file.size)
        while data := file.read(self.blocksize):
            outfile.write(data)
            callback.relative_update(len(data))

    def modified(self, path: str) -> datetime | None:
        """When a file was last modified; when it was stored if that isn't known."""
        info = self.info(path)
        return cast("datetime | None", info.get("mtime") or info.get("created"))

    def created(self, path: str) -> datetime | None:
        """When a file was stored."""
        return cast("datetime | None", self.info(path).get("created"))

    def ukey(self, path: str) -> str:
        """A value that changes whenever the file changes."""
        info = self.info(path)
        return str(info.get("version_id") or info.get("etag") or info.get("size"))

    def checksum(self, path: str) -> str:
        """A value that changes whenever the file changes."""
        return self.ukey(path)

    def sign(self, path: str, expiration: int = 100, **_: Any) -> NoReturn:
        raise NotImplementedError("this file system makes no signed URLs")

    def _read_only_operation(self, *_: Any, **__: Any) -> NoReturn:
        """Fails: nothing can be written."""
        _read_only()

    mkdir = makedirs = rmdir = rm_file = _rm = rm = mv = touch = _read_only_operation
    copy = cp_file = pipe = pipe_file = put = put_file = _read_only_operation


def _read_only() -> NoReturn:
    raise PermissionError("fulgurite:// is read-only; put objects with `fulgurite put`, or over S3")


def _is_file(entry: Entry | Object) -> bool:
    return isinstance(entry, Object) or entry.kind in ("file", "link")


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """An open file with what fsspec's files have. It stays the version that was opened."""

    def __init__(self, fs: FulguriteFileSystem, path: str, file: ObjectFile, block_size: Any, **options: Any) -> None:
        self._file = file
        self._reading = threading.Lock()
        options = {name: value for name, value in options.items() if name in ("autocommit", "cache_type", "cache_options")}
        super().__init__(fs, path, "rb", block_size or "default", size=file.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        with self._reading:
            self._file.seek(start)
            return self._file.read(end - start)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()


#: Archives by folder, as long as a file system uses them.
_archives: weakref.WeakValueDictionary[str, Archive] = weakref.WeakValueDictionary()


def _archive_at(folder: str) -> Archive:
    archive = _archives.get(folder)
    if archive is not None:
        try:
            # Fails if another archive replaced it.
            _ = archive.id
            return archive
        except (FulguriteError, ValueError):
            pass
    archive = _archives[folder] = Archive(folder)
    return archive


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield (path := parent)


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _last(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rpartition("/")[2]


def _folder(path: str) -> dict[str, Any]:
    return {"name": path.removesuffix("/"), "size": 0, "type": "directory"}


def _described(root: str, entry: Entry | Object) -> dict[str, Any]:
    if not _is_file(entry):
        return _folder(root + entry.name)
    described = {
        "name": root + entry.name,
        "size": entry.size,
        "type": "file",
        "version_id": entry.version_id,
        "mtime": entry.modified,
    }
    if isinstance(entry, Object):
        return described | {"etag": entry.etag, "created": entry.modified}
    return described | {"sha256": entry.sha256, "created": entry.created}
