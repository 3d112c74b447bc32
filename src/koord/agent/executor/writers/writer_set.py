# SPDX-License-Identifier: Apache-2.0
"""All writers of an executor as one: which of them has a target, and a batch of writes to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.write_failures import from_error
from koord.agent.executor.writers.target_writer import (
    CgroupProbe,
    FileProbe,
    KeepsDescriptors,
    LateWriter,
)
from koord.base import faults
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.target import Target, Value
    from koord.agent.executor.writers.target_writer import TargetWriter, WriteRequest
    from koord.kernels.cgroup import Written


class WriterSet:
    """The writers of one node.

    Args:
        writers: the first that takes a resource has it.
    """

    def __init__(self, writers: Sequence[TargetWriter | LateWriter]) -> None:
        self._writers = list(writers)
        self._by_resource: dict[str, TargetWriter] = {}

    def writer_of(self, resource: str) -> TargetWriter:
        """The one that has a resource.

        Raises:
            KoordError: none has it.
        """
        writer = self._by_resource.get(resource)
        if writer is None:
            places = (at for at, one in enumerate(self._writers) if one.takes(resource))
            at = next(places, None)
            if at is None:
                raise KoordError("claim", "resource", resource, "a resource that this node has")
            found = self._writers[at]
            writer = found.make() if isinstance(found, LateWriter) else found
            self._writers[at] = self._by_resource[resource] = writer
        return writer

    def close_kept(self) -> None:
        """Closes descriptors that stayed open."""
        for writer in self._writers:
            if isinstance(writer, KeepsDescriptors):
                writer.close_kept()

    def held(self, target: Target) -> Value | None:
        """What a target says now; None where it cannot be read."""
        try:
            return self.writer_of(target.resource).held(target)
        except (OSError, ValueError):
            return None

    def write(self, requests: list[WriteRequest], now: float) -> list[tuple[WriteRequest, Written]]:
        """Writes what is asked for, writer by writer in their order, with what came of each."""
        done: list[tuple[WriteRequest, Written]] = []
        writers = [self.writer_of(request.target.resource) for request in requests]
        for writer in self._writers:
            own = [request for request, its in zip(requests, writers, strict=True) if its is writer]
            if not own or isinstance(writer, LateWriter):
                continue
            try:
                faults.point("executor.write")
                done += zip(own, writer.write(own, now), strict=True)
            except OSError as error:
                done += [(request, from_error(error)) for request in own]
        return done

    def is_gone(self, target: Target) -> bool:
        """Whether the cgroup of a target is not there any more."""
        writer = self.writer_of(target.resource)
        return isinstance(writer, CgroupProbe) and writer.gone(target)

    def is_absent(self, target: Target) -> bool:
        """Whether this kernel has no such file, though the cgroup is there."""
        writer = self.writer_of(target.resource)
        return isinstance(writer, FileProbe) and writer.is_absent(target)
