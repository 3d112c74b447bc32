# SPDX-License-Identifier: Apache-2.0
"""What a container is made from: an image, or folders of this machine in its place."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class UnknownImageError(Exception):
    """No such image was built; its message names those that were."""


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        root: where its layers are unpacked; none where folders stand for it.
        folders: of this machine, each seen at its own place.
        environment: of every process, unless its pod says otherwise.
    """

    root: Path | None = None
    folders: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


# Links of a merged /usr, and what holds the interpreter and koord.
MACHINE = Image(
    folders=("/usr", "/bin", "/lib", "/lib64", sys.base_prefix, str(ROOT)),
    environment={"PATH": f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin"},
)
# What pods name that stand for a user's.
UNNAMED = "none"
# What no registry has: a pod that names it is placed, and waits.
ABSENT = "absent"


class Images:
    """Images by reference, as a node has pulled them; without any, this machine stands for each.

    Args:
        index: what `tests.release.images` writes: of each reference, root and environment.
    """

    def __init__(self, index: Path | None = None) -> None:
        self._known: dict[str, Image] | None = None
        if index is not None:
            listed = json.loads(index.read_text(encoding="utf-8"))
            self._known = {
                reference: Image(index.parent / each["root"], environment=each["environment"])
                for reference, each in listed.items()
            }

    def find(self, reference: str) -> Image:
        """An image.

        Raises:
            UnknownImageError: it was not built.
        """
        if self._known is None or reference == UNNAMED:
            return MACHINE
        if reference not in self._known:
            raise UnknownImageError(f"{reference}: there are {', '.join(self._known)}")
        return self._known[reference]
