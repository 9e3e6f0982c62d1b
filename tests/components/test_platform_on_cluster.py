"""The platform as a real `pulumi up` installs it on a real cluster."""

from __future__ import annotations

import pytest

from tools.deploy import PulumiStack
from tools.kubectl import Kubectl

pytestmark = pytest.mark.cluster

SYSTEM = "decision-model-operator-system"
MANAGER = "decision-model-operator-controller-manager"


def test_the_reconciler_is_available_once_the_update_returns(platform: PulumiStack, kubectl: Kubectl) -> None:
    deployment = kubectl.get("deployment", MANAGER, SYSTEM)

    assert deployment is not None
    assert deployment["status"]["availableReplicas"] == deployment["spec"]["replicas"]


def test_a_second_update_has_nothing_to_do(platform: PulumiStack) -> None:
    # Other tests take the environment's model away, which a look at the cluster would see.
    platform.pulumi("preview", f"--stack={platform.stack}", "--expect-no-changes", "--refresh=false")
