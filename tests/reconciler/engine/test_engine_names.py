"""Model names: grammar, canonical form, registry address and manifest path."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.engine.errors import EngineError, InvalidModelName
from reconciler.engine.names import ModelName

DEFAULT_URL = "https://ollaya.dev"

part = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
host = st.one_of(
    st.sampled_from(["ollaya.dev", "OLLAYA.dev:443", "ollaya.dev:80", "localhost", "mirror", "reg.corp:5000"]),
    st.from_regex(r"[a-z0-9-]{1,5}(\.[a-z0-9-]{1,5}){0,2}(:[0-9]{1,4})?", fullmatch=True),
)


dotted_host = host.filter(lambda text: "." in text or ":" in text)
plain_namespace = part.filter(lambda text: "." not in text)


@st.composite
def model_texts(draw: st.DrawFn) -> str:
    """Texts of every accepted form."""
    scheme = draw(st.sampled_from(["", "http://", "https://", "HTTPS://"]))
    known_host = draw(host if scheme else st.none() | dotted_host)
    namespace = draw(st.sampled_from([None, "library", "localhost"]) | (part if known_host else plain_namespace))
    tag = draw(st.just("") | part.map(lambda text: f":{text}"))
    path = "/".join(segment for segment in (known_host, namespace, draw(part)) if segment)
    return f" {scheme}{path}{tag}\n"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("laya:en", "laya:en"),
        ("  Laya:EN\t", "laya:en"),
        ("laya", "laya:latest"),
        ("library/laya:en", "laya:en"),
        ("team/laya:en", "team/laya:en"),
        ("ollaya.dev/laya:en", "laya:en"),
        ("ollaya.dev:443/library/laya:en", "laya:en"),
        ("http://ollaya.dev:80/laya:en", "laya:en"),
        ("ollaya.dev:80/laya:en", "ollaya.dev:80/library/laya:en"),
        ("ollaya.dev/team/laya:en", "team/laya:en"),
        ("reg.corp:5000/laya:en", "reg.corp:5000/library/laya:en"),
        ("localhost/laya:en", "localhost/library/laya:en"),
        ("https://mirror/laya:en", "https://mirror/library/laya:en"),
        ("https://reg.corp/laya:en", "reg.corp/library/laya:en"),
        ("http://reg.corp/laya:en", "http://reg.corp/library/laya:en"),
        ("ollaya.dev/name.space/laya:en", "ollaya.dev/name.space/laya:en"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert ModelName.parse(text).canonical() == canonical


def test_canonical_form_follows_the_default_host() -> None:
    name = ModelName.parse("mirror.corp/laya:en")
    assert name.canonical("mirror.corp") == "laya:en"
    assert ModelName.parse("ollaya.dev/laya:en").canonical("mirror.corp") == "ollaya.dev/library/laya:en"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":en",
        "laya:",
        "a/b/c/d:e",
        "host..x/laya:en",
        ".host/laya:en",
        "host:123456/laya:en",
        "host:65536/laya:en",
        "host:/laya:en",
        "http://laya:en",
        "http:///laya:en",
        "ftp://host/laya:en",
        "../laya:en",
        "..:en",
        "team/../laya:en",
        "-laya:en",
        "laya:-en",
        "laya:en:de",
        "laya@sha256:" + "a" * 64,
        "laya:en;id",
        "$(id):en",
        "`id`:en",
        "laya en:x",
        "laya\n:en",
        "laya:en\x00",
        "user@host.x/laya:en",
        "\u212aev:en",
        "läya:en",
        f"{'m' * 81}:en",
        f"laya:{'t' * 81}",
        "x" * 100_000,
    ],
)
def test_refuses_what_is_not_a_name(text: str) -> None:
    with pytest.raises(InvalidModelName) as refusal:
        ModelName.parse(text)
    assert isinstance(refusal.value, EngineError)
    assert len(str(refusal.value)) < 300


def test_longest_parts_are_accepted() -> None:
    name = ModelName.parse(f"{'n' * 80}/{'m' * 80}:{'t' * 80}")
    assert (len(name.namespace), len(name.model), len(name.tag)) == (80, 80, 80)


@given(text=model_texts(), default_host=st.sampled_from(["ollaya.dev", "mirror", "localhost", "reg.corp:5000"]))
@example(text="ollaya.dev/foo.bar/m:t", default_host="ollaya.dev")
@example(text="https://mirror/m:t", default_host="ollaya.dev")
def test_canonical_form_is_idempotent(text: str, default_host: str) -> None:
    canonical = ModelName.parse(text).canonical(default_host)
    assert ModelName.parse(canonical).canonical(default_host) == canonical


def as_the_runtime_reads(reference: str) -> tuple[str, str, str, str]:
    """Host, namespace, model and tag: the runtime counts slashes and never guesses hosts."""
    path, _, tag = reference.removeprefix("http://").rpartition(":")
    segments = path.split("/")
    namespace = segments[-2] if len(segments) > 1 else "library"
    return "/".join(segments[:-2]), namespace, segments[-1], tag


@given(text=model_texts())
def test_the_runtime_reads_the_same_name(text: str) -> None:
    name = ModelName.parse(text)
    assert as_the_runtime_reads(name.reference) == (name.host or "", name.namespace, name.model, name.tag)
    assert name.reference.startswith("http://") is (name.scheme == "http")


@given(text=st.one_of(st.text(max_size=60), st.text(alphabet="aA./:-_@ ~$\n", max_size=20)))
def test_hostile_text_is_refused_or_harmless(text: str) -> None:
    try:
        name = ModelName.parse(text)
    except InvalidModelName:
        return
    path = name.manifest_path(DEFAULT_URL)
    assert re.fullmatch(r"manifests(/[a-z0-9_-][a-z0-9_.-]*){4}", path)
    assert ".." not in path.split("/")
    assert ModelName.parse(name.canonical()).canonical() == name.canonical()


@pytest.mark.parametrize(
    ("text", "base_url", "host", "insecure"),
    [
        ("laya:en", "https://ollaya.dev", "ollaya.dev", False),
        ("reg.corp:5000/laya:en", "https://reg.corp:5000", "reg.corp:5000", False),
        ("http://reg.corp/laya:en", "http://reg.corp", "reg.corp", True),
    ],
)
def test_registry_of_a_name(text: str, base_url: str, host: str, insecure: bool) -> None:
    address = ModelName.parse(text).registry(DEFAULT_URL)
    assert (address.base_url, address.host, address.insecure) == (base_url, host, insecure)


def test_names_without_a_host_belong_to_the_configured_registry() -> None:
    address = ModelName.parse("laya:en").registry("http://mirror.corp:8080/models/")
    assert (address.base_url, address.host, address.insecure) == (
        "http://mirror.corp:8080/models",
        "mirror.corp:8080",
        True,
    )


@pytest.mark.parametrize(
    ("text", "registry", "path"),
    [
        ("laya:en", DEFAULT_URL, "manifests/ollaya.dev/library/laya/en"),
        ("http://127.0.0.1:8123/team/laya:en", DEFAULT_URL, "manifests/127.0.0.1_8123/team/laya/en"),
        ("laya:en", "http://mirror:5000", "manifests/mirror_5000/library/laya/en"),
        ("laya:en", "https://x.corp/y", "manifests/x.corp/y/library/laya/en"),
    ],
)
def test_manifest_path(text: str, registry: str, path: str) -> None:
    assert ModelName.parse(text).manifest_path(registry) == path


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("Library/Laya:EN", "laya:en"),
        ("team/laya:en", "team/laya:en"),
        # The runtime would take the host of `mirror.corp/laya:en` for a namespace.
        ("mirror.corp/laya:en", "mirror.corp/library/laya:en"),
        ("HTTP://mirror:5000/laya:en", "http://mirror:5000/library/laya:en"),
        ("https://mirror/laya:en", "mirror/library/laya:en"),
    ],
)
def test_reference_is_the_runtimes_spelling(text: str, reference: str) -> None:
    assert ModelName.parse(text).reference == reference
