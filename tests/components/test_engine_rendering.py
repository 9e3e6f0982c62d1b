"""The real engine and provider on a stack, writing manifests instead of applying them: no cluster is needed."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi_kubernetes import Provider

from components.desired import DesiredStack
from components.manifests import ObjectKey, render, render_stack
from components.revision import Model
from tests.components.engines import Engine
from tests.components.stacks import PREFETCH, SERVING, STORE, stack, thawed

pytestmark = pytest.mark.cluster


def declare(directory: Path, desired: DesiredStack) -> None:
    provider = Provider("kubernetes", render_yaml_to_directory=str(directory))
    Model("laya", render_stack(desired), pulumi.ResourceOptions(provider=provider))


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    return tmp_path / "manifests"


def written(directory: Path) -> dict[ObjectKey, Any]:
    objects = [yaml.safe_load(path.read_text()) for path in directory.rglob("*.yaml")]
    return {ObjectKey(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def test_the_engine_takes_every_manifest_as_it_is(engine: Engine, manifests: Path) -> None:
    result = engine.stack(functools.partial(declare, manifests, stack())).up()
    # Five objects, two components, the provider and the stack itself.
    assert result.summary.resource_changes == {"create": 9}
    assert written(manifests) == {manifest.key: thawed(manifest.object) for manifest in render(stack())}


def test_equal_stacks_change_nothing(engine: Engine, manifests: Path) -> None:
    engine.stack(functools.partial(declare, manifests, stack())).up()
    again = engine.stack(functools.partial(declare, manifests, stack())).up()
    assert again.summary.resource_changes == {"same": 9}


def test_existing_stores_and_jobs_are_neither_replaced_nor_changed(engine: Engine, manifests: Path) -> None:
    engine.stack(functools.partial(declare, manifests, stack())).up()
    changed = stack(
        store=replace(STORE, access_modes=("ReadWriteMany",), storage_class_name="fast"),
        prefetch=replace(PREFETCH, script="exit 1", image="other", deadline_seconds=60),
        serving=replace(SERVING, image="other"),
    )
    preview = engine.stack(functools.partial(declare, manifests, changed)).preview()
    # Only the Deployment.
    assert preview.change_summary == {"same": 8, "update": 1}


def test_a_store_that_grows_is_updated_in_place(engine: Engine, manifests: Path) -> None:
    engine.stack(functools.partial(declare, manifests, stack())).up()
    grown = stack(store=replace(STORE, size="20Gi"))
    preview = engine.stack(functools.partial(declare, manifests, grown)).preview()
    assert preview.change_summary == {"same": 8, "update": 1}
