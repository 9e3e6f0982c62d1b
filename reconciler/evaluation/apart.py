"""Judging in a process of its own: numpy and scipy cost memory that the reconciler would never give back.

The process serves one judgement and ends. `python -m reconciler.evaluation.apart` is that process: it reads the request
from its standard input and answers on its standard output.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from reconciler.evaluation.errors import RunInvalid
from reconciler.evaluation.parameters import Inputs, Parameters
from reconciler.evaluation.table import Item
from reconciler.evaluation.verdict import Verdict

SECONDS: Final = 120.0
"""The longest a judgement may take; one of the largest size takes a few seconds."""


class _Request(msgspec.Struct, frozen=True):
    stable: tuple[Item, ...]
    candidate: tuple[Item, ...]
    inputs: Inputs
    parameters: Parameters


class Proof(msgspec.Struct, frozen=True):
    """A verdict and the evidence document it can be recomputed from."""

    verdict: Verdict
    document: bytes


async def judge_apart(
    stable: Sequence[Item], candidate: Sequence[Item], inputs: Inputs, parameters: Parameters
) -> Proof:
    """Judge a candidate by both tables, in a process of its own. Cancelling ends the process.

    Raises:
        RunInvalid: The process ended without a verdict; a later run may succeed.
    """
    request = msgspec.msgpack.encode(_Request(tuple(stable), tuple(candidate), inputs, parameters))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "reconciler.evaluation.apart",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Its arrays are small: threads of the linear algebra library would only reserve memory.
        env={**_environment(), "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(SECONDS):
            answer, _ = await process.communicate(request)
    except TimeoutError:
        raise RunInvalid(f"the comparison took longer than {SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RunInvalid(f"the comparison's process ended with {process.returncode}")
    return msgspec.msgpack.decode(answer, type=Proof)


def _environment() -> dict[str, str]:
    """What the interpreter needs to start and to find this package, and no credential."""
    names = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONPATH": os.pathsep.join(sys.path)}


def main() -> None:
    """Serve one request."""
    from reconciler.evaluation.judgement import judge_run  # noqa: PLC0415 - only this process may import numpy

    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Request)
    judgement = judge_run(request.stable, request.candidate, request.inputs, request.parameters)
    sys.stdout.buffer.write(msgspec.msgpack.encode(Proof(judgement.verdict, judgement.document)))


if __name__ == "__main__":
    main()
