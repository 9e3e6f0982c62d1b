"""Messages between the driver and a worker process, framed by a four-byte big-endian length.

MessagePack on the wire. Only the program itself is a pickle, and it travels in one direction: to the worker.
"""

from __future__ import annotations

import struct

import msgspec

from reconciler.driver.events import EngineReport

_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Bound on one message, either way."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Worker: imports are done, send work."""


class Serve(msgspec.Struct, frozen=True, tag=True):
    """Driver: serve this program (a pickle; None: one that declares nothing)."""

    program: bytes | None


class Serving(msgspec.Struct, frozen=True, tag=True):
    """Worker: program and event stream are served at this `host:port`."""

    address: str


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """Worker: the program could not be loaded."""

    message: str


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Driver: the CLI process is gone, stop serving."""


class Finished(msgspec.Struct, frozen=True, tag=True):
    """Worker: this is what the event stream held."""

    report: EngineReport


DriverMessage = Serve | Finish
WorkerMessage = Ready | Serving | Rejected | Finished

_ENCODER = msgspec.msgpack.Encoder()
_DRIVER_DECODER: msgspec.msgpack.Decoder[DriverMessage] = msgspec.msgpack.Decoder(DriverMessage)
_WORKER_DECODER: msgspec.msgpack.Decoder[WorkerMessage] = msgspec.msgpack.Decoder(WorkerMessage)


def encode(message: DriverMessage | WorkerMessage) -> bytes:
    """A message with its length in front."""
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


def body_length(prefix: bytes) -> int:
    """Length of the body that follows `prefix`.

    Raises:
        ValueError: The length is beyond `MAX_MESSAGE_BYTES`.
    """
    (length,) = _LENGTH.unpack(prefix)
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {length} bytes exceeds the limit of {MAX_MESSAGE_BYTES}")
    return int(length)


def decode_for_worker(body: bytes) -> DriverMessage:
    """Parse what the driver sent; raises `msgspec.DecodeError`."""
    return _DRIVER_DECODER.decode(body)


def decode_for_driver(body: bytes) -> WorkerMessage:
    """Parse what a worker sent; raises `msgspec.DecodeError`."""
    return _WORKER_DECODER.decode(body)
