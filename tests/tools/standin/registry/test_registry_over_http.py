"""The stand-in registry as its clients meet it: every row of spec section 10.3, over loopback."""

import hashlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tools.standin.registry import (
    Corrupt,
    Cut,
    Host,
    IgnoreRange,
    Redirect,
    Registry,
    Settings,
    Shorten,
    Stall,
    Status,
    UnknownTagError,
)

MANIFEST = "/v2/library/laya/manifests/en"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


def ask(base: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """One request on a connection of its own; headers' underscores become hyphens."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=5)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def layers(registry: Registry, tag: str = "laya:en") -> list[dict[str, Any]]:
    found = json.loads(registry.manifest(tag))["layers"]
    assert isinstance(found, list)
    return found


def blob_path(registry: Registry) -> str:
    """The path of a graph, which the registry serves itself."""
    return urlsplit(str(layers(registry)[0]["urls"][0])).path


def weights_path(registry: Registry, tag: str = "laya:en") -> str:
    return urlsplit(str(layers(registry, tag)[2]["urls"][0])).path


class TestManifests:
    def test_a_tag_gives_the_exact_bytes_with_an_etag_and_no_digest_header(self, registry: Registry) -> None:
        answer = ask(registry.base_url, MANIFEST)
        assert (answer.status, answer.body) == (200, registry.manifest("laya:en"))
        assert hashlib.sha256(answer.body).hexdigest() == registry.digest("laya:en")
        assert answer.headers["ETag"]
        assert "Docker-Content-Digest" not in answer.headers

    def test_whoever_names_the_whole_address_as_to_a_proxy_is_answered_alike(self, registry: Registry) -> None:
        answer = ask(registry.base_url, f"http://registry.test:8080{MANIFEST}")
        assert (answer.status, answer.body) == (200, registry.manifest("laya:en"))
        assert [request.path for request in registry.requests] == [MANIFEST]

    def test_an_unknown_tag_is_an_html_page(self, registry: Registry) -> None:
        answer = ask(registry.base_url, "/v2/library/laya/manifests/none")
        assert (answer.status, answer.headers.get_content_type()) == (404, "text/html")

    def test_a_digest_leads_nowhere(self, registry: Registry) -> None:
        answer = ask(registry.base_url, f"/v2/library/laya/manifests/sha256:{registry.digest('laya:en')}")
        assert answer.status == 307
        assert "%3A" in answer.headers["Location"]
        followed = ask(registry.base_url, answer.headers["Location"])
        assert (followed.status, followed.headers.get_content_type()) == (404, "text/html")

    @pytest.mark.parametrize("path", ["/v2/library/laya/tags/list", "/v2/", "/", "/blobs/", "/v2/library/laya"])
    def test_nothing_else_is_there(self, registry: Registry, path: str) -> None:
        assert ask(registry.base_url, path).status == 404

    def test_head_is_get_without_a_body(self, registry: Registry) -> None:
        answer = ask(registry.base_url, MANIFEST, "HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert int(answer.headers["Content-Length"]) == len(registry.manifest("laya:en"))

    def test_manifests_point_at_the_registry_by_default_and_elsewhere_on_request(self) -> None:
        with Registry() as registry:
            assert layers(registry)[0]["urls"][0].startswith(f"{registry.base_url}/blobs/sha256-")
        with Registry(Settings(base_url="http://registry.test", weights_base_url="http://weights.test")) as registry:
            assert layers(registry)[0]["urls"][0].startswith("http://registry.test/blobs/sha256-")
            assert layers(registry)[2]["urls"][0].startswith("http://weights.test/standin/laya-en/resolve/")


class TestBlobs:
    def test_a_derived_file_by_its_digest(self, registry: Registry) -> None:
        answer = ask(registry.base_url, blob_path(registry))
        assert f"sha256:{hashlib.sha256(answer.body).hexdigest()}" == layers(registry)[0]["digest"]

    def test_a_layer_without_urls_under_the_registrys_own_blob_path(self, registry: Registry) -> None:
        graph = layers(registry, "odd:no-urls")[0]
        answer = ask(registry.base_url, f"/v2/library/odd/blobs/{graph['digest']}")
        assert f"sha256:{hashlib.sha256(answer.body).hexdigest()}" == graph["digest"]

    def test_weights_only_on_their_own_host(self, registry: Registry) -> None:
        path = weights_path(registry)
        answer = ask(registry.weights_url, path)
        assert f"sha256:{hashlib.sha256(answer.body).hexdigest()}" == layers(registry)[2]["digest"]
        assert ask(registry.base_url, path).status == 404
        assert ask(registry.weights_url, blob_path(registry)).status == 404

    def test_the_broken_models_graph_has_the_right_length_and_the_wrong_bytes(self, registry: Registry) -> None:
        graph = layers(registry, "laya:en-broken")[0]
        body = ask(registry.base_url, urlsplit(graph["urls"][0]).path).body
        assert len(body) == graph["size"]
        assert f"sha256:{hashlib.sha256(body).hexdigest()}" != graph["digest"]


class TestRanges:
    def test_a_part(self, registry: Registry) -> None:
        path = weights_path(registry)
        whole = ask(registry.weights_url, path).body
        part = ask(registry.weights_url, path, Range="bytes=10-19")
        assert (part.status, part.body) == (206, whole[10:20])
        assert part.headers["Content-Range"] == f"bytes 10-19/{len(whole)}"

    def test_parts_of_a_large_blob_add_up(self, registry: Registry) -> None:
        weights = layers(registry, "laya:en-large")[2]
        path, size = weights_path(registry, "laya:en-large"), weights["size"]
        half = size // 2
        digest = hashlib.sha256()
        for wanted in (f"bytes=0-{half - 1}", f"bytes={half}-{size - 1}"):
            part = ask(registry.weights_url, path, Range=wanted)
            assert part.status == 206
            digest.update(part.body)
        assert f"sha256:{digest.hexdigest()}" == weights["digest"]

    def test_a_range_past_the_end(self, registry: Registry) -> None:
        answer = ask(registry.weights_url, weights_path(registry), Range="bytes=99999999-")
        assert answer.status == 416
        assert answer.headers["Content-Range"].startswith("bytes */")

    def test_ranges_can_be_ignored(self, registry: Registry) -> None:
        path = weights_path(registry)
        registry.fail_next(path, IgnoreRange())
        answer = ask(registry.weights_url, path, Range="bytes=10-19")
        assert (answer.status, len(answer.body)) == (200, layers(registry)[2]["size"])
        assert ask(registry.weights_url, path, Range="bytes=10-19").status == 206


class TestFailures:
    def test_server_errors_and_then_success(self, registry: Registry) -> None:
        registry.fail_next("/blobs/*", Status(503), times=2)
        path = blob_path(registry)
        assert [ask(registry.base_url, path).status for _ in range(3)] == [503, 503, 200]

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_a_blob_can_be_refused_for_good(self, registry: Registry, status: int) -> None:
        registry.fail_next("/blobs/*", Status(status), times=None)
        assert {ask(registry.base_url, blob_path(registry)).status for _ in range(3)} == {status}
        registry.clear_failures()
        assert ask(registry.base_url, blob_path(registry)).status == 200

    def test_a_redirect(self, registry: Registry) -> None:
        target = f"{registry.weights_url}{weights_path(registry)}"
        registry.fail_next("/blobs/*", Redirect(target, 307))
        answer = ask(registry.base_url, blob_path(registry))
        assert (answer.status, answer.headers["Location"]) == (307, target)

    def test_a_transfer_that_breaks_off(self, registry: Registry) -> None:
        registry.fail_next("/blobs/*", Cut(after_bytes=7))
        with pytest.raises(http.client.IncompleteRead) as broken:
            ask(registry.base_url, blob_path(registry))
        assert len(broken.value.partial) == 7
        assert ask(registry.base_url, blob_path(registry)).status == 200

    def test_a_transfer_that_stalls_goes_on_afterwards(self, registry: Registry) -> None:
        registry.fail_next("/blobs/*", Stall(after_bytes=7, seconds=0.2))
        started = time.monotonic()
        answer = ask(registry.base_url, blob_path(registry))
        assert time.monotonic() - started >= 0.2
        assert f"sha256:{hashlib.sha256(answer.body).hexdigest()}" == layers(registry)[0]["digest"]

    def test_a_client_can_give_up_on_a_stalled_transfer(self, registry: Registry) -> None:
        registry.fail_next("/blobs/*", Stall(after_bytes=7, seconds=40))
        host = urlsplit(registry.base_url)
        with socket.create_connection((host.hostname or "", host.port or 0), timeout=5) as connection:
            connection.sendall(f"GET {blob_path(registry)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head, _, body = _read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
            while len(body) < 7:
                body += connection.recv(100)
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        assert b"200 OK" in head

    def test_a_body_that_is_too_short(self, registry: Registry) -> None:
        registry.fail_next("/blobs/*", Shorten(by_bytes=3))
        assert len(ask(registry.base_url, blob_path(registry)).body) == layers(registry)[0]["size"] - 3

    def test_a_body_that_is_corrupt(self, registry: Registry) -> None:
        registry.fail_next(MANIFEST, Corrupt())
        body = ask(registry.base_url, MANIFEST).body
        assert len(body) == len(registry.manifest("laya:en"))
        assert body != registry.manifest("laya:en")


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        received += connection.recv(1000)
    return received


class TestTags:
    def test_a_tag_moves_and_comes_back(self, registry: Registry) -> None:
        before = registry.digest("laya:en")
        registry.move_tag("laya:en", "laya:en-better")
        assert ask(registry.base_url, MANIFEST).body == registry.manifest("laya:en-better")
        registry.move_tag("laya:en", "laya:en")
        assert registry.digest("laya:en") == before

    def test_a_tag_can_be_added_in_another_namespace(self, registry: Registry) -> None:
        registry.move_tag("acme/laya:en", "laya:en")
        assert ask(registry.base_url, "/v2/acme/laya/manifests/en").body == registry.manifest("laya:en")

    def test_a_deleted_tag_is_gone_but_not_its_blobs(self, registry: Registry) -> None:
        path = blob_path(registry)
        registry.delete_tag("laya:en")
        assert ask(registry.base_url, MANIFEST).status == 404
        assert ask(registry.base_url, path).status == 200

    def test_tags_that_do_not_exist(self, registry: Registry) -> None:
        with pytest.raises(UnknownTagError):
            registry.move_tag("laya:en", "laya:none")
        with pytest.raises(UnknownTagError):
            registry.delete_tag("laya:none")
        with pytest.raises(UnknownTagError):
            registry.digest("laya:none")


class TestRecord:
    def test_requests_are_counted_with_their_headers(self, registry: Registry) -> None:
        ask(registry.base_url, MANIFEST, User_Agent="ollaya/0.12.0")
        ask(registry.weights_url, weights_path(registry), Authorization="Bearer dummy")
        first, second = registry.requests
        assert (first.host, first.method, first.path, first.status) == (Host.REGISTRY, "GET", MANIFEST, 200)
        assert (first.header("user-agent"), first.header("authorization")) == ("ollaya/0.12.0", None)
        assert (second.host, second.header("AUTHORIZATION")) == (Host.WEIGHTS, "Bearer dummy")

    def test_failed_requests_are_recorded_as_answered(self, registry: Registry) -> None:
        registry.fail_next("/v2/*", Status(500))
        ask(registry.base_url, MANIFEST)
        assert [request.status for request in registry.requests] == [500]

    def test_the_record_can_start_anew(self, registry: Registry) -> None:
        ask(registry.base_url, MANIFEST)
        registry.forget_requests()
        assert registry.requests == []


def test_it_serves_https(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    client = ssl.create_default_context(cafile=str(certificate))
    with Registry(Settings(tls=server)) as registry:
        assert layers(registry)[0]["urls"][0].startswith("https://127.0.0.1:")
        netloc = urlsplit(registry.base_url).netloc
        untrusting = http.client.HTTPSConnection(netloc, timeout=5)
        with pytest.raises(ssl.SSLCertVerificationError):
            untrusting.request("GET", MANIFEST)
        connection = http.client.HTTPSConnection(netloc, timeout=5, context=client)
        connection.request("GET", MANIFEST)
        assert connection.getresponse().read() == registry.manifest("laya:en")
        connection.close()


def write_certificate(directory: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "registry.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path
