"""Certificates of an endpoint: from files, anew when they change, or issued at start; always over real connections."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from reconciler.kernel.certificates import CertificateError, CertificateFiles, context_from_files, self_signed_context
from reconciler.kernel.health import BindAddress, HttpServer, check_route
from tests.reconciler.kernel.issued import issue, place

pytestmark = pytest.mark.anyio

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)


@asynccontextmanager
async def serving(tls: ssl.SSLContext) -> AsyncIterator[HttpServer]:
    server = HttpServer(BindAddress("127.0.0.1", 0), {"/healthz": check_route(list)}, tls=tls)
    task = asyncio.create_task(server.run())
    await asyncio.wait_for(server.listening.wait(), 5)
    yield server
    task.cancel()
    await asyncio.wait([task])


async def presented(server: HttpServer, name: str | None = None) -> x509.Certificate:
    """The certificate that a client is shown, with or without a server name in its hello."""
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=client, server_hostname=name or "")
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


def common_name(certificate: x509.Certificate) -> str:
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


@pytest.mark.parametrize("server_name", [None, "metrics.example"])
async def test_a_changed_certificate_is_presented_to_the_next_client(tmp_path: Path, server_name: str | None) -> None:
    async with serving(context_from_files(issue(tmp_path, "first"))) as server:
        assert common_name(await presented(server, server_name)) == "first"
        issue(tmp_path, "second")
        assert common_name(await presented(server, server_name)) == "second"


async def test_what_worked_goes_on_until_the_files_fit_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = issue(tmp_path, "first")
    async with serving(context_from_files(files)) as server:
        with caplog.at_level(logging.WARNING):
            place(files.certificate, b"no certificate")
            assert common_name(await presented(server)) == "first"
            assert common_name(await presented(server)) == "first"
            files.key.unlink()
            assert common_name(await presented(server)) == "first"
        assert [str(files.certificate) in record.getMessage() for record in caplog.records] == [True, False]
        assert str(files.key) in caplog.records[1].getMessage()
        issue(tmp_path, "second")
        assert common_name(await presented(server)) == "second"


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    files = issue(tmp_path, "name")
    (tmp_path / missing).unlink()
    with pytest.raises(CertificateError, match=missing):
        context_from_files(files)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    one, other = issue(tmp_path / "one", "one"), issue(tmp_path / "other", "other")
    with pytest.raises(CertificateError, match="cannot be served"):
        context_from_files(CertificateFiles(one.certificate, other.key))


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be served"):
        context_from_files(issue(tmp_path, "name", password=b"secret"))


async def test_without_files_a_certificate_is_issued_for_a_year() -> None:
    async with serving(self_signed_context("manager-0", NOW)) as server:
        certificate = await presented(server)
    assert common_name(certificate) == "manager-0"
    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc == NOW + dt.timedelta(days=365)


def test_no_key_is_left_lying_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    self_signed_context("manager-0", NOW)
    assert not [*tmp_path.iterdir()]


def test_old_protocols_are_refused_however_the_interpreter_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    default = ssl.create_default_context

    def lax(purpose: ssl.Purpose) -> ssl.SSLContext:
        context = default(purpose)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        return context

    monkeypatch.setattr(ssl, "create_default_context", lax)
    assert self_signed_context("manager-0", NOW).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_plain_http_on_a_tls_port_gets_no_answer() -> None:
    async with serving(self_signed_context("manager-0", NOW)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 5)
        writer.close()
