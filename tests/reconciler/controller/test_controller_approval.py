"""A held candidate through the whole reconciler: approved by an annotation that is gone afterwards."""

from __future__ import annotations

import pytest

from api.keys import PROMOTE_ANNOTATION
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


async def test_the_annotation_is_removed_once_the_approved_revision_serves(bed: Bed) -> None:
    manual = {"promotion": "Manual"}
    old = await bed.rolled_out(rollout=manual)
    bed.declare(model="laya:multilingual", rollout=manual)
    await bed.settle()
    assert (bed.status.phase, bed.selected) == ("AwaitingPromotion", old)
    candidate = bed.status.candidate_revision
    assert candidate is not None

    bed.declare(model="laya:multilingual", rollout=manual, annotations={PROMOTE_ANNOTATION: candidate.hash, "a": "b"})
    await bed.settle()
    await bed.advance(30)

    assert bed.selected == candidate.hash
    assert bed.model.metadata.annotations == {"a": "b"}
    assert bed.events.count("PromotionApproved") == 1
