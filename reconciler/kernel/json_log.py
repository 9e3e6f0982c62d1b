"""Logging: one JSON object per line on standard error, with the fields of the current context.

Everything goes through the standard library's logging, since httpx2, lightkube, pulumi and asyncio do too.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

# At INFO each of these writes a line per request.
_CHATTY = ("httpx2", "httpcore2", "lightkube")
_CONSOLE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s%(context_text)s"

_context: ContextVar[Mapping[str, Any]] = ContextVar("log_context")


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add fields to every line logged inside, tasks started inside included."""
    token = _context.set({**_context.get({}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


class ContextFilter(logging.Filter):
    """Stamps records with the context's fields; never rejects one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Stamp the record."""
        fields = _context.get({})
        record.context = fields
        record.context_text = "".join(f" {name}={value}" for name, value in fields.items())
        return True


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object: time, level, logger, message, the context's fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line = {**getattr(record, "context", {}), **line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def configure_logging(*, level: str = "INFO", console: bool = False, stream: TextIO | None = None) -> None:
    """Make the root logger write JSON lines, or plain text for a person at a terminal."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter(_CONSOLE) if console else JsonFormatter())
    handler.addFilter(ContextFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
