"""`dmctl policy check`: verdicts, exit codes, and where findings point to."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from policy import RULES
from tests.cli.commands import Dmctl
from tests.policy.manifests import changed, model, objects, one

REFUSED = model(image="registry.example.com/own:1")


def findings(dmctl: Dmctl, *arguments: str) -> list[dict[str, Any]]:
    done = dmctl("policy", "check", "-o", "json", *arguments)
    found: list[dict[str, Any]] = json.loads(done.out)["findings"]
    return found


def test_what_may_be_applied_ends_with_0(dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", dmctl.write("models.yaml", model(), *objects()))
    assert (done.code, done.err) == (0, "")
    assert done.out == "passed: 0 mandatory, 0 advisory in 6 manifests\n"


def test_advisory_findings_are_told_and_allowed(dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", dmctl.write("models.yaml", model(resources={"limits": {"memory": "4Gi"}})))
    assert done.code == 0
    assert "models.yaml:10: advisory: DecisionModel team-a/laya: spec.resources.limits.memory: " in done.out
    assert "[memory-limit-headroom]" in done.out


def test_mandatory_findings_end_with_2_and_name_file_and_line(dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", dmctl.write("models.yaml", model(), REFUSED))
    assert done.code == 2
    # The second document begins at line 9.
    assert "models.yaml:16: mandatory: DecisionModel team-a/laya: spec.image: " in done.out
    assert done.out.splitlines()[-1].startswith("refused: 3 mandatory")


def test_what_is_rendered_for_a_model_is_judged_too(dmctl: Dmctl) -> None:
    config = dmctl.write(
        "policy.yaml",
        {
            "rules": {
                "model-registry-allowed": {"registry": "http://models.example.com", "allowed": ["models.example.com"]}
            }
        },
    )
    done = dmctl("policy", "check", "--config", config, dmctl.write("model.yaml", model()))
    assert done.code == 2
    assert "in the Deployment rendered for it, spec.template.spec.containers[0].env[" in done.out
    assert "registry-uses-tls" in done.out


def test_a_problem_of_the_model_is_not_repeated_for_what_is_rendered_for_it(dmctl: Dmctl) -> None:
    found = findings(dmctl, dmctl.write("model.yaml", REFUSED))
    assert [each["rule"] for each in found] == [
        "image-registry-allowed",
        "image-pinned-by-digest",
        "custom-image-allowed",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"device": "cuda", "replicas": 3, "cache": {"accessModes": ["ReadWriteMany"]}},
        {"digest": "ab" * 32},
        {"runtimeVersion": "0.10.0"},
        {"auth": {"apiKeySecretRef": {"name": "a", "key": "b"}}},
        {"scheduling": {"nodeSelector": {"pool": "models"}}},
    ],
)
def test_ordinary_models_pass_with_what_is_rendered_for_them(dmctl: Dmctl, spec: Any) -> None:
    assert findings(dmctl, dmctl.write("model.yaml", model(**spec))) == []


@pytest.mark.parametrize("version", ["0.1.0", "99.0.0"])
def test_a_model_without_a_known_image_is_judged_by_itself(dmctl: Dmctl, version: str) -> None:
    (finding,) = findings(dmctl, dmctl.write("model.yaml", model(runtimeVersion=version)))
    assert finding["rule"] == "image-pinned-by-digest"


def test_a_model_that_the_api_refuses_is_refused(dmctl: Dmctl) -> None:
    (finding,) = findings(dmctl, dmctl.write("model.yaml", model(replicas=0)))
    assert (finding["rule"], finding["path"], finding["line"]) == ("decisionmodel-valid", "spec.replicas", 8)


def test_directories_are_searched_and_other_yaml_in_them_is_passed_over(dmctl: Dmctl) -> None:
    dmctl.write("deploy/b/model.yml", REFUSED)
    dmctl.write("deploy/a.yaml", {"replicas": 3})
    dmctl.write("deploy/c.json", json.dumps(one("Service")))
    dmctl.write("deploy/readme.txt", "no: yaml: at all")
    done = dmctl("policy", "check", "deploy")
    assert done.code == 2
    assert "deploy/b/model.yml:8: " in done.out
    assert "in 2 manifests, 1 other documents passed over" in done.out


def test_standard_input_is_a_file_like_others(dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", "-", stdin=yaml.safe_dump(REFUSED).encode())
    assert done.code == 2
    assert "-:" in done.out


def test_lists_are_opened(dmctl: Dmctl) -> None:
    bare = {key: value for key, value in REFUSED.items() if key not in ("apiVersion", "kind")}
    models = {"apiVersion": "decisionmodel.io/v1alpha1", "kind": "DecisionModelList", "items": [bare]}
    mixed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [model(), changed(one("Service"), "spec/publishNotReadyAddresses", True)],
    }
    found = findings(dmctl, dmctl.write("lists.yaml", models, mixed))
    assert {each["kind"] for each in found} == {"DecisionModel", "Service"}
    assert found[0]["line"] == 9


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("decisionmodel.io/v1alpha1", "DecisonModel", "kind"),
        ("decisionmodel.io/v1alpha1", "decisionmodel", "kind"),
        ("decisionmodels.io/v1alpha1", "DecisionModel", "apiVersion"),
        ("decisionmodel.io/v1", "DecisionModel", "apiVersion"),
        ("v1alpha1", "DecisionModel", "apiVersion"),
    ],
)
def test_a_misspelt_decision_model_does_not_pass_for_something_else(
    dmctl: Dmctl, api_version: str, kind: str, path: str
) -> None:
    misspelt = dmctl.write("model.yaml", {**model(), "apiVersion": api_version, "kind": kind})
    (finding,) = findings(dmctl, misspelt)
    assert (finding["rule"], finding["level"], finding["path"]) == ("decisionmodel-valid", "mandatory", path)
    assert dmctl("preview", "--offline", misspelt).code == 2


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ("[{kind: A, apiVersion: v1}, {}]", "bad.yaml:3: this item of the List is no manifest"),
        ("[3]", "bad.yaml:3: this item of the List is no manifest"),
        ("[null]", "bad.yaml:3: this item of the List is no manifest"),
        ("[{kind: DecisionModel}]", "bad.yaml:3: this item of the List is no manifest"),
        ("[{kind: List, apiVersion: v1, items: [{}]}]", "bad.yaml:3: this item of the List is no manifest"),
        ("{}", "bad.yaml:3: the items of the List are no list"),
    ],
)
def test_what_no_judgement_reaches_within_a_list_ends_with_3(dmctl: Dmctl, items: str, complaint: str) -> None:
    text = f"apiVersion: v1\nkind: List\nitems: {items}\n"
    done = dmctl("policy", "check", dmctl.write("model.yaml", model()), dmctl.write("bad.yaml", text))
    assert (done.code, done.out) == (3, "")
    assert complaint in done.err


def test_lists_within_lists_are_opened(dmctl: Dmctl) -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [REFUSED]}
    found = findings(dmctl, dmctl.write("lists.yaml", {"apiVersion": "v1", "kind": "List", "items": [inner]}))
    assert {(each["kind"], each["line"]) for each in found} == {("DecisionModel", 14)}


def test_relations_hold_across_files(dmctl: Dmctl) -> None:
    referring = dmctl.write("model.yaml", model(auth={"apiKeySecretRef": {"name": "keys", "key": "k"}}))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "team-a"}}
    assert dmctl("policy", "check", referring).code == 0
    assert dmctl("policy", "check", referring, dmctl.write("secret.yaml", secret)).code == 2


def test_the_configuration_decides_per_environment(dmctl: Dmctl) -> None:
    document = {
        "rules": {"evaluation-required": {"environments": ["dev", "prod"]}},
        "environments": {"dev": {"rules": {"evaluation-required": {"level": "disabled"}}}, "prod": {}},
    }
    config = dmctl.write("policy.yaml", document)
    file = dmctl.write("model.yaml", model())
    assert dmctl("policy", "check", file, "--config", config, "--environment", "dev").code == 0
    assert dmctl("policy", "check", file, "--config", config, "--environment", "prod").code == 2
    misspelt = dmctl("policy", "check", file, "--config", config, "--environment", "prd")
    assert misspelt.code == 3
    assert "'prd' is not listed" in misspelt.err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("policy", "check", "--config", "policy.yaml", "model.yaml"), "--environment"),
        (("policy", "list", "--config", "policy.yaml"), "--environment"),
        (("policy", "pack-config", "--config", "policy.yaml"), "--environment"),
        (("preview", "--offline", "--policy-config", "policy.yaml", "model.yaml"), "--stack"),
    ],
    ids=["check", "list", "pack-config", "preview"],
)
def test_of_a_file_with_environments_one_has_to_be_named(dmctl: Dmctl, command: tuple[str, ...], option: str) -> None:
    """Without one, a rule for some of them would silently apply in none."""
    rules = {"rules": {"evaluation-required": {"environments": ["prod"]}}, "environments": {"dev": {}, "prod": {}}}
    dmctl.write("policy.yaml", rules)
    dmctl.write("model.yaml", model())
    done = dmctl(*command)
    assert (done.code, done.out) == (3, "")
    assert f"Name one of them with {option}: dev, prod." in done.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: b\nc: [", "bad.yaml:2: "),
        ("kind: A\napiVersion: v1\n---\nreplicas: 3\n", "bad.yaml:4: is no manifest: apiVersion or kind is missing"),
        ("[]", "bad.yaml:1: is no manifest"),
        ("", "bad.yaml: there are no manifests to judge"),
        ("# nothing\n---\n", "bad.yaml: there are no manifests to judge"),
        ("{{ template }}: x", "bad.yaml:1: "),
    ],
)
def test_what_cannot_be_read_ends_with_3_and_its_place(dmctl: Dmctl, text: str, complaint: str) -> None:
    done = dmctl("policy", "check", dmctl.write("bad.yaml", text))
    assert (done.code, done.out) == (3, "")
    assert complaint in done.err


def test_missing_files_and_wrong_usage_end_with_3(dmctl: Dmctl) -> None:
    missing = dmctl("policy", "check", "missing.yaml")
    assert (missing.code, missing.err) == (3, "Error: missing.yaml: cannot be read: No such file or directory\n")
    assert dmctl("policy", "check").code == 3
    assert dmctl("policy", "check", "-o", "html", "x.yaml").code == 3
    assert dmctl("no-such-command").code == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: {no-such-rule: {}}", "policy.yaml: rules.no-such-rule: there is no such rule"),
        ("rules: [", "policy.yaml:1: "),
        ("a: 1\n---\nb: 2\n", "policy.yaml:3: there is more than one document"),
    ],
)
def test_an_unusable_configuration_ends_with_3(dmctl: Dmctl, text: str, complaint: str) -> None:
    done = dmctl("policy", "check", "--config", dmctl.write("policy.yaml", text), dmctl.write("model.yaml", model()))
    assert done.code == 3
    assert complaint in done.err


def test_text_from_a_manifest_cannot_move_the_terminals_cursor(dmctl: Dmctl) -> None:
    hostile = changed(REFUSED, "metadata/name", "laya\x1b[2J\rpassed\n")
    done = dmctl("policy", "check", dmctl.write("model.yaml", hostile))
    assert done.code == 2
    assert "\x1b" not in done.out
    assert "laya\\x1b[2J\\rpassed\\n" in done.out


def test_the_list_shows_every_rule_with_the_level_that_applies(dmctl: Dmctl) -> None:
    config = dmctl.write("policy.yaml", {"rules": {"pod-restricted": {"level": "disabled"}}})
    lines = dmctl("policy", "list", "--config", config).out.splitlines()
    assert [line.split()[0] for line in lines] == [rule.id for rule in RULES]
    assert [line.split()[1] for line in lines if line.startswith("pod-restricted ")] == ["disabled"]


def test_the_packs_configuration_is_the_same_for_the_engine(dmctl: Dmctl) -> None:
    config = dmctl.write(
        "policy.yaml", {"rules": {"custom-image-allowed": {"level": "advisory", "allowed": ["x.y/z"]}}}
    )
    printed = json.loads(dmctl("policy", "pack-config", "--config", config).out)
    assert printed["custom-image-allowed"] == {"enforcementLevel": "advisory", "allowed": ["x.y/z"]}
    assert printed.keys() == {rule.id for rule in RULES}


def test_colours_stay_out_of_what_is_no_terminal(dmctl: Dmctl) -> None:
    assert "\x1b" not in dmctl("policy", "check", dmctl.write("model.yaml", REFUSED)).out


def test_help_names_the_program(dmctl: Dmctl) -> None:
    done = dmctl("--help")
    assert done.code == 0
    assert done.out.startswith("Usage: dmctl ")
