# SPDX-License-Identifier: Apache-2.0
"""The machine's NVIDIA GPUs: where they sit, whether they are well, who uses them how much."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from koord.agent.host.devices import pci
from koord.agent.host.devices.nvml import HARMLESS_XIDS, NVML
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from typing import Any

    from koord.agent.host.devices.nvml import GPUProcessUsage

RECOVER_AFTER_SECONDS = 600.0
NOT_WATCHED = "DeviceHealthCheckNotSupported"


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU.

    Attributes:
        index: NVML's number.
        uuid, minor, model: as NVML says.
        memory_bytes: in all.
        bus_id: as sysfs writes it.
        pcie_root: such as ``pci0000:3a``; empty where unknown.
        node: NUMA node; 0 where unknown.
        unhealthy: why, one word such as ``Xid79``; empty while it is well.
    """

    index: int
    uuid: str
    minor: int
    model: str
    memory_bytes: int
    bus_id: str
    pcie_root: str
    node: int
    unhealthy: str = ""


@dataclass(slots=True)
class _UnhealthyGPU:
    reason: str
    since_seconds: float


@dataclass(slots=True)
class GPUs:
    """One session with the driver and the health of its GPUs; see :func:`open_gpus`.

    A critical Xid makes a GPU unhealthy. The original keeps it so until koordlet restarts; here it
    is well again once no further one came for ``recover_after_seconds``, it answers, and no repair
    of its memory waits for a reset.
    """

    nvml: NVML
    driver: str
    listed: list[GPU]
    recover_after_seconds: float = RECOVER_AFTER_SECONDS
    _listen: Any = None
    _unhealthy: dict[str, _UnhealthyGPU] = field(default_factory=dict)
    _unwatched: frozenset[str] = frozenset()

    def inventory(self, now_seconds: float) -> list[GPU]:
        """All GPUs by index, with their health as of now.

        Raises:
            KoordError: the driver does not tell of events any more.
        """
        for uuid, xid in self._listen() if self._listen else ():
            if xid not in HARMLESS_XIDS:
                self._unhealthy[uuid] = _UnhealthyGPU(f"Xid{xid}", now_seconds)
        self._recover(now_seconds)
        return [self._with_health(gpu) for gpu in self.listed]

    def _recover(self, now_seconds: float) -> None:
        index_of = {gpu.uuid: gpu.index for gpu in self.listed}
        for uuid, ill in list(self._unhealthy.items()):
            quiet = now_seconds - ill.since_seconds >= self.recover_after_seconds
            if quiet and uuid in index_of and self.nvml.answers(index_of[uuid]):
                del self._unhealthy[uuid]

    def _with_health(self, gpu: GPU) -> GPU:
        if gpu.uuid in self._unhealthy:
            return replace(gpu, unhealthy=self._unhealthy[gpu.uuid].reason)
        return replace(gpu, unhealthy=NOT_WATCHED) if gpu.uuid in self._unwatched else gpu

    def processes(self, gpu: GPU) -> list[GPUProcessUsage]:
        """Who computes on a GPU; raises KoordError."""
        return self.nvml.processes(gpu.index)

    def close(self) -> None:
        """Ends the session."""
        self.nvml.close()


def open_gpus(sys: str, module: Any = None) -> GPUs:
    """Opens a session and takes the inventory.

    Args:
        sys: root of sysfs, for where the GPUs sit.
        module: ``pynvml`` by default.

    Raises:
        KoordError: no package, no driver, or a GPU that does not answer.
    """
    nvml = NVML(module)
    try:
        found = [_gpu(nvml, sys, index) for index in range(len(nvml))]
        gpus = GPUs(nvml, nvml.driver(), found)
        _watch(gpus)
    except KoordError:
        nvml.close()
        raise
    return gpus


def _watch(gpus: GPUs) -> None:
    try:
        gpus._listen, deaf = gpus.nvml.watch()
        gpus._unwatched = frozenset(deaf)
    except KoordError:
        gpus._unwatched = frozenset(gpu.uuid for gpu in gpus.listed)


def _gpu(nvml: NVML, sys: str, index: int) -> GPU:
    facts = nvml.facts(index)
    bus_id = pci.normal_bus_id(facts.bus_id)
    return GPU(
        index=index,
        uuid=facts.uuid,
        minor=facts.minor,
        model=facts.model,
        memory_bytes=facts.memory_bytes,
        bus_id=bus_id,
        pcie_root=pci.root_of(sys, bus_id) if bus_id else "",
        node=pci.node_of(sys, bus_id) if bus_id else 0,
    )
