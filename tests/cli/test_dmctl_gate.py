"""`dmctl gate`: planning without a cluster, and reading and reproducing what a reconciler has kept."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from api.keys import API_VERSION, PLURAL
from reconciler.evaluation.evidence import Evidence, decode, encode
from reconciler.evaluation.judgement import judge_run
from reconciler.evaluation.parameters import Inputs, Parameters
from reconciler.evaluation.planner import Aim, plan
from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.verdict import Decision
from tests.cli.commands import Dmctl, Done
from tests.fakes.apiserver import FakeApiServer

INPUTS = Inputs(
    dataset_digest="d" * 16, policy_hash="p" * 16, stable_digest="a" * 64, candidate_digest="b" * 64, scorer_version="1"
)
REVISION = "0123456789abcdef"


def items(wrong: int) -> list[Item]:
    """Two hundred answers, each `wrong`th of them false."""
    return [
        Item(
            line=line,
            question="q",
            kind=QuestionKind.CHOICE,
            expected=("billing", "tech")[line % 2],
            predicted=("billing", "tech")[(line + (line % wrong == 0)) % 2],
            correct=line % wrong != 0,
            confidence=0.9,
            calibration_correct=line % wrong != 0,
            probabilities={
                ("billing", "tech")[(line + (line % wrong == 0)) % 2]: 0.9,
                ("tech", "billing")[(line + (line % wrong == 0)) % 2]: 0.1,
            },
            seconds=0.01,
        )
        for line in range(1, 201)
    ]


@pytest.fixture(scope="module")
def document() -> bytes:
    parameters = Parameters(confidence=0.95, margin=0.05, min_items_per_label=20, seed=INPUTS.seed)
    return judge_run(items(20), items(20), INPUTS, parameters).document


def altered(document: bytes) -> bytes:
    """Evidence whose stored verdict says the opposite."""
    evidence = decode(document)
    opposite = Decision.REJECT if evidence.verdict.decision is Decision.PROMOTE else Decision.PROMOTE
    verdict = msgspec.structs.replace(evidence.verdict, decision=opposite)
    changed: Evidence = msgspec.structs.replace(evidence, verdict=verdict)
    return encode(changed)


# Planning.


def test_a_plan_says_how_many_items_are_needed(dmctl: Dmctl) -> None:
    done = dmctl("gate", "plan", "--margin", "0.02", "--discordance", "0.1")
    items_needed = plan(Aim(margin=0.02, discordance=0.1)).items
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{items_needed} items promote an equally good candidate in 80% of all runs")
    assert "supposed: 10 % of the items" in done.out
    assert dmctl("gate", "plan").out == done.out, "the defaults"


def test_a_plan_for_given_items_says_what_they_can_tell(dmctl: Dmctl) -> None:
    done = dmctl("gate", "plan", "--margin", "0.02", "--discordance", "0.1", "--items", "500", "-o", "json")
    told = json.loads(done.out)
    assert done.code == 0
    assert (told["items"], told["margin"], told["confidence"]) == (500, 0.02, 0.95)
    assert 0.3 < told["promotes"] < 0.5
    assert 0.03 < told["drop"] < 0.04


def test_a_plan_tells_which_alarms_cannot_fire(dmctl: Dmctl) -> None:
    done = dmctl("gate", "plan", "--confidence", "0.999", "--labels", "20", "--items", "500")
    assert "a label needs 15 items for its loss to be proven" in done.out
    assert "cannot fire" not in done.out

    blind = ("gate", "plan", "--confidence", "0.999999", "--labels", "20", "--items", "500")
    assert (
        "cannot fire: with 500 items no rise of log-loss or Brier score can be proven: 22 alarms" in dmctl(*blind).out
    )
    assert json.loads(dmctl(*blind, "-o", "json").out)["itemsPerLabel"] == 25


@pytest.mark.parametrize(
    "wrong",
    [
        ("--margin", "0", "--discordance", "0.1"),
        ("--margin", "0.02", "--discordance", "1"),
        ("--margin", "0.02", "--discordance", "0.1", "--confidence", "0.5"),
        ("--margin", "0.02", "--discordance", "0.1", "--items", "0"),
        ("--margin", "nan", "--discordance", "0.1"),
    ],
)
def test_an_impossible_aim_is_wrong_usage(dmctl: Dmctl, wrong: tuple[str, ...]) -> None:
    assert dmctl("gate", "plan", *wrong).code == 3


# Reproducing.


def test_evidence_in_a_file_is_reproduced(dmctl: Dmctl, document: bytes) -> None:
    (dmctl.directory / "evidence.gz").write_bytes(document)
    done = dmctl("gate", "recompute", "evidence.gz")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("evidence.gz: reproduced: ")


def test_another_verdict_than_the_stored_one_is_told(dmctl: Dmctl, document: bytes) -> None:
    (dmctl.directory / "evidence.gz").write_bytes(altered(document))
    done = dmctl("gate", "recompute", "evidence.gz")
    assert done.code == 1
    stored, computed = done.out.splitlines()
    assert stored.startswith("evidence.gz: stored ")
    assert computed.startswith("evidence.gz: computed ")


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", b"\x1f\x8b", bytes(2 << 20)], ids=["empty", "text", "cut", "huge"]
)
def test_what_is_no_evidence_is_an_error(dmctl: Dmctl, content: bytes) -> None:
    (dmctl.directory / "evidence.gz").write_bytes(content)
    done = dmctl("gate", "recompute", "evidence.gz")
    assert done.code == 3
    assert done.err.startswith("Error: evidence.gz: the evidence ")


# Reading from a cluster.


class Gated:
    """A cluster with one evaluated DecisionModel, and dmctl's view of it."""

    def __init__(self, server: FakeApiServer, dmctl: Dmctl) -> None:
        self.server = server
        self._dmctl = dmctl
        self._kubeconfig = str(server.write_kubeconfig(dmctl.directory / "kubeconfig"))

    async def __call__(self, *arguments: str) -> Done:
        """Run `dmctl gate` against the cluster."""
        return await asyncio.to_thread(self._dmctl, "gate", *arguments, "--kubeconfig", self._kubeconfig)

    def put_model(self, **evaluation: object) -> str:
        """Create the DecisionModel; returns its UID."""
        status = {"evaluation": {"revision": REVISION, "result": "Passed", **evaluation}} if evaluation else {}
        made = self.server.put(
            API_VERSION,
            PLURAL,
            {
                "kind": "DecisionModel",
                "metadata": {"name": "router", "namespace": "default"},
                "spec": {"model": "laya:en"},
                "status": status,
            },
        )
        uid: str = made["metadata"]["uid"]
        return uid

    def put_evidence(self, document: bytes, owner_uid: str) -> None:
        """Keep evidence as the reconciler does."""
        owner = {"kind": "DecisionModel", "name": "router", "uid": owner_uid, "controller": True}
        metadata = {"name": f"router-evidence-{REVISION}", "namespace": "default", "ownerReferences": [owner]}
        data = {"evidence": base64.b64encode(document).decode()}
        self.server.put("v1", "configmaps", {"kind": "ConfigMap", "metadata": metadata, "binaryData": data})


@pytest.fixture
async def gated(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Gated]:
    # Nobody speaks TLS here, and reading the machine's certificates takes longer than everything else.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with FakeApiServer() as server:
        yield Gated(server, dmctl)


@pytest.mark.anyio
async def test_the_last_evaluation_is_shown_with_what_it_rests_on(gated: Gated, document: bytes) -> None:
    uid = gated.put_model(accuracy="0.9500", baselineAccuracy="0.9500", cases=200, minAccuracy="0.85", approvalId="abc")
    gated.put_evidence(document, uid)
    done = await gated("show", "router")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:5] == [
        f"default/router: Passed, revision {REVISION}",
        "  accuracy  0.9500  (serving revision 0.9500)",
        "  cases     200, 0 without a usable answer",
        "  gates     minAccuracy 0.85",
        "  approve   decisionmodel.io/promote=abc",
    ]
    assert "comparison: " in done.out
    assert "+0.0 points" in done.out
    assert gated.server.writes == []


@pytest.mark.anyio
async def test_an_evaluation_without_a_comparison_is_shown_too(gated: Gated) -> None:
    gated.put_model(accuracy="0.9500", cases=200)
    told = json.loads((await gated("show", "router", "-o", "json")).out)
    assert told["evaluation"]["accuracy"] == "0.9500"
    assert told["verdict"] is None


@pytest.mark.anyio
async def test_evidence_in_the_cluster_is_reproduced(gated: Gated, document: bytes) -> None:
    uid = gated.put_model(accuracy="0.9500")
    gated.put_evidence(document, uid)
    assert (await gated("recompute", "router")).code == 0
    gated.put_evidence(altered(document), uid)
    assert (await gated("recompute", "router")).code == 1
    assert gated.server.writes == []


@pytest.mark.anyio
async def test_evidence_of_another_owner_counts_for_nothing(gated: Gated, document: bytes) -> None:
    gated.put_model(accuracy="0.9500")
    gated.put_evidence(document, "another")
    done = await gated("recompute", "router")
    assert done.code == 3
    assert "no evidence of router is kept" in done.err


@pytest.mark.anyio
async def test_what_is_not_there_is_named(gated: Gated) -> None:
    assert "there is no DecisionModel default/router" in (await gated("show", "router")).err
    gated.put_model()
    assert "was never evaluated" in (await gated("show", "router")).err
    done = await gated("show", "../secrets/x")
    assert done.code == 3
    assert "../secrets/x" in done.err


@pytest.mark.anyio
async def test_a_cluster_that_refuses_is_an_error_with_a_next_step(gated: Gated) -> None:
    gated.server.fail(403)
    done = await gated("show", "router")
    assert done.code == 3
    assert "403" in done.err
    assert "has to be allowed" in done.err


def test_a_missing_kubeconfig_is_named(dmctl: Dmctl) -> None:
    done = dmctl("gate", "show", "router", "--kubeconfig", "nowhere")
    assert done.code == 3
    assert "nowhere" in done.err
    assert "--kubeconfig" in done.err
