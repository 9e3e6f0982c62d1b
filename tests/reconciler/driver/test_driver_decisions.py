"""The driver's pure parts: events, recovery, history, process table, messages, argument checks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.driver import DriverSettings, FailureReason, IncompatibleToolError, Operation, OperationKind, messages
from reconciler.driver.backend_files import file_backend_root, url_for_cli
from reconciler.driver.backend_layout import superseded_history_files
from reconciler.driver.command import cli_environment, worker_environment
from reconciler.driver.events import MAX_DIAGNOSTICS, EngineReport, EventCollector
from reconciler.driver.recovery import LockOwner, RecoveryStep, Symptoms, next_step, parse_lock_owners
from reconciler.driver.sessions import parse_stat
from reconciler.driver.versions import SUPPORTED_SDK, check_cli, check_sdk
from tests.reconciler.driver.driver_programs import declare_nothing

OWNER = LockOwner(host="pod", pid=7, locked_at=datetime(2026, 5, 1, tzinfo=UTC))


def collect(*events: Any) -> EngineReport:
    collector = EventCollector()
    for event in events:
        collector.add(event if isinstance(event, str | bytes) else json.dumps(event))
    return collector.report()


# --- events


def test_unchanged_resources_are_counted_but_not_listed() -> None:
    report = collect(
        {"resourcePreEvent": {"metadata": {"op": "same", "urn": "u", "type": "t"}}},
        {"resourcePreEvent": {"metadata": {"op": "refresh", "urn": "u", "type": "t"}}},
        {"summaryEvent": {"resourceChanges": {"same": 1}}},
        {"cancelEvent": {}},
    )
    assert report.steps == ()
    assert report.changes == {"same": 1}
    assert report.unreadable == 0


def test_diagnostics_are_bounded_and_quiet_ones_dropped() -> None:
    loud = [{"diagnosticEvent": {"severity": "error", "message": str(number)}} for number in range(MAX_DIAGNOSTICS * 2)]
    report = collect({"diagnosticEvent": {"severity": "debug", "message": "x"}}, *loud)
    assert [diagnostic.message for diagnostic in report.diagnostics] == [str(n) for n in range(MAX_DIAGNOSTICS)]


@given(st.one_of(st.text(), st.binary()))
def test_no_input_breaks_the_collector(event: str | bytes) -> None:
    assert collect(event).steps == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["diagnosticEvent", "resourcePreEvent", "summaryEvent", "policyEvent", "cancelEvent"])


@given(st.lists(st.dictionaries(KINDS, JSON, max_size=2), max_size=5))
def test_known_kinds_with_any_content_do_not_break_it(events: list[dict[str, Any]]) -> None:
    assert collect(*events).unreadable <= len(events)


# --- recovery


@given(
    st.sampled_from(OperationKind),
    st.builds(
        Symptoms,
        reason=st.none() | st.sampled_from(FailureReason),
        stack_missing=st.booleans(),
        pending_operations=st.booleans(),
        lock_owners=st.sampled_from([(), (OWNER,), (OWNER, OWNER)]),
    ),
    st.sets(st.sampled_from(RecoveryStep)),
    st.booleans(),
)
def test_no_step_is_taken_twice_and_no_lock_of_the_living_touched(
    kind: OperationKind, symptoms: Symptoms, taken: set[RecoveryStep], lives: bool
) -> None:
    step = next_step(kind, symptoms, taken, lambda _: lives)
    assert step not in taken
    if step is RecoveryStep.CANCEL_LOCKS:
        assert symptoms.reason is FailureReason.LOCKED
        assert symptoms.lock_owners
        assert not lives
    if kind is OperationKind.PREVIEW:
        assert step is not RecoveryStep.CLEAR_PENDING_CREATES


def test_a_lock_whose_owner_cannot_be_read_is_nobodys_to_delete() -> None:
    text = "currently locked by 2 lock(s).\n  a: created by root@pod (pid 7) at 2026-05-01T00:00:00Z\n  b: created by ?"
    assert parse_lock_owners(text) == ()


def test_lock_owners_are_read_from_the_backends_message() -> None:
    text = (
        "error: the stack is currently locked by 1 lock(s). Either wait …\n"
        "  file:///state/x.json: created by some one@pod (pid 7) at 2026-05-01T02:00:00+02:00"
    )
    assert parse_lock_owners(text) == (OWNER,)


@given(st.text())
def test_no_text_breaks_the_reading_of_locks(text: str) -> None:
    parse_lock_owners(text)
    parse_lock_owners(f"currently locked by 1 lock\n created by a@b (pid 1) at {text}")


# --- history


@given(st.sets(st.integers(0, 10**20), max_size=12), st.integers(0, 5))
def test_the_newest_entries_stay_whole(times: set[int], keep: int) -> None:
    suffixes = ("history.json.gz", "checkpoint.json.gz", "history.json", "checkpoint.json.gz.attrs")
    names = [f"a.b-{time}.{suffix}" for time in times for suffix in suffixes]
    others = ["a.b-x.history.json", "other-1.history.json", "a_b-1.history.json.gz", "a.b-1.log"]
    removed = set(superseded_history_files([*names, *others], "a.b", keep))
    newest = sorted(times, reverse=True)[:keep]
    assert removed == {name for name in names if int(name.split("-")[1].split(".")[0]) not in newest}


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("file:///var/lib/state", Path("/var/lib/state")),
        ("file:///var/lib/my%20state?metadata=skip", Path("/var/lib/my state")),
    ],
)
def test_a_file_backend_is_a_directory(url: str, root: Path) -> None:
    assert file_backend_root(url) == root
    assert file_backend_root(url_for_cli(url)) == root


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///var/lib/state", "file:///var/lib/state?metadata=skip"),
        ("file://~/my%20state?no_tmp_dir=&metadata=", "file://~/my%20state?no_tmp_dir=&metadata=skip"),
        ("s3://states/blue?region=eu-1&metadata=x", "s3://states/blue?region=eu-1&metadata=x"),
    ],
)
def test_the_cli_keeps_no_attributes_beside_a_state(url: str, told: str) -> None:
    assert url_for_cli(url) == told


# --- process table


def test_a_command_with_parentheses_and_spaces_parses() -> None:
    fields = "S 10 20 30 " + " ".join(str(number) for number in range(40))
    stat = parse_stat(f"42 (evil) ) name) {fields}")
    assert (stat.pid, stat.command, stat.state, stat.session) == (42, "evil) ) name", "S", 30)


@pytest.mark.parametrize("text", ["", "42 (a) S", "x (a) " + "1 " * 30])
def test_what_is_no_process_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"(not the content|invalid literal)"):
        parse_stat(text)


# --- environment


def settings(**changes: Any) -> DriverSettings:
    fields = {
        "pulumi": Path("/bin/pulumi"),
        "pulumi_home": Path("/home/p"),
        "backend_url": "file:///state",
        "work_directory": Path("/work"),
    }
    return DriverSettings(**{**fields, **changes})


def test_a_passphrase_travels_as_a_file_name() -> None:
    environment = cli_environment(settings(passphrase_file=Path("/run/secret")), {}, Path("/tmp"))
    assert environment["PULUMI_CONFIG_PASSPHRASE_FILE"] == "/run/secret"
    assert "PULUMI_CONFIG_PASSPHRASE" not in environment


def test_without_a_passphrase_file_the_passphrase_is_empty_whatever_is_set_outside() -> None:
    environment = cli_environment(settings(), {"PULUMI_CONFIG_PASSPHRASE": "ambient"}, Path("/tmp"))
    assert environment["PULUMI_CONFIG_PASSPHRASE"] == ""


AMBIENT = {
    "PATH": "/bin",
    "HOME": "/root",
    "https_proxy": "http://proxy:3128",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
}
SECRETS = {
    "DATABASE_PASSWORD": "s",
    "KUBECONFIG": "/elsewhere",
    "PULUMI_ACCESS_TOKEN": "s",
    "PULUMI_K8S_DELETE_UNREACHABLE": "true",
    "GITHUB_TOKEN": "s",
    "LD_PRELOAD": "/tmp/evil.so",
    "aws_secret_access_key": "s",
}
BUCKET = {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s", "AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}


@pytest.mark.parametrize(("backend", "opens"), [("file:///state", False), ("s3://states", True)])
def test_the_engine_gets_what_it_needs_and_nothing_else_that_this_process_knows(backend: str, opens: bool) -> None:
    environment = cli_environment(settings(backend_url=backend), {**AMBIENT, **SECRETS, **BUCKET}, Path("/tmp"))
    assert environment.items() >= AMBIENT.items()
    assert not environment.keys() & SECRETS.keys()
    assert (environment.items() >= BUCKET.items()) is opens
    assert opens or not environment.keys() & BUCKET.keys()


def test_a_worker_knows_nothing_that_opens_a_bucket() -> None:
    environment = worker_environment({**AMBIENT, **SECRETS, **BUCKET}, ["/code"])
    assert environment.items() >= AMBIENT.items()
    assert not environment.keys() & {*SECRETS, *BUCKET}


# --- messages, versions, operations


def test_a_message_survives_the_wire() -> None:
    sent = messages.Finished(collect({"summaryEvent": {"resourceChanges": {"create": 2}}}))
    framed = messages.encode(sent)
    prefix, body = framed[: messages.LENGTH_BYTES], framed[messages.LENGTH_BYTES :]
    assert messages.body_length(prefix) == len(body)
    assert messages.decode_for_driver(body) == sent
    with pytest.raises(msgspec.DecodeError):
        messages.decode_for_worker(body)


def test_an_oversized_message_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="exceeds the limit"):
        messages.body_length(b"\xff\xff\xff\xff")


def test_the_installed_sdk_is_the_supported_one() -> None:
    check_sdk(SUPPORTED_SDK)
    with pytest.raises(IncompatibleToolError, match="was written for"):
        check_sdk("3.999.0")


@pytest.mark.parametrize("reported", ["v3.256.0\n", "3.274.1", "v3.300.0-alpha.1", "v3.274.1+dirty"])
def test_fitting_cli_versions(reported: str) -> None:
    check_cli(reported)


@pytest.mark.parametrize(
    "changes",
    [
        {"stack": ""},
        {"stack": "--force"},
        {"stack": "a/b"},
        {"stack": "a" * 101},
        {"program": None},
        {"kind": OperationKind.DESTROY},
        {"deadline_seconds": 0.0},
        {"deadline_seconds": float("nan")},
    ],
)
def test_contradictory_operations_are_refused(changes: dict[str, Any]) -> None:
    fields = {"kind": OperationKind.UP, "stack": "a", "program": declare_nothing, "deadline_seconds": 1.0}
    with pytest.raises(ValueError, match=r".+"):
        Operation(**{**fields, **changes})


def test_settings_without_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers"):
        settings(workers=0)
