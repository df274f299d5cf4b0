"""Many connections at once, from one thread."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable


class Crowd:
    """Connections that send, and read nothing unless they are told to. All of them end with the block."""

    def __init__(self, address: tuple[str, int], source: str = "127.0.0.2"):
        self.address, self.source = address, source
        self.connections: list[socket.socket] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_) -> None:
        for connection in self.connections:
            connection.close()

    def connect(self, count: int, timeout_s: float = 5) -> int:
        """Opens so many more; says how many that became within the time."""
        opened, end = [], time.monotonic() + timeout_s
        for _ in range(count):
            connection = socket.socket()
            connection.setblocking(False)
            connection.bind((self.source, 0))
            connection.connect_ex(self.address)
            opened.append(connection)
        with selectors.DefaultSelector() as waiting:
            for connection in opened:
                waiting.register(connection, selectors.EVENT_WRITE)
            left = len(opened)
            while left and time.monotonic() < end:
                for key, _ in waiting.select(0.1):
                    waiting.unregister(key.fileobj)
                    left -= 1
        self.connections += opened
        return len(opened) - left

    def send(self, data: bytes | Callable[[int], bytes], timeout_s: float) -> int:
        """Sends to all, as far as the server takes it within the time. Says how many bytes it took."""
        pending = {connection: memoryview(data(index) if callable(data) else data) for index, connection in enumerate(self.connections)}
        sent, end = 0, time.monotonic() + timeout_s
        with selectors.DefaultSelector() as waiting:
            for connection in pending:
                waiting.register(connection, selectors.EVENT_WRITE)
            while waiting.get_map() and time.monotonic() < end:
                for key, _ in waiting.select(0.1):
                    connection = key.fileobj
                    try:
                        took = connection.send(pending[connection][: 256 << 10])
                    except BlockingIOError:
                        continue
                    except OSError:
                        took, pending[connection] = 0, memoryview(b"")
                    sent += took
                    pending[connection] = pending[connection][took:]
                    if not pending[connection]:
                        waiting.unregister(connection)
        return sent

    def answers(self, timeout_s: float) -> list[bytes]:
        """The beginnings of what the server says to each; nothing for one that it says nothing to, or closes."""
        found: list[bytes] = [b""] * len(self.connections)
        end = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as waiting:
            for index, connection in enumerate(self.connections):
                waiting.register(connection, selectors.EVENT_READ, index)
            while waiting.get_map() and time.monotonic() < end:
                for key, _ in waiting.select(0.1):
                    try:
                        found[key.data] = key.fileobj.recv(4096)
                    except OSError:
                        pass
                    waiting.unregister(key.fileobj)
        return found
