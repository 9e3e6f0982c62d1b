"""Runtime images, versions and the policy that picks one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.errors import InvalidRuntimeVersion, RuntimeVersionUnsupported
from reconciler.engine.images import (
    DEFAULT_VERSION,
    MINIMUM_VERSION,
    RuntimeVersion,
    RuntimeVersionPolicy,
    ServingRuntime,
    choose_version,
    runtime_image,
    update_available,
    version_of_image,
)

versions = st.builds(RuntimeVersion, *[st.integers(0, 999)] * 3)
PINNED = RuntimeVersionPolicy.PINNED
FOLLOW = RuntimeVersionPolicy.FOLLOW_OPERATOR


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.x", " 1.2.3", "1.2.3\n", "\u0661.2.3", "9" * 99]
)
def test_refuses_other_forms(text: str) -> None:
    with pytest.raises(InvalidRuntimeVersion):
        RuntimeVersion.parse(text)


@given(version=versions)
def test_version_survives_its_text(version: RuntimeVersion) -> None:
    assert RuntimeVersion.parse(str(version)) == version


def test_versions_compare_by_number() -> None:
    assert RuntimeVersion.parse("0.9.10") < RuntimeVersion.parse("0.10.0") < RuntimeVersion.parse("1.0.0")


@pytest.mark.parametrize(
    ("version", "device", "tag", "digest"),
    [
        ("0.12.0", "cpu", "0.12.0", "f79e865fda7af45aa66617b85fe16b08688d27f83a3137a21c75d3b137d8cf39"),
        ("0.7.3", "cuda", "0.7.3-cuda", "b35eedf0c0464455240820a32f755f58d53e68e99c0007c75c8c60fb2309c8d6"),
    ],
)
def test_known_versions_are_pinned(version: str, device: str, tag: str, digest: str) -> None:
    image = runtime_image(RuntimeVersion.parse(version), device)
    assert (image.reference, image.pinned) == (f"ghcr.io/ollaya-dev/ollaya:{tag}@sha256:{digest}", True)


def test_unknown_version_is_a_bare_tag() -> None:
    image = runtime_image(RuntimeVersion(0, 13, 1), "cuda")
    assert (image.reference, image.pinned) == ("ghcr.io/ollaya-dev/ollaya:0.13.1-cuda", False)


def test_default_and_minimum_are_pinned_for_both_devices() -> None:
    images = [
        runtime_image(version, device) for version in (DEFAULT_VERSION, MINIMUM_VERSION) for device in ("cpu", "cuda")
    ]
    assert all(image.pinned for image in images)
    assert len({image.reference for image in images}) == 4


@given(version=versions, device=st.sampled_from(["cpu", "cuda"]))
def test_version_is_read_back_from_a_rendered_image(version: RuntimeVersion, device: str) -> None:
    assert version_of_image(runtime_image(version, device).reference) == version


@pytest.mark.parametrize(
    "reference",
    ["", "my.corp/ollaya:0.12.0", "ghcr.io/ollaya-dev/ollaya", "ghcr.io/ollaya-dev/ollaya:latest", "x" * 9999],
)
def test_custom_images_have_no_known_version(reference: str) -> None:
    assert version_of_image(reference) is None


@pytest.mark.parametrize("policy", list(RuntimeVersionPolicy))
def test_the_spec_always_wins(policy: RuntimeVersionPolicy) -> None:
    stable = ServingRuntime(version="0.10.0")
    assert choose_version("0.11.0", policy=policy, stable=stable) == RuntimeVersion(0, 11, 0)


@pytest.mark.parametrize(
    ("policy", "stable", "version"),
    [
        (PINNED, None, "0.12.0"),
        (PINNED, ServingRuntime(version="0.10.0"), "0.10.0"),
        (PINNED, ServingRuntime(image="ghcr.io/ollaya-dev/ollaya:0.11.0-cuda"), "0.11.0"),
        (PINNED, ServingRuntime(version="0.10.0", image="ghcr.io/ollaya-dev/ollaya:0.11.0"), "0.10.0"),
        (PINNED, ServingRuntime(image="my.corp/ollaya:0.10.0"), "0.12.0"),
        (FOLLOW, ServingRuntime(version="0.10.0"), "0.12.0"),
    ],
)
def test_an_unset_version_follows_the_policy(
    policy: RuntimeVersionPolicy, stable: ServingRuntime | None, version: str
) -> None:
    assert str(choose_version(None, policy=policy, stable=stable)) == version


def test_versions_before_the_minimum_are_refused() -> None:
    with pytest.raises(RuntimeVersionUnsupported, match=r"0\.7\.2.*0\.7\.3"):
        choose_version("0.7.2", policy=PINNED, stable=None)


@pytest.mark.parametrize(("running", "available"), [("0.11.0", True), ("0.12.0", False), ("0.13.0", False)])
def test_an_update_is_a_newer_default(running: str, available: bool) -> None:
    assert update_available(RuntimeVersion.parse(running)) is available


def test_a_custom_image_is_never_outdated() -> None:
    assert not update_available(None)
