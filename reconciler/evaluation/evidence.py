"""What a verdict rests on, as one small document that anybody can recompute it from. Pure, and without numpy.

The document is canonical JSON under gzip. It holds both tables with labels, choices, probabilities and latencies, and
never the text that was asked about.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final, Literal

import msgspec

from reconciler.evaluation.alarms import affordable_resamples
from reconciler.evaluation.canonical import Strict, encode_canonical
from reconciler.evaluation.errors import EvaluationError
from reconciler.evaluation.parameters import Inputs
from reconciler.evaluation.stored_table import Precision, StoredTable
from reconciler.evaluation.verdict import Verdict

MAX_DOCUMENT: Final = 900 * 1024
"""Bytes; what a ConfigMap holds beside its metadata."""
MAX_TEXT: Final = 48 * 1024 * 1024
"""Bytes after decompression: many times what a data set of the largest size comes to."""
_RESAMPLES_BEFORE: Final = 10_000
"""What evidence could ask for when their number did not depend on the cases."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 6


class EvidenceTooLarge(EvaluationError):  # noqa: N818 - named like its siblings, the reasons of conditions
    """The document would not fit into a ConfigMap."""


class EvidenceInvalid(EvaluationError):  # noqa: N818 - named like its siblings, the reasons of conditions
    """The bytes are no evidence document: damaged, altered, of another version, or too costly to judge again.

    Only another document helps.
    """


class Evidence(Strict, frozen=True, kw_only=True):
    """A verdict with everything it was computed from."""

    version: Literal[1] = 1
    inputs: Inputs
    verdict: Verdict
    precision: Precision
    stable: StoredTable
    candidate: StoredTable


_DECODER: Final = msgspec.json.Decoder(Evidence)


def encode(evidence: Evidence) -> bytes:
    """The document; equal evidence gives equal text inside.

    Raises:
        EvidenceTooLarge: It is larger than `MAX_DOCUMENT`, or its text than `MAX_TEXT`.
    """
    text = encode_canonical(evidence)
    if len(text) > MAX_TEXT:
        raise EvidenceTooLarge(f"the evidence has {len(text)} bytes of text, {MAX_TEXT} is the most")
    document = gzip.compress(text, _LEVEL, mtime=0)
    if len(document) > MAX_DOCUMENT:
        raise EvidenceTooLarge(f"the evidence has {len(document)} bytes, {MAX_DOCUMENT} is the most")
    return document


def decode(document: bytes) -> Evidence:
    """Read a document that anybody may have written.

    Raises:
        EvidenceInvalid: It is too large, no gzip of canonical JSON, or not of the expected shape.
    """
    text = _decompress(document)
    try:
        evidence = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceInvalid(f"the evidence is not of the expected shape: {error}") from error
    most = max(_RESAMPLES_BEFORE, affordable_resamples(len({row.line for row in evidence.stable})))
    if evidence.verdict.parameters.resamples > most:
        raise EvidenceInvalid(f"the evidence asks for more than {most} resamples, the most that are drawn of its cases")
    if encode_canonical(evidence) != text:
        raise EvidenceInvalid("the evidence is not in its canonical form: it was written or altered by something else")
    return evidence


def _decompress(document: bytes) -> bytes:
    if len(document) > MAX_DOCUMENT:
        raise EvidenceInvalid(f"the evidence has {len(document)} bytes, {MAX_DOCUMENT} is the most")
    stream = zlib.decompressobj(_GZIP)
    try:
        text = stream.decompress(document, MAX_TEXT)
    except zlib.error as error:
        raise EvidenceInvalid(f"the evidence is no gzip document: {error}") from error
    if not stream.eof or stream.unused_data:
        raise EvidenceInvalid("the evidence is cut short, too long or followed by something else")
    return text
