"""A TCP proxy that makes a server slow or unreliable, for one connection after another."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass

# Pieces are this small so that a limit applies within a file, too.
PIECE = 16 << 10


@dataclass
class Behaviour:
    """How the proxy treats what the server sends. The default passes everything on."""

    # Seconds before the first byte of each connection.
    delay_s: float = 0.0
    # Bytes a second on each connection.
    bytes_per_second: float | None = None
    # Bytes after which a connection is closed, as if all were said.
    close_after: int | None = None
    # Bytes after which a connection is reset.
    reset_after: int | None = None
    # Accept connections and never answer.
    stall: bool = False


class Proxy:
    """Listens on a port of its own at 127.0.0.1. `behaviour` may be changed at any time."""

    def __init__(self, target_port: int) -> None:
        self.behaviour = Behaviour()
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closed = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._closed.set()
        # Ends the wait for a connection. Without that, the thread could go on with the next socket
        # that gets this one's number, and so answer for another proxy.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        behaviour = self.behaviour
        if behaviour.stall:
            self._closed.wait()
            client.close()
            return
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        requests = threading.Thread(target=self._pass_requests, args=(client, server), daemon=True)
        requests.start()
        try:
            self._pass_answers(server, client, behaviour)
        except OSError:
            pass
        for end in (client, server):
            try:
                # Wakes the other thread: a socket that is being read isn't closed.
                end.shutdown(socket.SHUT_RD)
            except OSError:
                pass
        requests.join()
        client.close()
        server.close()

    @staticmethod
    def _pass_requests(client: socket.socket, server: socket.socket) -> None:
        try:
            while piece := client.recv(PIECE):
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _pass_answers(self, server: socket.socket, client: socket.socket, behaviour: Behaviour) -> None:
        sent = 0
        while piece := server.recv(PIECE):
            if sent == 0:
                time.sleep(behaviour.delay_s)
            limits = [limit - sent for limit in (behaviour.close_after, behaviour.reset_after) if limit is not None]
            piece = piece[: max(0, min(limits, default=len(piece)))]
            client.sendall(piece)
            sent += len(piece)
            if behaviour.bytes_per_second is not None:
                time.sleep(len(piece) / behaviour.bytes_per_second)
            if behaviour.reset_after is not None and sent >= behaviour.reset_after:
                # Closing with this option resets the connection.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if behaviour.close_after is not None and sent >= behaviour.close_after:
                return
        client.shutdown(socket.SHUT_WR)
