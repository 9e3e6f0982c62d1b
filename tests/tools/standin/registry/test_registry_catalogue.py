"""What the stand-in registry publishes: shapes of spec section 3.2, in bytes that never vary."""

import hashlib
import json
from typing import Any

import pytest

from tools.standin.registry.catalogue import Catalogue, build_catalogue
from tools.standin.registry.manifests import Origins
from tools.standin.registry.names import TagName

ORIGINS = Origins("http://registry.example:8080")
ONNX_TAGS = [
    "laya:en",
    "laya:multilingual",
    "nli:latest",
    "laya:en-better",
    "laya:en-equal",
    "laya:en-worse",
    "laya:en-overconfident",
    "laya:en-wrong-device",
    "laya:en-on-gpu",
    "laya:en-wrong-digest",
    "laya:en-unpinned",
    "laya:en-no-load",
    "laya:en-slow",
    "laya:en-crash",
    "laya:en-broken",
    "laya:en-large",
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return build_catalogue(ORIGINS)


def document(catalogue: Catalogue, tag: str) -> dict[str, Any]:
    parsed = json.loads(catalogue.manifests[TagName.parse(tag)])
    assert isinstance(parsed, dict)
    return parsed


def served(catalogue: Catalogue, descriptor: dict[str, Any]) -> bytes:
    (url,) = descriptor["urls"]
    path = url.removeprefix(ORIGINS.registry).removeprefix(ORIGINS.weights)
    content = catalogue.files[path] if path in catalogue.files else catalogue.blobs[path.removeprefix("/blobs/sha256-")]
    return content.read(0, content.size)


def kinds(manifest: dict[str, Any]) -> list[str]:
    return [layer["mediaType"].removeprefix("application/vnd.ollaya.") for layer in manifest["layers"]]


def behaviour(catalogue: Catalogue, tag: str) -> dict[str, Any]:
    (layer,) = [layer for layer in document(catalogue, tag)["layers"] if layer["mediaType"].endswith(".decision")]
    parsed = json.loads(served(catalogue, layer))
    assert isinstance(parsed, dict)
    return parsed


def test_equal_origins_give_equal_bytes() -> None:
    assert build_catalogue(ORIGINS).manifests == build_catalogue(ORIGINS).manifests


def test_other_origins_give_other_digests(catalogue: Catalogue) -> None:
    moved = build_catalogue(Origins("http://mirror.example"))
    name = TagName.parse("laya:en")
    assert moved.manifests[name] != catalogue.manifests[name]


@pytest.mark.parametrize("tag", ONNX_TAGS)
def test_an_onnx_model_has_both_precisions_and_every_layer(catalogue: Catalogue, tag: str) -> None:
    manifest = document(catalogue, tag)
    assert kinds(manifest) == [
        "graph.onnx",
        "graph.onnx",
        "weights",
        "tokenizer",
        "decision",
        "calibration",
        "license",
    ]
    assert [layer["annotations"]["org.ollaya.precision"] for layer in manifest["layers"][:2]] == ["fp16", "fp32"]


@pytest.mark.parametrize("tag", ONNX_TAGS)
def test_every_blob_is_served_as_promised_except_the_broken_models(catalogue: Catalogue, tag: str) -> None:
    manifest = document(catalogue, tag)
    descriptors = [manifest["config"], *manifest["layers"]]
    wrong = [
        descriptor["mediaType"]
        for descriptor in descriptors
        if f"sha256:{hashlib.sha256(served(catalogue, descriptor)).hexdigest()}" != descriptor["digest"]
    ]
    assert wrong == (["application/vnd.ollaya.graph.onnx"] if tag == "laya:en-broken" else [])
    assert all(len(served(catalogue, descriptor)) == descriptor["size"] for descriptor in descriptors)


def test_weights_and_tokenizer_come_from_a_pinned_commit_elsewhere(catalogue: Catalogue) -> None:
    layers = document(catalogue, "laya:en")["layers"]
    urls = [layer["urls"][0] for layer in layers]
    assert [url.startswith("https://huggingface.co/") for url in urls] == [
        False,
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    owner, repository, resolve, commit, file = urls[2].removeprefix("https://huggingface.co/").split("/")
    assert (owner, repository, resolve, len(commit), file) == ("standin", "laya-en", "resolve", 40, "model.safetensors")


def test_every_tag_has_a_digest_of_its_own(catalogue: Catalogue) -> None:
    assert len(set(catalogue.manifests.values())) == len(catalogue.manifests)


def test_manifests_are_written_with_two_spaces_and_no_newline_at_the_end(catalogue: Catalogue) -> None:
    data = catalogue.manifests[TagName.parse("laya:en")]
    assert data.startswith(b'{\n  "schemaVersion": 2,\n')
    assert data.endswith(b"}")


def test_candidates_order_by_quality(catalogue: Catalogue) -> None:
    error = {tag: behaviour(catalogue, tag)["error"] for tag in ONNX_TAGS}
    assert error["laya:en-better"] < error["laya:en"] == error["laya:en-equal"] < error["laya:en-worse"]
    assert error["laya:multilingual"] == 0.20
    assert behaviour(catalogue, "laya:en-overconfident")["temperature"] < 1
    assert behaviour(catalogue, "laya:en-slow")["load_seconds"] > behaviour(catalogue, "laya:en")["load_seconds"]


def test_models_that_behave_set_no_switch(catalogue: Catalogue) -> None:
    misbehaving = {tag for tag in ONNX_TAGS if behaviour(catalogue, tag)["switches"]}
    wrong = {f"laya:en-{what}" for what in ("wrong-device", "on-gpu", "wrong-digest", "unpinned")}
    assert misbehaving == {*wrong, "laya:en-no-load", "laya:en-crash"}


def test_the_router_names_its_targets(catalogue: Catalogue) -> None:
    manifest = document(catalogue, "laya:latest")
    assert kinds(manifest) == ["router", "license"]
    assert json.loads(served(catalogue, manifest["config"]))["model_format"] == "router"
    assert json.loads(served(catalogue, manifest["layers"][0])) == {
        "strategy": "script",
        "default": "english",
        "routes": {"english": "laya:en", "multilingual": "laya:multilingual"},
    }


def test_a_gguf_model_has_one_quantized_file(catalogue: Catalogue) -> None:
    manifest = document(catalogue, "jevk5:latest")
    assert kinds(manifest) == ["weights.gguf", "decision", "calibration", "license"]
    assert manifest["layers"][0]["annotations"] == {"org.ollaya.quantization": "Q8_0"}
    assert json.loads(served(catalogue, manifest["config"]))["engine"] == "llama"


def test_ordinary_models_are_small_and_one_needs_the_range_path(catalogue: Catalogue) -> None:
    def size(tag: str) -> int:
        manifest = document(catalogue, tag)
        return sum(descriptor["size"] for descriptor in [manifest["config"], *manifest["layers"]])

    assert all(size(tag) < 64 * 1024 for tag in ONNX_TAGS if tag != "laya:en-large")
    assert size("laya:en-large") > 32 * 1024 * 1024


class TestUnusualManifests:
    def test_a_layer_without_urls(self, catalogue: Catalogue) -> None:
        assert "urls" not in document(catalogue, "odd:no-urls")["layers"][0]

    def test_an_unknown_media_type(self, catalogue: Catalogue) -> None:
        assert kinds(document(catalogue, "odd:unknown-media-type"))[-1] == "hologram"

    def test_an_unsupported_format(self, catalogue: Catalogue) -> None:
        config = document(catalogue, "odd:unsupported-format")["config"]
        assert json.loads(served(catalogue, config))["model_format"] not in {"onnx", "gguf", "router"}

    def test_a_malformed_digest(self, catalogue: Catalogue) -> None:
        assert ".." in document(catalogue, "odd:malformed-digest")["layers"][0]["digest"]

    def test_another_schema_version(self, catalogue: Catalogue) -> None:
        assert document(catalogue, "odd:schema-1")["schemaVersion"] == 1

    def test_a_huge_manifest(self, catalogue: Catalogue) -> None:
        assert len(catalogue.manifests[TagName.parse("odd:huge")]) > 8 * 1024 * 1024

    def test_a_host_in_capitals(self, catalogue: Catalogue) -> None:
        url = document(catalogue, "odd:upper-case-host")["config"]["urls"][0]
        assert url.startswith("http://REGISTRY.EXAMPLE:8080/")

    def test_no_json(self, catalogue: Catalogue) -> None:
        with pytest.raises(json.JSONDecodeError):
            json.loads(catalogue.manifests[TagName.parse("odd:invalid-json")])

    def test_json_that_is_no_object(self, catalogue: Catalogue) -> None:
        assert json.loads(catalogue.manifests[TagName.parse("odd:not-an-object")]) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("laya", TagName("library", "laya", "latest")),
        ("laya:en", TagName("library", "laya", "en")),
        ("acme/laya:en", TagName("acme", "laya", "en")),
    ],
)
def test_short_names_have_defaults(text: str, name: TagName) -> None:
    assert TagName.parse(text) == name


@pytest.mark.parametrize("text", ["", ":en", "a/b/c:d", "laya@sha256:00", "-laya", "laya:", "x" * 81])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no model name"):
        TagName.parse(text)
