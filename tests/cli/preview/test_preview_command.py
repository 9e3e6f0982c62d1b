"""`dmctl preview` as its users run it: exit codes, formats, environments, and input that means harm."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.preview.documents import REPORTS
from cli.preview.environments import default_settings
from reconciler.engine.images import DEFAULT_VERSION, runtime_image
from tests.cli.commands import Dmctl, Done
from tests.cli.preview.asking import Asked
from tests.policy.manifests import model
from tests.reconciler.controller.bed import Bed

DIGEST = "ab" * 32
IMAGE = runtime_image(DEFAULT_VERSION, "cpu").reference


@pytest.fixture
def files(dmctl: Dmctl) -> Dmctl:
    """A working directory with one manifest."""
    dmctl.write("model.yaml", model(digest=DIGEST, replicas=2, rollout={"timeouts": {"caching": "1h"}}))
    return dmctl


# Formats.


def test_the_text_says_what_would_happen(files: Dmctl) -> None:
    done = files("preview", "--offline", "model.yaml")
    revision = done.out.split("none -> ")[1][:16]
    assert (done.code, done.err) == (1, "")
    assert (
        done.out
        == f"""\
team-a/laya: new revision  (model.yaml:1)
  revision              none -> {revision}
  digest                sha256:abababababab
  image                 {IMAGE}
  download              unknown
  strategy              BlueGreen
  extra while it lasts  2 CPU, 7 GiB memory, 1 GiB memory limit, 10 GiB storage
  extra afterwards      2 CPU, 7 GiB memory, 10 GiB storage
  promotion             Automatic
  worst case            Failed after 1h10m (CacheTimeout, StartTimeout): nothing serves yet, and nothing would
  objects
    + PersistentVolumeClaim laya-store-{revision}  (Caching)
    + Job laya-pf-{revision}  (Caching)
    + Deployment laya-{revision}  (Starting)
    + Service laya  (Promoted)
  advisory: spec.replicas: all 2 Pods run on the one node that mounts the store, and go with it [replicas-share-node]

1 new revision
"""
    )


def test_the_markdown_is_a_table_with_details_folded_away(files: Dmctl) -> None:
    done = files("preview", "--offline", "-o", "markdown", "model.yaml")
    lines = done.out.splitlines()
    assert lines[:3] == ["### DecisionModel preview", "", "1 new revision"]
    assert lines[4:6] == [
        "| DecisionModel | Outcome | Revision | Download | Extra while it lasts | Worst case |",
        "|---|---|---|---|---|---|",
    ]
    assert lines[6].startswith("| `team-a/laya` | new revision | `none` → `")
    assert lines[6].endswith(
        "` | unknown | 2 CPU, 7 GiB memory, 1 GiB memory limit, 10 GiB storage | Failed after 1h10m |"
    )
    assert lines[8] == "<details><summary><code>team-a/laya</code></summary>"
    assert lines[-1] == "</details>"


def test_the_json_has_the_documented_shape(files: Dmctl) -> None:
    told = json.loads(files("preview", "--offline", "-o", "json", "model.yaml").out)
    (only,) = told["models"]
    assert told["version"] == 1
    assert list(only) == [
        "namespace",
        "name",
        "file",
        "line",
        "outcome",
        "refused",
        "fields",
        "before",
        "after",
        "downloadBytes",
        "strategy",
        "restart",
        "objects",
        "needs",
        "gate",
        "worstCase",
        "findings",
        "notes",
    ]
    assert (only["outcome"], only["before"], only["after"]["digest"]) == ("NewRevision", None, DIGEST)
    assert only["needs"]["peak"] == {
        "cpuMillicores": 2000,
        "memoryBytes": 7 << 30,
        "memoryLimitBytes": 1 << 30,
        "gpus": 0,
        "storageBytes": 10 << 30,
    }
    assert only["objects"][0] == {
        "action": "Create",
        "kind": "PersistentVolumeClaim",
        "name": f"laya-store-{only['after']['revision']}",
        "during": "Caching",
        "paths": [],
    }
    assert only["worstCase"]["endings"][0] == {
        "stage": "Caching",
        "seconds": 3600.0,
        "reason": "CacheTimeout",
        "phase": "Failed",
    }


def test_without_a_digest_nobody_knows_the_revision_offline(dmctl: Dmctl) -> None:
    dmctl.write("model.yaml", model())
    (only,) = json.loads(dmctl("preview", "--offline", "-o", "json", "model.yaml").out)["models"]
    assert (only["after"]["revision"], only["after"]["digest"]) == (None, None)
    assert "laya-store-<revision>" in {each["name"] for each in only["objects"]}


def test_colour_is_for_terminals(files: Dmctl) -> None:
    assert "\x1b" not in files("preview", "--offline", "model.yaml").out
    previews = asyncio.run(Asked.offline(yaml.safe_dump(model())))
    assert "\x1b[" in REPORTS["text"](previews)


# Exit codes and usage.


def test_a_refusal_ends_with_2(dmctl: Dmctl) -> None:
    dmctl.write("model.yaml", model(digest=DIGEST), {**model(replicas=0), "metadata": {"name": "other"}})
    done = dmctl("preview", "--offline", "model.yaml")
    assert done.code == 2
    assert "  Invalid: spec.replicas: Input should be greater than or equal to 1" in done.out
    assert done.out.endswith("1 new revision, 1 refused\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name files or directories"),
        (("nowhere.yaml",), "nowhere.yaml: cannot be read"),
        (("config.yaml",), "there is no DecisionModel to preview"),
        (("twice.yaml",), "DecisionModel team-a/laya is there twice"),
        (("--stack", "dev"), "is in no Pulumi project"),
        (("--stack", "../../etc"), "cannot be the name of a stack"),
        (("-o", "xml", "twice.yaml"), "'xml' is not one of"),
    ],
)
def test_what_cannot_be_previewed_ends_with_3(dmctl: Dmctl, arguments: tuple[str, ...], message: str) -> None:
    dmctl.write("config.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    dmctl.write("twice.yaml", model(), model())
    done = dmctl("preview", "--offline", *arguments)
    assert done.code == 3
    assert message in done.err
    assert done.out == ""


@pytest.mark.parametrize("kubeconfig", ["nowhere", "broken"])
def test_an_unusable_kubeconfig_ends_with_3_and_a_next_step(files: Dmctl, kubeconfig: str) -> None:
    files.write("broken", "{")
    done = files("preview", "model.yaml", "--kubeconfig", kubeconfig)
    assert done.code == 3
    assert kubeconfig in done.err
    assert "--context" in done.err


# Environments.


def environment(dmctl: Dmctl, manager: dict[str, Any], **configuration: Any) -> None:
    """A Pulumi project with one stack."""
    dmctl.write("Pulumi.yaml", {"name": "platform", "runtime": "python", "stackConfigDir": "stacks"})
    values = {"platform:image": "registry.example.com/reconciler:1", "platform:manager": manager}
    keys = {f"platform:{key}": value for key, value in configuration.items()}
    dmctl.write("stacks/Pulumi.test.yaml", {"config": {**values, **keys, "other:key": "ignored"}})


def test_an_environments_models_are_judged_by_its_own_reconciler(dmctl: Dmctl) -> None:
    environment(dmctl, {"allowedRegistries": ["models.example.com"], "ollayaRegistry": "https://models.example.com"})
    dmctl.write("stacks/test/a.yaml", {**model(digest=DIGEST), "metadata": {"name": "laya"}})
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.out.startswith("default/laya: new revision  (stacks/test/a.yaml:1)")
    assert done.code == 1

    dmctl.write("elsewhere.yaml", model(model="ollaya.dev/library/laya:en"))
    done = dmctl("preview", "--offline", "--stack", "test", "elsewhere.yaml")
    assert "RegistryNotAllowed: registry ollaya.dev is not allowed" in done.out
    assert done.code == 2


def test_the_callers_own_variables_are_not_the_reconcilers(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAYA_REGISTRY", "https://mine.example.com")
    assert default_settings().registries.registry_url == "https://ollaya.dev"
    environment(dmctl, {}, environment={"OLLAYA_REGISTRY": "https://theirs.example.com"})
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST))
    done = dmctl("preview", "--offline", "--stack", "test")
    assert "RegistryNotAllowed: registry theirs.example.com is not allowed" in done.out


@pytest.mark.parametrize(
    ("manager", "message"),
    [
        ({"allowImageOverrides": True}, "platform:manager.allowImageOverrides: there is no such key"),
        ({"ollayaRegistry": "http://models.example.com"}, "must use https unless"),
    ],
)
def test_an_unusable_environment_ends_with_3(dmctl: Dmctl, manager: dict[str, Any], message: str) -> None:
    environment(dmctl, manager)
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 3
    assert "Pulumi.test.yaml" in done.err
    assert message in done.err


def test_a_policy_is_read_for_the_environment(dmctl: Dmctl) -> None:
    environment(dmctl, {})
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST))
    dmctl.write(
        "policy.yaml", {"environments": {"test": {"rules": {"evaluation-required": {"environments": ["test"]}}}}}
    )
    done = dmctl("preview", "--offline", "--stack", "test", "--policy-config", "policy.yaml")
    assert done.code == 2
    assert "[evaluation-required]" in done.out


def test_an_environments_own_rules_are_those_that_its_reconciler_enforces(dmctl: Dmctl) -> None:
    rules = {"environments": {"blue": {"rules": {"evaluation-required": {"environments": ["blue"]}}}}}
    dmctl.write("stacks/policy.yaml", rules)
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST, image="registry.example.com/own:1"))
    environment(dmctl, {"allowImageOverride": True}, policy={"file": "policy.yaml", "environment": "blue"})
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 2
    assert "[evaluation-required]" in done.out
    # What a flag permits no rule forbids that the file does not mention.
    assert "[image-" not in done.out

    # Another file stands in the place of its own, and nothing else changes.
    dmctl.write("other.yaml", {})
    done = dmctl("preview", "--offline", "--stack", "test", "--policy-config", "other.yaml")
    assert (done.code, "[image-" in done.out, "[evaluation-required]" in done.out) == (1, False, False)
    assert dmctl("preview", "--offline", "--stack", "test", "--policy-config", "stacks/policy.yaml").code == 2
    environment(dmctl, {}, policy={"file": "policy.yaml"})
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 3
    assert "environments: 'test' is not listed, only blue" in done.err


PERMITTED = {
    "other registry": (
        {"allowedRegistries": ["reg.example.com"]},
        {"model": "reg.example.com/team/laya:en", "digest": DIGEST},
    ),
    "insecure registry": (
        {
            "allowInsecureRegistries": True,
            "allowedRegistries": ["reg.example.com"],
            "ollayaRegistry": "http://reg.example.com",
        },
        {"model": "laya:en", "digest": DIGEST},
    ),
    "other image": ({"allowImageOverride": True}, {"image": "registry.example.com/own:1", "digest": DIGEST}),
}


@pytest.mark.parametrize(("manager", "spec"), PERMITTED.values(), ids=PERMITTED)
@pytest.mark.parametrize("named", ["a file", "an option", "nothing"])
def test_what_a_flag_permits_a_preview_does_not_refuse(
    dmctl: Dmctl, manager: dict[str, Any], spec: dict[str, Any], named: str
) -> None:
    dmctl.write("stacks/policy.yaml", {"environments": {"test": {}}})
    dmctl.write("stacks/test/a.yaml", model(**spec))
    environment(dmctl, manager, **({"policy": {"file": "policy.yaml"}} if named == "a file" else {}))
    option = ("--policy-config", "stacks/policy.yaml") if named == "an option" else ()
    done = dmctl("preview", "--offline", "--stack", "test", *option)
    assert (done.code, done.err) == (1, ""), done.out


def test_rules_that_nobody_enforces_are_told_and_refuse_nothing(dmctl: Dmctl) -> None:
    """Without a file of rules the reconciler rolls out what its flags permit, however small its memory."""
    environment(dmctl, {})
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST, resources={"limits": {"memory": "1Gi"}}))
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 1
    assert "advisory" in done.out
    assert "[memory-limit-holds-model]" in done.out
    dmctl.write("stacks/policy.yaml", {})
    environment(dmctl, {}, policy={"file": "policy.yaml"})
    assert dmctl("preview", "--offline", "--stack", "test").code == 2


@pytest.mark.parametrize(
    ("text", "message"), [("[a]", "must be a mapping"), ("rules: {a: {}}", "policy.yaml: rules.a")]
)
def test_an_unusable_file_of_rules_ends_with_3(dmctl: Dmctl, text: str, message: str) -> None:
    environment(dmctl, {})
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST))
    done = dmctl("preview", "--offline", "--stack", "test", "--policy-config", dmctl.write("policy.yaml", text))
    assert done.code == 3
    assert message in done.err


def test_what_nobody_watches_is_refused(dmctl: Dmctl) -> None:
    environment(dmctl, {"watchNamespaces": ["models", "team-b"]})
    manifest = model(digest=DIGEST)
    dmctl.write("stacks/test/a.yaml", {**manifest, "metadata": {"name": "laya", "namespace": "models"}})
    dmctl.write("stacks/test/b.yaml", {**manifest, "metadata": {"name": "laya"}})
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 2
    assert "models/laya: new revision" in done.out
    assert "default/laya: refused" in done.out
    assert "NotWatched: nobody looks after the namespace default. Add it to the key manager.watchNamespaces" in done.out
    # Where nobody says whose reconciler it is, nobody knows what it watches.
    assert dmctl("preview", "--offline", "stacks/test/b.yaml").code == 1


@pytest.mark.parametrize("name", ["b.yml", "b.json", "more/b.yaml"])
def test_models_that_an_update_would_not_read_end_with_3(dmctl: Dmctl, name: str) -> None:
    environment(dmctl, {})
    dmctl.write("stacks/test/a.yaml", model(digest=DIGEST))
    dmctl.write(f"stacks/test/{name}", model(digest=DIGEST))
    done = dmctl("preview", "--offline", "--stack", "test")
    assert done.code == 3
    assert name.partition("/")[0] in done.err


@pytest.mark.parametrize(
    ("model_namespace", "secret_namespace", "option", "found"),
    [
        (None, "models", "models", True),
        ("models", None, "models", True),
        (None, "default", "models", False),
        (None, None, "models", True),
    ],
)
def test_the_namespace_of_what_names_none_counts_for_the_rules(
    dmctl: Dmctl, model_namespace: str | None, secret_namespace: str | None, option: str, found: bool
) -> None:
    def placed(manifest: Any, name: str, namespace: str | None) -> Any:
        return {**manifest, "metadata": {"name": name} | ({"namespace": namespace} if namespace else {})}

    keyed = model(digest=DIGEST, auth={"apiKeySecretRef": {"name": "keys", "key": "k"}})
    secret = {"apiVersion": "v1", "kind": "Secret"}
    file = dmctl.write("all.yaml", placed(keyed, "laya", model_namespace), placed(secret, "keys", secret_namespace))
    done = dmctl("preview", "--offline", "-n", option, file)
    assert ("[secret-capability-label]" in done.out) is found


# With a cluster.


@pytest.fixture
async def bed(asked: Asked) -> Bed:
    asked.bed.start()
    return asked.bed


async def run(dmctl: Dmctl, bed: Bed, *arguments: str) -> Done:
    environment(
        dmctl,
        {
            "ollayaRegistry": bed.registry.base_url,
            "allowedRegistries": [bed.registry.base_url.partition("://")[2]],
            "allowInsecureRegistries": True,
        },
    )
    everything = ("preview", "--stack", "test", "--kubeconfig", str(bed.kubeconfig), *arguments)
    return await asyncio.to_thread(dmctl, *everything)


@pytest.mark.anyio
async def test_a_whole_preview_from_the_command_line(dmctl: Dmctl, bed: Bed) -> None:
    old = await bed.rolled_out()
    (allowed,) = bed.options.controller.registries.allowed
    policy = {"rules": {"model-registry-allowed": {"registry": bed.registry.base_url, "allowed": [allowed]}}}
    policy["rules"]["registry-uses-tls"] = {"level": "advisory"}
    dmctl.write("policy.yaml", policy)

    dmctl.write("model.yaml", Asked.manifest())
    same = await run(dmctl, bed, "model.yaml", "--policy-config", "policy.yaml")
    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("default/router: nothing to do")

    dmctl.write("model.yaml", Asked.manifest(model="laya:en-better"))
    done = await run(dmctl, bed, "model.yaml", "--policy-config", "policy.yaml")
    assert (done.code, done.err) == (1, "")
    assert "    spec.model: laya:en -> laya:en-better\n" in done.out
    assert f"  revision              {old} -> " in done.out
    assert "  download              " in done.out
    assert " KiB\n" in done.out
    assert "RolledBack after 40m (CacheTimeout, StartTimeout): the serving revision answers all the time" in done.out
    assert "    ~ Service router: spec.selector[decisionmodel.io/revision]  (Promoted)\n" in done.out
    assert f"    - Deployment router-{old}  (Stabilized)\n" in done.out


@pytest.mark.anyio
async def test_namespaces_come_from_the_manifest_then_the_option_then_the_context(dmctl: Dmctl, bed: Bed) -> None:
    manifest = Asked.manifest()
    del manifest["metadata"]["namespace"]
    dmctl.write("model.yaml", manifest)
    assert (await run(dmctl, bed, "model.yaml")).out.startswith("default/router: ")
    assert (await run(dmctl, bed, "-n", "other", "model.yaml")).out.startswith("other/router: ")
    dmctl.write("model.yaml", Asked.manifest())
    assert (await run(dmctl, bed, "-n", "other", "model.yaml")).out.startswith("default/router: ")


@pytest.mark.anyio
async def test_a_slow_registry_is_told_on_standard_error(
    dmctl: Dmctl, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.preview.waiting._PATIENCE_SECONDS", 0.0)
    dmctl.write("model.yaml", Asked.manifest())
    done = await run(dmctl, bed, "model.yaml")
    host = bed.registry.base_url.partition("://")[2]
    assert f"asking {host} for laya:en …\n" in done.err


# Input that means harm.

HOSTILE = "`|x@everyone\x1b[31m<script>\r\n"


@pytest.mark.parametrize("output", REPORTS)
def test_nothing_from_a_manifest_is_markup_or_a_control_character(dmctl: Dmctl, output: str) -> None:
    name = {"name": HOSTILE, "namespace": HOSTILE}
    wrong = {**model(model=f"laya:{HOSTILE}"), "metadata": {**name, "namespace": "team-a"}}
    dmctl.write("model.yaml", wrong, {**model(), "metadata": name}, model(model=f"a/{HOSTILE}:en"))
    done = dmctl("preview", "--offline", "-o", output, "model.yaml")
    assert done.code == 2
    assert "\x1b" not in done.out
    if output == "markdown":
        outside = re.sub(r"`[^`\n]*`|<code>[^<\n]*</code>", "", done.out)
        assert not [each for each in ("<script", "@", "`") if each in outside]


@pytest.mark.parametrize(
    "manifest",
    [
        {"apiVersion": "decisionmodel.io/v1alpha1", "kind": "DecisionModel"},
        {"apiVersion": "decisionmodel.io/v1alpha1", "kind": "DecisionModel", "metadata": [], "spec": "x"},
        {**model(), "metadata": {"name": "laya", "namespace": "../../secrets"}},
        {**model(), "metadata": {"name": "../laya", "namespace": "team-a"}},
        {**model(), "metadata": {"name": "l" * 44, "namespace": "team-a"}},
        model(resources={"limits": {"memory": "1e999999"}}),
        model(cache={"size": {}}),
        model(scheduling={"nodeSelector": {"a": ["b"]}}),
    ],
)
def test_a_manifest_that_the_api_would_not_take_is_refused(dmctl: Dmctl, manifest: Any) -> None:
    dmctl.write("model.yaml", manifest)
    done = dmctl("preview", "--offline", "-o", "json", "model.yaml")
    (only,) = json.loads(done.out)["models"]
    assert done.code == 2
    assert (only["outcome"], only["refused"]["reason"]) == ("Refused", "Invalid")


@pytest.mark.anyio
async def test_a_reference_that_is_no_name_is_a_missing_data_set(dmctl: Dmctl, bed: Bed) -> None:
    gate = {"datasetRef": {"configMapRef": {"name": "../secrets/x", "key": "k"}}, "minAccuracy": "0.8"}
    dmctl.write("model.yaml", Asked.manifest(rollout={"evaluation": gate}))
    done = await run(dmctl, bed, "-o", "json", "model.yaml")
    (only,) = json.loads(done.out)["models"]
    assert only["gate"]["warnings"][0].startswith("DatasetNotFound")
    assert not [request for request in bed.server.requests if "secrets" in request.path]


LIMITS = {"memory": "4Gi", "nvidia.com/gpu": 2}
ROLLOUTS = [{"strategy": "Recreate"}, {"promotion": "Manual"}, {"stabilization": "0s"}, {"timeouts": {"caching": "1m"}}]
SPECS = st.fixed_dictionaries(
    {"model": st.sampled_from(["laya:en", "team/own:1"]), "digest": st.just(DIGEST)},
    optional={
        "replicas": st.integers(1, 50),
        "device": st.sampled_from(["cpu", "cuda"]),
        "cache": st.sampled_from([{"accessModes": ["ReadWriteMany"]}, {"size": "1Gi"}]),
        "resources": st.sampled_from([{"limits": LIMITS}, {"requests": {"cpu": "300m"}, "limits": LIMITS}]),
        "rollout": st.sampled_from(ROLLOUTS),
    },
)


@given(specs=st.lists(SPECS, min_size=1, max_size=3))
@settings(max_examples=25)
def test_every_valid_spec_has_a_preview_in_every_format(specs: list[Any]) -> None:
    asyncio.run(_previewed(specs))


async def _previewed(specs: list[Any]) -> None:
    manifests = [{**model(**spec), "metadata": {"name": f"m{n}", "namespace": "a"}} for n, spec in enumerate(specs)]
    previews = await Asked.offline(yaml.safe_dump_all(manifests))
    assert [each.forecast.outcome.value for each in previews] == ["NewRevision"] * len(specs)
    for report in REPORTS.values():
        assert report(previews)


def test_the_repositorys_own_environments_have_previews(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    for stack in ("dev", "staging", "prod"):
        done = dmctl("preview", "--offline", "--stack", stack)
        assert (done.code, done.err) == (1, "")
