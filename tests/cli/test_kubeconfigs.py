"""Kubeconfigs that cannot be used: every command that asks a cluster ends with 3, and says what to do."""

from __future__ import annotations

import gc

import pytest

from tests.cli.commands import Dmctl
from tests.policy.manifests import model

_CLUSTERS = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'%s}}]\n"
_REST = "contexts: [{name: d, context: {cluster: %s, user: u}}]\nusers: [{name: u, user: {%s}}]\ncurrent-context: d\n"


def kubeconfig(cluster: str = "", user: str = "", named: str = "c") -> str:
    return _CLUSTERS % cluster + _REST % (named, user)


UNUSABLE = {
    "empty": ("", "its content is no kubeconfig"),
    "text": ("junk", "its content is no kubeconfig"),
    "list": ("[]", "its content is no kubeconfig"),
    "unclosed": ("[", "cannot connect with"),
    "missing cluster": (kubeconfig(named="ghost"), "'ghost' is missing in it"),
    "authority that is none": (kubeconfig(cluster=", certificate-authority-data: YWJj"), "address or credentials"),
    "certificate nowhere": (kubeconfig(user="client-certificate: /nope, client-key: /nope"), "address or credentials"),
    "certificate without key": (kubeconfig(user="client-certificate-data: YWJj"), "address or credentials"),
    "address that is none": (kubeconfig().replace("127.0.0.1:1", "[::"), "address or credentials"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("text", "told"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize(
    "command",
    [
        ("preview", "model.yaml"),
        ("gate", "show", "laya"),
        ("state", "sweep", "--backend=file://.", "--pulumi=pulumi"),
    ],
    ids=["preview", "gate show", "state sweep"],
)
def test_an_unusable_kubeconfig_ends_with_3_and_what_to_do(
    text: str, told: str, command: tuple[str, ...], dmctl: Dmctl
) -> None:
    dmctl.write("model.yaml", model())
    done = dmctl(*command, "--kubeconfig", dmctl.write("kubeconfig", text))
    assert done.code == 3
    assert told in done.err
    assert "Name a kubeconfig with --kubeconfig" in done.err.splitlines()[-1]
    # lightkube leaves the file open into which it wrote half of the credentials: here, and not in another test.
    gc.collect()


def test_several_files_are_not_merged_in_silence(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    dmctl.write("model.yaml", model())
    monkeypatch.setenv("KUBECONFIG", f"{dmctl.write('a', kubeconfig())}:{dmctl.write('b', kubeconfig())}")
    for command in (("preview", "model.yaml"), ("state", "sweep", "--backend=file://.", "--pulumi=pulumi")):
        done = dmctl(*command)
        assert done.code == 3
        assert "KUBECONFIG names several files: a, b." in done.err
