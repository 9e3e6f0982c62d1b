"""The label that opens a Secret, at every moment at which something could be made with what is in it.

What runs keeps the reference that it was made with. Nothing is made anew with one that was refused.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from api.keys import API_KEY_LABEL, DATASET_LABEL, DOWNLOAD_TOKEN_LABEL
from reconciler.controller.watched import DEPLOYMENTS, JOBS, SERVICES
from reconciler.kernel.resources import Resource
from tests.reconciler.controller.bed import KEY, Bed, Object
from tests.reconciler.controller.test_controller_evaluation import GATE, answering, asked, cases
from tests.reconciler.controller.test_controller_store_recovery import live_until_refilled, lose_store

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Use:
    """One use of a Secret: what the spec says, which label opens it, and where it is rendered."""

    name: str
    label: str
    spec: dict[str, Any]
    rendered: Resource | None
    value: str = "s3cret"

    def put(self, bed: Bed, label: dict[str, str], value: str | None = None) -> None:
        """Create or change the Secret."""
        data = {"key": base64.b64encode((value or self.value).encode()).decode()}
        metadata = {"name": "shared", "namespace": KEY.namespace, "labels": label}
        bed.server.put("v1", "secrets", {"kind": "Secret", "metadata": metadata, "data": data})

    def refers(self, bed: Bed) -> list[Object]:
        """The workloads of the kind that a reference is rendered into, which refer to the Secret."""
        found = [] if self.rendered is None else bed.objects(self.rendered)
        return [obj for obj in found if '"secretKeyRef": {"name": "shared"' in json.dumps(obj["spec"]["template"])]


REFERENCE = {"name": "shared", "key": "key"}
API_KEY = Use("api key", API_KEY_LABEL, {"auth": {"apiKeySecretRef": REFERENCE}}, DEPLOYMENTS)
TOKEN = Use("download token", DOWNLOAD_TOKEN_LABEL, {"cache": {"downloadTokenSecretRef": REFERENCE}}, JOBS)
DATASET = Use(
    "data set",
    DATASET_LABEL,
    {"rollout": {"evaluation": {**GATE, "datasetRef": {"secretRef": REFERENCE}}}},
    None,
    cases(10),
)
USES = (API_KEY, TOKEN, DATASET)

Labels = Callable[[Use], dict[str, str]]
OPEN: dict[str, Labels] = {
    "open to all": lambda use: {use.label: "true"},
    "open by name": lambda use: {use.label: "router"},
    "open by one of several names": lambda use: {use.label: "other_router"},
}
SHUT: dict[str, Labels] = {
    "without a label": lambda _: {},
    "opened for another use": lambda use: {
        (API_KEY_LABEL if use is TOKEN else DOWNLOAD_TOKEN_LABEL): "true",
    },
    "opened to another model": lambda use: {use.label: "router2"},
}


def table(states: dict[str, Labels], uses: tuple[Use, ...] = USES) -> pytest.MarkDecorator:
    """Every one of these uses with every one of these labels."""
    rows = [
        pytest.param(use, labels, id=f"{use.name} {name}")
        for use, (name, labels) in itertools.product(uses, states.items())
    ]
    return pytest.mark.parametrize(("use", "labels"), rows)


def ready(bed: Bed) -> bool:
    return bed.status.phase == "Ready" and bed.condition("Degraded") == ("", "", "")


def is_refilling(bed: Bed) -> bool:
    """Whether there is another Job than the one whose store was lost, which is made a day old."""
    return any(obj["metadata"]["creationTimestamp"] > "2026" for obj in bed.objects(JOBS))


@table(OPEN)
async def test_an_open_secret_is_used_by_a_first_rollout(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, labels(use))
    answering(bed, {})
    bed.declare(**use.spec)
    await bed.settle()
    assert ready(bed)
    assert len(use.refers(bed)) == (use.rendered is not None)


@table(SHUT)
async def test_a_shut_secret_is_not_used_by_a_first_rollout(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, labels(use))
    answering(bed, {})
    bed.declare(**use.spec)
    await bed.settle()
    said = bed.condition("Evaluated" if use is DATASET else "Ready")
    assert said[:2] == ("False", "SecretNotAllowed")
    assert f'{use.label}: "true", or "router"' in said[2]
    assert use.refers(bed) == []
    assert asked(bed) == 0

    use.put(bed, {use.label: "true"})
    await bed.advance(61)
    assert ready(bed)


@table(SHUT)
async def test_what_serves_is_left_alone_when_its_secret_is_shut(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, {use.label: "true"})
    answering(bed, {})
    await bed.rolled_out(**use.spec)
    before = [bed.objects(kind) for kind in (DEPLOYMENTS, JOBS, SERVICES)]

    use.put(bed, labels(use))
    for _ in range(3):
        await bed.advance(61)

    assert [bed.objects(kind) for kind in (DEPLOYMENTS, JOBS, SERVICES)] == before
    assert bed.condition("Ready")[:2] == ("True", "Ready")


@table(SHUT)
async def test_a_lost_store_is_not_refilled_with_a_shut_secret(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, {use.label: "true"})
    answering(bed, {})
    revision = await bed.rolled_out(**use.spec)
    use.put(bed, labels(use))
    await bed.advance(61)

    await lose_store(bed, revision)
    await live_until_refilled(bed)

    if use is TOKEN:
        assert not is_refilling(bed)
        status, reason, message = bed.condition("Degraded")
        assert (status, reason) == ("True", "StoreLost")
        assert "recovery waits" in message
        assert "SecretNotAllowed" in message
        assert use.label in message
        assert bed.status.store_recovery is None, "what waits does not fail"
        assert bed.events.count("StoreLost") == 1
        use.put(bed, {use.label: "true"})
        await bed.advance(61)
        await live_until_refilled(bed)
        assert ready(bed)
        assert len(use.refers(bed)) == 1
    else:
        # Its recovery has no use for the Secret, and must not wait for it.
        assert is_refilling(bed)
    assert bed.condition("Ready")[0] == "True"


@table(SHUT)
async def test_a_deleted_deployment_does_not_come_back_with_a_shut_secret(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, {use.label: "true"})
    answering(bed, {})
    revision = await bed.rolled_out(**use.spec)
    use.put(bed, labels(use))
    await bed.advance(61)

    bed.remove(DEPLOYMENTS, f"router-{revision}")
    for _ in range(3):
        await bed.advance(11)

    if use is API_KEY:
        assert bed.objects(DEPLOYMENTS) == []
        status, reason, message = bed.condition("Degraded")
        assert (status, reason) == ("True", "SecretNotAllowed")
        assert f"the Deployment of revision {revision} is gone, and waits for the API key" in message
        use.put(bed, {use.label: "true"})
        await bed.advance(61)
    assert bed.selected == revision
    assert len(bed.objects(DEPLOYMENTS)) == 1
    await bed.advance(11)
    assert bed.condition("Ready")[:2] == ("True", "Ready")


@table(SHUT, (API_KEY, TOKEN))
async def test_a_deleted_job_does_not_come_back_with_a_shut_secret(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, {use.label: "true"})
    revision = await bed.rolled_out(**use.spec)
    use.put(bed, labels(use))
    await bed.advance(61)
    bed.remove(JOBS, f"router-pf-{revision}")
    await bed.advance(61)
    assert bed.objects(JOBS) == []


@table(SHUT)
async def test_a_rotation_to_a_shut_secret_changes_nothing_that_runs(bed: Bed, use: Use, labels: Labels) -> None:
    use.put(bed, {use.label: "true"})
    answering(bed, {})
    await bed.rolled_out(**use.spec)
    before = bed.objects(DEPLOYMENTS)

    use.put(bed, labels(use), value=cases(12) if use is DATASET else "rotated")
    for _ in range(3):
        await bed.advance(61)
    assert bed.objects(DEPLOYMENTS) == before

    use.put(bed, {use.label: "router"}, value=cases(12) if use is DATASET else "rotated")
    for _ in range(3):
        await bed.advance(61)
    assert ready(bed)
    assert (bed.objects(DEPLOYMENTS) != before) is (use is API_KEY)


@table(SHUT, (API_KEY, TOKEN))
async def test_another_reference_to_a_shut_secret_is_rendered_nowhere(bed: Bed, use: Use, labels: Labels) -> None:
    """As one who may edit the DecisionModel, and may not read Secrets, would try it."""
    revision = await bed.rolled_out()
    use.put(bed, labels(use))
    bed.declare(**use.spec)
    await bed.settle()
    bed.remove(DEPLOYMENTS, f"router-{revision}")
    await lose_store(bed, revision)
    await live_until_refilled(bed)
    assert use.refers(bed) == []
    assert bed.condition("Degraded")[0] == "True"
    assert "SecretNotAllowed" in json.dumps(bed.condition("Degraded"))
