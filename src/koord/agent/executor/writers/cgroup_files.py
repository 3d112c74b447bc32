# SPDX-License-Identifier: Apache-2.0
"""Files of cgroups, of ``/proc/sys`` and of ``/sys``: leveled writes, each read back."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from koord.agent.executor.target import (
    CPUS,
    FEATURES,
    SHARES,
    Target,
    Value,
    depth_of,
    is_device,
    is_number,
)
from koord.agent.executor.writers import block_device_lines
from koord.agent.executor.writers.target_writer import CGROUP_GONE_ERRNOS
from koord.base import faults
from koord.kernels.cgroup import (
    CATALOGUE,
    Base,
    Directories,
    Hierarchy,
    Outcome,
    Reader,
    Table,
    Write,
    Writer,
    Written,
    file_text,
    says_same,
)
from koord.kernels.cgroup_parse import (
    Version,
    parse_sched_features,
    shares_to_weight,
    weight_to_shares,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.target_writer import WriteRequest

ALWAYS_COMPARE = -1.0
"""The executor decides when a file is looked at; the writer shall then not trust its memory."""

_INT64_MAX = 2**63 - 1


class CgroupFiles(Protocol):
    """The files of one base, as the kernel or a model of it shows them."""

    @property
    def version(self) -> Version:
        """The layout."""
        ...

    def text(self, resource: str, directory: str) -> str:
        """A whole file; raises OSError."""
        ...

    def number(self, resource: str, directory: str) -> int:
        """A numeric file in v1 units; raises OSError, or ValueError for what is no number."""
        ...

    def numbers(self, resource: str, directories: Sequence[str]) -> list[int | None]:
        """The same of many directories; None where it cannot be read."""
        ...

    def texts(self, resource: str, directories: Sequence[str]) -> list[str | None]:
        """Whole files of many directories, without blanks at their ends; None as above."""
        ...

    def is_absent(self, resource: str, directory: str) -> bool:
        """Whether the directory is there and the file is not."""
        ...

    def gone(self, resource: str, directory: str) -> bool:
        """Whether the directory is not there."""
        ...

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        """As ``koord.kernels.cgroup.Writer`` does it."""
        ...


class NativeCgroupFiles:
    """The files beneath one root, through the native reader and writer.

    Args:
        hierarchy: the root.
        kept_max: descriptors that stay open at most, of files of :class:`Directories`: they are
            read again and again.
    """

    def __init__(self, hierarchy: Hierarchy, kept_max: int = 0) -> None:
        self._hierarchy = hierarchy
        self._opening = Reader(hierarchy, kept_max=0)
        self._keeping, self._kept_max = Reader(hierarchy, kept_max), kept_max
        # By resource those that were asked for last.
        self._last: dict[str, Directories] = {}
        self._writer = Writer(hierarchy, ALWAYS_COMPARE, 0.0)

    @property
    def version(self) -> Version:
        """The layout."""
        return self._hierarchy.version

    def text(self, resource: str, directory: str) -> str:
        """A whole file; raises OSError."""
        path = self._hierarchy.path_of(resource, directory)
        return self._hierarchy.read_text(path).decode("utf-8", "replace")

    def number(self, resource: str, directory: str) -> int:
        """A numeric file in v1 units; raises OSError, or ValueError for what is no number."""
        table = self._opening.read([directory], [resource])[resource]
        number = int(table.error[0])
        if number == errno.EBADMSG:
            raise ValueError(table.messages.get(0, "no number"))
        if number:
            raise OSError(number, table.messages.get(0, "cannot be read"))
        return int(table["value"][0])

    def numbers(self, resource: str, directories: Sequence[str]) -> list[int | None]:
        """The same of many directories; None where it cannot be read."""
        table = self._read(resource, directories)
        values = table["value"].tolist()
        return [
            None if error else value
            for error, value in zip(table.error.tolist(), values, strict=True)
        ]

    def texts(self, resource: str, directories: Sequence[str]) -> list[str | None]:
        """Whole files of many directories, without blanks at their ends; None as above."""
        table = self._read(resource, directories)
        return [
            None if error else text.strip()
            for error, text in zip(table.error.tolist(), table.texts, strict=True)
        ]

    def _read(self, resource: str, directories: Sequence[str]) -> Table:
        reader = self._opening
        if isinstance(directories, Directories):
            self._last[resource] = directories
            # With fewer than all take, each would be closed before it is read again.
            if sum(map(len, self._last.values())) <= self._kept_max:
                reader = self._keeping
        return reader.read(directories, [resource])[resource]

    def close_kept(self) -> None:
        """Closes the descriptors that stayed open; who reads again opens them anew."""
        self._keeping.close_kept()

    def is_absent(self, resource: str, directory: str) -> bool:
        """Whether the directory is there and the file is not."""
        return not self.gone(resource, directory) and not self._path(resource, directory).exists()

    def gone(self, resource: str, directory: str) -> bool:
        """Whether the directory is not there."""
        return not self._path(resource, directory).parent.is_dir()

    def _path(self, resource: str, directory: str) -> Path:
        return Path(self._hierarchy.path, self._hierarchy.path_of(resource, directory))

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        """Through the native writer, which compares every file first."""
        return self._writer.write_leveled(levels, now_seconds)


class CgroupFileWriter:
    """Writers of catalogued files.

    Args:
        files: by base; a base that is not there has no resources.
    """

    def __init__(self, files: dict[Base, CgroupFiles]) -> None:
        self._files = files

    def close_kept(self) -> None:
        """Closes descriptors that stayed open."""
        for files in self._files.values():
            if isinstance(files, NativeCgroupFiles):
                files.close_kept()

    def takes(self, resource: str) -> bool:
        """Whether the catalogue has it and its base is there."""
        return resource in CATALOGUE and CATALOGUE[resource].base in self._files

    def refusal(self, target: Target, value: Value) -> str:
        """What the kernel would refuse in any case: out of range, or of another form."""
        if target.resource == FEATURES:
            return "" if target.field.isidentifier() else "no name of a scheduler feature"
        if CATALOGUE[target.resource].base is not Base.CGROUP and target.directory:
            return "a system file has no directory"
        try:
            file_text(target.resource, self._of(target).version, value)
        except ValueError as error:
            return str(error)
        return ""

    def held(self, target: Target) -> Value:
        """What a file says, in v1 units; of lines and features, the target's own."""
        files, resource = self._of(target), target.resource
        if is_number(resource):
            return self._number(files, target)
        text = files.text(resource, target.directory)
        if resource == FEATURES:
            return _feature(text, target.field)
        if is_device(resource):
            return block_device_lines.held(resource, files.version, text, target.field)
        return text.strip()

    def is_absent(self, target: Target) -> bool:
        """Whether this kernel has no such file."""
        return self._of(target).is_absent(target.resource, target.directory)

    def gone(self, target: Target) -> bool:
        """Whether the cgroup is not there; what is no cgroup stays."""
        files = self._of(target)
        cgroup = self._base(target) is Base.CGROUP
        return cgroup and files.gone(target.resource, target.directory)

    def original(self, target: Target) -> Value:
        """The same, but shares that come to the very weight of v2: several weights have none.

        Of block devices, the line that makes the kernel say again what it says now.
        """
        files = self._of(target)
        if is_device(target.resource):
            text = files.text(target.resource, target.directory)
            return block_device_lines.original(target.resource, files.version, text, target.field)
        if target.resource != SHARES or files.version is Version.V1:
            return self.held(target)
        weight = int(files.text(SHARES, target.directory))
        shares = weight_to_shares(weight)
        return shares + (shares_to_weight(shares) < weight)

    def values(self, resource: str, directories: Sequence[str]) -> list[Value | None]:
        """The same of many directories; None where it cannot be read, or holds several values."""
        files = self._files[CATALOGUE[resource].base]
        if resource == CPUS:
            return list(files.texts(resource, directories))
        if not is_number(resource):
            return [None] * len(directories)
        unlimited = _unlimited(resource, files.version)
        found = files.numbers(resource, directories)
        return [unlimited if number == -1 else number for number in found]

    @staticmethod
    def _number(files: CgroupFiles, target: Target) -> int:
        number = files.number(target.resource, target.directory)
        return _unlimited(target.resource, files.version) if number == -1 else number

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """Levels of the whole tree, parents first; then every file that was written is read."""
        results: list[Written | None] = [None] * len(requests)
        # Switches of the kernel before what they switch on.
        for base in sorted(self._files, reverse=True):
            chosen = [i for i, w in enumerate(requests) if self._base(w.target) is base]
            self._write_base(self._files[base], requests, chosen, results, now_seconds)
        return [result or Written(Outcome.UNSUPPORTED, 0, "no such base") for result in results]

    def _write_base(
        self,
        files: CgroupFiles,
        requests: Sequence[WriteRequest],
        chosen: list[int],
        results: list[Written | None],
        now_seconds: float,
    ) -> None:
        rows: dict[int, list[int]] = {}
        for i in chosen:
            if requests[i].target.resource == FEATURES and self._says(files, requests[i]):
                results[i] = Written(Outcome.UNCHANGED, 0, "")
            else:
                rows.setdefault(depth_of(requests[i].target.directory), []).append(i)
        levels = [rows[depth] for depth in sorted(rows)]
        writes = [[_request(requests[i]) for i in level] for level in levels]
        answers = files.write_leveled(writes, now_seconds) if writes else []
        for level, written in zip(levels, answers, strict=True):
            for i, result in zip(level, written, strict=True):
                results[i] = self._verified(files, requests[i], result)

    def _verified(self, files: CgroupFiles, request: WriteRequest, result: Written) -> Written:
        if result.outcome is not Outcome.WRITTEN:
            return result
        try:
            faults.point("executor.read_back")
            if self._says(files, request):
                return result
            current = self.held(request.target)
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None) or 0
            outcome = Outcome.MISSING if number in CGROUP_GONE_ERRNOS else Outcome.FAILED
            return Written(outcome, number, str(error))
        message = f"{request.target}: wrote {request.value!r}, reads {current!r}"
        return Written(Outcome.FAILED, 0, message)

    def _says(self, files: CgroupFiles, request: WriteRequest) -> bool:
        resource, directory, field = request.target
        try:
            current = files.text(resource, directory)
            if resource == FEATURES:
                return _feature(current, field) == request.value
        except FileNotFoundError:
            return False
        text = file_text(resource, files.version, request.value)
        return says_same(resource, files.version, text, current)

    def _base(self, target: Target) -> Base:
        return CATALOGUE[target.resource].base

    def _of(self, target: Target) -> CgroupFiles:
        return self._files[self._base(target)]


def _unlimited(resource: str, version: Version) -> int:
    """What -1, as readers say for ``max``, means: where none can be written, the largest number."""
    row = CATALOGUE[resource]
    file = row.v2 if version is Version.V2 else row.v1
    positive = file is not None and file.range is not None and file.range[0] >= 0
    return _INT64_MAX if positive else -1


def _request(request: WriteRequest) -> Write:
    return Write(request.target.resource, request.target.directory, request.value)


def _feature(text: str, name: str) -> str:
    features, _ = parse_sched_features(text)
    if name not in features:
        raise FileNotFoundError(errno.ENOENT, "no such scheduler feature", name)
    return name if features[name] else f"NO_{name}"
