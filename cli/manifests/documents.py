"""YAML documents whose parts know their lines, read from text that may be hostile.

A text is bounded in depth and in the number of nodes that its aliases expand to before any value is made of it.
Everything in a document is plain JSON afterwards: timestamps stay texts, and other types of YAML are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from policy.navigation import Path

MAX_DEPTH: Final = 100
MAX_NODES: Final = 200_000
"""Of one document, every alias counted with all that it stands for."""

_STR: Final = "tag:yaml.org,2002:str"
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "tag:yaml.org,2002:merge"
_JSON_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")
)


class DocumentError(Exception):
    """A text is no usable YAML.

    Attributes:
        line: where, counted from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value as JSON, and the tree that knows the lines."""

    value: Any
    node: yaml.Node

    def line(self, path: Path) -> int:
        """Return the line, counted from 1, of the deepest part of `path` that there is."""
        node, line = self.node, self.node.start_mark.line
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line + 1


def read_documents(text: str) -> list[Document]:
    """Return the documents of a text, without empty ones.

    Raises:
        DocumentError: It is no YAML, exceeds a bound, or holds what JSON cannot.
    """
    try:
        _check_depth(text)
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) if node is not None]
        documents = [_document(node) for node in nodes]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of a text the mark stands behind the last line.
        last = max(1, len(text.splitlines()))
        raise DocumentError(error.problem or "is no YAML", min(mark.line + 1, last) if mark else last) from error
    except yaml.reader.ReaderError as error:
        raise DocumentError(f"holds a character that YAML does not allow ({error.reason})", 1) from error
    return [document for document in documents if document.value is not None]


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise DocumentError(f"is nested more than {MAX_DEPTH} levels deep", line)


def _document(node: yaml.Node) -> Document:
    _checked_size(node, {}, frozenset())
    try:
        return Document(yaml.constructor.SafeConstructor().construct_document(node), node)
    except (ValueError, KeyError, IndexError) as error:
        # The last two are what PyYAML answers to a tag that its value does not fit, as in `!!bool maybe`.
        message = f"holds a value that cannot be read as its type ({error})"
        raise DocumentError(message, node.start_mark.line + 1) from error


def _checked_size(node: yaml.Node, known: dict[int, int], within: frozenset[int]) -> int:
    """Return how many nodes there are with every alias expanded; each node is looked at once.

    Raises:
        DocumentError: There are too many, or a node contains itself, or is no JSON.
    """
    identity, line = id(node), node.start_mark.line + 1
    if identity in within:
        raise DocumentError("an alias stands within what it refers to", line)
    if identity not in known:
        _check_node(node)
        inner = within | {identity}
        known[identity] = 1 + sum(_checked_size(child, known, inner) for child in _children(node))
    if known[identity] > MAX_NODES:
        raise DocumentError(f"has more than {MAX_NODES} parts once its aliases are expanded", line)
    return known[identity]


def _check_node(node: yaml.Node) -> None:
    line = node.start_mark.line + 1
    if node.tag not in _JSON_TAGS and node.tag != _MERGE:
        raise DocumentError(f"the type {node.tag[:80]} is not known", line)
    if node.tag == _TIMESTAMP:
        # Kubernetes reads it as the text that it is.
        node.tag = _STR
    if not isinstance(node, yaml.MappingNode):
        return
    keys: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("a key is no text", key.start_mark.line + 1)
        if key.value in keys:
            raise DocumentError(f"the key {key.value[:80]!r} is there twice", key.start_mark.line + 1)
        keys.add(key.value)
        if key.tag != _MERGE:
            # Kubernetes knows keys as texts only, however YAML would read them.
            key.tag = _STR


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of one key or index."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item.start_mark.line, item
    return None
