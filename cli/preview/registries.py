"""Asking registries what tags stand for, each at most once a preview."""

from __future__ import annotations

import functools

import httpx2

from cli.preview.service_proxy import by_service_proxy
from cli.preview.waiting import telling
from reconciler.engine.errors import EngineError, TagNotFound
from reconciler.engine.names import ModelName
from reconciler.engine.registry import RegistryClient, ResolvedManifest
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.rollout import ResolutionFailed, TagMissing

Answer = ResolvedManifest | TagMissing | ResolutionFailed


class Registries:
    """Remembers what was answered, so that models with one tag cost one request.

    Args:
        policy: Those that may be asked.
        api: A client of the cluster's API server, through which those inside the cluster are asked.
    """

    def __init__(self, policy: RegistryPolicy, api: httpx2.AsyncClient) -> None:
        self._policy = policy
        self._client = RegistryClient(policy, route=functools.partial(by_service_proxy, api))
        self._answers: dict[ModelName, Answer] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(self, model: str) -> Answer:
        """Return what `model`, which the policy allows, stands for, or why nobody can say."""
        name = ModelName.parse(model)
        if name not in self._answers:
            host = name.registry(self._policy.registry_url).host
            with telling(f"asking {host} for {name.model}:{name.tag}"):
                self._answers[name] = await self._answer(name)
        return self._answers[name]

    async def _answer(self, name: ModelName) -> Answer:
        try:
            return await self._client.resolve(name)
        except TagNotFound as error:
            return TagMissing(message=str(error))
        except EngineError as error:
            return ResolutionFailed(message=str(error))
