"""The models on offer. How a model behaves stands in its decision layer, which the stand-in runtime reads.

Three kinds: the published models of spec section 6 in miniature, candidates of a known quality for evaluation gates,
and candidates that misbehave in one named way each (spec section 10.2).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tools.standin.registry.content import Content, Damaged, Held, Zeros
from tools.standin.registry.manifests import CONFIG_TYPE, PREFIX, Blob, Repository, json_blob, json_bytes, text_blob

LARGE_WEIGHTS_BYTES = 33 * 1024 * 1024
"""Just above the 32 MiB up to which a client fetches a blob in one stream (spec section 5.1)."""

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the stand-in runtime does with a model; the content of its decision layer."""

    error: float = 0.07
    """Share of questions that it answers wrongly, 0 to 1."""
    sharpness: float = 2.5
    """Gain of the softmax: the more, the surer the model is of what it answers. The default claims about as much
    confidence as the default error deserves, measured on short texts and questions of four options."""
    temperature: float = 1.0
    """Divides the gain; below 1 the model claims more confidence than it deserves."""
    load_seconds: float = 0.2
    memory_bytes: int = 64 * _MIB
    switches: Mapping[str, Any] = field(default_factory=dict)
    """Misbehaviour, by the names that the stand-in runtime knows."""

    def document(self) -> dict[str, Any]:
        """The decision layer's JSON."""
        return {
            "sharpness": self.sharpness,
            "error": self.error,
            "temperature": self.temperature,
            "load_seconds": self.load_seconds,
            "memory_bytes": self.memory_bytes,
            "switches": dict(self.switches),
        }


@dataclass(frozen=True, slots=True)
class Family:
    """What the variants of one model share; ends up in the config blob."""

    name: str
    parameter_size: str
    context_length: int
    languages: tuple[str, ...] = ("en",)


@dataclass(frozen=True, slots=True)
class Model:
    """A published tag with its files."""

    name: str
    config: Blob
    layers: tuple[Blob, ...]


LAYA = Family("laya", "421M", 512)
LAYA_MULTILINGUAL = Family("laya", "322M", 1024, ("en", "de", "fr", "tr"))
NLI = Family("nli", "184M", 512)
JEVK5 = Family("jevk5", "4B", 8192)

_GOOD = Behaviour()
_PUBLISHED = {
    "laya:en": (LAYA, _GOOD),
    "laya:multilingual": (LAYA_MULTILINGUAL, Behaviour(error=0.20, sharpness=1.8)),
    "nli:latest": (NLI, _GOOD),
}
_CANDIDATES = {
    "laya:en-better": Behaviour(error=0.03, sharpness=3.0),
    "laya:en-equal": _GOOD,
    "laya:en-worse": Behaviour(error=0.25, sharpness=1.6),
    "laya:en-overconfident": replace(_GOOD, temperature=0.25),
}
_MISBEHAVING = {
    "laya:en-wrong-device": replace(_GOOD, switches={"device": "metal"}),
    "laya:en-on-gpu": replace(_GOOD, switches={"device": "cuda:0"}),
    "laya:en-wrong-digest": replace(_GOOD, switches={"digest": "0" * 64}),
    "laya:en-unpinned": replace(_GOOD, switches={"unpinned": 3600}),
    "laya:en-no-load": replace(_GOOD, switches={"load_failure": "the graph has an operator that this build lacks"}),
    "laya:en-slow": replace(_GOOD, load_seconds=20.0),
    "laya:en-crash": replace(_GOOD, switches={"inference_crash": True}),
}


def models() -> Iterator[Model]:
    """Every model whose manifest is well formed."""
    for name, (family, behaviour) in _PUBLISHED.items():
        yield onnx_model(name, family, behaviour)
    for name, behaviour in {**_CANDIDATES, **_MISBEHAVING}.items():
        yield onnx_model(name, LAYA, behaviour)
    yield _with_damaged_decision(onnx_model("laya:en-broken", LAYA, _GOOD))
    yield onnx_model("laya:en-large", LAYA, _GOOD, weights=Zeros(LARGE_WEIGHTS_BYTES))
    yield router_model("laya:latest", {"english": "laya:en", "multilingual": "laya:multilingual"})
    yield gguf_model("jevk5:latest", JEVK5, _GOOD)


def onnx_model(name: str, family: Family, behaviour: Behaviour, *, weights: Content | None = None) -> Model:
    """A model of two graphs (both precisions), weights, tokenizer, decision, calibration and licence."""
    repository = _repository(name)
    graphs = tuple(
        Blob(f"{PREFIX}graph.onnx", _bytes(f"{precision} graph of {name}"), {"org.ollaya.precision": precision})
        for precision in ("fp16", "fp32")
    )
    return Model(
        name,
        config_blob(name, family, "onnx"),
        (
            *graphs,
            Blob(
                f"{PREFIX}weights",
                weights or _bytes(f"weights of {name}"),
                file=repository.path("model.safetensors"),
            ),
            Blob(
                f"{PREFIX}tokenizer",
                _bytes(f"tokenizer of {family.name}"),
                file=repository.path("tokenizer.json"),
            ),
            *_common_layers(behaviour),
        ),
    )


def gguf_model(name: str, family: Family, behaviour: Behaviour) -> Model:
    """A model of one quantized weights file, decision, calibration and licence."""
    weights = Blob(
        f"{PREFIX}weights.gguf",
        _bytes(f"quantized weights of {name}"),
        {"org.ollaya.quantization": "Q8_0"},
        file=_repository(name).path("model-q8_0.gguf"),
    )
    return Model(name, config_blob(name, family, "gguf", engine="llama"), (weights, *_common_layers(behaviour)))


def router_model(name: str, routes: Mapping[str, str]) -> Model:
    """A router by script; the first route is the default."""
    family = Family(name.partition(":")[0], "", 512)
    routing = {"strategy": "script", "default": next(iter(routes)), "routes": dict(routes)}
    return Model(name, config_blob(name, family, "router"), (json_blob("router", routing), _licence()))


def config_blob(name: str, family: Family, model_format: str, **extra: str) -> Blob:
    """The config blob; the name in its description keeps variants apart that behave the same."""
    document = {
        "model_format": model_format,
        "family": family.name,
        "parameter_size": family.parameter_size,
        "context_length": family.context_length,
        "languages": list(family.languages),
        "description": f"Stand-in for {name}",
        "source": _repository(name).source,
        "license": "Apache-2.0",
        "release_date": "2026-10-01",
        **extra,
    }
    return Blob(CONFIG_TYPE, Held(json_bytes(document)))


def _repository(name: str) -> Repository:
    return Repository("standin", name.replace(":", "-"))


def _common_layers(behaviour: Behaviour) -> tuple[Blob, ...]:
    return json_blob("decision", behaviour.document()), json_blob("calibration", {"temperature": 1.0}), _licence()


def _licence() -> Blob:
    return text_blob("license", "The stand-in's models are made of nothing and may be used for anything.\n")


def _with_damaged_decision(model: Model) -> Model:
    """Serve other bytes than the manifest promises; the decision layer alone would be shared with other models."""
    graph, *rest = model.layers
    return replace(model, layers=(replace(graph, served=Damaged(graph.content)), *rest))


def _bytes(label: str) -> Content:
    """A few kilobytes that differ by their label."""
    return Held((label + "\n").encode() * 100)
