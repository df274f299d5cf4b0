"""What browsers ask before a request costs little, whatever the rules and whatever is asked for."""

from wire import Wire


def test_many_names_asked_of_many_patterns_cost_little(serving, attack, wire: Wire, bucket: str):
    def rules(count: int) -> bytes:
        headers = "".join(f"<AllowedHeader>{'a' * 8}{number:04x}*</AllowedHeader>" for number in range(count))
        rule = f"<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>{headers}</CORSRule>"
        return f"<CORSConfiguration>{rule}</CORSConfiguration>".encode()

    assert any(wire.send("PUT", f"/{bucket}?cors", body=rules(count)).status == 200 for count in (15_500, 4_000, 2_500))
    fields = {"Origin": "https://a.example", "Access-Control-Request-Method": "PUT"}
    for names in (",".join(["a"] * 30_000), ",".join(["aaaaaaaa" * 4] * 120), "a," * 30_000):
        with attack(cpu_s=3):
            for _ in range(20):
                reply = wire.send("OPTIONS", f"/{bucket}/k", fields | {"Access-Control-Request-Headers": names[:60_000]}, anonymous=True)
                assert reply.status in (400, 403)
