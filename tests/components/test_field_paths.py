"""A path says where something is, whatever people call it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.field_paths import joined, keyed, steps


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (keyed(joined(joined("", "spec"), "containers"), "ollaya"), "spec.containers[ollaya]"),
        (joined("spec.containers[ollaya]", "image"), "spec.containers[ollaya].image"),
        (joined("metadata.labels", "app.kubernetes.io/name"), "metadata.labels[app.kubernetes.io/name]"),
        (joined("spec.nodeSelector", "disk.type"), "spec.nodeSelector[disk.type]"),
        (keyed("spec.env", "a]b"), r"spec.env[a\]b]"),
    ],
)
def test_as_text(path: str, text: str) -> None:
    assert path == text


FIELDS = st.tuples(st.just(joined), st.from_regex(r"\A[A-Za-z]+\Z"))
KEYS = st.tuples(st.just(keyed), st.text() | st.text(alphabet="[]\\.ab\n"))


@given(st.lists(FIELDS | KEYS))
def test_whatever_the_keys_are_the_steps_can_be_read_back(parts: list[tuple[Callable[[str, str], str], str]]) -> None:
    path = ""
    for add, name in parts:
        path = add(path, name)
    assert steps(path) == [name for _, name in parts]
