"""What every object of a DecisionModel is called, and how it is found and owned (spec sections 3.2 and 3.3).

Everything that renders, looks up or deletes an object takes its name from here. Names derive from the model's name and
the revision's hash alone, so an object is never replaced by another one of the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Any, Final

from api.keys import API_VERSION, GROUP, KIND, NAME_LABEL, PREFETCH_REVISION_LABEL, REVISION_LABEL
from components.desired import Owner
from components.errors import InvalidNameError

MODEL_NAME_LIMIT: Final = 43
"""The longest name of a DecisionModel: its prefetch Job's name, which is also a label value, has 63 characters then."""

_MODEL_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_REVISION = re.compile(r"[0-9a-f]{10}(?:[0-9a-f]{6})?")
_LEGACY_REVISION_LENGTH = 10

_OUR_DOMAINS = (GROUP, "pulumi.com")

_STACK_NAME_LIMIT = 100
_STACK_UID_LENGTH = 8
_STACK_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_STACK_UID = re.compile(r"[A-Za-z0-9_-]{1,8}")


def service(model: str) -> str:
    """Return the name of the model's Service."""
    return _model(model)


def deployment(model: str, revision: str) -> str:
    """Return the name of a revision's Deployment."""
    return f"{_model(model)}-{_revision(revision)}"


def disruption_budget(model: str, revision: str) -> str:
    """Return the name of a revision's PodDisruptionBudget, which is that of its Deployment."""
    return deployment(model, revision)


def is_revision(text: str) -> bool:
    """Whether the text can be a revision's name."""
    return _REVISION.fullmatch(text) is not None


def is_legacy(revision: str) -> bool:
    """Whether a revision was named by version 0.3, which hashed less into ten digits."""
    return len(_revision(revision)) == _LEGACY_REVISION_LENGTH


def store(model: str, revision: str, *, shared: bool = False) -> str:
    """Return the name of a revision's PersistentVolumeClaim, or of the one that revisions of version 0.3 shared."""
    return f"{_model(model)}-store" if shared else f"{_model(model)}-store-{_revision(revision)}"


def prefetch_job(model: str, revision: str) -> str:
    """Return the name of a revision's prefetch Job; revisions of ten digits have a longer infix."""
    infix = "prefetch" if is_legacy(revision) else "pf"
    return f"{_model(model)}-{infix}-{revision}"


def manifest_config_map(model: str, revision: str) -> str:
    """Return the name of the ConfigMap that keeps the revision's manifest."""
    return f"{_model(model)}-manifest-{_revision(revision)}"


def evidence_config_map(model: str, revision: str) -> str:
    """Return the name of the ConfigMap that keeps what the verdict about a revision rests on."""
    return f"{_model(model)}-evidence-{_revision(revision)}"


def stack(owner: Owner) -> str:
    """Return the name of the model's stack: `<namespace>.<name>.<first 8 characters of the UID>`.

    The UID keeps a re-created model apart from its predecessor. None of the three parts contains a dot. A stack's name
    has at most 100 characters: where a long namespace would exceed that, it is cut and ends in a digest of itself.
    """
    uid = owner.uid[:_STACK_UID_LENGTH]
    if not _STACK_NAMESPACE.fullmatch(owner.namespace) or not _STACK_UID.fullmatch(uid):
        raise InvalidNameError(f"no stack can be named after namespace {owner.namespace!r} and UID {owner.uid!r}")
    tail = f".{_model(owner.name)}.{uid}"
    return _shortened(owner.namespace, _STACK_NAME_LIMIT - len(tail)) + tail


def is_stack_in(stack: str, namespaces: Collection[str]) -> bool:
    """Whether a stack, by its name, is of a model in one of the namespaces; none stand for all."""
    namespace, *rest = stack.split(".")
    tail = "".join(f".{part}" for part in rest)
    return not namespaces or namespace in {_shortened(each, _STACK_NAME_LIMIT - len(tail)) for each in namespaces}


def model_labels(model: str) -> dict[str, str]:
    """Return the label that every child carries."""
    return {NAME_LABEL: _model(model)}


def revision_labels(model: str, revision: str) -> dict[str, str]:
    """Return the labels of a revision's objects, which select its serving Pods."""
    return {**model_labels(model), REVISION_LABEL: _revision(revision)}


def prefetch_pod_labels(model: str, revision: str) -> dict[str, str]:
    """Return the labels of a prefetch Pod: never the revision's own, or the Service would send it traffic."""
    return {**model_labels(model), PREFETCH_REVISION_LABEL: _revision(revision)}


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Return the controller reference by which the garbage collector deletes a child with its model."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_ours(key: str) -> bool:
    """Whether a label's or an annotation's key is the platform's or its engine's, by the domain before the slash."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == ours or domain.endswith(f".{ours}") for ours in _OUR_DOMAINS)


def _model(name: str) -> str:
    if len(name) > MODEL_NAME_LIMIT or not _MODEL_NAME.fullmatch(name):
        raise InvalidNameError(
            f"{name[:80]!r} cannot name a DecisionModel: at most {MODEL_NAME_LIMIT} characters, {_MODEL_NAME.pattern}"
        )
    return name


def _revision(revision: str) -> str:
    if not _REVISION.fullmatch(revision):
        raise InvalidNameError(f"{revision[:80]!r} is no revision: 16 hexadecimal digits, or 10 of a legacy one")
    return revision


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - len(digest) - 1]}-{digest}"
