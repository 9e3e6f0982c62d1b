"""Configurations: what applies where, and what is refused by the name of its key."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy import RULES, Configuration, Level, PolicyConfigurationError, read_configuration
from policy.rules import RULES_BY_ID

DOCUMENT = {
    "rules": {
        "registry-uses-tls": {"level": "advisory"},
        "memory-limit-headroom": {"factor": 2},
    },
    "environments": {
        "dev": {"rules": {"registry-uses-tls": {"level": "disabled"}, "memory-limit-headroom": {"level": "mandatory"}}},
        "prod": None,
    },
}


def level(configuration: Configuration, rule: str) -> Level:
    return configuration.level(RULES_BY_ID[rule])


@pytest.mark.parametrize("document", [None, {}, {"rules": {}}])
def test_without_a_configuration_every_rule_has_its_own_level(document: Any) -> None:
    configuration = read_configuration(document)
    assert {rule.id: configuration.level(rule) for rule in RULES} == {rule.id: rule.level for rule in RULES}
    assert configuration == Configuration()


def test_an_environment_goes_before_what_is_set_for_all_key_by_key() -> None:
    dev, prod = read_configuration(DOCUMENT, "dev"), read_configuration(DOCUMENT, "prod")
    assert level(dev, "registry-uses-tls") is Level.DISABLED
    assert level(prod, "registry-uses-tls") is Level.ADVISORY
    assert level(dev, "memory-limit-headroom") is Level.MANDATORY
    assert dev.settings["memory-limit-headroom"].model_dump()["factor"] == 2
    assert read_configuration(DOCUMENT).environment is None
    assert read_configuration({}, "anything").environment == "anything"


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], "the configuration: "),
        ({"rulez": {}}, "rulez: there is no such key"),
        ({"rules": {"no-such-rule": {}}}, "rules.no-such-rule: there is no such rule"),
        ({"rules": {"pod-restricted": {"lvl": "advisory"}}}, "rules.pod-restricted.lvl: there is no such key"),
        ({"rules": {"pod-restricted": {"level": "fatal"}}}, "rules.pod-restricted.level: "),
        ({"rules": {"pod-restricted": {"allowed": []}}}, "rules.pod-restricted.allowed: there is no such key"),
        ({"rules": {"memory-limit-headroom": {"factor": 0.5}}}, "rules.memory-limit-headroom.factor: "),
        ({"rules": {"model-registry-allowed": {"allowed": ["https://x"]}}}, "rules.model-registry-allowed.allowed.0: "),
        ({"rules": {"model-registry-allowed": {"registry": "ftp://x"}}}, "rules.model-registry-allowed.registry: "),
        ({"rules": {"image-registry-allowed": {"allowed": "x"}}}, "rules.image-registry-allowed.allowed: "),
        (
            {"environments": {"dev": {"rules": {"no-such-rule": {}}}}},
            "environments.dev.rules.no-such-rule: there is no such rule",
        ),
        (
            {"environments": {"dev": {"rules": {"pod-restricted": {"level": 3}}}}},
            "environments.dev.rules.pod-restricted.level: ",
        ),
        ({"environments": {"dev": {"models": []}}}, "environments.dev.models: there is no such key"),
    ],
)
def test_an_unusable_key_is_refused_by_its_name(document: Any, named: str) -> None:
    with pytest.raises(PolicyConfigurationError) as refusal:
        read_configuration(document)
    assert any(line.startswith(named) for line in str(refusal.value).splitlines())


def test_every_unusable_key_is_named_at_once() -> None:
    rules = {"pod-restricted": {"lvl": 1}, "store-read-only": {"level": "no"}}
    with pytest.raises(PolicyConfigurationError) as refusal:
        read_configuration({"rules": rules})
    assert len(str(refusal.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("everywhere", "in_prod", "key"),
    [
        (["prd"], None, "rules.evaluation-required.environments: 'prd' is not listed"),
        (["dev", "prd"], None, "rules.evaluation-required.environments: 'prd' is not listed"),
        ([], ["prd"], "environments.prod.rules.evaluation-required.environments: 'prd' is not listed"),
    ],
)
def test_a_rule_for_an_environment_that_is_not_listed_is_refused(
    everywhere: list[str], in_prod: list[str] | None, key: str
) -> None:
    """Misspelt, it would be switched off, and nobody would be told."""
    own = {} if in_prod is None else {"rules": {"evaluation-required": {"environments": in_prod}}}
    rules = {"evaluation-required": {"environments": everywhere}}
    with pytest.raises(PolicyConfigurationError, match=f"^{re.escape(key)}.*, only dev, prod$"):
        read_configuration({"rules": rules, "environments": {"dev": None, "prod": own}}, "prod")
    # A document without environments is for whoever names one.
    assert read_configuration({"rules": rules}, "prd")


def test_a_misspelt_environment_is_refused() -> None:
    with pytest.raises(PolicyConfigurationError, match="'prd' is not listed, only dev, prod"):
        read_configuration(DOCUMENT, "prd")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
rule_ids = st.sampled_from([rule.id for rule in RULES]) | st.text(max_size=5)
parameters = st.sampled_from(["level", "allowed", "registry", "factor", "environments"]) | st.text(max_size=5)


@settings(max_examples=50)
@given(
    json_values
    | st.fixed_dictionaries(
        {"rules": st.dictionaries(rule_ids, st.dictionaries(parameters, json_values, max_size=2) | json_values)}
    )
)
def test_any_json_is_read_or_refused(document: Any) -> None:
    try:
        configuration = read_configuration(document)
    except PolicyConfigurationError as refusal:
        assert str(refusal)  # noqa: PT017  # both ends are right; only another exception is wrong
    else:
        assert set(configuration.settings) == set(RULES_BY_ID)
