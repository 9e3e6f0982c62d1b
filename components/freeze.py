"""What a running revision keeps whatever would be rendered for it today (spec sections 4.5 and 5.10).

A new version of the reconciler may have other defaults; those are for new revisions. Each function takes a desired
value and the live object, and returns the desired value with the live one's part in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from api.errors import InvalidQuantityError
from api.keys import API_KEY_CHECKSUM_ANNOTATION
from api.quantity import parse_quantity
from components.desired import EnvironmentVariable, JsonObject, Placement, Serving, Store
from components.manifests.co_location import co_location_of, without_co_location
from components.manifests.deployment import SERVING_CONTAINER
from components.manifests.pod import unescaped

REGISTRY_VARIABLE: Final = "OLLAYA_REGISTRY"
"""Names a directory of the store, so it stays what it was when the store was filled."""

RESTARTED_AT_ANNOTATION: Final = "kubectl.kubernetes.io/restartedAt"
"""Set on Pod templates by `kubectl rollout restart`; never the spec's."""


def freeze_serving(serving: Serving, live_deployment: JsonObject, *, registry_recorded: bool = False) -> Serving:
    """Return `serving` with placement and resources of the live Deployment, and its registry unless that is recorded.

    The term that co-locates replicas is kept apart from the placement; whatever the replicas are now, it stays what it
    was. A Deployment that lost its serving container changes nothing but these two.
    """
    pod_spec = live_deployment["spec"]["template"]["spec"]
    selector = live_deployment["spec"]["selector"].get("matchLabels") or {}
    frozen = replace(
        serving,
        placement=live_placement(pod_spec, selector),
        co_location=co_location_of(pod_spec.get("affinity"), selector),
    )
    for container in pod_spec.get("containers") or ():
        if container["name"] == SERVING_CONTAINER:
            environment = serving.environment
            if not registry_recorded:
                environment = _with_registry(environment, container.get("env") or ())
            return replace(frozen, resources=container.get("resources") or {}, environment=environment)
    return frozen


def live_placement(pod_spec: JsonObject, selector: JsonObject) -> Placement:
    """Return the placement of a live Pod template, without the term that co-locates the replicas it selects."""
    return Placement(
        node_selector=pod_spec.get("nodeSelector") or {},
        tolerations=tuple(pod_spec.get("tolerations") or ()),
        affinity=without_co_location(pod_spec.get("affinity"), selector),
        runtime_class_name=pod_spec.get("runtimeClassName"),
    )


def freeze_template(serving: Serving, live_deployment: JsonObject, *, api_key_checksum: str | None = None) -> Serving:
    """Return `serving` with the live Pod template as it is, so that only replicas and API key can still change.

    For a store that is Terminating, where any Pod replaced now could not mount it again, no checksum is given: then a
    new key does not replace Pods either. Annotations are kept whoever set them, since some may be the spec's: a write
    that leaves out one of ours would replace Pods, while to own another's beside its writer takes nothing from it.
    """
    template = live_deployment["spec"]["template"]
    metadata = template.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != RESTARTED_AT_ANNOTATION}
    if api_key_checksum is not None:
        annotations[API_KEY_CHECKSUM_ANNOTATION] = api_key_checksum
    kept = {"labels": metadata.get("labels") or {}} | ({"annotations": annotations} if annotations else {})
    return replace(serving, template={"metadata": kept, "spec": template["spec"]})


def freeze_store(store: Store, live_claim: JsonObject) -> Store:
    """Return `store` as the live claim allows it: its own modes and class, and never smaller than it is."""
    spec = live_claim["spec"]
    requested = str(spec["resources"]["requests"]["storage"])
    return replace(
        store,
        size=store.size if grows(requested, store.size) else requested,
        access_modes=tuple(spec.get("accessModes") or store.access_modes),
        storage_class_name=spec.get("storageClassName", store.storage_class_name),
    )


def grows(live: str, wanted: str) -> bool:
    """Whether `wanted` is a larger quantity than `live`; a text that is no quantity is never larger."""
    try:
        return parse_quantity(wanted) > parse_quantity(live)
    except InvalidQuantityError:
        return False


def _with_registry(
    environment: tuple[EnvironmentVariable, ...], live: Iterable[dict[str, Any]]
) -> tuple[EnvironmentVariable, ...]:
    others = tuple(variable for variable in environment if variable.name != REGISTRY_VARIABLE)
    recorded = [unescaped(variable.get("value", "")) for variable in live if variable["name"] == REGISTRY_VARIABLE]
    return (*others, *(EnvironmentVariable(name=REGISTRY_VARIABLE, value=value) for value in recorded))
