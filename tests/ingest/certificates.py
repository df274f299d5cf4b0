"""A certificate authority of the tests' own, and what it signs, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """Its certificate lies in `path`, for clients that verify by it."""

    def __init__(self, folder: Path, name: str = "ca"):
        self.folder, self.path = folder, folder / f"{name}.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"test authority {name}")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        built = self._begun(self._name, self._key, DAY).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.path.write_bytes(pem(built.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())))

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: datetime.timedelta) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        return builder.serial_number(x509.random_serial_number()).not_valid_before(now - 2 * DAY).not_valid_after(now + lasts)

    def issue(self, name: str, *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1"), lasts: datetime.timedelta = DAY) -> Path:
        """A file with a key and its certificate. With a negative `lasts` it has expired; without `hosts` it is a client's."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, lasts)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([host_name(host) for host in hosts]), critical=False)
        uses = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([uses]), critical=False)
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = self.folder / f"{name}.pem"
        path.write_bytes(secret + pem(builder.sign(self._key, hashes.SHA256())) + self.path.read_bytes())
        return path


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
