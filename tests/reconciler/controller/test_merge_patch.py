"""Merge patches: applying the difference gives the wanted object, and equal objects give nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller.merge_patch import difference

scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=3))
values = st.recursive(
    scalars | st.lists(scalars, max_size=2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=6
)
objects = st.dictionaries(st.sampled_from("abcd"), values)


def apply(target: Any, patch: Any) -> Any:
    """The algorithm of RFC 7396 section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


@given(objects, objects)
def test_applying_the_difference_gives_the_wanted_object(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply(before, difference(before, after)) == after


@given(objects)
def test_equal_objects_need_no_patch(value: dict[str, Any]) -> None:
    assert difference(value, value) == {}
