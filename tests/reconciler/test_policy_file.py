"""The reconciler's policy file: what it says, over what the flags permit."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from click.testing import CliRunner

from components.program import ProviderSettings
from policy import RULES, Configuration, Level, PolicyConfigurationError
from policy.file import SIZE_LIMIT
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.main import main
from reconciler.policy_file import read_policy, unenforced

RULE = {rule.id: rule for rule in RULES}


def permitting(flags: AbstractSet[str]) -> ControllerSettings:
    return ControllerSettings(
        registries=RegistryPolicy(
            registry_url="http://mirror.example:8080",
            allowed=frozenset({"mirror.example:8080"}),
            allow_insecure="insecure" in flags,
        ),
        provider=ProviderSettings(kubeconfig=None, cluster_identifier="tests"),
        allow_image_override="images" in flags,
        allow_unpinned_images="unpinned" in flags,
    )


def policy(
    tmp_path: Path, text: str, environment: str | None = None, flags: AbstractSet[str] = frozenset()
) -> Configuration:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return read_policy(path, environment, permitting(flags))


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        ({"insecure"}, {"registry-uses-tls"}),
        ({"unpinned"}, {"image-pinned-by-digest"}),
        (
            {"images"},
            {"custom-image-allowed", "image-registry-allowed", "image-pinned-by-digest"},
        ),
        (set(), set()),
    ],
)
def test_what_a_flag_permits_no_rule_forbids_by_itself(tmp_path: Path, flags: set[str], rules: set[str]) -> None:
    configuration = policy(tmp_path, "", flags=flags)
    disabled = {name for name, rule in RULE.items() if configuration.level(rule) is Level.DISABLED}
    assert disabled == rules
    registries = configuration.settings["model-registry-allowed"].model_dump()
    assert (registries["allowed"], registries["registry"]) == (("mirror.example:8080",), "http://mirror.example:8080")


def test_without_a_file_nothing_is_held_up() -> None:
    configuration = unenforced(permitting({"images"}))
    levels = {name: configuration.level(rule) for name, rule in RULE.items()}
    assert set(levels.values()) == {Level.ADVISORY, Level.DISABLED}
    assert levels["custom-image-allowed"] is Level.DISABLED
    assert configuration.settings["model-registry-allowed"].model_dump()["allowed"] == ("mirror.example:8080",)


def test_what_the_file_says_goes_before_the_flags(tmp_path: Path) -> None:
    everywhere = "rules: {registry-uses-tls: {level: mandatory}}"
    in_prod = "environments: {prod: {rules: {pod-restricted: {level: advisory}}}}"
    configuration = policy(tmp_path, f"{everywhere}\n{in_prod}", "prod", {"insecure"})
    assert configuration.level(RULE["registry-uses-tls"]) is Level.MANDATORY
    assert configuration.level(RULE["pod-restricted"]) is Level.ADVISORY


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: {no-such-rule: {}}", "there is no such rule"),
        ("rules: [a]", "rules: must be a mapping"),
        ("- a", "must be a mapping"),
        ("a: [", "no YAML"),
        ("#" * (SIZE_LIMIT + 1), "more than"),
        ("\x00", "no YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PolicyConfigurationError, match=complaint):
        policy(tmp_path, text)


def test_the_flag_says_what_is_wrong_before_anything_starts(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--policy-config", str(tmp_path / "missing.yaml")])
    assert result.exit_code == 2
    assert "--policy-config" in result.output
    assert "missing.yaml" in result.output


def test_of_several_environments_one_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyConfigurationError, match="--policy-environment: dev, prod"):
        policy(tmp_path, "environments: {dev: {}, prod: {}}")
    assert policy(tmp_path, "environments: {dev: {}, prod: {}}", "prod").environment == "prod"
