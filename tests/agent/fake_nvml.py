# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ``pynvml``: the functions that koord calls, over GPUs described in the test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int, text: str = "") -> None:
        super().__init__(text or f"error {value}")
        self.value = value


@dataclass
class FakeGPU:
    uuid: str
    minor: int
    memory: int = 1 << 30
    bus_id: str = "00000000:3B:00.0"
    model: str = "NVIDIA A100-SXM4-80GB"
    running: dict[int, int | None] = field(default_factory=dict)  # bytes by process
    samples: list[tuple[int, int]] = field(default_factory=list)  # (process, percent)
    remapped: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    deaf: bool = False


class FakeNVML:
    """``broken`` names functions that fail, with the code that they fail with."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_GPU_IS_LOST = 15
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 (NVML's name)

    def __init__(self, *gpus: FakeGPU) -> None:
        self.gpus = list(gpus)
        self.broken: dict[str, int] = {}
        self.events: list[tuple[FakeGPU, int]] = []
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            if name in self.broken:
                raise NVMLError(self.broken[name], f"{name} broken")
            return getattr(self, f"do_{name}")(*arguments)

        return call

    def do_nvmlInit(self) -> None: ...  # noqa: N802
    def do_nvmlShutdown(self) -> None: ...  # noqa: N802

    def do_nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.54.15"

    def do_nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def do_nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGPU:  # noqa: N802
        return self.gpus[index]

    def do_nvmlDeviceGetUUID(self, gpu: FakeGPU) -> bytes:  # noqa: N802
        return gpu.uuid.encode()

    def do_nvmlDeviceGetMinorNumber(self, gpu: FakeGPU) -> int:  # noqa: N802
        return gpu.minor

    def do_nvmlDeviceGetMemoryInfo(self, gpu: FakeGPU) -> Any:  # noqa: N802
        return SimpleNamespace(total=gpu.memory)

    def do_nvmlDeviceGetPciInfo(self, gpu: FakeGPU) -> Any:  # noqa: N802
        return SimpleNamespace(busId=gpu.bus_id)

    def do_nvmlDeviceGetName(self, gpu: FakeGPU) -> str:  # noqa: N802
        return gpu.model

    def do_nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGPU) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in gpu.running.items()]

    def do_nvmlDeviceGetProcessUtilization(  # noqa: N802
        self, gpu: FakeGPU, since: int
    ) -> list[Any]:
        assert since == 1024
        if not gpu.samples:
            raise NVMLError(self.NVML_ERROR_NOT_FOUND, "Not Found")
        return [SimpleNamespace(pid=pid, smUtil=percent) for pid, percent in gpu.samples]

    def do_nvmlDeviceGetRemappedRows(self, gpu: FakeGPU) -> tuple[int, int, int, int]:  # noqa: N802
        if gpu.remapped is None:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return gpu.remapped

    def do_nvmlEventSetCreate(self) -> object:  # noqa: N802
        return object()

    def do_nvmlDeviceRegisterEvents(self, gpu: Any, mask: int, events: Any) -> None:  # noqa: N802
        del mask, events
        if gpu.deaf:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def do_nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:  # noqa: N802
        del events
        assert timeout_ms == 0
        if not self.events:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        gpu, xid = self.events.pop(0)
        return SimpleNamespace(device=gpu, eventData=xid)
