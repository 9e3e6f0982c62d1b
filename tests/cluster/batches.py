"""Edits of several DecisionModels: previewed together, and then carried out side by side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.preview.happenings import Happening, happenings
from tests.cluster.observing import Bench, decision_model
from tests.cluster.previewing import Dmctl, Told, Traces, View, look, traces, wait_until_quiet, write_environment
from tools.deploy import PulumiStack
from tools.kubectl import KubectlError, WaitError, wait_until
from tools.observer import Object

Manifests = dict[str, Object]
"""By row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what was told of it, and the DecisionModel before and after."""

    told: Object
    before: View | None
    after: View

    @property
    def happened(self) -> set[Happening]:
        """What became of its objects."""
        return happenings({} if self.before is None else self.before.objects, self.after.objects)

    @property
    def stable(self) -> Object:
        """The revision that serves in the end."""
        return dict(self.after.model["status"]["stableRevision"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows that were previewed together and then applied together.

    Attributes:
        rows: What became of each.
        rejected: What the API server said to manifests that it did not take; empty when it took all of them.
        told: What the administrator was told.
        told_reader: What the account with nothing but the documented rights was told.
        asked: The paths that the registry was asked for, by the administrator's preview.
        before: Traces of writes before the previews.
        after: And after them.
    """

    rows: dict[str, Row]
    rejected: str
    told: Told
    told_reader: Told
    asked: list[str]
    before: Traces
    after: Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One namespace with its models, the environment they are in, and the kubeconfig of who may only preview."""

    bench: Bench
    stack: PulumiStack
    directory: Path
    reader: Path
    proxy_port: int

    def manifest(self, name: str, spec: dict[str, Any]) -> Object:
        """Return a manifest in this namespace."""
        return decision_model(name, self.bench.namespace, **spec)

    def carry_out(
        self,
        edits: Manifests,
        ended: Callable[[Row], bool],
        meanwhile: Callable[[Told], None] = lambda _: None,
        **manager: Any,
    ) -> Batch:
        """Preview manifests with both accounts, apply them, and follow each to its end.

        Args:
            edits: What is previewed and applied.
            ended: Whether a row has come to its end.
            meanwhile: Called once everything is applied.
            manager: The reconciler's settings that differ from the deployed stack's.
        """
        bench = self.bench
        environment = write_environment(self.stack, self.directory, **manager)
        dmctl = Dmctl(directory=environment, proxy_port=self.proxy_port)
        before, views = wait_until_quiet(bench), look(bench)
        bench.registry("DELETE", "/requests")
        told = dmctl.preview(bench.kubectl.kubeconfig, edits.values())
        asked = [request["path"] for request in bench.registry_requests()]
        told_reader = dmctl.preview(self.reader, edits.values())
        after = traces(bench)
        rejected = self._apply(edits)
        meanwhile(told)
        names = {row: manifest["metadata"]["name"] for row, manifest in edits.items()}

        def rows() -> dict[str, Row]:
            now = look(bench)
            return {row: Row(told.models[name], views.get(name), now[name]) for row, name in names.items()}

        # A row that does not end as it should is shown by its own test, with the difference.
        with suppress(WaitError):
            wait_until("all rows to end", lambda: all(map(ended, rows().values())), 180, every=1.5)
        wait_until_quiet(bench)
        return Batch(
            rows=rows(), rejected=rejected, told=told, told_reader=told_reader, asked=asked, before=before, after=after
        )

    def _apply(self, edits: Manifests) -> str:
        try:
            self.bench.kubectl.apply(*edits.values())
        except KubectlError as error:
            return str(error)
        return ""
