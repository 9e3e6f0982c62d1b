"""Compute resources of serving Pods: defaults, GPU and CPU threads (spec sections 4.5 and 4.6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.quantity import parse_quantity
from components.desired import PREFETCH_RESOURCES, JsonObject
from reconciler.engine.errors import InvalidModelName
from reconciler.engine.names import DEFAULT_NAMESPACE, ModelName
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL

GPU: Final = "nvidia.com/gpu"

_CPU_REQUEST: Final = "1"
_MEMORY_REQUESTS: Final = {
    "laya:en": "3584Mi",
    "laya:multilingual": "2048Mi",
    "nli:latest": "4096Mi",
    "gliclass:latest": "2560Mi",
    "jevk5:latest": "5120Mi",
}


def default_requests(model: str, device: str, registry_url: str) -> dict[str, str]:
    """Requests of the models whose needs were measured; empty for every other one."""
    try:
        name = ModelName.parse(model)
    except InvalidModelName:
        return {}
    registry = name.registry(registry_url)
    memory = _MEMORY_REQUESTS.get(f"{name.model}:{name.tag}")
    if memory is None or name.namespace != DEFAULT_NAMESPACE or registry.base_url != DEFAULT_REGISTRY_URL:
        return {}
    return {"cpu": _CPU_REQUEST} if device == "cuda" else {"cpu": _CPU_REQUEST, "memory": memory}


def serving_resources(resources: JsonObject, *, defaults: Mapping[str, str], device: str) -> JsonObject:
    """The user's resources with what is missing: default requests, and one GPU for `cuda`.

    A key is filled only when neither requests nor limits name it, so a default never contradicts a user's limit.
    """
    requests = dict(resources.get("requests") or {})
    limits = dict(resources.get("limits") or {})
    requests |= {key: value for key, value in defaults.items() if key not in requests and key not in limits}
    if device == "cuda" and GPU not in limits and GPU not in requests:
        limits[GPU] = "1"
    filled = {**resources, "requests": requests, "limits": limits}
    return {key: value for key, value in filled.items() if value}


def prefetch_resources(own: JsonObject, serving: JsonObject | None = None) -> JsonObject:
    """What the prefetch container asks for and may use at most.

    Args:
        own: The user's, which go before everything else.
        serving: What a serving Pod asks for, where the download has to go to a place that has that; None elsewhere.
    """
    needed = {} if serving is None else {**(serving.get("limits") or {}), **(serving.get("requests") or {})}
    asked = own.get("requests") or {}
    limits = {**PREFETCH_RESOURCES["limits"], **_extended(needed), **(own.get("limits") or {})}
    requests = {**PREFETCH_RESOURCES["requests"]}
    requests |= {key: _larger(requests[key], needed[key]) for key in requests if key in needed}
    requests |= asked
    for key in requests.keys() & limits.keys():
        if parse_quantity(requests[key]) <= parse_quantity(limits[key]):
            continue
        # The user's word stands, be it the limit or what is asked for; a default follows it.
        if key in (own.get("limits") or {}) and key not in asked:
            requests[key] = limits[key]
        else:
            limits[key] = requests[key]
    return {"requests": requests, "limits": limits}


def _extended(amounts: JsonObject) -> dict[str, Any]:
    """The amounts of devices, which only a limit can ask for."""
    return {key: value for key, value in amounts.items() if "/" in key}


def _larger(one: int | str, other: int | str) -> int | str:
    return max(one, other, key=parse_quantity)


def declared_resources(live: JsonObject, defaults: Mapping[str, str], device: str) -> Iterator[JsonObject]:
    """Yield every spec that `serving_resources` makes `live` of: with and without what it would have filled in."""
    requests, limits = dict(live.get("requests") or {}), dict(live.get("limits") or {})
    filled = [("requests", key) for key, value in defaults.items() if requests.get(key) == value]
    if device == "cuda" and limits.get(GPU) == "1":
        filled.append(("limits", GPU))
    for count in range(len(filled) + 1):
        for left_out in itertools.combinations(filled, count):
            declared = {
                "requests": {key: value for key, value in requests.items() if ("requests", key) not in left_out},
                "limits": {key: value for key, value in limits.items() if ("limits", key) not in left_out},
            }
            yield {key: value for key, value in declared.items() if value}


def thread_count(resources: JsonObject) -> int | None:
    """Threads that fit a CPU limit: its whole cores, at least one; None without a limit.

    Raises:
        api.errors.InvalidQuantityError: The limit is not a quantity.
    """
    limit = (resources.get("limits") or {}).get("cpu")
    return None if limit is None else max(1, int(parse_quantity(limit)))
