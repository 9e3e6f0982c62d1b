"""The API key of a model: whether its Secret may be read, and when its Pods must be rolled (spec sections 8.3, 8.4)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from api import keys
from components.desired import SecretKey
from reconciler.engine.errors import SecretKeyInvalid, SecretNotAllowed

_CHECKSUM_LENGTH: Final = 16


class SecretCapability(StrEnum):
    """The label that opens a Secret for one use, so that a spec cannot make the reconciler read any other one."""

    API_KEY = keys.API_KEY_LABEL
    DATASET = keys.DATASET_LABEL
    DOWNLOAD_TOKEN = keys.DOWNLOAD_TOKEN_LABEL


def is_open_to(label: str | None, model: str) -> bool:
    """Whether a capability label's value opens its Secret to a DecisionModel: to all of them, or to it by name."""
    if label is None:
        return False
    named = label.split(keys.CAPABILITY_SEPARATOR)
    return label == keys.CAPABILITY_GRANTED or (bool(model) and model in named)


def secret_value(
    secret: Mapping[str, Any] | None, reference: SecretKey, capability: SecretCapability, model: str
) -> bytes:
    """The value that `reference` names, if the Secret is open for this use.

    Args:
        secret: The Secret object as the API server returns it, None if there is none.
        reference: Which Secret and key were asked for.
        capability: What the value is wanted for.
        model: Name of the DecisionModel that refers to it.

    Raises:
        SecretNotAllowed: The capability label is missing, or opens the Secret to other DecisionModels.
        SecretKeyInvalid: The Secret, the key or a decodable value is missing.
    """
    if secret is None:
        raise SecretKeyInvalid(f"Secret {reference.name} does not exist")
    labels = secret.get("metadata", {}).get("labels") or {}
    if not is_open_to(labels.get(capability), model):
        raise SecretNotAllowed(
            f'Secret {reference.name} needs the label {capability}: "{keys.CAPABILITY_GRANTED}", or "{model}" for this'
            " DecisionModel alone"
        )
    encoded = (secret.get("data") or {}).get(reference.key)
    if encoded is None:
        raise SecretKeyInvalid(f"Secret {reference.name} has no key {reference.key}")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise SecretKeyInvalid(f"Secret {reference.name}, key {reference.key}: not base64") from None


def bearer_key(value: bytes, reference: SecretKey) -> str:
    """The key as the runtime reads it from its environment: trimmed.

    Raises:
        SecretKeyInvalid: It is blank, which would leave the runtime open to everyone, or cannot stand in a header.
    """
    key = value.decode("ascii", errors="replace").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise SecretKeyInvalid(f"Secret {reference.name}, key {reference.key}: blank or not printable ASCII")
    return key


def key_checksum(secret_uid: str, value: bytes) -> str:
    """16 hex digits that change with the value and with the Secret.

    The UID as HMAC key keeps equal keys of different Secrets from being recognised by their checksums.
    """
    return hmac.digest(secret_uid.encode(), value, "sha256").hex()[:_CHECKSUM_LENGTH]


def legacy_checksum(value: bytes) -> str:
    """The plain hash that earlier versions recorded."""
    return hashlib.sha256(value).hexdigest()[:_CHECKSUM_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChecksums:
    """The checksum annotations of a Deployment and of its Pod template; changing the latter rolls the Pods."""

    deployment: str | None = None
    template: str | None = None


def next_checksums(recorded: KeyChecksums | None, *, current: str | None, legacy: str | None = None) -> KeyChecksums:
    """Which checksums a Deployment should carry.

    Only a rotation rolls the Pods: a first observation and the change from a legacy checksum merely record.

    Args:
        recorded: What the live Deployment carries, None if there is no Deployment yet.
        current: `key_checksum` of the key now, None while it cannot be read.
        legacy: `legacy_checksum` of the key now.
    """
    if current is None:
        return recorded or KeyChecksums()
    if recorded is None:
        return KeyChecksums(deployment=current, template=current)
    if recorded.deployment in (None, current, legacy):
        return KeyChecksums(deployment=current, template=recorded.template)
    return KeyChecksums(deployment=current, template=current)
