"""Reading many objects at once, from archives and servers alike."""

from __future__ import annotations

import dataclasses
import importlib
import io
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ._errors import Unavailable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

OnError = Literal["raise", "keep"]

#: Content that a batch of `iter_many` holds, unless a single object has more.
BATCH_BYTES = 64 << 20
#: Content that is fetched at once from a file's position.
BUFFER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of an object, or a certain version of it, for lists.

    `start` and `end` are in bytes, and `end` is excluded. Without `end`, the part ends with the
    object. Without `version_id`, it is of the newest version.
    """

    key: str | bytes
    start: int = 0
    end: int | None = None
    version_id: str | None = None


class Stored(Protocol):
    """What a list has for an object: an `Entry` or an `Object`."""

    @property
    def name(self) -> str: ...
    @property
    def version_id(self) -> str | None: ...


class ArrowScalar(Protocol):
    """An element of an Arrow array."""

    def as_py(self) -> Any: ...


Key = str | bytes | Part | Stored | ArrowScalar


class Item(NamedTuple):
    """An object of a list, and its number in the list.

    If reading it failed, `content` is empty and `error` says why.
    """

    number: int
    key: str | bytes
    content: bytes
    error: Exception | None = None


class Selection(Protocol):
    """What a list selects: see `_native.pyi`."""

    @property
    def found_count(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def missing(self) -> dict[int, Exception]: ...
    def version_ids(self) -> list[str | None]: ...
    def batch(self, start: int, max_bytes: int) -> list[int]: ...
    def read(self, numbers: list[int]) -> tuple[bytes, bytes, dict[int, Exception], int]: ...


def _part_of(key: Key) -> str | bytes | Part:
    """A key as given; what was listed as that version."""
    given = key
    # Arrays of Arrow iterate over scalars.
    if not isinstance(key, (str, bytes, Part)) and callable(as_py := getattr(key, "as_py", None)):
        key = as_py()
    if isinstance(key, (str, bytes, Part)):
        return key
    name, version_id = getattr(key, "name", None), getattr(key, "version_id", _ABSENT)
    if isinstance(name, str) and (version_id is None or isinstance(version_id, str)):
        return Part(name, version_id=version_id)
    raise TypeError(f"a list has keys (str or bytes), Parts, and what `list` returns, but not {given!r}")


_ABSENT = object()


def _key_of(key: str | bytes | Part) -> str | bytes:
    return key.key if isinstance(key, Part) else key


def _first_error(errors: dict[int, Exception]) -> Exception:
    return errors[min(errors)]


class Objects:
    """Where objects are read from. `Archive` and `Bucket` are such places."""

    def _select(self, names: Sequence[str | bytes], parts: Sequence[Part] | None) -> Selection:
        raise NotImplementedError

    def get(
        self, key: str | bytes, start: int = 0, end: int | None = None, *, version_id: str | None = None
    ) -> bytes:
        """The content of an object, or of a part of it.

        `start` and `end` are offsets in bytes. `end` is excluded, and may lie beyond the end of the
        content; negative offsets are rejected. An archive checks a whole object against its
        SHA-256; a server checks what it sends.
        """
        raise NotImplementedError

    def open(self, key: str | bytes, *, version_id: str | None = None) -> ObjectFile:
        """An object as a file, for reading."""
        raise NotImplementedError

    def _selection(self, keys: Iterable[Key]) -> tuple[list[str | bytes | Part], Selection]:
        if isinstance(keys, (str, bytes, Part)):
            raise TypeError("expected a list of keys, not one key")
        listed = [_part_of(key) for key in keys]
        parts = None
        if any(isinstance(key, Part) for key in listed):
            parts = [key if isinstance(key, Part) else Part(key) for key in listed]
        return listed, self._select([_key_of(key) for key in listed], parts)

    def iter_many(
        self, keys: Iterable[Key], *, batch_bytes: int = BATCH_BYTES, on_error: OnError = "raise"
    ) -> Iterator[Item]:
        """Reads many objects in the order in which they lie on the medium, which is the fastest.

        Holds at most `batch_bytes` of content in memory at a time, or one larger object.
        `Item.number` is an object's place in the list, from 0. A key that is listed twice is
        returned twice. Lists have keys, `Part`s, and what `list` returns; Arrow arrays of keys are
        lists too.

        With `on_error="raise"`, the first failure raises; with `"keep"` it becomes an item with an
        `error`, and the others follow. What fails for the whole list, such as the connection to the
        server, always raises.
        """
        _check_on_error(on_error)
        batch_bytes = operator.index(batch_bytes)
        if batch_bytes < 1:
            raise ValueError("batch_bytes is at least 1")
        listed, selection = self._selection(keys)
        return self._items(listed, selection, min(batch_bytes, _END_MAX), on_error)

    def _items(
        self, keys: list[str | bytes | Part], selection: Selection, batch_bytes: int, on_error: OnError
    ) -> Iterator[Item]:
        missing = selection.missing()
        if missing and on_error == "raise":
            raise _first_error(missing)
        for index, error in sorted(missing.items()):
            yield Item(index, _key_of(keys[index]), b"", error)
        at = 0
        while batch := selection.batch(at, batch_bytes):
            at += len(batch)
            content, packed_ends, errors, _ = selection.read(batch)
            ends = memoryview(packed_ends).cast("q")
            if errors and on_error == "raise":
                raise _first_error(errors)
            for place, index in enumerate(batch):
                key = _key_of(keys[index])
                if (failure := errors.get(index)) is not None:
                    yield Item(index, key, b"", failure)
                else:
                    yield Item(index, key, content[ends[place] : ends[place + 1]])
            del content

    def get_many(self, keys: Iterable[Key], *, on_error: OnError = "raise") -> pa.Table:
        """Reads many objects into an Arrow table, with a row for each key of the list, in its order.

        Columns: `key` (string), `version_id` (string), `content` (large_binary), `error` (string).
        All content is in memory at once, without a copy; for more than that, use `iter_many`.

        With `on_error="keep"`, the row of an object that can't be read has no content, and its
        `error` says why. What fails for the whole list, such as the connection to the server, always
        raises. So does a name that isn't UTF-8: use `iter_many`. Needs pyarrow.
        """
        pa = needed("pyarrow", "get_many")

        _check_on_error(on_error)
        listed, selection = self._selection(keys)
        names = [_text(_key_of(key)) for key in listed]
        content, ends, errors = _read_all(selection, on_error)
        messages = [None] * len(listed) if not errors else [_message(errors.get(i)) for i in range(len(listed))]
        validity = None
        if errors:
            bits = bytearray(b"\xff") * -(-len(listed) // 8)
            for index in errors:
                bits[index // 8] &= ~(1 << index % 8)
            validity = pa.py_buffer(bytes(bits))
        buffers = [validity, pa.py_buffer(ends), pa.py_buffer(content)]
        return pa.table(
            {
                "key": pa.array(names, pa.string()),
                "version_id": pa.array(selection.version_ids(), pa.string()),
                "content": pa.Array.from_buffers(pa.large_binary(), len(listed), buffers),
                "error": pa.array(messages, pa.string()),
            }
        )

    def get_array(
        self, keys: Iterable[Key], dtype: npt.DTypeLike, shape: int | Sequence[int] = (-1,)
    ) -> np.ndarray[Any, Any]:
        """Reads many objects of equal size into one NumPy array, without a copy.

        The result has an element, row or image for each key: its shape is `(len(keys), *shape)`.
        By default each object becomes a row, as long as the first object. The array is read-only.
        Fails if an object can't be read, or has another size: `get_many(keys, on_error="keep")`
        tells which can be read. Needs numpy.

        For example, cutouts of 63 x 63 big-endian floats:
        `archive.get_array(keys, ">f4", (63, 63))`.
        """
        needed("numpy", "get_array")
        import numpy as np

        listed, selection = self._selection(keys)
        shape = _shape_of(shape)
        dtype = np.dtype(dtype)
        if shape.count(-1) > 1 or any(length < -1 for length in shape):
            raise ValueError("at most one dimension of `shape` is -1")
        content, packed_ends, _ = _read_all(selection, "raise")
        ends = np.frombuffer(packed_ends, np.int64)
        sizes = np.diff(ends)
        if len(listed) == 0:
            return np.empty((0, *(max(length, 0) for length in shape)), dtype)
        size = int(sizes[0])
        if (sizes != size).any():
            other = int(np.flatnonzero(sizes != size)[0])
            raise ValueError(
                f"{_shown(listed[other])} has {int(sizes[other])} bytes, and {_shown(listed[0])} has {size}"
            )
        known = int(np.prod([length for length in shape if length != -1], dtype=np.int64)) * dtype.itemsize
        if -1 not in shape and known != size or -1 in shape and (known == 0 or size % known != 0):
            wants = "" if -1 in shape else f", which takes {known}"
            raise ValueError(
                f"the {size} bytes of {_shown(listed[0])} don't make an array of {dtype} with shape {shape}{wants};"
                " a Part selects the bytes after a header"
            )
        filled = tuple(size // known if length == -1 else length for length in shape)
        return np.frombuffer(content, dtype).reshape(len(listed), *filled)


class RawFile(io.RawIOBase):
    """An object as a raw file: `read` returns the bytes from a start to an end."""

    def __init__(self, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.name = name
        self.size = size
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError("whence is 0, 1 or 2")
        if base + offset < 0:
            raise ValueError("a position before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._check_open()
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self.size)
        if end <= self._at:
            return 0
        content = self._read(self._at, end)
        if len(content) != end - self._at:
            raise Unavailable(f"{self.name}: the content ended early")
        view[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class ObjectFile(io.BufferedReader):
    """An object as a file, for reading."""

    def __init__(self, raw: RawFile) -> None:
        super().__init__(raw, BUFFER_BYTES)
        self.size = raw.size
        """Its length in bytes."""


#: Ends beyond this are the end of any object.
_END_MAX = (1 << 63) - 1


def as_range(start: int, end: int | None) -> tuple[int, int | None]:
    """A range as whole numbers, as in a slice, but without negative ones."""
    start = operator.index(start)
    end = None if end is None else operator.index(end)
    if start < 0 or (end is not None and end < 0):
        raise ValueError("start and end are counted from the beginning, and not negative")
    return min(start, _END_MAX), None if end is None else min(end, _END_MAX)


def as_slice(start: int, end: int | None, size: int) -> tuple[int, int]:
    """A range within `size` bytes."""
    start, end = as_range(start, end)
    start = min(start, size)
    return start, max(start, size if end is None else min(end, size))


def range_of(part: Part) -> tuple[int, int | None] | None:
    """The range of a part; `None` for the whole object."""
    start, end = as_range(part.start, part.end)
    if end is not None:
        end = max(start, end)
    return None if start == 0 and end is None else (start, end)


def needed(module: str, what: str) -> Any:
    """Imports a package that is needed only for some functions."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ImportError(f"{what} needs {module}: pip install {module}, or this package with [all]") from None


def _check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "keep"):
        raise ValueError('on_error is "raise" or "keep"')


def _read_all(selection: Selection, on_error: OnError) -> tuple[bytes, bytes, dict[int, Exception]]:
    missing = selection.missing()
    if missing and on_error == "raise":
        raise _first_error(missing)
    content, ends, errors, _ = selection.read(list(range(len(selection))))
    if errors and on_error == "raise":
        raise _first_error(errors)
    return content, ends, {**missing, **errors}


def _text(name: str | bytes) -> str:
    try:
        text = name.decode() if isinstance(name, bytes) else name
        text.encode()
    except UnicodeError:
        raise ValueError(
            f"{name!r} isn't UTF-8, as a column of text requires; use iter_many for such names"
        ) from None
    return text


def _shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape as NumPy takes it: a number, or a sequence of numbers."""
    if isinstance(shape, Iterable):
        return tuple(map(operator.index, shape))
    return (operator.index(shape),)


def _shown(key: str | bytes | Part) -> str:
    name = _key_of(key)
    return name if isinstance(name, str) else repr(name)


def _message(error: Exception | None) -> str | None:
    return None if error is None else str(error)
