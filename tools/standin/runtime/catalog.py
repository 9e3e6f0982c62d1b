"""From the name in a request to the model that answers it: names, routers, built-in questions (spec section 2.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import ApiError, InvalidModelNameError, Issue, MalformedModelError, model_not_found, refuse
from .manifests import RouterTable, parse_object, parse_router
from .names import ModelName, parse_model_name, relative_name
from .questions import Question, as_text
from .routing import Route, choose_route
from .store import Store, StoredModel
from .validation import parse_questions


@dataclass(frozen=True, slots=True)
class Target:
    """The model that answers, by its canonical name, and the router that chose it."""

    model: StoredModel
    name: str
    router: str | None = None
    route: Route | None = None

    def routing(self) -> dict[str, str] | None:
        """Return the `routing` object of a native answer."""
        if self.route is None or self.router is None:
            return None
        return {"router": self.router, "model": self.name, "route": self.route.route, "reason": self.route.reason}


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models of a store as requests name them; short names belong to `registry`."""

    store: Store
    registry: str

    def name(self, text: str, field: str = "model") -> ModelName:
        """Return the name a body's `field` holds; ApiError `INVALID_REQUEST`."""
        try:
            return parse_model_name(text, self.registry)
        except InvalidModelNameError as error:
            raise refuse([Issue(("body", field), str(error), "model_name")]) from None

    def canonical(self, name: ModelName) -> str:
        """Return the name as answers show it."""
        return name.canonical(self.registry)

    def target(self, name: ModelName, state: Any) -> Target:
        """Return the model for `state`, through a router if `name` is one; ApiError `MODEL_NOT_FOUND`."""
        model = self.store.read(name)
        table = self.router_table(model)
        if table is None:
            return Target(model, self.canonical(name))
        router, route = self.canonical(name), choose_route(table, as_text(state))
        target = self._relative(route.model, name)
        if not self.store.has(target):
            raise model_not_found(self.canonical(target), router)
        return Target(self.store.read(target), self.canonical(target), router, route)

    def models_behind(self, name: ModelName) -> list[StoredModel]:
        """Return the model, or those targets of a router that are there."""
        model = self.store.read(name)
        table = self.router_table(model)
        if table is None:
            return [model]
        targets = dict.fromkeys(self._relative(target, name) for target in table.routes.values())
        return [self.store.read(target) for target in targets if self.store.has(target)]

    def router_table(self, model: StoredModel) -> RouterTable | None:
        """Return the routes of a router, None for any other model."""
        if model.config.model_format != "router":
            return None
        layer = model.manifest.layer("router")
        if layer is None:
            raise ApiError("STORAGE_ERROR", "the router has no router layer")
        try:
            return parse_router(self.store.read_blob(layer))
        except MalformedModelError as error:
            raise ApiError("STORAGE_ERROR", str(error)) from None

    def questions_document(self, model: StoredModel) -> dict[str, Any] | None:
        """Return the built-in questions of a model as JSON, None for none."""
        layer = model.manifest.layer("questions")
        if layer is None:
            return None
        try:
            return parse_object(self.store.read_blob(layer), "questions blob")
        except MalformedModelError as error:
            raise ApiError("STORAGE_ERROR", str(error)) from None

    def questions(self, model: StoredModel) -> tuple[Question, ...] | None:
        """Return the built-in questions of a model ready to be asked, None for none."""
        issues: list[Issue] = []
        questions = parse_questions(self.questions_document(model), (), issues)
        if issues:
            raise ApiError("STORAGE_ERROR", "the model's built-in questions are malformed")
        return questions

    def _relative(self, target: str, router: ModelName) -> ModelName:
        try:
            return relative_name(target, router)
        except InvalidModelNameError as error:
            raise ApiError("STORAGE_ERROR", f"the router has a bad target: {error}") from None
