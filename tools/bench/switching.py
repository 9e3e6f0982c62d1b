"""From the decision to the traffic: how long a promotion and a rollback take to reach the EndpointSlice.

Both revisions' Pods are ready all the time. The decision is the first sight of the status that records it, its effect
the first sight of an EndpointSlice with the other revision's Pod: watches of one process, so one clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.discovery_v1 import EndpointSlice

from api.keys import GROUP, KIND, NAME_LABEL, PLURAL, PROMOTE_ANNOTATION, REVISION_LABEL, VERSION
from tools.bench.cleaning import fresh_namespace, remove_model
from tools.environment import Environment, Progress
from tools.kubectl import Kubectl, KubectlError, WaitError, wait_until

NAMESPACE = "bench-switching"
GOAL_SECONDS = 1.5

_MODEL = "switching"
_SERVED, _CANDIDATES = "laya:en", ("laya:en-better", "laya:en-equal")
_SMALL = {"requests": {"cpu": "20m", "memory": "32Mi"}}
_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Seconds from decision to EndpointSlice, one for each round."""

    promotions: tuple[float, ...]
    rollbacks: tuple[float, ...]


class Sightings:
    """What the watches have shown: when each revision became the stable one, and when it got the traffic."""

    def __init__(self, kubeconfig: Path) -> None:
        self._changed = threading.Condition()
        self._stable: tuple[str, float] = ("", 0.0)
        self._served: tuple[str, float] = ("", 0.0)
        # The machine's proxy settings are none of a loopback address's business.
        self._client = Client(config=KubeConfig.from_file(str(kubeconfig)), trust_env=False)
        watches = (
            (create_namespaced_resource(GROUP, VERSION, KIND, PLURAL), self._note_model),
            (EndpointSlice, self._note_slice),
        )
        for resource, note in watches:
            threading.Thread(target=self._watch, args=(resource, note), daemon=True).start()

    def seconds_to(self, revision: str) -> float:
        """Return the seconds between the decision for `revision` and its traffic, once both were seen.

        Raises:
            WaitError: They were not within three minutes.
        """

        def both() -> bool:
            return self._stable[0] == revision and self._served[0] == revision

        with self._changed:
            if not self._changed.wait_for(both, _SECONDS):
                raise WaitError(f"waited {_SECONDS:g} s for the traffic to be on revision {revision}")
            return self._served[1] - self._stable[1]

    def _watch(self, resource: Any, note: Callable[[Mapping[str, Any]], None]) -> None:
        while True:
            try:
                for _, obj in self._client.watch(resource, namespace=NAMESPACE):
                    note(obj.to_dict())
            except (ApiError, httpx2.HTTPError):
                # The server ended the watch; the next one begins with everything that exists.
                continue

    def _note_model(self, model: Mapping[str, Any]) -> None:
        now = time.monotonic()
        stable = (model.get("status") or {}).get("stableRevision", {}).get("hash", "")
        with self._changed:
            if stable != self._stable[0]:
                self._stable = (stable, now)
                self._changed.notify_all()

    def _note_slice(self, endpoint_slice: Mapping[str, Any]) -> None:
        now = time.monotonic()
        ready = [each for each in endpoint_slice.get("endpoints") or () if each["conditions"].get("ready")]
        # A Pod is called after its Deployment, and that after the revision.
        revisions = {each["targetRef"]["name"].split("-")[1] for each in ready}
        with self._changed:
            if len(revisions) == 1 and (revision := revisions.pop()) != self._served[0]:
                self._served = (revision, now)
                self._changed.notify_all()


class SwitchingBench:
    """Promotes and rolls back one model again and again."""

    def __init__(self, environment: Environment) -> None:
        self._kubectl: Kubectl = environment.kubectl
        fresh_namespace(environment.kubectl, NAMESPACE)
        self._sightings = Sightings(environment.cluster.kubeconfig)

    def measure(self, rounds: int, progress: Progress) -> Switches:
        """Do `rounds` promotions, each followed by a rollback.

        Raises:
            KubectlError: The cluster refused something.
            WaitError: A rollout did not come to its end.
        """
        self._declare(_SERVED)
        served = self._wait("Ready")["stableRevision"]["hash"]
        promotions: list[float] = []
        rollbacks: list[float] = []
        for number in range(rounds):
            self._declare(_CANDIDATES[number % len(_CANDIDATES)])
            candidate = self._wait("AwaitingPromotion")["candidateRevision"]["hash"]
            self._annotate(PROMOTE_ANNOTATION, candidate)
            promotions.append(self._sightings.seconds_to(candidate))
            self._wait("Ready")
            self._crash(candidate)
            rollbacks.append(self._sightings.seconds_to(served))
            self._wait("RolledBack")
            progress(f"switch {number + 1}: promotion {promotions[-1]:.2f} s, rollback {rollbacks[-1]:.2f} s")
        remove_model(self._kubectl, NAMESPACE, _MODEL)
        return Switches(promotions=tuple(promotions), rollbacks=tuple(rollbacks))

    def _declare(self, model: str) -> None:
        rollout = {"promotion": "Manual"}
        self._kubectl.apply(
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "metadata": {"name": _MODEL, "namespace": NAMESPACE},
                "spec": {"model": model, "resources": _SMALL, "cache": {"size": "64Mi"}, "rollout": rollout},
            }
        )

    def _annotate(self, key: str, value: str) -> None:
        self._kubectl.run("annotate", PLURAL, _MODEL, f"{key}={value}", "-n", NAMESPACE, "--overwrite")

    def _wait(self, phase: str) -> dict[str, Any]:
        """Wait until the model is in `phase` for the spec as it stands; return its status."""

        def reached() -> dict[str, Any] | None:
            model = self._kubectl.get(PLURAL, _MODEL, NAMESPACE) or {}
            status: dict[str, Any] = model.get("status", {})
            current = status.get("observedGeneration") == model.get("metadata", {}).get("generation")
            return status if current and status.get("phase") == phase else None

        return wait_until(f"{_MODEL} to be {phase}", reached, _SECONDS)

    def _crash(self, revision: str) -> None:
        """End the containers of a revision until the kubelet calls it a crash loop."""
        selector = f"{NAME_LABEL}={_MODEL},{REVISION_LABEL}={revision}"

        def crashed() -> bool:
            pods = self._kubectl.list("pods", NAMESPACE, selector)
            states = [each.get("state", {}) for pod in pods for each in pod["status"].get("containerStatuses", ())]
            if not states or any("waiting" in state for state in states):
                return True
            name = pods[0]["metadata"]["name"]
            with suppress(KubectlError):
                # The command ends with the container, and so never well; whether it worked is seen in the Pod.
                self._kubectl.run("exec", name, "-n", NAMESPACE, "--", "sh", "-c", "kill 1; sleep 1")
            return False

        wait_until(f"a crash loop of revision {revision}", crashed, _SECONDS, every=0.5)


def as_json(switches: Switches) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "goalSeconds": GOAL_SECONDS,
        "promotions": [round(each, 3) for each in switches.promotions],
        "rollbacks": [round(each, 3) for each in switches.rollbacks],
    }
