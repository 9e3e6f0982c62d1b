"""What docs/preview.md shows is what the commands print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.preview.documents import REPORTS
from tests.cli.commands import Dmctl
from tests.cli.preview.asking import Asked

DOCUMENT = (Path(__file__).parents[3] / "docs" / "preview.md").read_text(encoding="utf-8")
RESOURCES = {"requests": {"cpu": "1", "memory": "3500Mi"}, "limits": {"memory": "4500Mi"}}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def shown(title: str) -> str:
    """The text block under a hidden title."""
    (block,) = re.findall(rf"<!-- {title} -->\n```text\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(block)


def unnamed(text: str) -> str:
    """A text without hexadecimal names: manifests hold the stand-in registry's port."""
    return re.sub(r"\b[0-9a-f]{12,16}\b", "0123456789abcdef", COLOUR.sub("", text)).strip()


async def previewed(asked: Asked, **spec: Any) -> str:
    (told,) = await asked.preview(asked.manifest(resources=RESOURCES, **spec))
    return REPORTS["text"]((told,)).replace("(-:", "(model.yaml:")


@pytest.mark.anyio
async def test_the_previews_in_the_document_are_real(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out(resources=RESOURCES)
    assert unnamed(await previewed(asked, model="laya:en-better")) == unnamed(shown("preview of a new revision"))
    auth = {"apiKeySecretRef": {"name": "keys", "key": "api-key"}}
    assert unnamed(await previewed(asked, auth=auth)) == unnamed(shown("preview of a change in place"))


def commands(word: str) -> list[list[str]]:
    """The commands of dmctl in the document that begin with a word."""
    lines = re.findall(r"^\$ \./dmctl (.*)$", DOCUMENT, re.MULTILINE)
    return [split for split in map(shlex.split, lines) if split[0] == word]


def test_the_plans_in_the_document_are_real(dmctl: Dmctl) -> None:
    plans = [command for command in commands("gate") if command[1] == "plan"]
    assert "".join(dmctl(*command).out for command in plans) == shown("plans")


def test_the_commands_in_the_document_are_understood(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    for command in commands("preview"):
        replaced = ["stacks/dev" if each == "model.yaml" else each for each in command]
        done = dmctl(*dict.fromkeys((*replaced, "--offline")))
        assert (done.code, done.err) == (1, ""), command


def test_every_field_is_documented(dmctl: Dmctl) -> None:
    dmctl.write("model.yaml", Asked.manifest(digest="ab" * 32))
    (told,) = json.loads(dmctl("preview", "--offline", "-o", "json", "model.yaml").out)["models"]
    rows = re.findall(r"^\| (`.*?) \| .* \|$", DOCUMENT.partition("## JSON")[2], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert documented == set(told)
    nested = {key for value in told.values() if isinstance(value, dict) for key in value}
    assert nested <= set(re.findall(r"`([A-Za-z]+)`", DOCUMENT))
