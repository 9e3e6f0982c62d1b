"""A preview as JSON: stable, and described in docs/preview.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from api.status import RevisionStatus
from cli.forecast import Forecast
from cli.forecast.gate import Gate
from cli.forecast.needs import Needs
from cli.forecast.objects import ObjectChange
from cli.forecast.worst_case import WorstCase
from cli.gate.suppositions import DISCORDANCE
from cli.policy.verdict import LocatedFinding
from cli.preview.markdown import markdown_report
from cli.preview.reading import ModelPreview
from cli.preview.text import text_report
from reconciler.evaluation.planner import Detectable

VERSION: Final = 1
"""Changes when a field's meaning does, or when one goes; further fields may come."""

Document = dict[str, Any]


def json_report(previews: tuple[ModelPreview, ...]) -> str:
    """Return one JSON object."""
    return json.dumps({"version": VERSION, "models": [*map(_model, previews)]}, indent=2)


REPORTS: Final[Mapping[str, Callable[[tuple[ModelPreview, ...]], str]]] = {
    "text": text_report,
    "markdown": markdown_report,
    "json": json_report,
}


def _model(each: ModelPreview) -> Document:
    told = each.forecast
    refused = each.refused
    return {
        "namespace": each.namespace,
        "name": each.name,
        "file": each.file,
        "line": each.line,
        "outcome": str(each.outcome),
        "refused": None if refused is None else {"reason": str(refused.reason), "message": refused.message},
        "fields": [{"path": one.path, "before": one.before, "after": one.after} for one in told.fields],
        "before": _revision(told.before),
        "after": _after(told),
        "downloadBytes": told.download,
        "strategy": str(told.strategy),
        "restart": str(told.restart),
        "objects": [*map(_object, told.objects)],
        "needs": None if told.needs is None else _needs(told),
        "gate": None if told.gate is None else _gate(told.gate),
        "worstCase": None if told.worst is None else _worst(told.worst),
        "findings": [*map(_finding, each.findings)],
        "notes": [*told.notes],
    }


def _revision(told: RevisionStatus | None) -> Document | None:
    if told is None:
        return None
    return {
        "revision": told.hash,
        "model": told.model,
        "digest": told.digest,
        "device": told.device,
        "image": told.image,
        "runtimeVersion": told.runtime_version,
    }


def _after(told: Forecast) -> Document | None:
    document = _revision(told.after)
    if document is None or told.digest_known:
        return document
    return {**document, "revision": None, "digest": None}


def _object(told: ObjectChange) -> Document:
    return {
        "action": str(told.action),
        "kind": told.kind,
        "name": told.name,
        "during": told.during,
        "paths": [*told.paths],
    }


def _needs(told: Forecast) -> Document | None:
    if told.needs is None:
        return None
    moments = {"before": told.needs.before, "peak": told.needs.peak, "after": told.needs.after}
    return {name: _quantities(needs) for name, needs in moments.items()}


def _quantities(told: Needs) -> Document:
    return {
        "cpuMillicores": int(told.cpu * 1000),
        "memoryBytes": int(told.memory),
        "memoryLimitBytes": int(told.memory_limit),
        "gpus": int(told.gpus),
        "storageBytes": int(told.storage),
    }


def _gate(told: Gate) -> Document:
    return {
        "promotion": str(told.promotion),
        "thresholds": dict(told.thresholds),
        "dataset": told.dataset or None,
        "items": told.items,
        "power": None if told.power is None else _power(told.power),
        "warnings": [*told.warnings],
    }


def _power(told: Detectable) -> Document:
    return {
        "supposedDiscordance": DISCORDANCE,
        "promotes": told.promotes,
        "drop": told.drop,
        "labelDrops": dict(told.label_drops),
        "text": told.text,
    }


def _worst(told: WorstCase) -> Document:
    endings = (
        {"stage": str(each.stage), "seconds": each.seconds, "reason": each.reason, "phase": str(each.phase)}
        for each in told.endings
    )
    return {
        "seconds": told.seconds,
        "endings": [*endings],
        "impact": str(told.impact),
        "outageSeconds": told.outage_seconds,
        "waitsForApproval": told.waits_for_approval,
        "watchedSeconds": told.watched_seconds,
    }


def _finding(located: LocatedFinding) -> Document:
    finding = located.finding
    return {
        "rule": finding.rule,
        "level": str(finding.level),
        "path": finding.where,
        "message": finding.message,
        "remedy": located.remedy,
        "line": located.line,
    }
