"""What the extension module does. It is not a public interface."""

from datetime import datetime

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

class Cursor: ...

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
    def read(self, entry: Entry, start: int, end: int) -> tuple[bytes, int]: ...
    def select(
        self,
        names: list[str | bytes],
        version_ids: list[str | None] | None,
        ranges: list[tuple[int, int | None] | None] | None,
    ) -> Selection: ...

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
        keys: list[str],
        version_ids: list[str | None] | None,
        ranges: list[tuple[int, int | None] | None] | None,
    ) -> ServerSelection: ...

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
