"""When what happened in a rollout: watches a namespace and notes the first sight of every milestone.

Timestamps in Kubernetes' objects have whole seconds, so it is this process's clock that counts, the same for every way
of doing a rollout.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx2
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod, Service

from api.keys import GROUP, KIND, NAME_LABEL, PLURAL, REVISION_LABEL, VERSION
from tools.kubectl import WaitError

_DECISION_MODEL = create_namespaced_resource(GROUP, VERSION, KIND, PLURAL)
_KINDS: Mapping[str, Any] = {
    KIND: _DECISION_MODEL,
    "Job": Job,
    "Deployment": Deployment,
    "Pod": Pod,
    "Service": Service,
}
_SECONDS = 120.0


class Milestone(StrEnum):
    """What every rollout comes by, in this order."""

    JOB = "the Job exists"
    CACHED = "the model is in the store"
    DEPLOYMENT = "the Deployment exists"
    CONTAINERS_READY = "the runtime runs"
    POD_READY = "the Pod is Ready"
    SERVICE = "the Service exists"
    MODEL_READY = "the DecisionModel is Ready"
    """Only where there is one."""


class Timeline:
    """Watches one namespace in the background for as long as this process lives."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._changed = threading.Condition()
        self._seen: dict[tuple[str, Milestone], float] = {}
        self._addresses: dict[str, str] = {}
        # The machine's proxy settings are none of a loopback address's business.
        self._client = Client(config=KubeConfig.from_file(str(kubeconfig)), trust_env=False)
        for kind, resource in _KINDS.items():
            arguments = (kind, resource, namespace)
            threading.Thread(target=self._watch, args=arguments, daemon=True, name=f"watch {kind}").start()

    def wait(self, model: str, milestone: Milestone) -> float:
        """Return when `model` reached a milestone, in monotonic seconds.

        Raises:
            WaitError: It did not within two minutes.
        """
        key = (model, milestone)
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._seen, _SECONDS):
                raise WaitError(f"waited {_SECONDS:g} s until {milestone} for {model}")
            return self._seen[key]

    def address(self, model: str) -> str:
        """Return the ClusterIP of a model's Service, once it exists.

        Raises:
            WaitError: It did not within two minutes.
        """
        self.wait(model, Milestone.SERVICE)
        return self._addresses[model]

    def _watch(self, kind: str, resource: Any, namespace: str) -> None:
        while True:
            try:
                for _, obj in self._client.watch(resource, namespace=namespace):
                    self._note(kind, obj.to_dict())
            except (ApiError, httpx2.HTTPError):
                # The server ended the watch; the next one begins with everything that exists.
                continue

    def _note(self, kind: str, obj: dict[str, Any]) -> None:
        now = time.monotonic()
        metadata = obj["metadata"]
        model = metadata["name"] if kind == KIND else (metadata.get("labels") or {}).get(NAME_LABEL, "")
        with self._changed:
            if kind == "Service":
                self._addresses[model] = obj["spec"].get("clusterIP", "")
            for milestone in milestones(kind, obj):
                self._seen.setdefault((model, milestone), now)
            self._changed.notify_all()


def milestones(kind: str, obj: Mapping[str, Any]) -> Iterator[Milestone]:
    """Yield the milestones that an object shows to be reached."""
    true = {each["type"] for each in obj.get("status", {}).get("conditions") or () if each["status"] == "True"}
    if kind == "Job":
        yield Milestone.JOB
        yield from [Milestone.CACHED] if "Complete" in true else []
    elif kind == "Deployment":
        yield Milestone.DEPLOYMENT
    elif kind == "Pod" and REVISION_LABEL in (obj["metadata"].get("labels") or {}):
        yield from [Milestone.CONTAINERS_READY] if "ContainersReady" in true else []
        yield from [Milestone.POD_READY] if "Ready" in true else []
    elif kind == "Service":
        yield Milestone.SERVICE
    elif kind == KIND and "Ready" in true:
        yield Milestone.MODEL_READY
