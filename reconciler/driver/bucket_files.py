"""The files of an `s3://` backend, through the AWS SDK: it finds credentials in the same places as the CLI does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from reconciler.driver.bucket_credentials import NAMES, current_environment
from reconciler.driver.errors import BackendFilesError

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 10.0
_ATTEMPTS = 2
_ABSENT = frozenset({"NoSuchKey", "404"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """What a backend URL says about a bucket.

    Attributes:
        bucket: Its name.
        prefix: Of every key; empty, or ends in `/`.
        region: Where it is; None to find out from the environment.
        endpoint: URL of another server than Amazon's.
        path_style: Whether the bucket is part of the path instead of the host name.
    """

    bucket: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False


def parse_bucket_url(url: str) -> BucketAddress:
    """Read a backend URL as the CLI reads it (spec pulumi, section 3.4)."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    path = unquote(parts.path).strip("/")
    return BucketAddress(
        bucket=parts.netloc,
        prefix=f"{path}/" if path else "",
        region=options.get("region"),
        endpoint=_endpoint(options),
        path_style=_is_true(options, "s3ForcePathStyle", "use_path_style"),
    )


def _endpoint(options: Mapping[str, str]) -> str | None:
    endpoint = options.get("endpoint")
    if not endpoint or "://" in endpoint:
        return endpoint or None
    scheme = "http" if _is_true(options, "disableSSL", "disable_https") else "https"
    return f"{scheme}://{endpoint}"


def _is_true(options: Mapping[str, str], *names: str) -> bool:
    return any(options.get(name, "").lower() in {"true", "1"} for name in names)


class BucketFiles:
    """The files of one bucket below one prefix.

    Args:
        client: Gives an S3 client for the credentials of the moment; used from any thread, one call at a time each.
        address: The bucket.
    """

    def __init__(self, client: Callable[[], Any], address: BucketAddress) -> None:
        self._current = client
        self._address = address

    @property
    def _client(self) -> Any:
        return self._current()

    @classmethod
    def at(cls, url: str) -> BucketFiles:
        """Open a backend by its URL.

        Raises:
            BackendFilesError: The SDK refuses the address, or finds no region.
        """
        address = parse_bucket_url(url)
        with _explained(address):
            clients = _Clients(address)
            clients()
            return cls(clients, address)

    def names(self, directory: str) -> list[str]:
        """See `BackendFiles`."""
        place = f"{self._address.prefix}{directory}/"
        with _explained(self._address):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._address.bucket, Prefix=place, Delimiter="/"
            )
            return [found["Key"].removeprefix(place) for page in pages for found in page.get("Contents", ())]

    def read(self, path: str) -> bytes:
        """See `BackendFiles`."""
        with _explained(self._address):
            found = self._client.get_object(Bucket=self._address.bucket, Key=self._address.prefix + path)
            return bytes(found["Body"].read())

    def find(self, path: str, limit: int) -> bytes | None:
        """See `BackendFiles`."""
        with _explained(self._address):
            try:
                found = self._client.get_object(Bucket=self._address.bucket, Key=self._address.prefix + path)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _ABSENT:
                    return None
                raise
            return bytes(found["Body"].read(limit + 1))

    def delete(self, paths: Iterable[str]) -> None:
        """See `BackendFiles`."""
        with _explained(self._address):
            # One by one: deleting many in one call needs a checksum that servers other than Amazon's disagree about.
            for path in paths:
                self._client.delete_object(Bucket=self._address.bucket, Key=self._address.prefix + path)


class _Clients:
    """Gives a client for the credentials of the moment, and the same one until they change."""

    def __init__(self, address: BucketAddress) -> None:
        self._address = address
        self._last: tuple[dict[str, str], Any] | None = None

    def __call__(self) -> Any:
        environment = current_environment(os.environ)
        given = {name: environment[name] for name in NAMES if name in environment}
        if self._last is None or self._last[0] != given:
            self._last = (given, _client(self._address, given))
        return self._last[1]


def _client(address: BucketAddress, given: Mapping[str, str]) -> Any:
    return boto3.client(
        "s3",
        # None of them lets the SDK look where the cloud leaves credentials.
        **{f"aws_{name.removeprefix('AWS_').lower()}": value for name, value in given.items()},
        region_name=address.region,
        endpoint_url=address.endpoint,
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _ATTEMPTS},
            s3={"addressing_style": "path" if address.path_style else "auto"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def _explained(address: BucketAddress) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise BackendFilesError(f"bucket {address.bucket}: {error}") from error
