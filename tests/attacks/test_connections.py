"""Connections that say nothing, or hardly anything."""

from conftest import CONNECTIONS, falls_back
from crowd import Crowd
from wire import Wire


def test_idle_connections_make_room(serving, attack, wire: Wire):
    with attack(cpu_s=8), Crowd(wire.address) as crowd:
        for _ in range(5):
            crowd.connect(CONNECTIONS, timeout_s=3)
    falls_back(serving)


def test_heads_that_do_not_end_make_room(serving, attack, wire: Wire):
    line = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"x-%d: %s\r\n" % (number, b"y" * 900) for number in range(60))
    with attack(cpu_s=10), Crowd(wire.address) as crowd:
        for _ in range(3):
            crowd.connect(CONNECTIONS, timeout_s=3)
            crowd.send(line, timeout_s=3)
    falls_back(serving)


def test_many_parameters_cost_little(serving, attack, wire: Wire, bucket: str):
    target = f"/{bucket}/k?" + "&" * 30_000
    with attack(cpu_s=8), Crowd(wire.address) as crowd:
        crowd.connect(200)
        crowd.send(f"PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".encode(), timeout_s=5)
    falls_back(serving)
