"""What a user declares in a DecisionModel (spec section 1.2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.bounds import Text
from api.pods import PodSettings
from api.quantity import Quantity
from api.references import ApiKeyReference, KeyReference
from api.resources import ContainerResources, ResourceRequirements
from api.rollout import Rollout
from api.rules import Rule
from api.scheduling import Scheduling

_INT32_MAX = 2**31 - 1

ModelName = Annotated[
    str,
    Field(min_length=1, max_length=512),
    Rule(
        "self.lastIndexOf(':') > self.lastIndexOf('/')",
        "model must name an explicit tag, for example laya:en",
        lambda model: model.rfind(":") > model.rfind("/"),
    ),
]

AccessModes = Annotated[
    tuple[Text, ...],
    Field(max_length=16),
    Rule(
        "self.all(mode, mode != 'ReadOnlyMany')",
        "accessModes must not contain ReadOnlyMany: the prefetch Job has to write the store",
        lambda modes: "ReadOnlyMany" not in modes,
    ),
]


class Engine(StrEnum):
    """The runtimes the platform knows."""

    OLLAYA = "ollaya"


class Device(StrEnum):
    """What a model runs on."""

    CPU = "cpu"
    CUDA = "cuda"


class Prefetch(ApiModel):
    """The Job that downloads and verifies a revision's files."""

    resources: ContainerResources = ContainerResources()
    """What its container asks for and may use at most. What is not named keeps its default: 100m CPU and 256Mi memory
    asked for, and at most 1Gi memory."""


class Cache(ApiModel):
    """The volume that holds a revision's model files; each revision gets its own."""

    size: Quantity = "10Gi"
    """How large the volume is; growing is applied in place where the StorageClass allows it."""
    storage_class_name: Text | None = None
    """The StorageClass; unset means the cluster's default."""
    access_modes: AccessModes = ()
    """How the volume may be mounted; unset means ReadWriteOnce."""
    download_token_secret_ref: KeyReference | None = None
    """A token for the weight host, in a Secret that carries the label decisionmodel.io/download-token: "true"."""

    prefetch: Prefetch = Prefetch()
    """How the files are downloaded; a Job that exists is never changed."""

    @property
    def effective_access_modes(self) -> tuple[str, ...]:
        """The access modes that apply."""
        return self.access_modes or ("ReadWriteOnce",)


class Auth(ApiModel):
    """Who may call the model."""

    api_key_secret_ref: ApiKeyReference | None = None
    """The API key clients must present, in a Secret that carries the label decisionmodel.io/api-key: "true"."""


class DecisionModelSpec(ApiModel):
    """The model to serve and how."""

    rules = (
        Rule(
            "!(has(self.image) && has(self.runtimeVersion))",
            "image and runtimeVersion are mutually exclusive",
            lambda self: self.image is None or self.runtime_version is None,
        ),
    )

    engine: Engine = Engine.OLLAYA
    """The runtime that serves the model."""
    model: ModelName
    """The model, [host/][namespace/]name:tag; the tag must be explicit, for example laya:en."""
    digest: Annotated[str, Field(max_length=128, pattern=r"^[a-f0-9]{64}$")] | None = None
    """Pins the model's manifest: SHA-256 in bare hex. The registry is then not asked."""
    replicas: Annotated[int, Field(ge=1, le=_INT32_MAX, json_schema_extra={"format": "int32"})] = 1
    """How many Pods serve the model."""
    device: Device = Device.CPU
    """What the model runs on; a Pod on another device gets no traffic."""
    image: Text | None = None
    """Overrides the runtime's image; needs the operator flag --allow-image-override."""
    runtime_version: Annotated[str, Field(max_length=32, pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] | None = None
    """The runtime's release, for example 0.12.0; unset follows the operator's policy."""
    resources: ResourceRequirements = ResourceRequirements()
    """What each serving Pod asks for and may use at most."""
    scheduling: Scheduling = Scheduling()
    """Where Pods may run."""
    pods: PodSettings = PodSettings()
    """What all Pods get besides."""
    cache: Cache = Cache()
    """The volume for the model's files."""
    auth: Auth = Auth()
    """Who may call the model."""
    rollout: Rollout = Rollout()
    """How a new revision takes over."""
