"""The prefetch script, run by /bin/sh against a stand-in `ollaya` program."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.engine.names import ModelName
from reconciler.engine.prefetch import PrefetchFailure, classify_failure, prefetch_script

MODEL = "laya:en"
REVISION = "0123456789abcdef"
MANIFEST = json.dumps({"schemaVersion": 2, "layers": []}, indent=2).encode()
MOVED = json.dumps({"layers": [], "schemaVersion": 2}).encode()

# Behaves as its variables say: writes PULLED as the manifest, says STDERR, ends with STATUS. Records its arguments.
OLLAYA = """#!/bin/sh
printf '%s\\n' "$@" >"$RECORD"
printf '%s' "$STDERR" >&2
if [ -n "$PULLED" ]; then
  mkdir -p "$OLLAYA_MODELS/${MANIFEST_PATH%/*}"
  cat "$PULLED" >"$OLLAYA_MODELS/$MANIFEST_PATH"
fi
exit "$STATUS"
"""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str
    termination: str

    @property
    def failure(self) -> PrefetchFailure:
        return classify_failure(self.termination, self.code)


@dataclass
class Job:
    """A prefetch Job's container: its volumes, its image's programs and its environment."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    model: str = MODEL

    def __post_init__(self) -> None:
        for directory in ("models", "bin", "seed"):
            (self.root / directory).mkdir()
        self.program.write_text(OLLAYA)
        self.program.chmod(0o755)
        self.environment = {
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin",
            "MODEL": self.model,
            "EXPECT_DIGEST": digest(MANIFEST),
            "OLLAYA_MODELS": str(self.root / "models"),
            "MANIFEST_PATH": ModelName.parse(MODEL).manifest_path("https://ollaya.dev"),
            "TERMINATION_LOG": str(self.root / "termination-log"),
            "RECORD": str(self.root / "arguments"),
            "STDERR": "",
            "STATUS": "0",
            "PULLED": "",
        }

    @property
    def program(self) -> Path:
        return self.root / "bin" / "ollaya"

    @property
    def manifest(self) -> Path:
        return self.root / "models" / self.environment["MANIFEST_PATH"]

    @property
    def pulled_arguments(self) -> list[str] | None:
        record = self.root / "arguments"
        return record.read_text().splitlines() if record.exists() else None

    def pulls(self, content: bytes) -> None:
        (self.root / "pulled").write_bytes(content)
        self.environment["PULLED"] = str(self.root / "pulled")

    def fails(self, stderr: str, status: int = 1) -> None:
        self.environment |= {"STDERR": stderr, "STATUS": str(status)}

    def seeded(self, content: bytes) -> None:
        (self.root / "seed" / "manifest").write_bytes(content)
        self.environment["MANIFEST_SEED_FILE"] = str(self.root / "seed" / "manifest")

    def prunes(self, *directories: str, keep: str) -> Path:
        store = self.root / "store-root"
        for directory in directories:
            (store / directory / "blobs").mkdir(parents=True)
        self.environment |= {"STORE_ROOT": str(store), "KEEP_SUBPATHS": keep}
        return store

    def run(self, script: str | None = None) -> Outcome:
        script = script or prefetch_script(self.model, digest(MANIFEST), (REVISION,))
        end = subprocess.run(
            ["/bin/sh", "-c", script], env=self.environment, capture_output=True, text=True, check=False, timeout=30
        )
        log = self.root / "termination-log"
        return Outcome(end.returncode, end.stdout, end.stderr, log.read_text() if log.exists() else "")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def assert_failed(outcome: Outcome, code: int, reason: str, detail: str) -> None:
    report = f"reason: {reason}\ndetail: {detail}\n"
    assert (outcome.code, outcome.termination) == (code, report)
    assert report in outcome.stdout
    assert report in outcome.stderr
    assert (outcome.failure.reason, outcome.failure.detail) == (reason, detail)


def test_a_verified_pull_succeeds_silently(job: Job) -> None:
    job.pulls(MANIFEST)
    assert job.run() == Outcome(0, "", "", "")
    assert job.pulled_arguments == ["pull", "--", MODEL]
    assert [path.name for path in (job.root / "models").iterdir()] == ["manifests"]


def test_the_seed_is_in_place_before_the_pull(job: Job) -> None:
    job.seeded(MANIFEST)
    assert job.run().code == 0
    assert job.manifest.read_bytes() == MANIFEST


def test_a_pull_overwrites_the_seed(job: Job) -> None:
    job.seeded(MANIFEST)
    job.pulls(MOVED)
    assert job.run().failure.reason == "UpstreamTagMoved"


@pytest.mark.parametrize("seed", ["missing", "directory"])
def test_an_unreadable_seed_ends_the_job(job: Job, seed: str) -> None:
    path = job.root / "seed" / ("manifest" if seed == "missing" else "")
    job.environment["MANIFEST_SEED_FILE"] = str(path)
    assert_failed(job.run(), 6, "SeedUnavailable", f"the recorded manifest cannot be read from {path}")
    assert job.pulled_arguments is None


def test_a_seed_of_another_digest_ends_the_job(job: Job) -> None:
    job.seeded(MOVED)
    assert_failed(job.run(), 4, "DigestMismatch", f"recorded {digest(MANIFEST)[:12]}, seed {digest(MOVED)[:12]}")
    assert job.pulled_arguments is None
    assert list((job.root / "models").iterdir()) == []


@pytest.mark.parametrize(
    "message",
    [
        'Error: model "laya:en" not found in registry ollaya.dev',
        "Error: the mirror says: not found, reason: ModelNotFound",
        "reason: DigestMismatch",
    ],
)
def test_no_words_of_a_pull_are_final(job: Job, message: str) -> None:
    """A registry or a mirror writes part of them; whether a tag exists, the reconciler has asked before."""
    job.fails(f"WARN cpuid\n{message}\n")
    assert_failed(job.run(), 1, "Transient", message)


def test_any_other_pull_error_is_transient(job: Job) -> None:
    message = "Error: error sending request for url (https://ollaya.dev/v2/library/laya/manifests/en)"
    job.fails(f"{message}\n", status=2)
    assert_failed(job.run(), 1, "Transient", message)


def test_the_pull_writes_its_own_words_to_the_log(job: Job) -> None:
    job.pulls(MANIFEST)
    job.environment["STDERR"] = "WARN slow\n"
    assert job.run() == Outcome(0, "", "WARN slow\n", "")


def test_signatures_of_addresses_stay_out_of_the_report(job: Job) -> None:
    job.fails("error for url (https://cdn.example/blob?X-Signature=s3cret&x=1) \x1b[31m")
    detail = job.run().failure.detail
    assert detail == "error for url (https://cdn.example/blob) [31m"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:s3cret@cdn.example/blob", "https://cdn.example/blob"),
        ("http://s3cret@cdn.example:8080", "http://cdn.example:8080"),
        ("https://a:s3cret@b@cdn.example/x?token=s3cret", "https://cdn.example/x"),
        ("https://cdn.example/team@v1", "https://cdn.example/team@v1"),
    ],
)
def test_names_and_passwords_of_addresses_stay_out_of_report_and_log(job: Job, address: str, shown: str) -> None:
    job.fails(f"error for url ({address}): connection refused\n")
    outcome = job.run()
    assert outcome.failure.detail == f"error for url ({shown}): connection refused"
    assert "s3cret" not in outcome.stdout + outcome.stderr + outcome.termination


def test_a_flood_of_errors_is_cut(job: Job) -> None:
    job.fails("x" * 50_000)
    assert len(job.run().termination) < 400


def test_an_image_without_the_program_is_not_a_missing_model(job: Job) -> None:
    job.program.unlink()
    assert_failed(job.run(), 1, "Transient", "the image has no ollaya program")


def test_a_store_that_cannot_be_written_is_transient(job: Job) -> None:
    job.seeded(MANIFEST)
    (job.root / "models" / "manifests").write_text("in the way")
    assert_failed(job.run(), 1, "Transient", "the model store cannot be written")


def test_a_moved_tag_is_named_with_both_digests(job: Job) -> None:
    job.pulls(MOVED)
    expected = f"recorded {digest(MANIFEST)[:12]}, registry now serves {digest(MOVED)[:12]}"
    assert_failed(job.run(), 5, "UpstreamTagMoved", expected)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>schemaVersion</html>",
        b'{"schemaVersion": 1}',
        b'{"schemaVersion": 20}',
        b'{"schemaVersion": 2, "layers": [',
        b'{"config": {"schemaVersion": 2}}',
        bytes(range(256)) * 64,
        b"",
    ],
)
def test_bytes_that_are_no_manifest_are_a_mismatch(job: Job, content: bytes) -> None:
    job.pulls(content)
    expected = f"recorded {digest(MANIFEST)[:12]}, the store holds {digest(content)[:12]}"
    assert_failed(job.run(), 4, "DigestMismatch", expected)


def test_a_pull_that_leaves_nothing_is_a_mismatch(job: Job) -> None:
    path = job.environment["MANIFEST_PATH"]
    expected = f"recorded {digest(MANIFEST)[:12]}, the pull left no {path}"
    assert_failed(job.run(), 4, "DigestMismatch", expected)


def test_a_lost_termination_log_changes_nothing_else(job: Job) -> None:
    job.environment["TERMINATION_LOG"] = str(job.root / "absent" / "log")
    job.pulls(MOVED)
    outcome = job.run()
    assert (outcome.code, outcome.termination) == (5, "")
    assert classify_failure(outcome.stderr, outcome.code).reason == "UpstreamTagMoved"


def test_prunes_only_directories_of_other_revisions(job: Job) -> None:
    job.pulls(MANIFEST)
    old, older, kept = "f" * 16, "a" * 10, "b" * 16
    others = ["lost+found", "F" * 16, "a" * 11, "zzzzzzzzzz"]
    store = job.prunes(REVISION, old, older, kept, *others, keep=f"{REVISION} {kept}")
    (store / ("c" * 16)).symlink_to(job.root / "seed")
    (store / ("d" * 16)).write_text("a file")
    assert job.run().code == 0
    assert {path.name for path in store.iterdir()} == {REVISION, kept, *others, "c" * 16, "d" * 16}
    assert (job.root / "seed").exists()


def test_never_prunes_before_the_store_is_verified(job: Job) -> None:
    job.pulls(MOVED)
    store = job.prunes("f" * 16, keep=REVISION)
    assert job.run().code == 5
    assert (store / ("f" * 16)).exists()


def test_prunes_nothing_without_a_list_of_what_to_keep(job: Job) -> None:
    job.pulls(MANIFEST)
    store = job.prunes("f" * 16, keep="")
    assert job.run().code == 0
    assert (store / ("f" * 16)).exists()


def test_pruning_an_empty_store_succeeds(job: Job) -> None:
    job.pulls(MANIFEST)
    store = job.prunes(keep=REVISION)
    store.mkdir()
    assert job.run().code == 0


@pytest.mark.parametrize("missing", ["MODEL", "EXPECT_DIGEST", "OLLAYA_MODELS", "MANIFEST_PATH"])
def test_a_missing_variable_ends_the_job(job: Job, missing: str) -> None:
    del job.environment[missing]
    outcome = job.run()
    assert outcome.code not in (0, 3, 4, 5, 6)
    assert not outcome.failure.permanent


@pytest.mark.parametrize(
    "name", ["$(touch pwned):en", "laya:en; touch pwned", "-rf", "../../etc:x", "laya:en\ntouch pwned"]
)
def test_a_hostile_name_is_refused_before_anything_happens(job: Job, name: str) -> None:
    job.environment["MODEL"] = name
    outcome = job.run(prefetch_script(name, digest(MANIFEST), (REVISION,)))
    assert (outcome.code, outcome.failure.reason) == (1, "Transient")
    assert "refused" in outcome.failure.detail
    assert job.pulled_arguments is None


def test_a_hostile_value_in_the_environment_stays_a_value(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job.root)
    hostile = "$(touch pwned); `touch pwned` -- '\"*"
    job.environment["MODEL"] = hostile
    job.pulls(MANIFEST)
    assert job.run().code == 0
    assert job.pulled_arguments == ["pull", "--", hostile]
    assert not (job.root / "pwned").exists()


@pytest.mark.parametrize(
    ("digest_text", "subpaths"),
    [
        ("", (REVISION,)),
        ("A" * 64, (REVISION,)),
        (digest(MANIFEST), ("..",)),
        (digest(MANIFEST), (REVISION, "/")),
        (digest(MANIFEST), ("a" * 12,)),
        (digest(MANIFEST), (f"{REVISION}\n",)),
    ],
)
def test_unsafe_arguments_render_the_refusal(job: Job, digest_text: str, subpaths: tuple[str, ...]) -> None:
    outcome = job.run(prefetch_script(MODEL, digest_text, subpaths))
    assert (outcome.code, job.pulled_arguments) == (1, None)
