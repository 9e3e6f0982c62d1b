"""A file of rules is known to be usable before anything is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.configuration import PolicyRules
from policy import PolicyConfigurationError
from policy.enforced import read_enforced
from policy.file import SIZE_LIMIT

TEXT = "# kept\nenvironments: {prod: {rules: {pod-restricted: {level: advisory}}}}\n"


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_the_file_is_kept_as_it_stands_for_its_environment(stacks: Path) -> None:
    named = read_enforced(PolicyRules(file="policy.yaml"), stacks, "prod")
    assert named is not None
    assert (named.text, named.environment) == (TEXT, "prod")
    other = read_enforced(PolicyRules(file="policy.yaml", environment="prod"), stacks, "blue")
    assert other == named
    assert read_enforced(PolicyRules(), stacks, "prod") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rules: {no-such: {}}", r"policy\.yaml: rules\.no-such: there is no such rule"),
        (b"environments: {dev: {}}", r"policy\.yaml: environments: 'prod' is not listed"),
        (b"rules: [", r"policy\.yaml: no YAML"),
        (b"- rules", r"policy\.yaml: must be a mapping"),
        (b"\xff", r"policy\.yaml: 'utf-8' codec"),
        (b"#" * (SIZE_LIMIT + 1), rf"policy\.yaml: more than {SIZE_LIMIT} bytes"),
        (None, r"policy\.yaml"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_file(stacks: Path, content: bytes | None, message: str) -> None:
    file = stacks / "policy.yaml"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(PolicyConfigurationError, match=message):
        read_enforced(PolicyRules(file="policy.yaml"), stacks, "prod")
