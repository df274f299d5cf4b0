"""Registries of schemas, as HTTP servers on 127.0.0.1: a real one, and one that can be told what to answer.

    APICURIO  the folder with Apicurio Registry, as pom.xml says. It speaks as Confluent's, under /apis/ccompat/v7.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from broker import downloaded, free_ports

START_S = 90
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class StandIn:
    """What it has is in `schemas`, and what it was asked is in `asked`. `user` and `password` are wanted if they are given."""

    def __init__(self, user: str = "", password: str = "", certificate: Path | None = None):
        self.schemas: dict[int, str] = {}
        self.asked: list[str] = []
        # Statuses that it answers next, whatever it is asked, and how long each answer takes.
        self.failures: list[int] = []
        # Statuses and bodies, likewise.
        self.answers: list[tuple[int, bytes]] = []
        self.delay_s = 0.0
        wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user else None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.asked.append(self.path)
                time.sleep(registry.delay_s)
                if registry.answers:
                    return self.send(*registry.answers.pop(0))
                if registry.failures:
                    return self.answer(status := registry.failures.pop(0), {"error_code": status, "message": "told to fail"})
                if wanted and self.headers.get("Authorization") != wanted:
                    return self.answer(401, {"error_code": 401, "message": "Unauthorized"})
                head, _, number = self.path.partition("?")[0].rpartition("/")
                if head == "/schemas/ids" and number.isdecimal() and int(number) in registry.schemas:
                    return self.answer(200, {"schema": registry.schemas[int(number)]})
                self.answer(404, {"error_code": 40403, "message": "Schema not found"})

            def answer(self, status: int, said: dict) -> None:
                self.send(status, json.dumps(said).encode())

            def send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                if status == 301:
                    self.send_header("Location", "/elsewhere")
                if status == 401:
                    self.send_header("WWW-Authenticate", 'Basic realm="registry"')
                self.send_header("Content-Type", CONTENT_TYPE)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def register(self, schema: dict, subject: str = "", schema_id: int | None = None) -> int:
        """`subject` is only for a registry that has them."""
        schema_id = schema_id if schema_id is not None else max(self.schemas, default=0) + 1
        self.schemas[schema_id] = json.dumps(schema)
        return schema_id

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Apicurio:
    """Apicurio Registry, which forgets all when it ends."""

    def __init__(self, program: Path, folder: Path):
        self.log = folder / "registry.log"
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        runner = next(program.glob("*-runner.jar"))
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(runner)]
        environment = os.environ | {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)
        until = time.monotonic() + START_S
        while not self._answers():
            assert self.process.poll() is None, f"the registry exited:\n{self.log.read_text()}"
            assert time.monotonic() < until, f"the registry does not answer after {START_S} s:\n{self.log.read_text()}"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return isinstance(ask(f"{self.url}/subjects"), list)
        except OSError:
            return False

    def register(self, schema: dict, subject: str) -> int:
        return ask(f"{self.url}/subjects/{subject}/versions", {"schema": json.dumps(schema)})["id"]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def ask(url: str, body: dict | None = None, **headers: str):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": CONTENT_TYPE} | headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@contextmanager
def stand_in(**settings) -> Iterator[StandIn]:
    registry = StandIn(**settings)
    try:
        yield registry
    finally:
        registry.stop()


def apicurio() -> Path:
    """The folder with Apicurio Registry."""
    return downloaded("APICURIO", "apicurio", "*-runner.jar")
