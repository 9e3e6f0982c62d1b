"""Compute resources of serving Pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import InvalidQuantityError
from reconciler.engine.resources import default_requests, serving_resources, thread_count

REGISTRY = "https://ollaya.dev"
MEASURED = ["laya:en", "laya:multilingual", "nli:latest", "gliclass:latest", "jevk5:latest"]

quantities = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "2Gi", "500m"])
)


@pytest.mark.parametrize(
    ("model", "memory"), list(zip(MEASURED, ["3584Mi", "2048Mi", "4096Mi", "2560Mi", "5120Mi"], strict=True))
)
def test_measured_models_request_what_they_need(model: str, memory: str) -> None:
    assert default_requests(model, "cpu", REGISTRY) == {"cpu": "1", "memory": memory}
    assert default_requests(model, "cuda", REGISTRY) == {"cpu": "1"}


@pytest.mark.parametrize(
    "model", ["laya:latest", "team/laya:en", "reg.corp/laya:en", "http://ollaya.dev/laya:en", "../x:y"]
)
def test_other_models_request_nothing(model: str) -> None:
    assert default_requests(model, "cpu", REGISTRY) == {}


def test_another_registry_may_serve_another_model_under_the_name() -> None:
    assert default_requests("laya:en", "cpu", "https://mirror.corp") == {}


def test_a_default_never_contradicts_the_user() -> None:
    resources = {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}}
    defaults = {"cpu": "1", "memory": "3584Mi"}
    assert serving_resources(resources, defaults=defaults, device="cpu") == resources


@given(requests=quantities, limits=quantities, device=st.sampled_from(["cpu", "cuda"]))
def test_what_the_user_says_is_kept(requests: dict[str, str], limits: dict[str, str], device: str) -> None:
    user = {"requests": requests, "limits": limits}
    filled = serving_resources(user, defaults={"cpu": "1", "memory": "2Gi"}, device=device)
    assert requests.items() <= filled.get("requests", {}).items()
    assert limits.items() <= filled.get("limits", {}).items()
    named = {*filled.get("requests", {}), *filled.get("limits", {})}
    assert {"cpu", "memory"} <= named
    assert device == "cpu" or "nvidia.com/gpu" in named
    assert user == {"requests": requests, "limits": limits}


def test_cuda_takes_one_gpu() -> None:
    assert serving_resources({}, defaults={}, device="cuda") == {"limits": {"nvidia.com/gpu": "1"}}
    two = {"limits": {"nvidia.com/gpu": "2"}}
    assert serving_resources(two, defaults={}, device="cuda") == two


def test_nothing_stays_nothing() -> None:
    assert serving_resources({}, defaults={}, device="cpu") == {}
    assert serving_resources({"requests": None, "claims": [{"name": "x"}]}, defaults={}, device="cpu") == {
        "claims": [{"name": "x"}]
    }


@pytest.mark.parametrize(
    ("cpu", "threads"), [("2", 2), (2, 2), ("1500m", 1), ("100m", 1), ("3.9", 3), ("1e1", 10), ("0", 1), ("1k", 1000)]
)
def test_threads_are_the_whole_cores_of_the_limit(cpu: Any, threads: int) -> None:
    assert thread_count({"limits": {"cpu": cpu}}) == threads


@pytest.mark.parametrize("resources", [{}, {"limits": None}, {"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "4"}}])
def test_no_limit_no_threads(resources: Any) -> None:
    assert thread_count(resources) is None


@pytest.mark.parametrize("cpu", ["", "two", "1x", "NaN", "1e999999999"])
def test_a_limit_that_is_no_quantity_is_refused(cpu: str) -> None:
    with pytest.raises(InvalidQuantityError):
        thread_count({"limits": {"cpu": cpu}})
