"""Reading YAML: values as JSON, lines, and texts that mean harm."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.errors import InputError
from cli.manifests.documents import MAX_DEPTH, Document, DocumentError, read_documents
from cli.manifests.sources import MAX_BYTES, read_manifests

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def document(text: str) -> Document:
    (only,) = read_documents(text)
    return only


def test_lines_are_those_of_the_deepest_part_there_is() -> None:
    read = document("# first\nspec:\n  template:\n\n    containers:\n    - name: a\n    - name: b\n      image: c\n")
    assert read.line(()) == 2
    assert read.line(("spec", "template", "containers", 1, "image")) == 8
    assert read.line(("spec", "template", "containers", 1)) == 7
    assert read.line(("spec", "template", "containers", 7)) == 5
    assert read.line(("spec", "resources", "limits")) == 2
    assert read.line(("status",)) == 2


def test_lines_count_on_through_documents() -> None:
    assert [each.line(()) for each in read_documents("a: 1\n---\n---\nb: 2\n")] == [1, 4]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2024-05-01", {"a": "2024-05-01"}),
        ("a: 2024-05-01T10:00:00Z", {"a": "2024-05-01T10:00:00Z"}),
        ("1: a\ntrue: b\n", {"1": "a", "true": "b"}),
        ("a: &x {k: v}\nb: {<<: *x, l: w}\n", {"a": {"k": "v"}, "b": {"k": "v", "l": "w"}}),
        ("a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}),
        ('{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        ("\ufeffa: b", {"a": "b"}),
    ],
)
def test_values_are_plain_json(text: str, value: Any) -> None:
    assert document(text).value == value


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        (BOMB, 6, "once its aliases are expanded"),
        (MERGES, 7, "once its aliases are expanded"),
        ("[" * 100_000, 1, "nest"),
        ("a:\n" + "\n".join("  " * depth + "a:" for depth in range(1, 200)), MAX_DEPTH + 1, "nested more than"),
        ("a: &a\n  b: *a\n", 1, "within what it refers to"),
        ("a: 1\na: 2\n", 2, "'a' is there twice"),
        ("a: !!python/object/apply:os.system [id]", 1, "is not known"),
        ("a: !!binary aGVsbG8=", 1, "is not known"),
        ("a: !!set {b}", 1, "is not known"),
        ("? [a]\n: b\n", 1, "a key is no text"),
        ("a: *b", 1, "undefined alias"),
        (f"\na: {'9' * 5000}", 2, "as its type"),
        ("a: !!int x", 1, "as its type"),
        ("a: 'b\x00'", 1, "character"),
        ("a:\n\t- b", 2, "token"),
    ],
)
def test_harmful_texts_are_refused_with_their_line(text: str, line: int, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint) as refusal:
        read_documents(text)
    assert refusal.value.line == line


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), json_values, min_size=1))
def test_what_was_written_is_read(value: Any) -> None:
    assert document(yaml.safe_dump(value)).value == value


@given(st.text() | st.text("[]{}:-&*a1,'\"!<>|\n #?~.%@"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        documents = read_documents(text)
    except DocumentError as refusal:
        assert refusal.line >= 1  # noqa: PT017  # both ends are right; only another exception is wrong
    else:
        assert all(json.loads(json.dumps(each.value)) is not None for each in documents)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)
    try:
        read_manifests([str(path)], io.BytesIO())
    except InputError as refusal:
        assert str(path) in refusal.message  # noqa: PT017  # as above


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="bytes"):
        read_manifests([str(path)], io.BytesIO())


def test_a_directory_that_links_to_itself_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "A"}))
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "broken.yaml").symlink_to(tmp_path / "missing")
    assert len(read_manifests([str(tmp_path)], io.BytesIO()).manifests) == 1
