"""Names of models in the registry: namespace, model and tag (spec section 3.4)."""

import re
from dataclasses import dataclass
from typing import Self

_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"
_SHORT = re.compile(rf"(?:(?P<namespace>{_PART})/)?(?P<model>{_PART})(?::(?P<tag>{_PART}))?")


@dataclass(frozen=True, slots=True, order=True)
class TagName:
    """A tag in the registry; it says which manifest path answers, not which bytes."""

    namespace: str
    model: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `[namespace/]model[:tag]`, with `library` and `latest` where a part is missing.

        Raises:
            ValueError: The text is no such name.
        """
        match = _SHORT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no model name: expected [namespace/]model[:tag]")
        return cls(match["namespace"] or "library", match["model"], match["tag"] or "latest")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.model}:{self.tag}"
