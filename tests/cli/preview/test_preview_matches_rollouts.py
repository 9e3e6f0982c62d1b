"""What a preview says is what the reconciler then does: every row of the specification's table of changes."""

from __future__ import annotations

import json

import pytest

from cli.forecast import Outcome
from cli.forecast.forecast import Restart
from tests.cli.preview.asking import Asked
from tests.cli.preview.changes import COMBINED, IN_PLACE, NEW_REVISIONS, SERVING, Spec
from tests.cli.preview.happenings import predicted
from tests.reconciler.controller.bed import Bed
from tools.standin.registry.names import TagName

pytestmark = pytest.mark.anyio


def layer_bytes(bed: Bed, digest: str) -> int:
    for name, published in bed.registry.site.digests().items():
        if published == digest:
            manifest = json.loads(bed.registry.site.manifest(name))
            return sum(layer["size"] for layer in manifest["layers"])
    raise AssertionError(digest)


@pytest.mark.parametrize("change", [*NEW_REVISIONS.values(), *COMBINED.values()], ids=[*NEW_REVISIONS, *COMBINED])
async def test_a_new_revision_comes_as_predicted(asked: Asked, change: Spec) -> None:
    asked.allow(allow_image_override=True)
    asked.bed.start()
    old = await asked.bed.rolled_out(**SERVING)

    told = await asked.forecast(**{**SERVING, **change})
    happened = await asked.carry_out(**{**SERVING, **change})

    stable = asked.bed.status.stable_revision
    assert stable is not None
    assert told.outcome is Outcome.NEW_REVISION
    assert told.before is not None
    assert told.after is not None
    assert (told.before.hash, told.after.hash, told.after.digest) == (old, stable.hash, stable.digest)
    assert told.after.image == stable.image
    assert told.download == layer_bytes(asked.bed, stable.digest)
    assert predicted(told) == happened


async def test_a_first_rollout_comes_as_predicted(asked: Asked) -> None:
    told = await asked.forecast(replicas=2)
    asked.bed.start()
    happened = await asked.carry_out(replicas=2)

    stable = asked.bed.status.stable_revision
    assert stable is not None
    assert told.after is not None
    assert (told.outcome, told.before, told.after.hash) == (Outcome.NEW_REVISION, None, stable.hash)
    assert told.download == layer_bytes(asked.bed, stable.digest)
    assert predicted(told) == happened


async def test_a_pinned_digest_comes_as_predicted(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    asked.bed.registry.site.move_tag(TagName.parse("laya:en"), TagName.parse("laya:en-better"))
    digest = asked.bed.registry.digest("laya:en-better")

    told = await asked.forecast(digest=digest)
    happened = await asked.carry_out(digest=digest)

    stable = asked.bed.status.stable_revision
    assert stable is not None
    assert told.after is not None
    assert (told.after.hash, told.after.digest, stable.digest) == (stable.hash, digest, digest)
    assert told.download == layer_bytes(asked.bed, digest)
    assert predicted(told) == happened


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
async def test_a_change_in_place_comes_as_predicted(asked: Asked, change: Spec) -> None:
    asked.bed.put_secret("keys", "sesame")
    asked.bed.start()
    old = await asked.bed.rolled_out(**SERVING)

    told = await asked.forecast(**{**SERVING, **change})
    happened = await asked.carry_out(**{**SERVING, **change})

    stable = asked.bed.status.stable_revision
    assert stable is not None
    assert told.after is not None
    assert (told.outcome, told.after.hash, stable.hash) == (Outcome.IN_PLACE, old, old)
    assert told.download is None
    assert predicted(told) == happened
    assert told.restart is (Restart.OUTAGE if "auth" in change else Restart.NONE)
