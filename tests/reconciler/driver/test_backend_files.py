"""What the driver does itself to a backend's files: the same in a directory and in a bucket."""

from __future__ import annotations

import itertools
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.server import ThreadedMotoServer
from werkzeug.serving import make_server

from reconciler.driver import backend_layout as layout
from reconciler.driver import housekeeping
from reconciler.driver.backend_files import BackendFiles, open_files
from reconciler.driver.bucket_credentials import DIRECTORY_VARIABLE, current_environment
from reconciler.driver.bucket_files import BucketAddress, parse_bucket_url
from reconciler.driver.command import cli_environment
from reconciler.driver.errors import BackendFilesError
from reconciler.driver.settings import DriverSettings

PROJECT, STACK = "decisionmodel", "shop.fraud.1a2b3c4d"
HISTORY = layout.history_directory(PROJECT, STACK)
Put = Callable[[str], None]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture(params=["directory", "bucket", "folder of a bucket"])
def backend(request: pytest.FixtureRequest) -> tuple[BackendFiles, Put]:
    """A backend's files, and a way to put one there."""
    if request.param == "directory":
        return directory_backend(request.getfixturevalue("tmp_path"))
    environment: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    environment.setenv("AWS_ACCESS_KEY_ID", "test")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return bucket_backend(request.getfixturevalue("server"), "env/blue" if "folder" in request.param else "")


def directory_backend(root: Path) -> tuple[BackendFiles, Put]:
    def put(path: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)

    return open_files(f"file://{root}"), put


def bucket_backend(endpoint: str, folder: str, signed_by: str = "test") -> tuple[BackendFiles, Put]:
    name = f"bucket-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"http://{endpoint}/{name}", method="PUT")).close()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{endpoint}",
        region_name="us-east-1",
        aws_access_key_id=signed_by,
        aws_secret_access_key="test",
    )

    def put(path: str) -> None:
        client.put_object(Bucket=name, Key=f"{folder}/{path}".lstrip("/"), Body=path.encode())

    options = f"endpoint={endpoint}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"
    return open_files(f"s3://{name}{'/' if folder else ''}{folder}?{options}"), put


def entry(time: int) -> list[str]:
    return [f"{STACK}-{time}.{kind}.json.gz" for kind in ("checkpoint", "history")]


def test_the_newest_history_stays_and_nothing_else_is_touched(backend: tuple[BackendFiles, Put]) -> None:
    files, put = backend
    other = layout.history_directory(PROJECT, f"{STACK}-2")
    for name in [*entry(9), *entry(10), *entry(11), "notes.txt"]:
        put(f"{HISTORY}/{name}")
    put(f"{other}/{STACK}-2-1.history.json.gz")
    housekeeping.prune_history(files, PROJECT, STACK, keep=2)
    assert sorted(files.names(HISTORY)) == sorted([*entry(10), *entry(11), "notes.txt"])
    assert len(files.names(other)) == 1


def test_a_removed_stack_leaves_nothing(backend: tuple[BackendFiles, Put]) -> None:
    files, put = backend
    states = layout.stacks_directory(PROJECT)
    for name in entry(1):
        put(f"{HISTORY}/{name}")
    for name in (f"{STACK}.json.gz.bak", f"{STACK}.json.bak.attrs", "another.json.gz"):
        put(f"{states}/{name}")
    housekeeping.remove_remains(files, PROJECT, STACK)
    assert files.names(HISTORY) == []
    assert files.names(states) == ["another.json.gz"]


def test_a_state_is_thrown_away_with_what_keeps_it_from_being_read(backend: tuple[BackendFiles, Put]) -> None:
    files, put = backend
    states = layout.stacks_directory(PROJECT)
    for name in (f"{STACK}.json.gz", f"{STACK}.json.gz.attrs", f"{STACK}.json", "another.json.gz.attrs"):
        put(f"{states}/{name}")
    housekeeping.discard_state(files, PROJECT, STACK)
    assert files.names(states) == ["another.json.gz.attrs"]


def test_old_history_goes_in_portions_oldest_first(
    backend: tuple[BackendFiles, Put], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "DELETIONS_AT_ONCE", 4)
    files, put = backend
    for time in range(95, 100 + 3):
        for name in entry(time):
            put(f"{HISTORY}/{name}")
    housekeeping.prune_history(files, PROJECT, STACK, keep=5)
    assert sorted(files.names(HISTORY)) == sorted(name for time in range(97, 103) for name in entry(time))
    housekeeping.prune_history(files, PROJECT, STACK, keep=5)
    assert sorted(files.names(HISTORY)) == sorted(name for time in range(98, 103) for name in entry(time))


def test_files_are_read_and_what_is_missing_is_an_error(backend: tuple[BackendFiles, Put]) -> None:
    files, put = backend
    put("a/b")
    assert files.read("a/b") == b"a/b"
    files.delete(["a/b", "a/c"])
    assert files.names("a") == []
    with pytest.raises(BackendFilesError):
        files.read("a/b")


def test_a_bucket_that_does_not_answer_is_an_error_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    files = open_files("s3://states?endpoint=127.0.0.1:9&disableSSL=true&s3ForcePathStyle=true&region=us-east-1")
    with pytest.raises(BackendFilesError, match="bucket states: Could not connect") as caught:
        files.names("a")
    assert "canary-secret" not in str(caught.value)


def test_other_backends_are_refused_without_repeating_what_may_be_secret() -> None:
    with pytest.raises(BackendFilesError) as caught:
        open_files("postgres://user:password@host/states")
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://states", BucketAddress(bucket="states")),
        (
            "s3://states/env/blue/?region=eu-central-1",
            BucketAddress(bucket="states", prefix="env/blue/", region="eu-central-1"),
        ),
        (
            "s3://states?endpoint=10.0.0.1%3A9000&disableSSL=true&s3ForcePathStyle=true",
            BucketAddress(bucket="states", endpoint="http://10.0.0.1:9000", path_style=True),
        ),
        ("s3://states?endpoint=minio.example", BucketAddress(bucket="states", endpoint="https://minio.example")),
        ("s3://states?endpoint=http://minio:9000", BucketAddress(bucket="states", endpoint="http://minio:9000")),
    ],
)
def test_a_bucket_is_addressed_as_the_cli_addresses_it(url: str, address: BucketAddress) -> None:
    assert parse_bucket_url(url) == address


class Locksmith:
    """A bucket's server that admits one key at a time, as the SDKs sign with it, and what it refused."""

    def __init__(self) -> None:
        self.admits = "first"
        self.refused: list[str] = []
        self._bucket = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], respond: Any) -> Any:
        signed = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if signed and signed[1] != self.admits:
            self.refused.append(signed[1])
            respond("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>"]
        return self._bucket(environ, respond)


@pytest.fixture
def locksmith() -> Iterator[tuple[Locksmith, str]]:
    application = Locksmith()
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield application, f"127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


def swap(directory: Path, version: str, **keys: str) -> None:
    """Put a Secret's keys into a mounted directory as the kubelet does: all at once, behind one link."""
    (directory / version).mkdir(parents=True)
    for name, value in keys.items():
        (directory / version / name).write_text(value)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "new").symlink_to(version)
    (directory / "new").rename(directory / "..data")


def test_rotated_credentials_of_a_bucket_count_at_the_next_look(
    locksmith: tuple[Locksmith, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, endpoint = locksmith
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the container's start")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    swap(tmp_path, "v1", AWS_ACCESS_KEY_ID="first", AWS_SECRET_ACCESS_KEY="a\n", AWS_SESSION_TOKEN="t")
    files, put = bucket_backend(endpoint, "", signed_by="first")
    put("place/file")
    assert files.names("place") == ["file"]

    server.admits = "second"
    with pytest.raises(BackendFilesError, match="InvalidAccessKeyId"):
        files.names("place")
    swap(tmp_path, "v2", AWS_ACCESS_KEY_ID="second", AWS_SECRET_ACCESS_KEY="b")
    assert files.names("place") == ["file"]
    assert set(server.refused) == {"first"}


def test_the_engine_gets_the_credentials_of_the_moment_and_none_of_the_start(tmp_path: Path) -> None:
    ambient = {"AWS_ACCESS_KEY_ID": "old", "AWS_SESSION_TOKEN": "old", "HOME": "/", DIRECTORY_VARIABLE: str(tmp_path)}
    swap(tmp_path, "v1", AWS_ACCESS_KEY_ID="first", AWS_SECRET_ACCESS_KEY="a\n")
    settings = DriverSettings(
        pulumi=Path("pulumi"), pulumi_home=tmp_path, backend_url="s3://states", work_directory=tmp_path
    )
    given = cli_environment(settings, current_environment(ambient), tmp_path)
    assert {name: value for name, value in given.items() if name.startswith("AWS_")} == {
        "AWS_ACCESS_KEY_ID": "first",
        "AWS_SECRET_ACCESS_KEY": "a",
    }
    assert current_environment({"AWS_ACCESS_KEY_ID": "cloud"}) == {"AWS_ACCESS_KEY_ID": "cloud"}
