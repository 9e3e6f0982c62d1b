"""What is supposed about a gate where nobody said otherwise."""

from __future__ import annotations

from typing import Final

DISCORDANCE: Final = 0.1
"""Share of items that only one of two revisions answers correctly."""
MARGIN: Final = 0.02
"""How much worse still counts as no worse, as a share of the items."""
