"""The rights that docs/preview.md asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

_DOCUMENT = Path(__file__).parents[3] / "docs" / "preview.md"


def documented_role() -> dict[str, Any]:
    """Return the documented ClusterRole."""
    section = _DOCUMENT.read_text(encoding="utf-8").partition("\n## Rights\n")[2]
    block = re.search(r"^```yaml\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    return dict(yaml.safe_load(block[1]))
