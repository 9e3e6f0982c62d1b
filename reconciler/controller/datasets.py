"""The golden data set as it is right now: read by name when a candidate needs it, never watched (spec section 7.1)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.references import KeyReference
from api.rollout import DatasetReference
from components.desired import SecretKey
from reconciler.controller.watched import CONFIG_MAPS, SECRETS
from reconciler.engine.api_key import SecretCapability, secret_value
from reconciler.engine.errors import SecretKeyInvalid, SecretNotAllowed
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.resources import KubernetesObject
from reconciler.rollout import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetContent:
    """The bytes of a data set, which no representation shows."""

    content: bytes = field(repr=False)
    by_deprecated_label: bool = False
    """Only the label that opens API keys opened the Secret."""


async def read_dataset(
    client: KubernetesClient, model: DecisionModel, reference: DatasetReference
) -> DatasetContent | Refusal:
    """Read the data set that `reference` names in the model's namespace, or say why it cannot be read.

    Raises:
        KubernetesError: The API server did not answer.
    """
    namespace = model.metadata.namespace
    if reference.config_map_ref is not None:
        key = reference.config_map_ref
        return _from_config_map(await client.get(CONFIG_MAPS, namespace, key.name), key)
    if reference.secret_ref is not None:
        key = reference.secret_ref
        return _from_secret(await client.get(SECRETS, namespace, key.name), key, model.metadata.name)
    raise ValueError("the API admits no data set reference that is empty")


def _from_config_map(config_map: KubernetesObject | None, key: KeyReference) -> DatasetContent | Refusal:
    if config_map is None:
        return Refusal(reason=Reason.DATASET_NOT_FOUND, message=f"ConfigMap {key.name} does not exist")
    text = (config_map.get("data") or {}).get(key.key)
    if text is not None:
        return DatasetContent(content=str(text).encode())
    encoded = (config_map.get("binaryData") or {}).get(key.key)
    if encoded is None:
        return _missing_key("ConfigMap", key)
    try:
        return DatasetContent(content=base64.b64decode(encoded, validate=True))
    except binascii.Error:
        return _missing_key("ConfigMap", key)


def _from_secret(secret: KubernetesObject | None, key: KeyReference, model: str) -> DatasetContent | Refusal:
    if secret is None:
        return Refusal(reason=Reason.DATASET_NOT_FOUND, message=f"Secret {key.name} does not exist")
    reference = SecretKey(name=key.name, key=key.key)
    try:
        return DatasetContent(content=secret_value(secret, reference, SecretCapability.DATASET, model))
    except SecretKeyInvalid:
        return _missing_key("Secret", key)
    except SecretNotAllowed as error:
        refusal = Refusal(reason=Reason.SECRET_NOT_ALLOWED, message=str(error))
        return _by_deprecated_label(secret, reference, model) or refusal


def _by_deprecated_label(secret: KubernetesObject, reference: SecretKey, model: str) -> DatasetContent | None:
    """Accept for one more release the label of API keys, which data sets shared before they had their own."""
    try:
        content = secret_value(secret, reference, SecretCapability.API_KEY, model)
    except (SecretKeyInvalid, SecretNotAllowed):
        return None
    return DatasetContent(content=content, by_deprecated_label=True)


def _missing_key(kind: str, key: KeyReference) -> Refusal:
    return Refusal(reason=Reason.DATASET_KEY_NOT_FOUND, message=f"{kind} {key.name} has no usable key {key.key}")
