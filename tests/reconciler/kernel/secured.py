"""A TLS server that says who asked, a proxy in front of it, and the authority behind both."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Authority:
    """Issues certificates that its own one vouches for."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        built = self._builder(self._name, self._key).add_extension(basic, critical=True)
        self.certificate = _pem(built.sign(self._key, hashes.SHA256()))

    @property
    def data(self) -> str:
        """Its certificate as kubeconfigs hold it."""
        return base64.b64encode(self.certificate.encode()).decode()

    def issue(self, name: str, *alternatives: str) -> Pair:
        """Issue a certificate for a person, or for a server under other names."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if alternatives:
            names = x509.SubjectAlternativeName([x509.DNSName(each) for each in alternatives])
            builder = builder.add_extension(names, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), private.decode())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
        )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@dataclass(slots=True)
class Asked:
    """One request as it arrived."""

    headers: list[tuple[str, str]]
    person: str
    """The name in the client's certificate; empty without one."""

    def header(self, name: str) -> list[str]:
        """Return all values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(slots=True)
class Server:
    """A TLS server, and what it was asked."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    admits: Callable[[Asked], bool] = lambda _: True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests with an object until the client goes."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
                certificate: Any = writer.get_extra_info("peercert") or {}
                subject = dict(pair for names in certificate.get("subject", ()) for pair in names)
                fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in head)]
                asked = Asked(fields, subject.get("commonName", ""))
                self.asked.append(asked)
                status = "200 OK" if self.admits(asked) else "401 Unauthorized"
                body = json.dumps({"metadata": {"name": "a"}}).encode()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def secured(authority: Authority, directory: Path, *names: str) -> AsyncIterator[Server]:
    """Run a server with a certificate for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.issue("server", *names)
    file = directory / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as running:
        server.port = running.sockets[0].getsockname()[1]
        yield server


@dataclass(slots=True)
class Proxy:
    """A proxy that makes tunnels to one port whatever it is asked for, and how it was asked."""

    target: int
    port: int = 0
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Make one tunnel."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.target)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 14):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxying(target: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """Run a proxy in front of a server, with TLS if a context is given."""
    proxy = Proxy(target)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context) as running:
        proxy.port = running.sockets[0].getsockname()[1]
        yield proxy
