"""Forms that are sent to anything but a bucket, or that never end."""

import pytest

from conftest import falls_back, head
from crowd import Crowd
from wire import Wire

CROWD = 150
FIELD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


@pytest.mark.parametrize("target", ["/", "/target/key", "/target/"])
def test_a_form_is_refused_before_it_is_read_unless_it_is_for_a_bucket(serving, attack, wire: Wire, bucket: str, target: str):
    fields = {"Host": wire.host, "Content-Type": "Multipart/Form-Data; boundary=x", "Content-Length": str(20 << 20)}
    with attack(cpu_s=8), Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(head("POST", target, fields) + FIELD + b"y" * (1 << 20), timeout_s=8)
        answers = crowd.answers(timeout_s=5)
        refused = sum(b" 405 " in answer or b" 413 " in answer or b" 400 " in answer for answer in answers)
        # Some hear of nothing but the end of their connection.
        assert refused >= CROWD // 4, f"{refused} of {CROWD} were refused"
    falls_back(serving)


def test_boundaries_that_are_nearly_found_cost_little(serving, attack, wire: Wire, bucket: str):
    """The framework looked for the boundary anew, from the beginning, with each byte that came."""
    fields = {"Host": wire.host, "Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(20 << 20)}
    with attack(cpu_s=6), Crowd(wire.address) as crowd:
        crowd.connect(4)
        crowd.send(head("POST", f"/{bucket}", fields) + FIELD, timeout_s=2)
        for _ in range(400):
            crowd.send(b"\r\n--", timeout_s=1)
    falls_back(serving)
