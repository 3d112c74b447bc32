# SPDX-License-Identifier: Apache-2.0
"""The file by which a proxy knows of an agent: where it is called, for what, and if it fails.

Rule: docs/reference/delivery.md#registration-with-a-proxy.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.host.private_files import whole_or_gone

if TYPE_CHECKING:
    from koord.agent.hooks.hook import HookStage

NAME = "koordlet.json"
# A proxy reads whatever ends in json.
_BESIDE = ".koordlet.json.new"


@dataclass(frozen=True)
class Registration:
    """What is written.

    Attributes:
        folder: the proxy's.
        endpoint: the socket as the proxy finds it.
        failure_policy: ``Fail`` or ``Ignore``: whether a call that fails fails the container.
        stages: for which it calls, in the protocol's order.
    """

    folder: Path
    endpoint: str
    failure_policy: str
    stages: tuple[HookStage, ...]

    @property
    def text(self) -> str:
        """The file's content."""
        document = {
            "remote-endpoint": self.endpoint,
            "failure-policy": self.failure_policy,
            "runtime-hooks": [str(stage) for stage in self.stages],
        }
        return json.dumps(document, indent="\t") + "\n"

    def write(self, *, anew: bool = False) -> None:
        """Writes the file where it says something else; it is never seen by halves.

        Args:
            anew: write it in any case, so that a proxy that has given up a server calls again.

        Raises:
            OSError: it cannot be written.
        """
        place, beside = self.folder / NAME, self.folder / _BESIDE
        with contextlib.suppress(OSError, ValueError):
            same = not place.is_symlink() and place.read_text("utf-8") == self.text
            if same and not anew:
                return
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            whole_or_gone(beside),
            os.fdopen(os.open(beside, flags, 0o644), "w", encoding="utf-8") as file,
        ):
            file.write(self.text)
        beside.replace(place)

    def remove(self) -> None:
        """Takes the file away, if it is this one."""
        place = self.folder / NAME
        with contextlib.suppress(OSError, ValueError):
            if place.read_text("utf-8") == self.text:
                place.unlink()
