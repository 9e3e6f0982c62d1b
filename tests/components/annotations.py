"""Keys of annotations: others', and those of our own domain."""

from __future__ import annotations

from hypothesis import strategies as st

_NAMES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)
_DOMAINS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?(\.[a-z]{2,8}){1,2}", fullmatch=True)
_OURS = ("decisionmodel.io", "pulumi.com")
# What ends or begins as ours does is not ours.
_LOOKALIKES = st.sampled_from(("notdecisionmodel.io", "decisionmodel.io.example.org", "xpulumi.com", "cattle.io"))

OTHERS_ANNOTATIONS = st.one_of(
    _NAMES,
    st.builds(
        "{}/{}".format, st.one_of(_LOOKALIKES, _DOMAINS.filter(lambda domain: not domain.endswith(_OURS))), _NAMES
    ),
)
OUR_ANNOTATIONS = st.builds(
    "{}{}/{}".format, st.sampled_from(("", "any.", "auth.")), st.sampled_from(_OURS), _NAMES
).filter(lambda key: not key.endswith("apikey-checksum"))
