"""Certificates for tests."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.kernel.certificates import CertificateFiles


def issue(directory: Path, common_name: str, *, password: bytes | None = None) -> CertificateFiles:
    """Put a certificate of this name into a directory, as the kubelet does: new files in the old ones' places."""
    certificate, key = issued(common_name, password=password)
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key")
    place(files.certificate, certificate)
    place(files.key, key)
    return files


def issued(common_name: str, *, hosts: tuple[str, ...] = (), password: bytes | None = None) -> tuple[bytes, bytes]:
    """Return a certificate that vouches for itself and for `hosts`, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return (
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption),
    )


def place(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
