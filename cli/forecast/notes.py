"""What else deserves attention before a manifest is applied. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from api.conditions import ConditionType, find_condition
from api.decisionmodel import DecisionModel
from api.references import KeyReference
from api.status import RevisionStatus
from cli.forecast.rehearsal import Pass
from cli.forecast.situation import UNKNOWN_DIGEST, Situation
from reconciler.engine.registry import ResolvedManifest
from reconciler.rollout import ResolutionFailed, TagMissing


def notes(situation: Situation, passes: tuple[Pass, ...], after: RevisionStatus | None) -> Iterator[str]:
    """Yield sentences, the most important first."""
    if situation.live is not None and situation.live.metadata.deletion_timestamp is not None:
        yield "the DecisionModel in the cluster is being deleted, and takes everything along"
    if after is None:
        return
    stable = situation.model.status.stable_revision
    if stable is not None and stable.hash == after.hash:
        yield from _of_stable(passes[-1])
    yield from _of_rollouts_under_way(situation, after)
    if stable is None or stable.hash != after.hash:
        yield from _of_new_revision(situation, after)
    yield from _of_secrets(situation)


def _of_stable(settled: Pass) -> Iterator[str]:
    """Yield what the reconciler itself would still complain about once the revision serves as it should."""
    degraded = find_condition(settled.decision.status.conditions, ConditionType.DEGRADED)
    if degraded is not None and degraded.status == "True":
        yield f"{degraded.reason}: {degraded.message}"


def _of_rollouts_under_way(situation: Situation, after: RevisionStatus) -> Iterator[str]:
    status = situation.model.status
    candidate, failed, previous = status.candidate_revision, status.failed_revision, status.previous_revision
    if candidate is not None and candidate.hash == after.hash:
        yield f"revision {candidate.hash} is being rolled out already (phase {status.phase})"
    elif candidate is not None:
        yield f"the rollout of revision {candidate.hash} (phase {status.phase}) is abandoned"
    if failed is not None and failed.hash == after.hash:
        yield f"revision {failed.hash} was rejected: {failed.reason}: {failed.message}"
    stable = status.stable_revision
    if previous is not None and stable is not None and after.hash != stable.hash:
        yield f"revision {stable.hash} is still being watched; a new rollout ends its way back to {previous.hash}"


def _of_new_revision(situation: Situation, after: RevisionStatus) -> Iterator[str]:
    limit = situation.settings.max_concurrent_rollouts
    if limit:
        yield f"it may have to wait for a slot: at most {limit} rollouts run at once"
    if after.image_pinned is False:
        yield f"{after.image} is not pinned to a digest: nobody can say which bytes will run"
    if after.digest == UNKNOWN_DIGEST:
        yield "nobody was asked for the tag's digest, so the revision has no name yet"
    elif isinstance(situation.answer, TagMissing | ResolutionFailed):
        yield f"how much is downloaded is not known: {situation.answer.message}"
    elif isinstance(situation.answer, ResolvedManifest) and situation.answer.digest != after.digest:
        yield (
            f"the registry's tag is sha256:{situation.answer.digest[:12]} by now: the prefetch Job would fail with"
            " UpstreamTagMoved, since the runtime can only pull by tag"
        )


def _of_secrets(situation: Situation) -> Iterator[str]:
    before = {} if situation.live is None else _secrets(situation.live)
    for field, secret in _secrets(situation.manifest).items():
        if before.get(field) != secret:
            yield f"Secret {secret.name} ({field}) was not read: whether it can be used shows once this is applied"


def _secrets(model: DecisionModel) -> dict[str, KeyReference]:
    named = {
        "auth.apiKeySecretRef": model.spec.auth.api_key_secret_ref,
        "cache.downloadTokenSecretRef": model.spec.cache.download_token_secret_ref,
    }
    return {field: reference for field, reference in named.items() if reference is not None}
