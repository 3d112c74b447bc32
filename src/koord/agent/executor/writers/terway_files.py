# SPDX-License-Identifier: Apache-2.0
"""Whole files that another program on the node reads: those of terway-qos.

Rule: docs/reference/hooks.md#files-of-terway.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from koord.agent.executor.target import TERWAY_BANDWIDTH, TERWAY_PODS, Target, Value
from koord.kernels.cgroup import Outcome, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.rooted_files import RootedFiles
    from koord.agent.executor.writers.target_writer import WriteRequest

TERWAY_ROOT = "/host-var-lib/terway/qos"
_NAMES = {TERWAY_BANDWIDTH: "global_bps_config", TERWAY_PODS: "pod.json"}


class TerwayWriter:
    """Writes the files under one directory, each whole; removed when nobody claims them.

    Args:
        root: the directory, which terway makes.
    """

    def __init__(self, root: RootedFiles) -> None:
        self._root = root

    def takes(self, resource: str) -> bool:
        """Whether it is one of the files."""
        return resource in _NAMES

    def refusal(self, target: Target, value: Value) -> str:
        """A directory, or no text at all."""
        return "" if value and not target.directory else "a text, and no directory"

    def held(self, target: Target) -> Value:
        """The file's text; empty where there is none."""
        self._root.directories()  # no such directory: ENOENT
        try:
            return self._root.read(_NAMES[target.resource])
        except FileNotFoundError:
            return ""

    def original(self, target: Target) -> Value:
        """The same: an empty text removes the file."""
        return self.held(target)

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """A file that already says so is left alone."""
        return [self._one(request) for request in requests]

    def _one(self, request: WriteRequest) -> Written:
        try:
            if self.held(request.target) == request.value:
                return Written(Outcome.UNCHANGED, 0, "")
            if request.value:
                self._root.replace(_NAMES[request.target.resource], str(request.value))
            else:
                self._root.remove(_NAMES[request.target.resource])
        except OSError as error:
            gone = error.errno == errno.ENOENT
            outcome = Outcome.MISSING if gone else Outcome.FAILED
            return Written(outcome, error.errno or errno.EIO, f"{request.target}: {error}")
        return Written(Outcome.WRITTEN, 0, "")
