"""The objects that the reconciler would render for a DecisionModel, as far as that can be told without a cluster."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from components.manifests import render
from components.program import ProviderSettings
from policy import Configuration
from reconciler.controller.observation import Children
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.revisions import ChosenImage, choose_image, wanted_revision
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL, RegistryPolicy
from reconciler.rollout import RevisionPlan, StackPlan

# Without a registry nobody knows a tag's digest. It only goes into names and into what the prefetch Job compares with,
# and no rule looks at either.
_ANY_DIGEST: Final = "0" * 64


def rendered_objects(manifest: Any, configuration: Configuration) -> tuple[Any, ...]:
    """Return the objects of the revision that a DecisionModel asks for, as they are once it serves.

    Empty for what is no valid DecisionModel, and where no image can be chosen: rules over the DecisionModel itself
    say so.
    """
    try:
        model = DecisionModel.model_validate(manifest)
    except ValidationError:
        return ()
    settings = _settings(configuration)
    image = choose_image(model.spec, None, settings)
    if not isinstance(image, ChosenImage):
        return ()
    revision = wanted_revision(model.spec, model.spec.digest or _ANY_DIGEST, image, settings)
    plan = RevisionPlan(revision=revision, serve=True, disruption_budget=model.spec.replicas > 1)
    stack = StackPlan(revisions=(plan,), selected=revision.hash)
    desired = desired_stack(model, stack, Surroundings(settings=settings, children=Children()))
    return tuple(each.object for each in render(desired))


def _settings(configuration: Configuration) -> ControllerSettings:
    registry = getattr(configuration.settings["model-registry-allowed"], "registry", DEFAULT_REGISTRY_URL)
    return ControllerSettings(
        registries=RegistryPolicy(registry_url=registry), provider=ProviderSettings(cluster_identifier="offline")
    )
