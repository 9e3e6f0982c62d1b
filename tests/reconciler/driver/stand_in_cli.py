"""A stand-in for the Pulumi CLI: records how it was called and answers as the test's script says.

The directory named by STAND_IN holds `answers.json`, a mapping from command (`up`, `stack init`, …) to the answers
of its successive calls (the last one repeats), and receives `calls.jsonl` and, where asked, files with pids.

It is started hundreds of times, without `site` (-S), so it imports little before it knows that it needs more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

HOME = Path(os.environ["STAND_IN"])
FLAGS_WITH_VALUE = ("--stack", "--color", "--event-log", "--exec-kind")


def main() -> int:
    command = _command(sys.argv[1:])
    earlier = [call for call in _calls() if call["command"] == command]
    _record(command)
    answers = json.loads((HOME / "answers.json").read_text()).get(command, [{}])
    return _answer(answers[min(len(earlier), len(answers) - 1)])


def _command(arguments: list[str]) -> str:
    words: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and not argument.startswith("-"):
            words.append(argument)
        skip = argument in FLAGS_WITH_VALUE
    return " ".join(words)


def _calls() -> list[dict[str, Any]]:
    path = HOME / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _record(command: str) -> None:
    call = {
        "command": command,
        "argv": sys.argv[1:],
        "environment": dict(os.environ),
        "directory": str(Path.cwd()),
        "pid": os.getpid(),
        "session": os.getsid(0),
    }
    with (HOME / "calls.jsonl").open("a") as file:
        file.write(json.dumps(call) + "\n")


def _answer(answer: dict[str, Any]) -> int:
    if answer.get("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif "exit_on_sigterm" in answer:
        signal.signal(signal.SIGTERM, lambda *_: _save_and_exit(answer["exit_on_sigterm"]))
    if answer.get("provider"):
        _start_provider()
    if "events" in answer:
        _send_events(answer["events"])
    sys.stdout.write(answer.get("stdout", ""))
    sys.stderr.write(answer.get("stderr", ""))
    sys.stdout.flush()
    sys.stderr.flush()
    if "wait_for" in answer:
        _wait_for(HOME / answer["wait_for"])
    if answer.get("kill_self"):
        os.kill(os.getpid(), signal.SIGKILL)
    return int(answer.get("exit", 0))


def _save_and_exit(code: int) -> None:
    (HOME / "saved").touch()
    os._exit(code)


def _start_provider() -> None:
    import subprocess  # noqa: PLC0415 -- few answers have a provider

    # As the CLI does: a process group of its own in the same session, here deaf to SIGTERM and holding our pipes.
    code = "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Event().wait()"
    provider = subprocess.Popen([sys.executable, "-S", "-c", code], process_group=0)
    (HOME / "provider.pid").write_text(str(provider.pid))


def _send_events(events: list[Any]) -> None:
    import site  # noqa: PLC0415 -- as all below: slow, and most answers send no events

    site.main()
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415
    from pulumi.runtime.proto import events_pb2, events_pb2_grpc  # noqa: PLC0415

    address = sys.argv[sys.argv.index("--event-log") + 1].removeprefix("tcp://")
    with grpc.insecure_channel(address) as channel:
        texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
        events_pb2_grpc.EventsStub(channel).StreamEvents(iter(events_pb2.EventRequest(event=text) for text in texts))


def _wait_for(path: Path) -> None:
    path.with_suffix(".waiting").touch()
    while not path.exists():
        # Interrupted by signals; a test ends this by making the file or by killing the process.
        signal.sigtimedwait([], 0.01)


if __name__ == "__main__":
    sys.exit(main())
