"""The life of a decision request, from a validated body to answers (spec sections 2.4 to 2.8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from . import faults
from .catalog import Catalog, Target
from .clock import Clock
from .durations import rfc3339
from .errors import Issue, refuse
from .http_message import Request, Response, json_response
from .loading import Loader
from .names import ModelName
from .presets import Presets
from .questions import DecisionRequest, Question, as_text
from .residency import Child, Residency
from .scoring import answer, distribution, laya_extra, scripted_distribution
from .settings import Settings
from .store import StoredModel
from .switches import Switches
from .words import count_tokens, cut_tokens

_LONGEST_STATE_TOKENS: Final = 65_536
_TOKENS_PER_OPTION: Final = 4


@dataclass(frozen=True, slots=True)
class Inference:
    """What a model made of a state."""

    answers: dict[str, Any]
    input_tokens: int
    is_truncated: bool
    load_seconds: float
    eval_seconds: float


@dataclass(slots=True)
class Decisions:
    """Answers `/v1/systemone` and `/api/decide` from the store, through the residency of its models."""

    settings: Settings
    catalog: Catalog
    presets: Presets
    residency: Residency
    loader: Loader
    clock: Clock
    _in_flight: int = field(default=0, init=False)
    _counting: threading.Lock = field(default_factory=threading.Lock, init=False)

    def answer(self, parsed: DecisionRequest, request: Request, *, native: bool) -> Response:
        """Answer a request with a state, in the form of `/api/decide` when `native` (spec sections 2.7 and 2.8)."""
        name = self.catalog.name(parsed.model)
        with self._slot():
            target = self.catalog.target(name, parsed.state)
            questions = self._questions(parsed, target)
            return self._infer(target, questions, parsed, request, native=native)

    def load_or_unload(self, parsed: DecisionRequest, request: Request) -> Response:
        """Answer `/api/decide` without a state: load, pin or unload (spec section 2.6)."""
        started = self.clock.monotonic()
        name = self.catalog.name(parsed.model)
        with self._slot():
            models = self.catalog.models_behind(name)
            if parsed.keep_alive == 0:
                for model in models:
                    self.residency.unload(model.digest)
                return self._loaded_response(name, "unload", started, 0.0)
            load_seconds = 0.0
            for model in models:
                with self._child(model, parsed) as (child, seconds):
                    load_seconds += seconds
                    response = self._tag_fault(child, request)
                if response is not None:
                    return response
            return self._loaded_response(name, "load", started, load_seconds)

    def _loaded_response(self, name: ModelName, reason: str, started: float, load_seconds: float) -> Response:
        nothing = Inference({}, 0, False, load_seconds, 0.0)
        document = self._native(self.catalog.canonical(name), nothing, self.clock.monotonic() - started)
        return json_response(document | {"routing": None, "done_reason": reason})

    def _infer(
        self,
        target: Target,
        questions: tuple[Question, ...],
        parsed: DecisionRequest,
        request: Request,
        *,
        native: bool,
    ) -> Response:
        started = self.clock.monotonic()
        with self._child(target.model, parsed) as (child, load_seconds):
            if request.client_is_gone():
                raise ConnectionResetError("the client left during the load")
            switches = self.residency.switches_of(child)
            response = self._tag_fault(child, request)
            if response is not None:
                return response
            if switches.inference_crash:
                raise self.residency.crash(child)
            begun = self.clock.monotonic()
            inference = self._ask(child, target, questions, parsed, native=native)
            now = self.clock.monotonic()
            inference = replace(inference, load_seconds=load_seconds, eval_seconds=now - begun)
            self.residency.count_answer(child)
        document = self._wire(target.name, inference)
        if native:
            document = self._native(target.name, inference, now - started)
            document |= {"routing": target.routing(), "done_reason": "decide"}
        return faults.spoiled(json_response(document), switches)

    def _ask(
        self, child: Child, target: Target, questions: tuple[Question, ...], parsed: DecisionRequest, *, native: bool
    ) -> Inference:
        switches = self.residency.switches_of(child)
        state, tokens = as_text(parsed.state), count_tokens(as_text(parsed.state))
        limit = target.model.config.context_length
        self._check_options(questions, limit)
        if tokens > _LONGEST_STATE_TOKENS:
            text = f"the state has {tokens} tokens, more than {_LONGEST_STATE_TOKENS}"
            raise refuse([Issue(("body", "state"), text, "input_too_long")], "INPUT_TOO_LONG")
        is_truncated = bool(switches.truncated) or tokens > limit
        if is_truncated and not native and self.settings.supports("state_truncated"):
            text = f"the state does not fit the {limit} tokens of {target.name}"
            issue = Issue(("body", "state"), text, "state_truncated", {"model": target.name})
            raise refuse([issue], "STATE_TRUNCATED")
        answers = {each.id: self._answer(child, each, cut_tokens(state, limit), parsed) for each in questions}
        asked = sum(count_tokens(as_text([each.instructions, each.options])) for each in questions)
        return Inference(answers, min(tokens, limit) + asked, is_truncated, 0.0, 0.0)

    def _answer(self, child: Child, question: Question, state: str, parsed: DecisionRequest) -> dict[str, Any]:
        scripts = self.residency.switches_of(child).answers or {}
        probabilities = scripted_distribution(question, scripts[state]) if state in scripts else None
        if probabilities is None:
            loaded = child.loaded
            probabilities = distribution(question, state, loaded.parameters, loaded.model.digest)
        answered = answer(question, probabilities)
        return answered | {"laya": laya_extra(question, probabilities)} if "laya" in parsed.extras else answered

    def _check_options(self, questions: tuple[Question, ...], context_length: int) -> None:
        budget = max(2, context_length // _TOKENS_PER_OPTION)
        issues = [
            Issue(
                ("body", "questions", each.id),
                f"{len(each.options)} options do not fit this model, at most {budget} do",
                "too_many_options",
            )
            for each in questions
            if len(each.options) > budget
        ]
        if issues:
            raise refuse(issues, "TOO_MANY_OPTIONS")

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold one of the places of ``OLLAYA_MAX_QUEUE``; ApiError `QUEUE_FULL` when all are taken."""
        faults.refuse_full_queue(self.loader.board.current)
        with self._counting:
            if self._in_flight >= self.settings.max_queue:
                raise faults.queue_full()
            self._in_flight += 1
        try:
            yield
        finally:
            with self._counting:
                self._in_flight -= 1

    @contextmanager
    def _child(self, model: StoredModel, parsed: DecisionRequest) -> Iterator[tuple[Child, float]]:
        """Hold the loaded model; its residency afterwards is what this request, or the default, says."""
        keep_alive = self.settings.keep_alive if parsed.keep_alive is None else parsed.keep_alive
        child, load_seconds = self.residency.acquire(
            model, self.catalog.canonical(model.name), keep_alive, self.loader.load
        )
        try:
            yield child, load_seconds
        finally:
            self.residency.release(child, keep_alive)

    def _tag_fault(self, child: Child, request: Request) -> Response | None:
        tag: Switches = child.loaded.parameters.switches
        faults.hang(request, self.loader.board, tag)
        switches = self.residency.switches_of(child)
        faults.refuse_full_queue(switches)
        return faults.replacement(switches)

    def _questions(self, parsed: DecisionRequest, target: Target) -> tuple[Question, ...]:
        if parsed.has_images:
            raise refuse([Issue(("body", "images"), f"{target.name} takes no images", "value_error")])
        questions = parsed.questions
        if parsed.preset is not None:
            questions = self.presets.questions(parsed.preset)
        if questions is None:
            questions = self.catalog.questions(target.model)
        if questions is None:
            raise refuse([Issue(("body", "questions"), "Field required", "missing")])
        return questions

    def _wire(self, name: str, inference: Inference) -> dict[str, Any]:
        usage = {"input_tokens": inference.input_tokens, "output_tokens": 0}
        return {"model": name, "answers": inference.answers, "usage": usage}

    def _native(self, name: str, inference: Inference, total_seconds: float) -> dict[str, Any]:
        return self._wire(name, inference) | {
            "state_truncated": inference.is_truncated,
            "created_at": rfc3339(self.clock.wall()),
            "total_duration": _nanoseconds(total_seconds),
            "load_duration": _nanoseconds(inference.load_seconds),
            "eval_duration": _nanoseconds(inference.eval_seconds),
        }


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
