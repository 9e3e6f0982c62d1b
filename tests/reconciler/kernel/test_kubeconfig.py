"""Which kubeconfig is taken: what kubectl would take, or the account of the Pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.kernel.kubeconfig import SeveralKubeconfigsError, kubeconfig_file, kubeconfig_or_account


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def test_the_option_goes_before_the_variable_and_that_before_the_home_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kubeconfig_file(None) == home / ".kube" / "config"
    monkeypatch.setenv("KUBECONFIG", "first:second")
    assert kubeconfig_file(None) == Path("first")
    assert kubeconfig_file("given") == Path("given")


def test_only_where_nothing_is_named_and_no_file_is_there_the_pods_account_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kubeconfig_or_account(None) is None
    assert kubeconfig_or_account(Path("missing")) == Path("missing")
    monkeypatch.setenv("KUBECONFIG", "missing-too")
    assert kubeconfig_or_account(None) == Path("missing-too")
    monkeypatch.delenv("KUBECONFIG")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").touch()
    assert kubeconfig_or_account(None) == home / ".kube" / "config"


def test_files_of_the_variable_that_are_missing_are_skipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, missing = home / "there", home / "missing"
    there.touch()
    monkeypatch.setenv("KUBECONFIG", f"{missing}::{there}:{there}")
    assert kubeconfig_file() == kubeconfig_or_account() == there
    monkeypatch.setenv("KUBECONFIG", f"{missing}:{home / 'missing-too'}")
    assert kubeconfig_file() == kubeconfig_or_account() == missing


def test_several_files_are_refused_since_nobody_merges_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [home / "first", home / "second"]
    for file in files:
        file.touch()
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    for find in (kubeconfig_file, kubeconfig_or_account):
        with pytest.raises(SeveralKubeconfigsError, match=f"{files[0]}, {files[1]}. They are not merged"):
            find()
    assert kubeconfig_file(files[1]) == files[1]
