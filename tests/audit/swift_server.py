"""OpenStack Swift in one process: its proxy, account, container and object servers, one replica on one device.

    python swift_server.py FOLDER PORT TOKEN_LIFE_S

TempAuth at /auth/v1.0 signs `test:tester` in with the key `testing`. Objects are files in FOLDER, whose file system must
support extended attributes: Swift keeps metadata there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import eventlet
import eventlet.wsgi

# Before anything else uses sockets.
eventlet.monkey_patch()

from swift.common import storage_policy, utils, wsgi  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402

FILTERS = "catch_errors gatekeeper healthcheck listing_formats bulk tempurl tempauth copy slo dlo"
SETTINGS = {
    "proxy": "account_autocreate = true",
    "account": "devices = {folder}/devices\nmount_check = false",
    "container": "devices = {folder}/devices\nmount_check = false",
    "object": "devices = {folder}/devices\nmount_check = false",
}
# Tokens that are only signed need no cache server. The key is 32 bytes in base64.
TEMPAUTH = """
user_test_tester = testing .admin
token_life = {token_life_s}
fernet_key_only = b25seSBmb3IgdGVzdHMgb24gdGhpcyBtYWNoaW5lISE=
active_fernet_key_id = only
"""


def settings(name: str, folder: Path, token_life_s: int) -> str:
    filters = FILTERS.split() if name == "proxy" else []
    lines = [f"[DEFAULT]\nswift_dir = {folder}\n[pipeline:main]\npipeline = {' '.join([*filters, 'server'])}"]
    lines.append(f"[app:server]\nuse = egg:swift#{name}\n{SETTINGS[name].format(folder=folder)}")
    for each in filters:
        lines.append(f"[filter:{each}]\nuse = egg:swift#{each}")
        if each == "tempauth":
            lines.append(TEMPAUTH.format(token_life_s=token_life_s))
    return "\n".join(lines) + "\n"


def main(folder: Path, port: int, token_life_s: int) -> None:
    (folder / "devices/disk").mkdir(parents=True)
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = test\n")
    utils.set_swift_dir(str(folder))
    storage_policy.reload_storage_policies()
    sockets = {name: eventlet.listen(("127.0.0.1", 0)) for name in ("account", "container", "object")}
    for name, socket in sockets.items():
        ring = RingBuilder(part_power=6, replicas=1, min_part_hours=1)
        device = {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": socket.getsockname()[1], "device": "disk", "weight": 1}
        ring.add_dev(device)
        ring.rebalance()
        ring.get_ring().save(str(folder / f"{name}.ring.gz"))
    # Last, because it tells that all are ready.
    sockets["proxy"] = eventlet.listen(("127.0.0.1", port))
    servers = []
    for name, socket in sockets.items():
        path = folder / f"{name}.conf"
        path.write_text(settings(name, folder, token_life_s))
        app = wsgi.loadapp(str(path))
        servers.append(eventlet.spawn(eventlet.wsgi.server, socket, app, protocol=wsgi.SwiftHttpProtocol))
    servers[-1].wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
