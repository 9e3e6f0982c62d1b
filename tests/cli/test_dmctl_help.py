"""Whoever asks dmctl for help finds the command, whole sentences, and an example that works."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from cli.command import dmctl as root
from tests.cli.commands import Dmctl


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The group itself and everything below it."""
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(root))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_nothing_is_cut_short(path: tuple[str, ...], dmctl: Dmctl) -> None:
    done = dmctl(*path, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: {' '.join(('dmctl', *path))} ")
    assert not [line for line in done.out.splitlines()[1:] if line.endswith("...")]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    options = [option for option in ALL[path].params if isinstance(option, click.Option)]
    assert not [option.name for option in options if not option.help]


def test_the_examples_are_commands(dmctl: Dmctl) -> None:
    examples = re.findall(r"^ +dmctl (\S+)(?: (\w+))?", dmctl("--help").out, re.MULTILINE)
    assert len(examples) == 6
    for words in examples:
        assert words in ALL or words[:1] in ALL
