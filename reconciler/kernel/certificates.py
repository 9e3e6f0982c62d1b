"""The TLS side of an endpoint: a certificate from files, read again when they change, or one issued to oneself."""

from __future__ import annotations

import datetime as dt
import logging
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.kernel.errors import KernelError

_log = logging.getLogger(__name__)

_LIFETIME = dt.timedelta(days=365)
_CLOCK_SKEW = dt.timedelta(hours=1)
_LONGEST_COMMON_NAME = 64
_Stamps = tuple[tuple[int, int, int], ...]


class CertificateError(KernelError):
    """A certificate or its key is missing or unusable; the message names the file."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate chain and its key, in PEM."""

    certificate: Path
    key: Path


def context_from_files(files: CertificateFiles) -> ssl.SSLContext:
    """Return a server's context that looks at the files anew with every handshake.

    A later change that cannot be used is logged, and what worked last goes on being served.

    Raises:
        CertificateError: The files cannot be used now.
    """
    current = _CurrentCertificate(files)
    context = current.context

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # Called in every handshake, with or without a name: the one moment at which a connection may change context.
        connection.context = current.refreshed()

    context.sni_callback = choose
    return context


def self_signed_context(host: str, now: dt.datetime) -> ssl.SSLContext:
    """Return a server's context with a certificate of its own, good for encryption but not for recognition.

    Args:
        host: Whom it names.
        now: Start of the certificate's year.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(host, key, now).public_bytes(serialization.Encoding.PEM)
    # The library takes a chain from files only; this one is gone, key and all, before anybody is served.
    with tempfile.TemporaryDirectory() as directory:
        pair = Path(directory) / "pair.pem"
        pair.write_bytes(certificate + _pem(key))
        return _loaded(CertificateFiles(pair, pair))


class _CurrentCertificate:
    """The last usable state of two files."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._seen = _stamps(files)
        self.context = _loaded(files)

    def refreshed(self) -> ssl.SSLContext:
        """Return the context to serve with now."""
        try:
            stamps = _stamps(self._files)
            if stamps == self._seen:
                return self.context
            # Even if they are unusable: they are tried once for each change, not for each client.
            self._seen = stamps
            self.context = _loaded(self._files)
        except CertificateError as error:
            _log.warning("the certificate changed and is not taken over: %s", error)
        return self.context


def _stamps(files: CertificateFiles) -> _Stamps:
    """Tell versions of the files apart; a mounted Secret changes by another file in the same place."""
    try:
        states = [path.stat() for path in (files.certificate, files.key)]
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from error
    return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)


def _loaded(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Without this, the oldest protocol would be what the interpreter's builder chose: with Debian's, any.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An encrypted key is refused instead of asking for its password on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{files.certificate} with {files.key} cannot be served: {error}") from error
    return context


def _self_signed(host: str, key: ec.EllipticCurvePrivateKey, now: dt.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:_LONGEST_COMMON_NAME])])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host), x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
