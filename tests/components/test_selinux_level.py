"""SELinux levels (spec section 4.8)."""

from __future__ import annotations

import hashlib
import re

from hypothesis import given

from components.desired import Owner
from components.selinux import selinux_level
from tests.components.stacks import owners


def test_a_level_is_derived_from_the_first_four_bytes() -> None:
    b = hashlib.sha256(b"team-a/laya").digest()
    a = (b[0] * 256 + b[1]) % 1024
    c = (b[2] * 256 + b[3]) % 1023
    c += c >= a
    assert selinux_level("team-a", "laya") == f"s0:c{min(a, c)},c{max(a, c)}"


@given(owners)
def test_a_level_is_two_distinct_categories_in_order(owner: Owner) -> None:
    match = re.fullmatch(r"s0:c(\d+),c(\d+)", selinux_level(owner.namespace, owner.name))
    assert match
    assert 0 <= int(match[1]) < int(match[2]) < 1024


def test_models_differ_by_namespace_and_name() -> None:
    assert len({selinux_level(namespace, name) for namespace in "ab" for name in "cd"}) == 4
