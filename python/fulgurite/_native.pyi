"""What the extension module does. It is not a public interface."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, final

__all__ = [
    "Archive",
    "Cursor",
    "OpenObject",
    "Entry",
    "Selection",
    "Server",
    "ServerSelection",
    "View",
    "IdleShuttle",
    "ReadDrive",
    "WaitingPlatter",
    "Fetch",
    "Collect",
    "scenario",
    "run",
    "run_policy",
    "sweep",
]

@final
class Entry:
    """A version of an object."""

    @property
    def name(self) -> str:
        """The object's name."""

    @property
    def version(self) -> int:
        """The number of the version under its name, from 1."""

    @property
    def version_id(self) -> str:
        """The version's identifier: 32 hexadecimal digits."""

    @property
    def kind(self) -> str:
        """`file`, `link`, `folder` (without content) or `deletion-marker`."""

    @property
    def size(self) -> int:
        """Length of the content in bytes."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""

    @property
    def modified(self) -> datetime | None:
        """When the file was last modified, if known, in UTC."""

    @property
    def created(self) -> datetime | None:
        """When the version was stored, in UTC."""

    @property
    def mode(self) -> int | None:
        """Permission bits, if known."""

    @property
    def archived(self) -> bool:
        """True if it is on verified platters, false if it is in staging."""

    @property
    def encrypted(self) -> bool:
        """Whether it is encrypted."""

    @property
    def attributes(self) -> dict[str, bytes]:
        """Metadata stored by the client."""

@final
class Cursor: ...

@final
class OpenObject: ...

@final
class Archive:
    def __new__(cls, home: str) -> Archive: ...
    @property
    def home(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def gaps(self) -> str | None: ...
    def doubts(self, entry: Entry) -> str | None: ...
    def info(self, name: str | bytes, version_id: str | None = None) -> Entry: ...
    def versions(self, name: str | bytes) -> list[Entry]: ...
    def page(
        self, prefix: str | bytes, all_versions: bool, folders: bool, after: Cursor | None, limit: int
    ) -> tuple[list[Entry | str], Cursor | None]: ...
    def read(self, entry: Entry, start: int, end: int) -> bytes | None: ...
    def open(self, entry: Entry) -> OpenObject | None: ...
    def read_open(self, object: OpenObject, start: int, end: int) -> bytes: ...
    def select(
        self,
        names: list[str | bytes],
        version_ids: list[str | None] | None,
        ranges: list[tuple[int, int | None] | None] | None,
    ) -> Selection: ...

@final
class Selection:
    @property
    def found_count(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def missing(self) -> dict[int, Exception]: ...
    def doubts(self) -> str | None: ...
    def version_ids(self) -> list[str | None]: ...
    def batch(self, start: int, max_bytes: int) -> list[int]: ...
    def read(self, numbers: list[int]) -> tuple[bytes, bytes, dict[int, Exception], int]: ...

@final
class Server:
    def __new__(
        cls,
        endpoint: str,
        bucket: str,
        region_name: str | None,
        keys: tuple[str, str] | None,
        profile: str | None,
        authorities: str | None,
        connections: int,
    ) -> Server: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def request(
        self, method: str, path: str, headers: list[tuple[str, str]]
    ) -> tuple[int, list[tuple[str, str]], bytes]: ...
    def select(
        self,
        keys: list[str | bytes],
        version_ids: list[str | None] | None,
        ranges: list[tuple[int, int | None] | None] | None,
    ) -> ServerSelection: ...

@final
class ServerSelection:
    @property
    def found_count(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def missing(self) -> dict[int, Exception]: ...
    def version_ids(self) -> list[str | None]: ...
    def batch(self, start: int, max_bytes: int) -> list[int]: ...
    def read(self, numbers: list[int]) -> tuple[bytes, bytes, dict[int, Exception], int]: ...

_Column = tuple[list[Any], str, str, str]
_Place = tuple[int, float]

@final
class IdleShuttle:
    """A shuttle without a task."""

    @property
    def number(self) -> int:
        """Its number, from 0."""

    @property
    def at(self) -> _Place:
        """Where it is."""

@final
class ReadDrive:
    """A read drive."""

    @property
    def number(self) -> int:
        """Its number, from 0."""

    @property
    def at(self) -> _Place:
        """Where shuttles reach it."""

    @property
    def can_take(self) -> bool:
        """Whether a platter may be brought to it: it works, can be reached and has a bay for it."""

    @property
    def is_free(self) -> bool:
        """Whether it also has no platter of a customer, and expects none."""

    @property
    def customers(self) -> int:
        """Customers' platters in it, and those on their way to it."""

    @property
    def released_bay(self) -> int | None:
        """The bay of a platter that is done and may be taken home."""

@final
class WaitingPlatter:
    """A platter in its slot that has requests."""

    @property
    def number(self) -> int:
        """Its number, from 0."""

    @property
    def at(self) -> _Place:
        """Where it is."""

    @property
    def age_s(self) -> float:
        """How long its most urgent request has waited, in seconds."""

    @property
    def requests(self) -> int:
        """Its requests."""

    @property
    def tracks(self) -> int:
        """Tracks that they want."""

@final
class View:
    """What a policy sees."""

    @property
    def now_s(self) -> float:
        """The time, in seconds."""

    @property
    def shuttles(self) -> tuple[IdleShuttle, ...]:
        """Shuttles without a task."""

    @property
    def drives(self) -> tuple[ReadDrive, ...]:
        """All drives."""

    @property
    def waiting(self) -> tuple[WaitingPlatter, ...]:
        """Platters in slots that have requests, the most urgent of each half of a shelf first."""

    def travel_s(self, origin: _Place, destination: _Place, /) -> float:
        """Seconds that a shuttle needs between two places, without traffic."""

@final
class Fetch:
    """The task to bring a platter to a drive. All are numbers."""

    def __new__(cls, shuttle: int, platter: int, drive: int) -> Fetch: ...
    @property
    def shuttle(self) -> int: ...
    @property
    def platter(self) -> int: ...
    @property
    def drive(self) -> int: ...

@final
class Collect:
    """The task to take a released platter home from a drive. Both are numbers."""

    def __new__(cls, shuttle: int, drive: int) -> Collect: ...
    @property
    def shuttle(self) -> int: ...
    @property
    def drive(self) -> int: ...

def scenario(path: str, settings: list[str]) -> tuple[str, str, str]: ...
def run(
    path: str, settings: list[str], seed: int | None, seeds: int, threads: int | None, timeline: bool
) -> tuple[dict[str, _Column], list[tuple[int, str]], dict[str, _Column] | None]: ...
def run_policy(
    path: str, settings: list[str], seed: int | None, seeds: int, make: Callable[[], Any]
) -> tuple[dict[str, _Column], list[tuple[int, str]]]: ...
def sweep(
    path: str,
    settings: list[str],
    vary: list[str],
    seeds: int | None,
    threads: int | None,
    summarize: bool,
) -> tuple[dict[str, _Column], list[tuple[int, str]]]: ...
