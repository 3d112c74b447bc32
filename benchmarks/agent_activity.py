# SPDX-License-Identifier: Apache-2.0
"""What happens on a node while its koordlet is measured: services' load moves, pods come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from koord.base.documents import Document
from koord.kernels.cgroup import CATALOGUE
from koord.kernels.cgroup_parse import Version
from tests.agent.machine_tree import MachineTree

# A round's share of the node is followed half way when it falls: from 2.05 CPUs to 1.5 and back,
# which is three CPUs and two.
SERVICE_CORES = 1.1
POD_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_LOAD_SECONDS = 1.0

Lay = Callable[[Document], list[str]]


class Activity:
    """A thread that changes files of a machine and the kubelet's list of pods.

    Args:
        tree: the machine.
        documents: what the kubelet tells, changed in place; the second pod is a service.
        make: a pod's document by its number, all alike in kind.
        lay: makes a pod's cgroups; gives its directories, the pod's first.
        directories: those of the second pod, whose counter is the load.

    Attributes:
        moves: how often the CPUs of best-effort pods were another.
        pods: how many came, and as many went.
    """

    def __init__(
        self,
        tree: MachineTree,
        documents: list[Document],
        make: Callable[[int], Document],
        lay: Lay,
        directories: list[str],
    ) -> None:
        self._tree, self._documents, self._make, self._lay = tree, documents, make, lay
        self._numbers = count(len(documents))
        self._came: list[tuple[Document, list[str]]] = []
        self._load = [self._file("cpuacct.usage", each) for each in directories]
        self._cpus = self._file("cpuset.cpus", tree.machine().layout.best_effort)
        self._ended = threading.Event()
        self.moves = self.pods = 0

    def _file(self, resource: str, directory: str) -> Path:
        row = CATALOGUE[resource]
        found = row.v1 if self._tree.version is Version.V1 else row.v2
        assert found is not None
        return self._tree.root / "sys/fs/cgroup" / found.directory / directory / found.name

    @contextmanager
    def going(self, phase: str) -> Iterator[None]:
        """Does what the phase says until the end of the block.

        Args:
            phase: ``idle``, ``suppressing``, ``churning`` or ``both``.
        """
        self.moves = self.pods = 0
        self._ended.clear()
        works = [self._watch]
        works += [self._move] if phase in ("suppressing", "both") else []
        works += [self._churn] if phase in ("churning", "both") else []
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _watch(self) -> None:
        before = self._cpus.read_text()
        while not self._ended.wait(_LOOK_SECONDS):
            # Empty for the moment in which it is written.
            if (now := self._cpus.read_text()) and now != before:
                self.moves, before = self.moves + 1, now

    def _move(self) -> None:
        """Every other second the service has used some CPU."""
        used_ns = 10**9
        for second in count():
            if self._ended.wait(_LOAD_SECONDS):
                return
            used_ns += int(SERVICE_CORES * 1e9) * (second % 2)
            for file in self._load:
                file.write_text(self._counter(file, used_ns))

    def _counter(self, file: Path, used_ns: int) -> str:
        if self._tree.version is Version.V1:
            return f"{used_ns}\n"
        _, _, rest = file.read_text().partition("\n")
        return f"usage_usec {used_ns // 1000}\n{rest}"

    def _churn(self) -> None:
        """One pod goes and one comes; the first time the last of those that were there goes."""
        while not self._ended.wait(POD_SECONDS):
            if self._came:
                gone, directories = self._came.pop()
                self._documents.remove(gone)
                for directory in reversed(directories):
                    self._remove(directory)
            else:
                self._documents.pop()
            new = self._make(next(self._numbers))
            self._came.append((new, self._lay(new)))
            self._documents.append(new)
            self.pods += 1

    def _remove(self, directory: str) -> None:
        top = self._tree.root / "sys/fs/cgroup"
        for place in [top, *(each for each in top.iterdir() if each.is_dir())]:
            folder = place / directory
            for file in folder.iterdir() if folder.is_dir() else ():
                file.unlink()
            if folder.is_dir():
                folder.rmdir()
