"""What a revision of an Ollaya model runs: its prefetch Job and its serving Pods (spec sections 4.3 to 4.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from api import keys
from components import paths
from components.desired import EnvironmentVariable, JsonObject, Placement, Prefetch, SecretKey, Serving
from components.manifests import drawn_to
from reconciler.engine.errors import InvalidModelName
from reconciler.engine.images import THREADS_VERSION, RuntimeVersion, runtime_image
from reconciler.engine.names import ModelName
from reconciler.engine.prefetch import prefetch_script
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL
from reconciler.engine.resources import (
    GPU,
    default_requests,
    prefetch_resources,
    serving_resources,
    thread_count,
)

CACHING_DEADLINE_SECONDS: Final = 1800
API_KEY_VARIABLE: Final = "OLLAYA_API_KEY"

_ARCHITECTURE: Final = "kubernetes.io/arch"
_GPU_TOLERATION: Final = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecipe:
    """Everything a revision's workloads depend on, taken from its record and the operator's configuration."""

    hash: str
    """The revision's name and its directory in the store."""
    model: str
    digest: str
    device: str
    image: str
    custom_image: bool = False
    """Whether `image` is the user's own (`spec.image`)."""
    runtime_version: RuntimeVersion | None = None
    """None where a custom image hides it."""
    resources: JsonObject = field(default_factory=dict)
    """As in the spec, without defaults."""
    placement: Placement = field(default_factory=Placement)
    """As in the spec, without what a GPU adds."""
    registry_url: str = DEFAULT_REGISTRY_URL
    """The registry the revision was resolved with."""
    registry_recorded: bool = True
    """Whether that is known; else what runs knows better."""
    hf_endpoint: str | None = None
    api_key: SecretKey | None = None
    download_token: SecretKey | None = None
    prefetch_resources: JsonObject = field(default_factory=dict)
    """As in the spec, without defaults."""


def prefetch(  # noqa: PLR0913 - options that are independent of each other
    recipe: RevisionRecipe,
    *,
    deadline_seconds: int = CACHING_DEADLINE_SECONDS,
    seeded: bool = False,
    keep_subpaths: tuple[str, ...] = (),
    proxy: tuple[EnvironmentVariable, ...] = (),
    reserves_device: bool = False,
    beside: Mapping[str, str] | None = None,
) -> Prefetch:
    """The Job that fills the store.

    It needs no GPU whatever the device, so it runs the CPU image. But a volume may be bound to the node or the zone of
    the first Pod that mounts it, and that is the Job's: serving Pods that need a GPU must find it where there is one.

    Args:
        recipe: The revision.
        deadline_seconds: How long the Job may take in all.
        seeded: Whether the recorded manifest is mounted.
        keep_subpaths: Directories to keep when those of earlier revisions are removed; empty leaves them all.
        proxy: Variables from `inherited_proxy`.
        reserves_device: Whether it asks for all that a serving Pod asks for, a GPU included, and so goes to a node that
            has that: for the time of the download it occupies it.
        beside: Labels of Pods that hold the GPU which the serving Pods will get: it is drawn to their node.
    """
    placement = replace(recipe.placement, runtime_class_name=None)
    if reserves_device or beside is not None:
        placement = _serving_placement(recipe)
    if beside is not None:
        placement = replace(placement, affinity=drawn_to(placement.affinity, beside))
    reserved = _serving_resources(recipe) if reserves_device else None
    keep = tuple(dict.fromkeys((recipe.hash, *keep_subpaths))) if keep_subpaths else ()
    return Prefetch(
        image=_prefetch_image(recipe),
        script=prefetch_script(recipe.model, recipe.digest, (recipe.hash, *keep)),
        environment=_prefetch_environment(recipe, seeded=seeded, keep=keep) + proxy,
        deadline_seconds=deadline_seconds,
        seeded=seeded,
        prune=bool(keep),
        placement=placement,
        resources=prefetch_resources(recipe.prefetch_resources, reserved),
    )


def serving(
    recipe: RevisionRecipe,
    *,
    replicas: int,
    api_key_checksum: str | None = None,
    template_api_key_checksum: str | None = None,
) -> Serving:
    """The Deployment that serves the model, with default resources and what a GPU needs.

    Raises:
        api.errors.InvalidQuantityError: The CPU limit of the spec is not a quantity.
    """
    return Serving(
        image=recipe.image,
        environment=_serving_environment(recipe),
        replicas=replicas,
        device=recipe.device,
        resources=_serving_resources(recipe),
        placement=_serving_placement(recipe),
        api_key_checksum=api_key_checksum,
        template_api_key_checksum=template_api_key_checksum,
    )


def _serving_resources(recipe: RevisionRecipe) -> JsonObject:
    defaults = default_requests(recipe.model, recipe.device, recipe.registry_url)
    return serving_resources(recipe.resources, defaults=defaults, device=recipe.device)


def _prefetch_image(recipe: RevisionRecipe) -> str:
    if recipe.custom_image or recipe.runtime_version is None:
        return recipe.image
    return runtime_image(recipe.runtime_version, "cpu").reference


def _prefetch_environment(
    recipe: RevisionRecipe, *, seeded: bool, keep: tuple[str, ...]
) -> tuple[EnvironmentVariable, ...]:
    reference, manifest_path = _model_variables(recipe)
    plain = {
        "MODEL": reference,
        "EXPECT_DIGEST": recipe.digest,
        "OLLAYA_MODELS": paths.MODEL_STORE,
        "MANIFEST_PATH": manifest_path,
        "MANIFEST_SEED_FILE": paths.SEED_FILE if seeded else None,
        **_registry_variable(recipe),
        "OLLAYA_HF_ENDPOINT": recipe.hf_endpoint,
        "STORE_ROOT": paths.STORE_ROOT if keep else None,
        "KEEP_SUBPATHS": " ".join(keep) or None,
    }
    return _variables(plain, {"OLLAYA_HF_TOKEN": recipe.download_token})


def _model_variables(recipe: RevisionRecipe) -> tuple[str, str]:
    """The runtime's spelling of the name and the path of its manifest; empty for a name that does not parse."""
    try:
        name = ModelName.parse(recipe.model)
    except InvalidModelName:
        # The script refuses such a name, so nothing reads these.
        return "", ""
    return name.reference, name.manifest_path(recipe.registry_url)


def _serving_environment(recipe: RevisionRecipe) -> tuple[EnvironmentVariable, ...]:
    plain = {
        "OLLAYA_HOST": f"0.0.0.0:{keys.RUNTIME_PORT}",
        "OLLAYA_MODELS": paths.MODEL_STORE,
        "OLLAYA_DEVICE": recipe.device,
        # Without it every answered question would replace the pin of the warm-up by five minutes.
        "OLLAYA_KEEP_ALIVE": "-1",
        "OLLAYA_THREADS": _threads(recipe),
        **_registry_variable(recipe),
    }
    return _variables(plain, {API_KEY_VARIABLE: recipe.api_key})


def _threads(recipe: RevisionRecipe) -> str | None:
    if recipe.custom_image or recipe.runtime_version is None or recipe.runtime_version < THREADS_VERSION:
        return None
    threads = thread_count(recipe.resources)
    return None if threads is None else str(threads)


def _registry_variable(recipe: RevisionRecipe) -> dict[str, str | None]:
    """Pull and serve must agree on the registry, since it names a directory of the store."""
    return {"OLLAYA_REGISTRY": None if recipe.registry_url == DEFAULT_REGISTRY_URL else recipe.registry_url}


def _variables(
    plain: Mapping[str, str | None], secret: Mapping[str, SecretKey | None]
) -> tuple[EnvironmentVariable, ...]:
    """Variables in the given order, without those that have no value."""
    return (
        *(EnvironmentVariable(name=name, value=value) for name, value in plain.items() if value is not None),
        *(EnvironmentVariable(name=name, secret=key) for name, key in secret.items() if key is not None),
    )


def _serving_placement(recipe: RevisionRecipe) -> Placement:
    return _gpu_placement(recipe.placement) if recipe.device == "cuda" else recipe.placement


def _gpu_placement(placement: Placement) -> Placement:
    """CUDA images exist for amd64 only, and GPU nodes are usually tainted."""
    tolerated = any(map(_tolerates_gpu, placement.tolerations))
    return replace(
        placement,
        node_selector={_ARCHITECTURE: "amd64", **placement.node_selector},
        tolerations=placement.tolerations if tolerated else (*placement.tolerations, _GPU_TOLERATION),
    )


def declared_placements(live: Placement, device: str) -> Iterator[Placement]:
    """Yield the placements that a GPU's additions may have made `live` of, other than itself."""
    if device != "cuda":
        return
    selector = {key: value for key, value in live.node_selector.items() if key != _ARCHITECTURE}
    tolerations = tuple(each for each in live.tolerations if each != _GPU_TOLERATION)
    yield replace(live, node_selector=selector, tolerations=tolerations)
    yield replace(live, node_selector=selector)
    yield replace(live, tolerations=tolerations)


def _tolerates_gpu(toleration: JsonObject) -> bool:
    """Whether the toleration covers the taint `nvidia.com/gpu:NoSchedule` whatever its value."""
    return (
        toleration.get("operator") == "Exists"
        and toleration.get("key", "") in ("", GPU)
        and toleration.get("effect", "") in ("", "NoSchedule")
    )
