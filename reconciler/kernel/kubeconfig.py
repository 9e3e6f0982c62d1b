"""Which kubeconfig a program takes that runs where kubectl does, or in a Pod."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.kernel.errors import KernelError


class SeveralKubeconfigsError(KernelError):
    """The environment names several files that exist, which kubectl would merge and nobody here does."""


def kubeconfig_file(given: str | Path | None = None) -> Path:
    """Return the kubeconfig as kubectl finds it: the given one, the variable's, the one in the home directory.

    Of the variable's files those that are missing are skipped, unless all of them are.

    Raises:
        SeveralKubeconfigsError: More than one of them exists.
    """
    if given:
        return Path(given)
    named = _named_by_environment()
    if not named:
        return Path.home() / ".kube" / "config"
    existing = [file for file in named if file.exists()]
    if len(existing) > 1:
        raise SeveralKubeconfigsError(
            f"KUBECONFIG names several files: {', '.join(map(str, existing))}. They are not merged here. Set it to one,"
            " or to a file with what `kubectl config view --flatten` prints."
        )
    return (existing or named)[0]


def kubeconfig_or_account(given: str | Path | None = None) -> Path | None:
    """Return the same, or None for the account of the Pod this runs in: nothing is named, and there is no file.

    Raises:
        SeveralKubeconfigsError: More than one of the variable's files exists.
    """
    path = kubeconfig_file(given)
    return path if given or _named_by_environment() or path.exists() else None


def _named_by_environment() -> list[Path]:
    names = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    return [Path(name) for name in dict.fromkeys(names) if name]
