"""What a state may record: what real operations wrote is accepted, and nothing more than that."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.driver.checkpoint import SIZE_LIMIT, parse_checkpoint
from reconciler.driver.errors import CheckpointInvalidError
from reconciler.driver.state_rules import StateRules, tampering
from tests.fakes.json_copy import json_copy

STACK = "shop.fraud.35ef9e82"
RULES = StateRules(cluster_identifier="decisionmodel", kubeconfig="/etc/kubeconfig")
FILES = {path.stem: path.read_bytes() for path in Path(__file__).with_name("states").glob("*.json")}
"""What the real engine wrote on a real cluster: after an update, and when it was killed while it deleted."""
Json = dict[str, Any]

EXEC_PLUGIN = json.dumps({"users": [{"user": {"exec": {"command": "sh"}}}]})


def state(name: str = "complete") -> Json:
    read: Json = json.loads(FILES[name])
    return read


def judged(document: Json, rules: StateRules = RULES, stack: str = STACK) -> str | None:
    return tampering(document, "decisionmodel", stack, rules)


def resources(document: Json) -> list[Json]:
    found: list[Json] = document["checkpoint"]["latest"]["resources"]
    return found


def resource(document: Json, type_: str) -> Json:
    return next(each for each in resources(document) if each["type"] == type_)


def provider(document: Json) -> Json:
    return resource(document, "pulumi:providers:kubernetes")


def claim(document: Json) -> Json:
    return resource(document, "kubernetes:core/v1:PersistentVolumeClaim")


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_real_operations_wrote_is_accepted(name: str) -> None:
    assert judged(state(name)) is None


def test_the_stored_states_hold_everything_that_a_stack_consists_of() -> None:
    types = {each["type"].rpartition(":")[2] for name in FILES for each in resources(state(name))}
    assert types >= {"PersistentVolumeClaim", "Job", "Deployment", "PodDisruptionBudget", "Service", "Revision"}
    (pending,) = state("interrupted")["checkpoint"]["latest"]["pending_operations"]
    assert pending["type"] == "deleting"


def test_a_new_stack_has_an_empty_state() -> None:
    checkpoint = {"stack": f"organization/decisionmodel/{STACK}"}
    assert judged({"version": 3, "checkpoint": checkpoint}) is None
    assert judged({"version": 3, "checkpoint": {**checkpoint, "latest": None}}) is None


def add_provider(document: Json, **inputs: Any) -> None:
    """As the fault was shown: one more provider, which the next ordinary operation starts."""
    added = json_copy(provider(document))
    added["urn"] = added["urn"].replace("::kubernetes", "::another")
    added["inputs"] |= inputs
    resources(document).append(added)


def add_object(document: Json, kind: str, api_version: str, name: str) -> None:
    added = json_copy(claim(document))
    version = api_version if "/" in api_version else f"core/{api_version}"
    added["type"] = f"kubernetes:{version}:{kind}"
    added["urn"] = added["urn"].replace("kubernetes:core/v1:PersistentVolumeClaim", added["type"])
    added["urn"] = f"{added['urn'].rpartition('::')[0]}::{name}"
    added["id"] = f"shop/{name}"
    for part in (added["inputs"], added["outputs"]):
        part |= {"apiVersion": api_version, "kind": kind, "metadata": {**part["metadata"], "name": name}}
    added["outputs"].pop("__inputs", None)
    resources(document).append(added)


ATTACKS: dict[str, Callable[[Json], object]] = {
    "an exec plugin in our provider": lambda d: provider(d)["inputs"].update(kubeconfig=EXEC_PLUGIN),
    "an exec plugin in our provider's outputs": lambda d: provider(d)["outputs"].update(kubeconfig=EXEC_PLUGIN),
    "another provider with an exec plugin": lambda d: add_provider(d, kubeconfig=EXEC_PLUGIN),
    "another provider": add_provider,
    "a kubeconfig of another path": lambda d: provider(d)["inputs"].update(kubeconfig="/var/lib/decisionmodel/state/x"),
    "no kubeconfig where we have one": lambda d: provider(d)["inputs"].pop("kubeconfig"),
    "another cluster": lambda d: provider(d)["inputs"].update(clusterIdentifier="other"),
    "another namespace of the provider": lambda d: provider(d)["inputs"].update(namespace="kube-system"),
    "a plugin from elsewhere": lambda d: provider(d)["inputs"].update(pluginDownloadURL="https://evil"),
    "a plugin by internal inputs": lambda d: provider(d)["inputs"].update(
        __internal={"pluginDownloadURL": "https://x"}
    ),
    "a plugin version that is a path": lambda d: provider(d)["inputs"].update(version="4.25.0/../../evil"),
    "a provider that renders to a directory": lambda d: provider(d)["inputs"].update(renderYamlToDirectory="/"),
    "a provider of another kind": lambda d: provider(d).update(type="pulumi:providers:command"),
    "a provider with an odd id": lambda d: provider(d).update(id="../x"),
    "a resource of a dynamic provider": lambda d: claim(d).update(type="pulumi-python:dynamic:Resource"),
    "a command": lambda d: claim(d).update(type="command:local:Command"),
    "an object of another provider": lambda d: claim(d).update(
        provider=claim(d)["provider"].replace("::kubernetes::", "::another::")
    ),
    "a component with a provider": lambda d: resources(d)[0].update(provider=claim(d)["provider"]),
    "a component with an id": lambda d: resources(d)[0].update(id="x", custom=True),
    "a Secret": lambda d: add_object(d, "Secret", "v1", "fraud-0123456789abcdef"),
    "a Pod": lambda d: add_object(d, "Pod", "v1", "fraud-0123456789abcdef"),
    "a ClusterRoleBinding": lambda d: add_object(d, "ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "fraud"),
    "a Deployment of another name": lambda d: add_object(d, "Deployment", "apps/v1", "payments"),
    "a Deployment of another model": lambda d: add_object(d, "Deployment", "apps/v1", "fraud2-0123456789abcdef"),
    "a claim of another name": lambda d: add_object(d, "PersistentVolumeClaim", "v1", "fraud-data"),
    "the id of another object": lambda d: claim(d).update(id="kube-system/x"),
    "another kind inside": lambda d: claim(d)["outputs"].update(kind="Secret"),
    "another kind in what was applied": lambda d: claim(d)["outputs"]["__inputs"].update(kind="Secret"),
    "another namespace inside": lambda d: claim(d)["inputs"]["metadata"].update(namespace="kube-system"),
    "another name inside": lambda d: claim(d)["outputs"]["metadata"].update(name="other"),
    "a protected object": lambda d: claim(d).update(protect=True),
    "an object to leave behind": lambda d: claim(d).update(retainOnDelete=True),
    "an object that is only read": lambda d: claim(d).update(external=True),
    "hooks": lambda d: claim(d).update(resourceHooks={"beforeCreate": ["x"]}),
    "an alias": lambda d: claim(d).update(aliases=["urn:x"]),
    "the view of another": lambda d: claim(d).update(viewOf="urn:x"),
    "a secret that is opened elsewhere": lambda d: d["checkpoint"]["latest"].update(
        secrets_providers={"type": "cloud", "state": {"url": "hashivault://evil", "encryptedkey": "x"}}
    ),
    "a secret in a spec": lambda d: claim(d)["inputs"]["spec"].update(
        x={"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "x"}
    ),
    "an asset from a file": lambda d: claim(d)["outputs"].update(
        spec={"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "path": "/etc/passwd"}
    ),
    "snippets": lambda d: d["checkpoint"]["latest"].update(snippets=[{"code": "x"}]),
    "plug-ins": lambda d: d["checkpoint"]["latest"]["manifest"].update(plugins=[{"path": "/tmp/x"}]),
    "configuration": lambda d: d["checkpoint"].update(config={"kubernetes:kubeconfig": "x"}),
    "the name of another stack": lambda d: d["checkpoint"].update(
        stack="organization/decisionmodel/shop.other.35ef9e82"
    ),
    "a key in another case": lambda d: d["checkpoint"]["latest"].update(Resources=[]),
    "an older version": lambda d: d.update(version=2),
    "no version": lambda d: d.pop("version"),
    "features": lambda d: d.update(features=["x"]),
    "deep nesting": lambda d: claim(d)["inputs"].update(spec=nested(200)),
}


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_whatever_decides_about_what_is_run_and_on_what_is_refused(attack: Callable[[Json], object]) -> None:
    document = state()
    attack(document)
    assert judged(document)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_same_is_refused_of_what_is_pending(attack: Callable[[Json], object]) -> None:
    document = state()
    attack(document)
    latest = document["checkpoint"].get("latest")
    if latest is not None and isinstance(latest.get("resources"), list):
        pending = [{"resource": each, "type": "creating"} for each in latest.pop("resources")]
        latest["pending_operations"] = pending
    assert judged(document)


@pytest.mark.parametrize(
    "operation",
    [{"type": "reading"}, {"type": "importing"}, {"type": ["creating"]}, {"type": "creating", "more": 1}],
)
def test_only_interrupted_writes_are_pending(operation: Json) -> None:
    document = state("interrupted")
    document["checkpoint"]["latest"]["pending_operations"][0] |= operation
    assert judged(document)


def test_objects_of_two_namespaces_are_refused_although_a_cut_name_would_admit_both() -> None:
    document = state()
    claim(document)["inputs"]["metadata"]["namespace"] = "shop2"
    assert "namespace" in str(judged(document))


@pytest.mark.parametrize(
    "stack", ["shop.other.35ef9e82", "shop.fraud.35ef9e83", "shop", "shop.fraud.35ef9e82.x", "..."]
)
def test_the_state_of_another_stack_is_refused(stack: str) -> None:
    assert judged(state(), stack=stack)


def test_who_does_not_know_the_reconcilers_kubeconfig_still_refuses_one_that_is_no_path() -> None:
    rules = StateRules(cluster_identifier="decisionmodel", any_kubeconfig=True)
    assert judged(state(), rules) is None
    document = state()
    provider(document)["inputs"]["kubeconfig"] = EXEC_PLUGIN
    assert judged(document, rules)


_FREE = {"spec", "status", "metadata", "stackTrace", "propertyDependencies", "created", "modified", "sourcePosition"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where objects are whose fields decide: all but what Kubernetes' objects hold, and what is only told."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            if key not in _FREE:
                yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


PLACES = [(name, path) for name in sorted(FILES) for path in places(state(name))]


@given(
    st.sampled_from(PLACES),
    st.text(min_size=1),
    st.one_of(st.text(), st.booleans(), st.dictionaries(st.text(), st.text())),
)
def test_no_field_is_admitted_that_is_not_known(place: tuple[str, tuple[Any, ...]], field: str, value: Any) -> None:
    name, path = place
    document = state(name)
    found = at(document, path)
    if field not in found and field not in KNOWN_ANYWHERE:
        found[field] = value
        assert judged(document)


KNOWN_ANYWHERE = {
    "latest",
    "delete",
    "pendingReplacement",
    "refreshBeforeUpdate",
    "initErrors",
    "status",
    "protect",
} | {
    *("external", "retainOnDelete", "taint", "metadata", "ignoreChanges", "pending_operations", "dependencies", "id"),
    *("inputs", "outputs", "provider", "parent", "propertyDependencies", "spec", "stackTrace", "sourcePosition"),
}

IDENTITY = ("urn", "type", "id", "provider", "custom")
INNER = ("apiVersion", "kind")


def identities() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name in sorted(FILES):
        for index, each in enumerate(resources(state(name))):
            start = ("checkpoint", "latest", "resources", index)
            yield from ((name, (*start, key)) for key in IDENTITY if key in each and not _is_provider_id(each, key))
            for part in ("inputs", "outputs"):
                if each["type"].startswith("kubernetes:"):
                    yield from ((name, (*start, part, key)) for key in INNER)
                    yield from ((name, (*start, part, "metadata", key)) for key in ("name", "namespace"))
                elif part in each:
                    yield from ((name, (*start, part, key)) for key in each[part])


def _is_provider_id(each: Json, key: str) -> bool:
    return key == "id" and each["type"] == "pulumi:providers:kubernetes"


@given(
    st.sampled_from([*identities()]), st.one_of(st.text(), st.integers(), st.none(), st.lists(st.text(), max_size=2))
)
def test_nothing_that_identifies_can_be_another(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    name, path = place
    document = state(name)
    before = at(document, path)
    # Before it exists an object has no id.
    if value == before or (path[-1] == "id" and value == ""):
        return
    at(document, path[:-1])[path[-1]] = value
    assert judged(document)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda children: st.one_of(st.lists(children, max_size=3), st.dictionaries(st.text(), children, max_size=3)),
    max_leaves=10,
)
EVERY_PLACE = [(name, (*path, key)) for name, path in PLACES for key in at(state(name), path)]


@given(st.sampled_from(EVERY_PLACE), JSON)
def test_whatever_is_put_anywhere_is_judged_and_raises_nothing(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    name, path = place
    document = state(name)
    at(document, path[:-1])[path[-1]] = value
    problem = judged(document)
    assert problem is None or problem


# --- the file


def test_a_packed_and_a_plain_file_are_read_alike() -> None:
    assert parse_checkpoint(gzip.compress(FILES["complete"])) == parse_checkpoint(FILES["complete"]) == state()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no JSON"),
        (b"[]", "no JSON object"),
        (b"7", "no JSON object"),
        (b"[" * 200_000, "no JSON"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"x": {"a": 1, "a": 2}}', "twice"),
        (b'{"a": NaN}', "NaN"),
        ('{"a": 1}'.encode("utf-16"), "no JSON"),
        (b'{"a": "\xff"}', "no JSON"),
        (gzip.compress(b"{}")[:-3], "cut off"),
        (gzip.compress(b"{}") + gzip.compress(b"{}"), "follows"),
        (b"\x1f\x8b\x08garbage", "unpacked"),
        (gzip.compress(b" " * (SIZE_LIMIT + 1)), "more than"),
        (b"\x28\xb5\x2f\xfd", "no JSON"),
    ],
    ids=range(14),
)
def test_a_file_that_could_be_read_in_two_ways_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointInvalidError, match=message):
        parse_checkpoint(data)
