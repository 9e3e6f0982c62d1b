"""Log lines: one JSON object each, with the context they were written in."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.kernel.json_log import configure_logging, log_context


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    logging.getLogger("some.part").warning("two\nlines of %s", "text")
    [line] = lines(stream)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "warning", "logger": "some.part", "message": "two\nlines of text"}


def test_the_context_is_added_and_cannot_hide_the_message(stream: io.StringIO) -> None:
    with log_context(object="ns/a", message="mine"), log_context(operation=object):
        logging.getLogger("x").info("inside")
    logging.getLogger("x").info("outside")
    inside, outside = lines(stream)
    assert (inside["object"], inside["message"]) == ("ns/a", "inside")
    assert "class 'object'" in inside["operation"]
    assert "object" not in outside


@pytest.mark.anyio
async def test_tasks_inherit_the_context_they_were_started_in(stream: io.StringIO) -> None:
    async def log() -> None:
        logging.getLogger("x").info("from a task")

    with log_context(object="ns/a"):
        task = asyncio.create_task(log())
    await task
    assert lines(stream)[0]["object"] == "ns/a"


def test_exceptions_are_part_of_the_line(stream: io.StringIO) -> None:
    try:
        int("bad")
    except ValueError:
        logging.getLogger("x").exception("failed")
    [line] = lines(stream)
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'bad'")


@pytest.mark.parametrize("name", ["httpx2", "httpcore2.connection", "lightkube"])
def test_libraries_that_log_every_request_are_quiet(stream: io.StringIO, name: str) -> None:
    logging.getLogger(name).info("HTTP Request: GET ...")
    assert not stream.getvalue()


def test_the_console_format_is_for_people() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers = root.handlers[:]
    configure_logging(console=True, stream=stream)
    with log_context(object="ns/a"):
        logging.getLogger("x").info("hello")
    root.handlers[:] = handlers
    assert "x: hello object=ns/a" in stream.getvalue()
