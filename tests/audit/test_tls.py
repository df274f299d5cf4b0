"""Places behind TLS: a certificate is trusted, or nothing is known of the copies."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conftest import PATIENCE_S, Place, absent, free_port
from test_audits import FEW, Audit
from test_fulgurite import SERVER

DAY = datetime.timedelta(days=1)
HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


@dataclass
class Authority:
    """Issues certificates, into files in a folder."""

    folder: Path

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {self.folder.name}")])
        self.folder.mkdir()
        self.file = self.folder / "authority.pem"
        self.file.write_bytes(self._sign(self.name, self.key, x509.BasicConstraints(ca=True, path_length=0), DAY))

    def issue(self, name: str, host: x509.GeneralName = HERE, ends_in: datetime.timedelta = DAY) -> tuple[Path, Path]:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate.write_bytes(self._sign(subject, key, x509.SubjectAlternativeName([host]), ends_in))
        encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        secret.write_bytes(key.private_bytes(*encoding))
        return certificate, secret

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, ends_in: datetime.timedelta) -> bytes:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - 3 * DAY).not_valid_after(now + ends_in)
        signed = builder.add_extension(extension, critical=False).sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


@pytest.fixture
def public(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that knows another authority."""
    return {"SSL_CERT_FILE": str(Authority(tmp_path / "public").file)}


def serve_s3(start: Callable[..., object], home: Path, certificate: Path, key: Path) -> Place:
    program = os.environ.get("FULGURITE_RCLONE")
    if program is None:
        absent("rclone")
    port = free_port()
    (home / "root/bucket").mkdir(parents=True, exist_ok=True)
    variables = {"RCLONE_CONFIG": str(home / "rclone.conf"), "RCLONE_AUTH_KEY": '"access,secret word"'}
    start("rclone", port, program, "serve", "s3", home / "root", "--addr", f"127.0.0.1:{port}", "--cert", certificate, "--key", key, environment=variables)
    options = [f"endpoint=https://127.0.0.1:{port}", "access_key_id=access", "secret_access_key=env:S3_SECRET"]
    return Place("s3://bucket/prefix", options, home, {"S3_SECRET": "secret word"})


def serve_webdav(start: Callable[..., object], home: Path, certificate: Path, key: Path) -> Place:
    program = Path(sys.executable).with_name("wsgidav")
    if not program.exists():
        absent("WsgiDAV")
    port = free_port()
    (home / "copies").mkdir(parents=True, exist_ok=True)
    settings = home / f"wsgidav.{port}.yaml"
    settings.write_text(
        f"host: 127.0.0.1\nport: {port}\nprovider_mapping:\n  '/dav': '{home / 'copies'}'\n"
        f"simple_dc:\n  user_mapping:\n    '*': true\nssl_certificate: '{certificate}'\nssl_private_key: '{key}'\n"
    )
    start("wsgidav", port, program, "--config", settings)
    return Place(f"webdavs://127.0.0.1:{port}/dav", [], home)


@pytest.mark.parametrize("serve", [serve_s3, serve_webdav], ids=["s3", "webdav"])
def test_copies_are_unavailable_while_the_certificate_is_not_trusted(
    serve: Callable[..., Place], start: Callable[..., object], authority: Authority, public: dict[str, str], reference: Place, tmp_path: Path
) -> None:
    home = tmp_path / "server"
    trusted = [f"ca_file={authority.file}"]
    good = serve(start, home, *authority.issue("good"))
    expired = serve(start, home, *authority.issue("expired", ends_in=-DAY))
    elsewhere = serve(start, home, *authority.issue("elsewhere", host=x509.DNSName("elsewhere.invalid")))
    far = replace(good, options=[*good.options, *trusted], environment=good.environment | public)
    audit = Audit(tmp_path, {"far": far, "near": reference}, FEW)
    audit.good("run")
    for place, ca_file, reason in [
        (good, "", "none of the known authorities issued it"),
        (expired, str(authority.file), "it has expired"),
        (elsewhere, str(authority.file), "it is for another host"),
    ]:
        options = [option for option in place.options if option.startswith("endpoint=")]
        words = [word for option in [*options, f"ca_file={ca_file}"] for word in ("--option", option)]
        audit.good("node", "set", "far", "--place", place.url, "--unreached", *words)
        said = audit.run("run", "--all")
        assert said.returncode == 4, said
        assert audit.states() == {"far": {"unavailable": len(FEW)}, "near": {"verified": len(FEW)}}
        problems = audit.run("problems").stdout
        assert problems.count(f"the certificate is not trusted, because {reason}") == len(FEW), problems
    options = [word for option in far.options for word in ("--option", option)]
    audit.good("node", "set", "far", "--place", far.url, *options)
    audit.good("run", "--all")
    assert audit.states()["far"] == {"verified": len(FEW)}


def test_the_authorities_of_the_machine_are_trusted_unless_ca_file_names_others(
    start: Callable[..., object], authority: Authority, public: dict[str, str], tmp_path: Path
) -> None:
    place = serve_webdav(start, tmp_path / "server", *authority.issue("good"))
    (place.folder / "copies/file").write_bytes(b"content")
    own = {"SSL_CERT_FILE": str(authority.file)}
    assert replace(place, environment=own).do("read", "file") == b"content"
    assert replace(place, environment=public).cause("read", "file") == "connection"
    other = replace(place, options=[f"ca_file={public['SSL_CERT_FILE']}"], environment=own)
    assert other.cause("read", "file") == "connection"
    plain = replace(place, url=place.url.replace("webdavs:", "https:"), environment=own)
    assert plain.do("read", "file") == b"content"


def test_this_server_s_own_tls_is_trusted_by_its_authority(authority: Authority, public: dict[str, str], tmp_path: Path) -> None:
    if not SERVER.is_file():
        absent(str(SERVER))
    certificate, key = authority.issue("good")
    archive = tmp_path / "archive"
    stores = [word for number in range(3) for word in ("--store", tmp_path / f"store {number}")]
    subprocess.run([SERVER, "init", *stores, archive], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    (archive / "service.toml").write_text(f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n')
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([SERVER, "-A", archive, "--json", "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log)
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline() or json.dumps({"log": (tmp_path / "log").read_text()}))
        assert said["endpoint"].startswith("https://"), said
        keys = {"aws_access_key_id": said["access_key"], "aws_secret_access_key": said["secret_key"]}
        style = Config(s3={"addressing_style": "path"})
        client = boto3.client("s3", endpoint_url=said["endpoint"], region_name=said["region"], config=style, verify=str(authority.file), **keys)
        client.create_bucket(Bucket="bucket")
        options = [f"endpoint={said['endpoint']}", f"region={said['region']}", f"access_key_id={said['access_key']}", "secret_access_key=env:S3_SECRET"]
        place = Place("s3://bucket/prefix", [*options, f"ca_file={authority.file}"], archive, public | {"S3_SECRET": said["secret_key"]})
        place.do("write", "file", content=b"content")
        assert place.do("read", "file") == b"content"
        assert replace(place, options=options).cause("read", "file") == "connection"
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)
