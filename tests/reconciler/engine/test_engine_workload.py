"""The prefetch Job and the serving Pods of a revision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from components.desired import EnvironmentVariable, Placement, SecretKey
from reconciler.engine.images import RuntimeVersion, runtime_image
from reconciler.engine.workload import RevisionRecipe, prefetch, serving

VERSION = RuntimeVersion(0, 12, 0)
REVISION = "0123456789abcdef"
RECIPE = RevisionRecipe(
    hash=REVISION,
    model="Laya:EN",
    digest="c3" * 32,
    device="cpu",
    image=runtime_image(VERSION, "cpu").reference,
    runtime_version=VERSION,
)
EVERYTHING = replace(
    RECIPE,
    registry_url="http://mirror:5000",
    hf_endpoint="https://hf.corp",
    api_key=SecretKey(name="keys", key="api"),
    download_token=SecretKey(name="tokens", key="hf"),
    resources={"limits": {"cpu": "2"}},
)
CUDA = replace(RECIPE, device="cuda", image=runtime_image(VERSION, "cuda").reference)
SMALL = {"cpu": "100m", "memory": "256Mi"}
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def values(environment: Iterable[EnvironmentVariable]) -> dict[str, Any]:
    return {variable.name: variable.secret or variable.value for variable in environment}


def test_prefetch_environment_says_only_what_differs_from_the_default() -> None:
    job = prefetch(RECIPE)
    assert values(job.environment) == {
        "MODEL": "laya:en",
        "EXPECT_DIGEST": "c3" * 32,
        "OLLAYA_MODELS": "/models",
        "MANIFEST_PATH": "manifests/ollaya.dev/library/laya/en",
    }
    assert (job.deadline_seconds, job.seeded, job.prune) == (1800, False, False)


def test_prefetch_environment_is_complete_and_in_a_stable_order() -> None:
    proxy = (EnvironmentVariable(name="NO_PROXY", value=".svc"),)
    job = prefetch(EVERYTHING, deadline_seconds=60, seeded=True, keep_subpaths=("b" * 16, REVISION), proxy=proxy)
    assert list(values(job.environment).items()) == [
        ("MODEL", "laya:en"),
        ("EXPECT_DIGEST", "c3" * 32),
        ("OLLAYA_MODELS", "/models"),
        ("MANIFEST_PATH", "manifests/mirror_5000/library/laya/en"),
        ("MANIFEST_SEED_FILE", "/seed/manifest"),
        ("OLLAYA_REGISTRY", "http://mirror:5000"),
        ("OLLAYA_HF_ENDPOINT", "https://hf.corp"),
        ("STORE_ROOT", "/store-root"),
        ("KEEP_SUBPATHS", f"{REVISION} {'b' * 16}"),
        ("OLLAYA_HF_TOKEN", SecretKey(name="tokens", key="hf")),
        ("NO_PROXY", ".svc"),
    ]
    assert (job.deadline_seconds, job.seeded, job.prune) == (60, True, True)


def test_prefetch_runs_the_cpu_image_without_what_a_gpu_needs() -> None:
    toleration = {"key": "team", "operator": "Exists"}
    asked = Placement(node_selector={"disk": "fast"}, tolerations=(toleration,), runtime_class_name="nvidia")
    job = prefetch(replace(CUDA, placement=asked))
    assert job.image == runtime_image(VERSION, "cpu").reference
    assert job.placement == Placement(node_selector={"disk": "fast"}, tolerations=(toleration,))


def test_a_custom_image_is_used_for_both() -> None:
    custom = replace(CUDA, image="my.corp/ollaya:1", custom_image=True, runtime_version=None)
    assert prefetch(custom).image == serving(custom, replicas=1).image == "my.corp/ollaya:1"


@pytest.mark.parametrize("change", [{"model": "../x:y"}, {"hash": "../../etc"}, {"digest": "$(id)"}])
def test_unsafe_input_renders_a_job_that_only_refuses(change: dict[str, Any]) -> None:
    script = prefetch(replace(RECIPE, **change)).script
    assert "ollaya pull" in prefetch(RECIPE).script
    assert "ollaya pull" not in script
    assert "refused" in script


def test_an_unsafe_directory_to_keep_is_refused_too() -> None:
    assert "ollaya pull" not in prefetch(RECIPE, keep_subpaths=("..",)).script


def test_serving_environment_of_the_plainest_revision() -> None:
    assert values(serving(RECIPE, replicas=1).environment) == {
        "OLLAYA_HOST": "0.0.0.0:11435",
        "OLLAYA_MODELS": "/models",
        "OLLAYA_DEVICE": "cpu",
        "OLLAYA_KEEP_ALIVE": "-1",
    }


def test_serving_environment_is_complete_and_in_a_stable_order() -> None:
    assert list(values(serving(EVERYTHING, replicas=1).environment).items())[4:] == [
        ("OLLAYA_THREADS", "2"),
        ("OLLAYA_REGISTRY", "http://mirror:5000"),
        ("OLLAYA_API_KEY", SecretKey(name="keys", key="api")),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"runtime_version": RuntimeVersion(0, 10, 9)},
        {"custom_image": True},
        {"runtime_version": None},
        {"resources": {"requests": {"cpu": "2"}}},
    ],
)
def test_threads_are_set_only_where_the_runtime_reads_them(change: dict[str, Any]) -> None:
    assert "OLLAYA_THREADS" not in values(serving(replace(EVERYTHING, **change), replicas=1).environment)


def test_serving_passes_on_what_the_rollout_decided() -> None:
    pods = serving(RECIPE, replicas=3, api_key_checksum="new", template_api_key_checksum="old")
    assert (pods.replicas, pods.device, pods.image) == (3, "cpu", RECIPE.image)
    assert (pods.api_key_checksum, pods.template_api_key_checksum) == ("new", "old")
    assert pods.resources == {"requests": {"cpu": "1", "memory": "3584Mi"}}


def test_cpu_placement_is_the_users() -> None:
    asked = Placement(node_selector={"disk": "fast"}, runtime_class_name="gvisor")
    assert serving(replace(RECIPE, placement=asked), replicas=1).placement == asked


def test_cuda_gets_a_gpu_its_toleration_and_amd64() -> None:
    pods = serving(replace(CUDA, placement=Placement(runtime_class_name="nvidia")), replicas=1)
    assert pods.resources == {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    assert pods.placement == Placement(
        node_selector={"kubernetes.io/arch": "amd64"}, tolerations=(GPU_TOLERATION,), runtime_class_name="nvidia"
    )


def test_the_user_may_choose_another_architecture() -> None:
    asked = Placement(node_selector={"kubernetes.io/arch": "arm64"})
    pods = serving(replace(CUDA, placement=asked), replicas=1)
    assert pods.placement.node_selector == {"kubernetes.io/arch": "arm64"}


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"operator": "Exists"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, False),
        (GPU_TOLERATION, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}, True),
        ({"key": "other", "operator": "Exists"}, True),
    ],
)
def test_the_gpu_toleration_is_added_unless_it_is_there(toleration: dict[str, str], added: bool) -> None:
    pods = serving(replace(CUDA, placement=Placement(tolerations=(toleration,))), replicas=1)
    assert pods.placement.tolerations == ((toleration, GPU_TOLERATION) if added else (toleration,))


def test_a_download_asks_for_little_and_goes_where_the_user_says() -> None:
    asked = Placement(node_selector={"disk": "fast"}, runtime_class_name="nvidia")
    for recipe in (RECIPE, CUDA):
        job = prefetch(replace(recipe, placement=asked))
        assert job.placement == Placement(node_selector={"disk": "fast"})
        assert job.resources == {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


def test_a_download_that_decides_where_a_gpu_has_to_be_asks_for_one() -> None:
    """Whatever labels nodes have, only the device itself is sure to be where the scheduler finds it."""
    recipe = replace(CUDA, resources={"requests": {"memory": "8Gi"}, "limits": {"cpu": "4", "nvidia.com/gpu": "2"}})
    job = prefetch(recipe, reserves_device=True)
    assert job.placement == serving(recipe, replicas=1).placement
    assert job.resources == {
        "requests": {"cpu": "4", "memory": "8Gi"},
        "limits": {"memory": "8Gi", "nvidia.com/gpu": "2"},
    }
    assert job.image == prefetch(CUDA).image, "it still computes nothing"


def test_a_download_for_a_gpu_that_others_hold_is_drawn_to_them() -> None:
    job = prefetch(CUDA, beside={"decisionmodel.io/name": "router"})
    assert job.resources == prefetch(CUDA).resources
    assert job.placement.tolerations == (GPU_TOLERATION,)
    assert job.placement.affinity is not None
    (term,) = job.placement.affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": {"decisionmodel.io/name": "router"}},
        "topologyKey": "kubernetes.io/hostname",
    }


@pytest.mark.parametrize(
    ("own", "resources"),
    [
        ({"limits": {"cpu": "1"}}, {"requests": SMALL, "limits": {"cpu": "1", "memory": "1Gi"}}),
        (
            {"limits": {"cpu": "50m", "memory": "128Mi"}},
            {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "50m", "memory": "128Mi"}},
        ),
        ({"requests": {"memory": "2Gi"}}, {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}),
        ({"limits": {"example.com/x": 1}}, {"requests": SMALL, "limits": {"memory": "1Gi", "example.com/x": 1}}),
    ],
)
def test_the_users_word_about_the_download_stands(own: dict[str, Any], resources: dict[str, Any]) -> None:
    assert prefetch(replace(RECIPE, prefetch_resources=own)).resources == resources


def test_the_users_word_stands_beside_what_a_gpu_needs() -> None:
    recipe = replace(CUDA, prefetch_resources={"requests": {"cpu": "200m"}}, resources={"requests": {"cpu": "8"}})
    job = prefetch(recipe, reserves_device=True)
    assert job.resources["requests"]["cpu"] == "200m"
    assert job.resources["limits"]["nvidia.com/gpu"] == "1"
