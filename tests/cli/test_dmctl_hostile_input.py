"""What dmctl quotes stays within its line and is no command: many a CI system obeys what it finds in a log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.commands import Dmctl, Done
from tests.policy.manifests import model

COMMANDS: Final = "x\n::error file=a.yaml::approved\n::stop-commands::t\n\x1b[2J\r"
# Among them everything that some program takes for the end of a line.
ENDS: Final = "\n\r\x0b\x0c\x1b\x1c\x1d\x1e\x85\u2028\u2029\u202ex: "
COMMANDS_IN_LINE: Final = ("::error::x", " ::error::x", "##[error]x", "###[error]x", "##vso[task.complete]x")
OBEYED: Final = re.compile(r"^\s*::[a-z]|##[a-z]*\[", re.IGNORECASE | re.MULTILINE)
hostile = st.text(max_size=12) | st.text(ENDS, max_size=12) | st.sampled_from((COMMANDS, *COMMANDS_IN_LINE))
# Every example writes its files anew.
anew = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def assert_harmless(done: Done, *openings: str) -> None:
    """Assert that what was told, if anything, has one line, and one more with each of these openings."""
    told = done.out + done.err
    assert all(each == "\n" or each.isprintable() for each in told)
    assert not OBEYED.search(told)
    expected = ("Error: ", *openings, "")
    lines = done.err.split("\n") if done.code == 3 else expected
    assert len(lines) == len(expected)
    assert all(map(str.startswith, lines, expected))
    assert lines[-1] == ""


MANIFESTS: Final[dict[str, Callable[[str], Any]]] = {
    "the kind of a list that is none": lambda text: {"apiVersion": "v1", "kind": f"{text}List", "items": {}},
    "the kind of a list of no manifests": lambda text: {"apiVersion": "v1", "kind": f"{text}List", "items": [text]},
    "a tag": lambda text: f"a: !<tag:{quote(text, safe='')}> b\n",
    "a key": lambda text: {"apiVersion": "v1", "kind": text, text: text},
    "the file": lambda text: text,
}


@pytest.mark.parametrize("place", MANIFESTS)
@anew
@given(text=hostile)
def test_no_text_in_a_manifest_breaks_a_line(place: str, dmctl: Dmctl, text: str) -> None:
    assert_harmless(dmctl("policy", "check", dmctl.write("a.yaml", MANIFESTS[place](text))))


@anew
@given(key=hostile)
def test_no_key_that_is_there_twice_breaks_an_error(dmctl: Dmctl, key: str) -> None:
    written = "".join(f"\\U{ord(each):08x}" for each in key)
    done = dmctl("policy", "check", dmctl.write("a.yaml", f'"{written}": 1\n"{written}": 2\n'))
    assert done.code == 3
    assert_harmless(done)


@settings(anew, max_examples=20)
@given(name=hostile, namespace=hostile)
def test_no_name_breaks_a_line(dmctl: Dmctl, name: str, namespace: str) -> None:
    named = {**model(), "metadata": {"name": name, "namespace": namespace}}
    done = dmctl("preview", "--offline", dmctl.write("a.yaml", named, named))
    assert "is there twice" in done.err
    assert_harmless(done)
    assert_harmless(dmctl("preview", "--offline", dmctl.write("a.yaml", named)))
    assert_harmless(dmctl("policy", "check", "a.yaml"))


@anew
@given(text=hostile)
def test_no_text_in_the_rules_breaks_an_error(dmctl: Dmctl, text: str) -> None:
    listed: dict[str, Any] = {"environments": {"dev": {"rules": {f"{text}-": {}}}, text: {}}}
    documents: list[dict[str, Any]] = [{f"{text}-": {}}, {"rules": {f"{text}-": {}}}, listed]
    for document in documents:
        dmctl.write("rules.yaml", document)
        assert_harmless(dmctl("policy", "list", "--config", "rules.yaml"))
        assert_harmless(dmctl("policy", "list", "--config", "rules.yaml", "--environment", "dev"))
    dmctl.write("rules.yaml", {f"{text}-": {}, f"{text}+": {}})
    assert_harmless(dmctl("policy", "list", "--config", "rules.yaml"), "rules.yaml: ")


@settings(anew, max_examples=20)
@given(key=hostile)
def test_no_text_in_a_stack_breaks_an_error(dmctl: Dmctl, key: str) -> None:
    values: dict[str, Any] = {"platform:image": "registry.example.com/reconciler:1", f"platform:{key}-": "any"}
    dmctl.write("Pulumi.yaml", {"name": "platform"})
    dmctl.write("Pulumi.test.yaml", {"config": values})
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 3
    assert_harmless(done, "- ")


@settings(anew, max_examples=20)
@given(name=hostile.map(lambda text: text.replace("/", "").replace("\0", "")[:40] or "x"))
def test_no_name_of_a_file_breaks_a_line(dmctl: Dmctl, name: str) -> None:
    for content, code in (("a: [", 3), (model(image="registry.example.com/own:1"), 2)):
        dmctl.write(f"{name}.yaml", content)
        judged, previewed = dmctl("policy", "check", "."), dmctl("preview", "--offline", ".")
        (dmctl.directory / f"{name}.yaml").unlink()
        assert (judged.code, previewed.code) == (code, code)
        assert_harmless(judged)
        assert_harmless(previewed)


def test_what_an_error_quotes_can_be_recognised(dmctl: Dmctl) -> None:
    listed = {"apiVersion": "v1", "kind": f"{COMMANDS}List", "items": {}}
    done = dmctl("policy", "check", dmctl.write("a.yaml", listed))
    quoted = r"x\n::error file=a.yaml::approved\n::stop-commands::t\n\x1b[2J\rList"
    assert done.err == f"Error: a.yaml:3: the items of the {quoted} are no list\n"
