"""What a stack's state may record, so that nothing else can make the engine do anything. Pure.

A state is code to the engine: it starts the providers that are recorded, with the inputs that are recorded, and deletes
or changes the objects that are recorded. So everything that decides about what is run and on what must be exactly what
our own program puts there; whatever has a place for more is refused, and so is every field that is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from components import names, state_tokens
from components.manifests import MANAGED_KINDS

Json = Mapping[str, Any]

_REVISION: Final = "(?:[0-9a-f]{16}|[0-9a-f]{10})"
_NAMES: Final[Mapping[str, str]] = {
    "PersistentVolumeClaim": f"-store(?:-{_REVISION})?",
    "Job": f"-(?:pf|prefetch)-{_REVISION}",
    "Deployment": f"-{_REVISION}",
    "PodDisruptionBudget": f"-{_REVISION}",
    "Service": "",
}
"""What follows the model's name in the name of an object, as a regular expression."""

_KINDS: Final[Mapping[str, str]] = {state_tokens.type_token(kind): kind for kind in sorted(MANAGED_KINDS)}
_VERSION: Final = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}")
_PROVIDER_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""The engine's key for values that are no plain JSON: secrets, assets read from files or the network, references."""
_DEPTH_LIMIT: Final = 100
_PENDING_KINDS: Final = frozenset({"creating", "updating", "deleting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRules:
    """What states may say of how the cluster is reached: what the program says, and nothing else.

    Attributes:
        cluster_identifier: As in `components.program.ProviderSettings`.
        kubeconfig: The same; None for the Pod's own account.
        any_kubeconfig: Any path will do instead: for whoever only looks, and does not know the reconciler's.
    """

    cluster_identifier: str
    kubeconfig: str | None = None
    any_kubeconfig: bool = False


def tampering(document: Json, project: str, stack: str, rules: StateRules) -> str | None:
    """Return the first thing in a state's file that our own operations do not put there, None if there is none.

    Args:
        document: The file, as `checkpoint.parse_checkpoint` reads it.
        project: The Pulumi project.
        stack: The stack's name: `<namespace>.<name>.<uid>`.
        rules: How the cluster is reached.
    """
    try:
        return next(_Judge(project, stack, rules).document(document), None)
    except RecursionError:
        return "it is nested too deeply"


Problems = Iterator[str]
Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_text_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _is_no(value: Any) -> bool:
    return value is False


def _is_trace(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(map(_is_text, each.values())) for each in value
    )


_RESOURCE_FIELDS: Final[Mapping[str, Check]] = {
    "urn": _is_text,
    "type": _is_text,
    "custom": _is_flag,
    "id": _is_text,
    "inputs": _is_mapping,
    "outputs": _is_mapping,
    "parent": _is_text,
    "provider": _is_text,
    "dependencies": _are_texts,
    "propertyDependencies": _are_text_lists,
    "ignoreChanges": _are_texts,
    "initErrors": _are_texts,
    "delete": _is_flag,
    "pendingReplacement": _is_flag,
    "refreshBeforeUpdate": _is_flag,
    # These would keep the engine from what the program asks for, or take over what it does not ask for.
    "protect": _is_no,
    "external": _is_no,
    "retainOnDelete": _is_no,
    "taint": _is_no,
    "created": _is_text,
    "modified": _is_text,
    "sourcePosition": _is_text,
    "stackTrace": _is_trace,
}
_MANIFEST_FIELDS: Final[Mapping[str, Check]] = {"time": _is_text, "magic": _is_text, "version": _is_text}
_OBJECT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_OUTPUT_FIELDS: Final = _OBJECT_FIELDS | {"status", "__fieldManager", "__initialApiVersion", "__inputs"}


class _Judge:
    """Looks through one state."""

    def __init__(self, project: str, stack: str, rules: StateRules) -> None:
        self._stack = stack
        self._rules = rules
        self._model = stack.split(".")[1] if stack.count(".") == 2 else ""
        self._qualified = f"organization/{project}/{stack}"
        self._prefix = f"urn:pulumi:{stack}::{project}::"
        self._root = f"{self._prefix}{state_tokens.STACK_TYPE}::{project}-{stack}"
        self._provider = f"{self._prefix}{state_tokens.PROVIDER_TYPE}::{state_tokens.PROVIDER_NAME}"
        self._namespaces: set[str] = set()

    def document(self, document: Json) -> Problems:
        if set(document) != {"version", "checkpoint"} or document["version"] is True or document["version"] != 3:
            yield "it is no state of version 3, or has more than version and checkpoint"
            return
        checkpoint = document["checkpoint"]
        if not isinstance(checkpoint, dict) or not set(checkpoint) <= {"stack", "latest"}:
            yield "its checkpoint has more than stack and latest"
            return
        if checkpoint.get("stack") != self._qualified:
            yield "it is the state of another stack"
        latest = checkpoint.get("latest")
        if latest is not None:
            yield from self._latest(latest)

    def _latest(self, latest: Any) -> Problems:
        known = {"manifest", "secrets_providers", "resources", "pending_operations", "metadata"}
        if not isinstance(latest, dict) or not set(latest) <= known:
            yield f"it records {_first(latest, known)}, which no operation of ours does"
            return
        yield from _fields(latest.get("manifest") or {}, _MANIFEST_FIELDS, "manifest")
        if latest.get("metadata") not in (None, {}):
            yield "it bears the mark of an integrity error"
        yield from _secrets_provider(latest.get("secrets_providers"))
        yield from self._resources(latest.get("resources"))
        yield from self._pending(latest.get("pending_operations"))
        if len(self._namespaces) > 1:
            yield f"it records objects in several namespaces: {', '.join(sorted(self._namespaces))}"

    def _resources(self, resources: Any) -> Problems:
        if resources is None:
            return
        if not isinstance(resources, list):
            yield "its resources are no list"
            return
        for index, resource in enumerate(resources):
            yield from self._resource(resource, f"resources[{index}]")

    def _pending(self, operations: Any) -> Problems:
        if operations is None:
            return
        if not isinstance(operations, list):
            yield "its pending operations are no list"
            return
        for index, operation in enumerate(operations):
            place = f"pending_operations[{index}]"
            if not isinstance(operation, dict) or set(operation) != {"resource", "type"}:
                yield f"{place} is no pending operation"
            elif not _is_text(operation["type"]) or operation["type"] not in _PENDING_KINDS:
                yield f"{place} is no creation, change or deletion"
            else:
                yield from self._resource(operation["resource"], f"{place}.resource")

    def _resource(self, resource: Any, place: str) -> Problems:
        if not isinstance(resource, dict):
            yield f"{place} is no resource"
            return
        yield from _fields(resource, _RESOURCE_FIELDS, place)
        type_, urn = resource.get("type"), resource.get("urn")
        if not isinstance(type_, str) or not isinstance(urn, str):
            yield f"{place} has no type or no URN"
            return
        where = f"{place} ({urn[:200]!r})"
        if _bears_signature((resource.get("inputs"), resource.get("outputs")), _DEPTH_LIMIT):
            yield f"{where} holds a value that is no plain JSON"
        if type_ in _KINDS:
            yield from self._object(resource, _KINDS[type_], where)
        elif type_ == state_tokens.PROVIDER_TYPE:
            yield from self._recorded_provider(resource, where)
        else:
            yield from self._component(resource, where)

    def _component(self, resource: Json, where: str) -> Problems:
        model, revision = state_tokens.MODEL_TYPE, state_tokens.REVISION_TYPE
        of_model = re.escape(self._model)
        urns = {
            state_tokens.STACK_TYPE: re.escape(self._root),
            model: re.escape(f"{self._prefix}{model}::") + of_model,
            revision: re.escape(f"{self._prefix}{model}${revision}::") + f"{of_model}-{_REVISION}",
        }
        type_ = resource["type"]
        if type_ not in urns or not re.fullmatch(urns[type_], resource["urn"]):
            yield f"{where} is of type {type_[:200]!r}, or has a name, that this stack has not"
        if resource.get("custom") is not False or any(resource.get(each) for each in ("id", "provider")):
            yield f"{where} is a component, and has a provider"
        if resource.get("inputs") or resource.get("outputs"):
            yield f"{where} is a component, and has properties"

    def _recorded_provider(self, resource: Json, where: str) -> Problems:
        if resource["urn"] != self._provider or resource.get("custom") is not True or resource.get("provider"):
            yield f"{where} is not the provider of this stack"
        if not _PROVIDER_ID.fullmatch(str(resource.get("id", ""))):
            yield f"{where} has no proper id"
        yield from self._provider_inputs(resource.get("inputs"), f"{where}: inputs")
        if resource.get("outputs"):
            yield from self._provider_inputs(resource["outputs"], f"{where}: outputs")

    def _provider_inputs(self, inputs: Any, where: str) -> Problems:
        if not isinstance(inputs, dict):
            yield f"{where} are missing"
            return
        given = dict(inputs)
        if given.pop("__internal", {}) != {}:
            yield f"{where} ask for another plugin"
        if not _VERSION.fullmatch(str(given.pop("version", ""))):
            yield f"{where} name no version"
        namespace = given.pop("namespace", None)
        yield from self._namespace(namespace, where)
        if given.pop("enableConfigMapMutable", None) != "true":
            yield f"{where} are not those of this program"
        if given.pop("clusterIdentifier", None) != self._rules.cluster_identifier:
            yield f"{where} name another cluster"
        if not self._is_our_kubeconfig(given.pop("kubeconfig", None)):
            yield f"{where} have a kubeconfig that is not the reconciler's"
        if given:
            yield f"{where} have {min(given)[:100]!r}, which the program does not set"

    def _is_our_kubeconfig(self, value: Any) -> bool:
        if not self._rules.any_kubeconfig:
            return bool(value == self._rules.kubeconfig)
        return value is None or (isinstance(value, str) and re.fullmatch(r"/[^\n{}]{1,4096}", value) is not None)

    def _object(self, resource: Json, kind: str, where: str) -> Problems:
        inputs = resource.get("inputs")
        name = resource["urn"].rpartition("::")[2]
        if not re.fullmatch(re.escape(self._model) + _NAMES[kind], name) or resource["urn"] != self._urn(kind, name):
            yield f"{where} has a name that no object of this stack has"
        if resource.get("custom") is not True or not self._is_our_provider(resource.get("provider")):
            yield f"{where} is not made by the provider of this stack"
        if not isinstance(inputs, dict):
            yield f"{where} has no inputs"
            return
        namespace = _metadata(inputs).get("namespace")
        yield from self._namespace(namespace, where)
        if resource.get("id", "") not in ("", f"{namespace}/{name}"):
            yield f"{where} has the id of another object"
        yield from _identity(inputs, _OBJECT_FIELDS, kind, namespace, name, f"{where}: inputs")
        outputs = resource.get("outputs") or {}
        if outputs:
            yield from _identity(outputs, _OUTPUT_FIELDS, kind, namespace, name, f"{where}: outputs")
        if recorded := outputs.get("__inputs"):
            yield from _identity(recorded, _OBJECT_FIELDS, kind, namespace, name, f"{where}: outputs.__inputs")

    def _urn(self, kind: str, name: str) -> str:
        parents = [state_tokens.MODEL_TYPE, *([] if kind == "Service" else [state_tokens.REVISION_TYPE])]
        return f"{self._prefix}{'$'.join([*parents, state_tokens.type_token(kind)])}::{name}"

    def _is_our_provider(self, reference: Any) -> bool:
        urn, _, id_ = str(reference).rpartition("::")
        return urn == self._provider and _PROVIDER_ID.fullmatch(id_) is not None

    def _namespace(self, namespace: Any, where: str) -> Problems:
        if not isinstance(namespace, str) or not namespace or not names.is_stack_in(self._stack, (namespace,)):
            yield f"{where} is in a namespace that is not this stack's"
        else:
            self._namespaces.add(namespace)


def _metadata(obj: Json) -> Json:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _identity(obj: Any, known: Iterable[str], kind: str, namespace: Any, name: str, where: str) -> Problems:  # noqa: PLR0913 - what identifies an object
    if not isinstance(obj, dict) or not set(obj) <= set(known):
        yield f"{where} have {_first(obj, known)}, which no object of this stack has"
        return
    found = (obj.get("apiVersion"), obj.get("kind"), _metadata(obj).get("namespace"), _metadata(obj).get("name"))
    if found != (state_tokens.API_VERSIONS[kind], kind, namespace, name):
        yield f"{where} are of another object"


def _fields(found: Any, known: Mapping[str, Check], place: str) -> Problems:
    if not isinstance(found, dict):
        yield f"{place} is no object"
        return
    for field, value in found.items():
        if field not in known:
            yield f"{place} has the field {field[:100]!r}, which no operation of ours writes"
        elif not known[field](value):
            yield f"{place}.{field} is not what operations of ours write"


def _secrets_provider(found: Any) -> Problems:
    match found:
        case None:
            return
        case {"type": "passphrase", "state": {"salt": str(), **others}, **more} if not others and not more:
            return
    yield "its secrets are opened by something else than a passphrase"


def _bears_signature(value: Any, depth: int) -> bool:
    if depth == 0:
        return True
    if isinstance(value, dict):
        return _SIGNATURE in value or any(_bears_signature(each, depth - 1) for each in value.values())
    return isinstance(value, list | tuple) and any(_bears_signature(each, depth - 1) for each in value)


def _first(found: Any, known: Iterable[str]) -> str:
    others = sorted(set(found) - set(known)) if isinstance(found, dict) else []
    return repr(others[0][:100]) if others else "something"
