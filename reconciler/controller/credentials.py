"""Secrets that a DecisionModel refers to: read by name on each pass, checked, and kept out of everything printed.

Secrets are not watched and never cached (spec section 8.3): a rotation is seen with the next pass, within a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.references import KeyReference
from components.desired import SecretKey
from reconciler.controller.observation import uid_of
from reconciler.controller.watched import SECRETS
from reconciler.engine.api_key import SecretCapability, bearer_key, key_checksum, legacy_checksum, secret_value
from reconciler.engine.errors import SecretKeyInvalid, SecretNotAllowed
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.resources import KubernetesObject
from reconciler.rollout import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The key of a model's runtime; its value shows in no representation."""

    value: str = field(repr=False)
    checksum: str
    legacy_checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the referenced Secrets gave: the API key, and what is wrong with them."""

    api_key: ApiKey | None = None
    api_key_refusal: Refusal | None = None
    """Why the spec's reference to an API key must not be rendered into anything new."""
    token_refusal: Refusal | None = None
    """The same of the download token."""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Everything that is wrong, the API key first."""
        return tuple(refusal for refusal in (self.api_key_refusal, self.token_refusal) if refusal is not None)


async def read_credentials(client: KubernetesClient, model: DecisionModel) -> Credentials:
    """Read the Secrets that the spec refers to.

    Raises:
        KubernetesError: The API server did not answer.
    """
    spec, name = model.spec, model.metadata.name
    api_key: ApiKey | Refusal | None = None
    token_refusal: Refusal | None = None
    if reference := spec.auth.api_key_secret_ref:
        api_key = _api_key(await _secret(client, model, reference), _secret_key(reference), name)
    if token := spec.cache.download_token_secret_ref:
        token_refusal = _token_refusal(await _secret(client, model, token), _secret_key(token), name)
    if isinstance(api_key, Refusal):
        return Credentials(api_key_refusal=api_key, token_refusal=token_refusal)
    return Credentials(api_key=api_key, token_refusal=token_refusal)


async def _secret(client: KubernetesClient, model: DecisionModel, reference: KeyReference) -> KubernetesObject | None:
    return await client.get(SECRETS, model.metadata.namespace, reference.name)


def _secret_key(reference: KeyReference) -> SecretKey:
    return SecretKey(name=reference.name, key=reference.key)


def _api_key(secret: KubernetesObject | None, reference: SecretKey, model: str) -> ApiKey | Refusal:
    try:
        value = secret_value(secret, reference, SecretCapability.API_KEY, model)
        key = bearer_key(value, reference)
    except SecretNotAllowed as error:
        return Refusal(reason=Reason.SECRET_NOT_ALLOWED, message=str(error))
    except SecretKeyInvalid as error:
        return Refusal(reason=Reason.API_KEY_INVALID, message=str(error))
    uid = uid_of(secret) if secret is not None else ""
    return ApiKey(value=key, checksum=key_checksum(uid, value), legacy_checksum=legacy_checksum(value))


def _token_refusal(secret: KubernetesObject | None, reference: SecretKey, model: str) -> Refusal | None:
    try:
        secret_value(secret, reference, SecretCapability.DOWNLOAD_TOKEN, model)
    except SecretNotAllowed as error:
        return Refusal(reason=Reason.SECRET_NOT_ALLOWED, message=str(error))
    except SecretKeyInvalid as error:
        return Refusal(reason=Reason.DOWNLOAD_TOKEN_INVALID, message=str(error))
    return None
