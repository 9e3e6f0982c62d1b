"""From apply to the first answer: the platform, and a person who applies the very same objects step by step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.keys import NAME_LABEL
from tools.bench.cleaning import fresh_namespace, remove_model, remove_objects
from tools.bench.objects import KINDS, applicable
from tools.bench.timeline import Milestone, Timeline
from tools.deploy import ROOT
from tools.environment import Environment, Progress
from tools.kubectl import Kubectl, WaitError

NAMESPACE = "bench"
# A word that stands nowhere else in the objects: by hand they get another name by its replacement.
_PATTERN = "bench-pattern"
_SMALL = {"requests": {"cpu": "20m", "memory": "32Mi"}}

STEPS: Mapping[Milestone | None, str] = {
    Milestone.JOB: "apply, until the Job exists",
    Milestone.CACHED: "until the model is in the store",
    Milestone.DEPLOYMENT: "until the Deployment exists",
    Milestone.CONTAINERS_READY: "until the runtime runs",
    Milestone.POD_READY: "until the Pod is Ready",
    Milestone.SERVICE: "until the Service exists",
    None: "until it answers (and Ready)",
}
"""What lies between two milestones, by the later one; None is the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One measured rollout: the seconds of each step, in the order of `STEPS`."""

    steps: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.steps.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """The rounds of both ways."""

    platform: tuple[Rollout, ...]
    by_hand: tuple[Rollout, ...]


class RolloutBench:
    """Does rollouts in a namespace of its own, and cleans up after each."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._kubectl: Kubectl = environment.kubectl
        fresh_namespace(environment.kubectl, NAMESPACE)
        self._timeline = Timeline(environment.cluster.kubeconfig, NAMESPACE)

    def measure(self, rounds: int, progress: Progress) -> Rollouts:
        """Do `rounds` rollouts in each way, alternating which comes first, after one that does not count.

        Raises:
            KubectlError: The cluster refused something.
            WaitError: A rollout did not come to its end.
        """
        live = self._first()
        platform: list[Rollout] = []
        by_hand: list[Rollout] = []
        for number in range(1, rounds + 1):
            for is_ours in (True, False) if number % 2 else (False, True):
                if is_ours:
                    platform.append(self._platform(f"platform-{number}"))
                else:
                    by_hand.append(self._by_hand(f"hand-{number}", live))
            progress(f"rollout {number}: platform {platform[-1].seconds:.2f} s, by hand {by_hand[-1].seconds:.2f} s")
        return Rollouts(platform=tuple(platform), by_hand=tuple(by_hand))

    def _first(self) -> list[dict[str, Any]]:
        """Do the rollout that warms everything up, and return its objects."""
        self._platform(_PATTERN, keep=True)
        listed = self._kubectl.list(",".join(KINDS), NAMESPACE, f"{NAME_LABEL}={_PATTERN}")
        remove_model(self._kubectl, NAMESPACE, _PATTERN)
        return listed

    def _platform(self, name: str, *, keep: bool = False) -> Rollout:
        started = time.monotonic()
        self._kubectl.apply(decision_model(name, NAMESPACE))
        with self._asking(name) as asking:
            ready = self._timeline.wait(name, Milestone.MODEL_READY)
            answered = _answered(asking)
        rollout = self._rollout(name, started, max(ready, answered))
        if not keep:
            remove_model(self._kubectl, NAMESPACE, name)
        return rollout

    def _by_hand(self, name: str, live: list[dict[str, Any]]) -> Rollout:
        objects = applicable(live, _PATTERN, name)
        started = time.monotonic()
        self._kubectl.apply(objects["ConfigMap"], objects["PersistentVolumeClaim"], objects["Job"])
        job = objects["Job"]["metadata"]["name"]
        self._kubectl.run(
            "wait", f"job/{job}", "-n", NAMESPACE, "--for=condition=Complete", "--timeout=60s", timeout=90
        )
        self._kubectl.apply(objects["Deployment"], objects["Service"])
        with self._asking(name) as asking:
            answered = _answered(asking)
        rollout = self._rollout(name, started, answered)
        remove_objects(self._kubectl, NAMESPACE, name)
        return rollout

    def _asking(self, name: str) -> subprocess.Popen[str]:
        """Start asking as soon as there is something to ask."""
        address = self._timeline.address(name)
        command = self._environment.cluster.inside(sys.executable, "-m", "tools.bench.first_answer", address)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def _rollout(self, name: str, started: float, ended: float) -> Rollout:
        steps: dict[str, float] = {}
        before = started
        for milestone, step in STEPS.items():
            at = ended if milestone is None else min(ended, self._timeline.wait(name, milestone))
            # By hand the Service is there before it is needed: that step then takes no time.
            steps[step] = max(0.0, at - before)
            before = max(before, at)
        return Rollout(steps=steps)


def _answered(asking: subprocess.Popen[str]) -> float:
    output, _ = asking.communicate()
    if asking.returncode != 0:
        raise WaitError("the Service did not answer within two minutes")
    return float(output)


def decision_model(name: str, namespace: str) -> dict[str, Any]:
    """Return a DecisionModel of the smallest model with requests that fit beside everything else."""
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": "laya:en", "resources": _SMALL, "cache": {"size": "64Mi"}},
    }
