"""Where the last evaluation of a DecisionModel is read from: its status, and the evidence ConfigMap beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from api.status import EvaluationStatus
from cli.config_maps import config_map_value
from cli.connection import Cluster, ClusterOptions, open_cluster
from cli.errors import InputError
from components import names, paths
from components.errors import ComponentsError
from reconciler.controller.observation import controller_uid
from reconciler.controller.watched import CONFIG_MAPS, DECISION_MODELS
from reconciler.evaluation.evidence import MAX_DOCUMENT, Evidence, EvidenceInvalid, decode
from reconciler.kernel.errors import KernelError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvaluation:
    """What the cluster knows about a DecisionModel's last evaluation.

    Attributes:
        name: Namespace and name.
        status: Scores and gates.
        document: The evidence of a comparison; None without `statistics`, or once it is gone.
    """

    name: str
    status: EvaluationStatus
    document: bytes | None


async def last_evaluation(name: str, options: ClusterOptions) -> LastEvaluation:
    """Read the last evaluation of the DecisionModel `name`.

    Raises:
        InputError: The cluster cannot be asked, there is no such DecisionModel, or it was never evaluated.
    """
    async with open_cluster(options) as cluster:
        try:
            return await _read(name, options.namespace or cluster.namespace, cluster)
        except KernelError as error:
            raise InputError(str(error), "Reading DecisionModels and ConfigMaps has to be allowed.") from error
        except (ComponentsError, ValueError) as error:
            raise InputError(f"DecisionModel {name[:80]!r}: {error}") from error


async def _read(name: str, namespace: str, cluster: Cluster) -> LastEvaluation:
    found = await cluster.reader.get(DECISION_MODELS, namespace, name)
    if found is None:
        raise InputError(f"there is no DecisionModel {namespace}/{name}; -n names another namespace")
    try:
        model = DecisionModel.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise InputError(f"DecisionModel {namespace}/{name} in the cluster cannot be read: {problem}") from error
    evaluation = model.status.evaluation
    if evaluation is None:
        raise InputError(f"DecisionModel {namespace}/{name} was never evaluated: it needs spec.rollout.evaluation")
    evidence = names.evidence_config_map(name, evaluation.revision)
    config_map = await cluster.reader.get(CONFIG_MAPS, namespace, evidence)
    ours = config_map is not None and controller_uid(config_map) == model.metadata.uid
    document = config_map_value(config_map, paths.EVIDENCE_KEY) if ours else None
    return LastEvaluation(name=f"{namespace}/{name}", status=evaluation, document=document)


def read_file(path: str) -> bytes:
    """Return the evidence document in a file.

    Raises:
        InputError: It cannot be read, or is larger than any document.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return content


def decoded(document: bytes, source: str) -> Evidence:
    """Return the evidence in a document.

    Raises:
        InputError: It is none.
    """
    try:
        return decode(document)
    except EvidenceInvalid as error:
        raise InputError(f"{source}: {error}") from error
