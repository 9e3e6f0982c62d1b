"""Who opens a bucket: what the environment says, or a mounted Secret, which is read anew whenever it is needed.

A container's variable keeps the value it was started with; a mounted Secret follows a rotation within about a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY_VARIABLE: Final = "DECISIONMODEL_STATE_CREDENTIALS"
"""Names the Secret's directory; unset where the environment itself has the credentials, or the cloud gives them."""

NAMES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Keys of the Secret: the AWS SDKs' variables of the same names. The last one is optional."""

_READ_BYTES: Final = 1 << 14


def current_environment(ambient: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the credentials as they are now; what cannot be read is missing in it."""
    directory = ambient.get(DIRECTORY_VARIABLE)
    if not directory:
        return dict(ambient)
    others = {name: value for name, value in ambient.items() if name not in NAMES}
    return {**others, **_read(Path(directory))}


def _read(directory: Path) -> dict[str, str]:
    # The kubelet swaps all keys at once behind this link: looked up once, they are of one version.
    version = (directory / "..data").resolve()
    place = version if version.is_dir() else directory
    found: dict[str, str] = {}
    for name in NAMES:
        with suppress(OSError, UnicodeDecodeError), (place / name).open("rb") as file:
            found[name] = file.read(_READ_BYTES).decode().strip()
    return found
