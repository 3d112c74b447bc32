# SPDX-License-Identifier: Apache-2.0
"""What a cluster and its node say while they are moved: each figure with the times it changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from koord.kernels.quantity import Quantity
from tests.contract.api import Api, at
from tests.node.cluster.control_plane import NODE
from tests.node.cluster.visitor import Document
from tests.node.machine import CGROUP

_PAUSE_SECONDS = 0.1
_OFFERED = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
METRIC, SLO = (f"slo.koordinator.sh/v1alpha1/{plural}" for plural in ("nodemetrics", "nodeslos"))
# What hooks and strategies of both sides write of a container and of its pod.
FILES = ("cpu.shares", "cpu.cfs_quota_us", "cpuset.cpus", "memory.limit_in_bytes")
CLASS_FILES = ("cpu/kubepods/besteffort/cpu.cfs_quota_us", "cpu/kubepods/besteffort/cpu.shares")


class Watch:
    """Looks ten times a second, in a thread of its own.

    Args:
        api: a connection of its own.
        pods: whose files are looked at, by name.

    Attributes:
        changes: by what is looked at, each value with the seconds since the beginning.
    """

    def __init__(self, api: Api, pods: dict[str, Document]) -> None:
        self._api = api
        self._files = dict(_files(pods))
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self.changes: dict[str, list[tuple[float, Any]]] = {}
        self.failures: list[str] = []
        self._thread.start()

    def seconds(self) -> float:
        """Since the beginning."""
        return round(time.monotonic() - self._began, 2)

    def end(self) -> None:
        """No more looks."""
        self._ended.set()
        self._thread.join()

    def files(self) -> dict[str, str]:
        """What all files say now."""
        return {name: path.read_text("ascii").strip() for name, path in self._files.items()}

    def _keep(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            try:
                for name, value in self._look().items():
                    series = self.changes.setdefault(name, [])
                    if not series or series[-1][1] != value:
                        series.append((self.seconds(), value))
            except (OSError, AssertionError) as error:
                self.failures.append(f"{self.seconds()}: {error}")

    def _look(self) -> dict[str, Any]:
        offered = self._api.get(at("nodes", "", NODE)).ok["status"]["allocatable"]
        seen: dict[str, Any] = {
            name: Quantity.parse(offered[name]).value() if name in offered else None
            for name in _OFFERED
        }
        metric = self._api.get(at(METRIC, "", NODE)).ok
        seen["metric"] = metric.get("status", {}).get("updateTime")
        seen["slo"] = self._api.get(at(SLO, "", NODE)).ok["spec"]
        return seen | self.files()


def _files(pods: dict[str, Document]) -> Iterator[tuple[str, Path]]:
    for name, pod in pods.items():
        uid = pod["metadata"]["uid"]
        container = pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
        for file in FILES:
            hierarchy = CGROUP / file.partition(".")[0]
            (folder,) = hierarchy.glob(f"kubepods/**/pod{uid}")
            yield f"{name} pod {file}", Path(folder, file)
            yield f"{name} container {file}", Path(folder, container, file)
    for path in CLASS_FILES:
        yield path, CGROUP / path
