"""A state that was tampered with, through the driver: with a scripted CLI, and with the real engine and provider."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from components.desired import DesiredRevision, DesiredStack, Owner, Store
from components.program import ProviderSettings, converge
from reconciler.driver import FailureReason, Operation, OperationKind, Outcome
from reconciler.driver.state_rules import StateRules
from tests.reconciler.driver.conftest import Shared, make_operation
from tests.reconciler.driver.conftest import StandIn as Scripted
from tests.reconciler.driver.real_engine import Engine
from tools.toolchain.plugins import prepare_pulumi_home

STACK = "shop.fraud.35ef9e82"
STATE_RULES = StateRules(cluster_identifier="decisionmodel", kubeconfig="/etc/kubeconfig")
SOUND = Path(__file__).with_name("states").joinpath("complete.json").read_bytes()
TAMPERED = SOUND.replace(b'"/etc/kubeconfig"', b'"/etc/another"')


@pytest.fixture
def backend(shared: Shared) -> Iterator[Path]:
    """The backend of the scripted CLI, empty."""
    root = Path(shared.settings.backend_url.removeprefix("file://"), ".pulumi")
    (root / "stacks/decisionmodel").mkdir(parents=True)
    yield root
    shutil.rmtree(root)


def run(stand_in: Scripted, kind: OperationKind = OperationKind.UP) -> tuple[Outcome, list[str]]:
    """Run one operation; return how it ended, and which commands were run for it."""
    outcome = stand_in.run(lambda driver: driver.run(make_operation(kind, stack=STACK)))
    return outcome, stand_in.commands()


def put(backend: Path, name: str, content: bytes) -> Path:
    file = backend / name
    file.write_bytes(content)
    return file


LAID_OUT = b"version: 1\n"
STATE = f"stacks/decisionmodel/{STACK}.json"


@pytest.mark.parametrize(
    "kind", [OperationKind.UP, OperationKind.REFRESH_UP, OperationKind.DESTROY, OperationKind.REMOVE]
)
def test_a_sound_state_is_operated_on(stand_in: Scripted, backend: Path, kind: OperationKind) -> None:
    put(backend, "meta.yaml", LAID_OUT)
    put(backend, f"{STATE}.gz", gzip.compress(SOUND))
    outcome, commands = run(stand_in, kind)
    assert outcome.failure is None
    assert commands


@pytest.mark.parametrize(
    "files",
    [
        {f"{STATE}.gz": gzip.compress(TAMPERED)},
        {STATE: TAMPERED},
        {STATE: SOUND, f"{STATE}.gz": gzip.compress(TAMPERED)},
        {STATE: TAMPERED, f"{STATE}.gz": gzip.compress(SOUND)},
        {f"{STATE}.gz": gzip.compress(SOUND), f"{STATE}.zst": b""},
        {f"{STATE}.gz": gzip.compress(SOUND), "meta.yaml": b"version: 0\n"},
        {f"{STATE}.gz": gzip.compress(SOUND), "meta.yaml": b"version: 1\nversion: 0\n"},
        {f"{STATE}.gz": gzip.compress(SOUND), "meta.yaml": None, f"stacks/{STACK}.json": b"{}"},
    ],
    ids=["packed", "plain", "the packed of two", "the plain of two", "zstd", "layout", "both layouts", "no layout"],
)
@pytest.mark.parametrize(
    "kind", [OperationKind.UP, OperationKind.REFRESH_UP, OperationKind.PREVIEW, OperationKind.DESTROY]
)
def test_nothing_is_run_on_a_state_that_was_tampered_with(
    stand_in: Scripted, backend: Path, files: dict[str, bytes | None], kind: OperationKind
) -> None:
    put(backend, "meta.yaml", LAID_OUT)
    for name, content in files.items():
        if content is None:
            (backend / name).unlink()
        else:
            put(backend, name, content)
    outcome, commands = run(stand_in, kind)
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.STATE_TAMPERED
    assert f"dmctl state check {STACK}" in outcome.failure.message
    assert not outcome.failure.reason.retryable
    assert commands == []


def test_what_a_state_says_reaches_a_condition_as_one_plain_line(stand_in: Scripted, backend: Path) -> None:
    hostile = json.dumps("urn:pulumi:x::y::z::\x1b[31m\nReady: True\u202e" + "x" * 10_000)[1:-1].encode()
    put(backend, "meta.yaml", LAID_OUT)
    put(backend, STATE, SOUND.replace(b"decisionmodel:index:Model::fraud", hostile))
    outcome, _ = run(stand_in)
    assert outcome.failure is not None
    assert outcome.failure.message.isprintable()
    assert len(outcome.failure.message) < 2_000


def test_a_state_that_does_not_parse_is_not_left_to_the_engine(stand_in: Scripted, backend: Path) -> None:
    put(backend, "meta.yaml", LAID_OUT)
    put(backend, f"{STATE}.gz", b"garbage")
    outcome, commands = run(stand_in)
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.STATE_CORRUPT
    assert commands == []


def test_a_tampered_state_of_a_model_that_is_gone_is_thrown_away(stand_in: Scripted, backend: Path) -> None:
    put(backend, "meta.yaml", LAID_OUT)
    state = put(backend, f"{STATE}.gz", gzip.compress(TAMPERED))
    stand_in.answers(**{"stack rm": [{"exit_code": 6}]})
    outcome, commands = run(stand_in, OperationKind.REMOVE)
    assert outcome.failure is None
    assert not state.exists()
    assert commands == ["stack rm"]


# --- with the real engine and provider


OWNER = Owner(namespace="shop", name="fraud", uid="35ef9e82-fb5f-4251-87f3-1dfc6587d428")
STACK_OF_ONE = DesiredStack(
    owner=OWNER, revisions=(DesiredRevision(hash="0123456789abcdef", store=Store(size="1Gi")),), selected=None
)


def kubeconfig(user: dict[str, Any]) -> str:
    """A kubeconfig of an API server that is not there."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


@pytest.mark.cluster
@pytest.mark.parametrize("guarded", [False, True], ids=["without rules", "with rules"])
def test_an_exec_plugin_in_a_state_is_run_by_the_engine_and_not_by_the_driver(tmp_path: Path, guarded: bool) -> None:
    """Without rules it shows that the attack is one: the provider starts what a state tells it to start."""
    engine = Engine(tmp_path)
    prepare_pulumi_home(engine.settings.pulumi_home)
    own = tmp_path / "kubeconfig"
    own.write_text(kubeconfig({"token": "t"}))
    operation = Operation(
        kind=OperationKind.REFRESH_UP,
        stack=STACK,
        program=partial(
            converge, STACK_OF_ONE, ProviderSettings(kubeconfig=str(own), cluster_identifier="decisionmodel")
        ),
        deadline_seconds=60,
    )
    rules = StateRules(cluster_identifier="decisionmodel", kubeconfig=str(own))

    engine.run(lambda driver: driver.run(operation), state_rules=rules)
    (checkpoint,) = engine.state.rglob(f"stacks/*/{STACK}.json.gz")
    proof = tmp_path / "proof"
    plugin = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never"}}
    plugin["exec"]["args"] = ["-c", f"env > {proof}"]  # type: ignore[assignment]
    checkpoint.write_bytes(gzip.compress(with_provider(gzip.decompress(checkpoint.read_bytes()), kubeconfig(plugin))))

    outcome = engine.run(lambda driver: driver.run(operation), state_rules=rules if guarded else None)
    assert outcome.failure is not None
    assert proof.exists() is not guarded
    assert (outcome.failure.reason is FailureReason.STATE_TAMPERED) is guarded


def with_provider(state: bytes, inline: str) -> bytes:
    """Return a state in which the recorded provider has another kubeconfig, and an object that is read with it."""
    document = json.loads(state)
    recorded = document["checkpoint"]["latest"]["resources"]
    stored = json.loads(SOUND)["checkpoint"]["latest"]["resources"]
    provider = next(each for each in recorded if each["type"] == "pulumi:providers:kubernetes")
    provider["inputs"]["kubeconfig"] = provider["outputs"]["kubeconfig"] = inline
    claim = next(each for each in stored if each["type"].endswith(":PersistentVolumeClaim"))
    parents = [each for each in stored if each["type"].startswith("decisionmodel:") and each["urn"] == claim["parent"]]
    known = {each["urn"] for each in recorded}
    recorded += [each for each in parents if each["urn"] not in known]
    recorded.append({**claim, "provider": f"{provider['urn']}::{provider['id']}"})
    return json.dumps(document).encode()
