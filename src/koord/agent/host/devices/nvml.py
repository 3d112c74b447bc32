# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's management library, loaded when first needed, with its errors as one line each.

``nvidia-ml-py`` is pure Python and loads the driver's library itself; without package, driver or
GPU there are no GPUs, and the reason says which is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base.errors import Code, KoordError
from koord.base.faults import point

if TYPE_CHECKING:
    from collections.abc import Callable

# Applications' own faults and such that the driver got over: docs/reference/measuring.md#gpus.
HARMLESS_XIDS = frozenset({13, 31, 43, 45, 68, 109})
_ALL_SAMPLES_SINCE = 1024


class GPUProcessUsage(NamedTuple):
    """What one process does on one GPU; ``core_percent`` is None without a sample of late."""

    pid: int
    memory_bytes: int
    core_percent: int | None


class GPUProperties(NamedTuple):
    """A GPU as NVML numbers and describes it."""

    number: int
    uuid: str
    minor: int
    memory_bytes: int
    bus_id: str
    model: str


class NVML:
    """One session with the driver.

    Args:
        module: ``pynvml``, or what stands in for it.

    Raises:
        KoordError: no package, no driver, or the driver refuses.
    """

    def __init__(self, module: Any = None) -> None:
        self._nvml = _module() if module is None else module
        self._call("nvmlInit")
        try:
            count = self._call("nvmlDeviceGetCount")
            self._handles = [self._call("nvmlDeviceGetHandleByIndex", i) for i in range(count)]
        except KoordError:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._handles)

    def driver(self) -> str:
        """Version of the driver; raises KoordError."""
        return _text(self._call("nvmlSystemGetDriverVersion"))

    def facts(self, index: int) -> GPUProperties:
        """What does not change while the driver is loaded; raises KoordError."""
        handle = self._handles[index]
        return GPUProperties(
            number=index,
            uuid=_text(self._call("nvmlDeviceGetUUID", handle)),
            minor=self._call("nvmlDeviceGetMinorNumber", handle),
            memory_bytes=self._call("nvmlDeviceGetMemoryInfo", handle).total,
            bus_id=_text(self._call("nvmlDeviceGetPciInfo", handle).busId),
            model=_text(self._call("nvmlDeviceGetName", handle)),
        )

    def processes(self, index: int) -> list[GPUProcessUsage]:
        """The compute processes of a GPU by id. Rule: docs/reference/measuring.md#gpus.

        A process without a sample of late did nothing on the GPU: its memory counts all the same.
        """
        handle = self._handles[index]
        running = self._call("nvmlDeviceGetComputeRunningProcesses", handle)
        percents: dict[int, int] = {}
        for sample in self._samples(handle):
            percents.setdefault(sample.pid, sample.smUtil)
        # A process within a MIG partition, or without permission to ask, has no memory figure.
        uses = {
            p.pid: GPUProcessUsage(p.pid, p.usedGpuMemory or 0, percents.get(p.pid))
            for p in running
        }
        return [uses[pid] for pid in sorted(uses)]

    def _samples(self, handle: Any) -> list[Any]:
        try:
            samples = self._call("nvmlDeviceGetProcessUtilization", handle, _ALL_SAMPLES_SINCE)
        except KoordError as error:
            # "Not found" is how the library says that nothing was sampled.
            if error.code in (Code.NOT_FOUND, Code.UNSUPPORTED):
                return []
            raise
        return sorted(samples, key=lambda sample: sample.pid)

    def answers(self, index: int) -> bool:
        """Whether a GPU still talks and has no repair of its memory waiting for a reset."""
        try:
            self._call("nvmlDeviceGetMemoryInfo", self._handles[index])
        except KoordError:
            return False
        try:
            rows = self._call("nvmlDeviceGetRemappedRows", self._handles[index])
        except KoordError as error:
            return error.code == Code.UNSUPPORTED  # older GPUs do not remap
        _corrected, _uncorrected, pending, failed = rows
        return not pending and not failed

    def watch(self) -> tuple[Callable[[], list[tuple[str, int]]], list[str]]:
        """Begins to listen for critical errors of all GPUs.

        Returns:
            A function that gives (uuid, Xid) of what happened since it was last called, without
            waiting; and the UUIDs of GPUs that cannot be listened to.
        """
        events = self._call("nvmlEventSetCreate")
        mask = self._nvml.nvmlEventTypeXidCriticalError
        deaf = []
        for index, handle in enumerate(self._handles):
            try:
                self._call("nvmlDeviceRegisterEvents", handle, mask, events)
            except KoordError:
                deaf.append(self.facts(index).uuid)
        return lambda: self._drain(events), deaf

    def _drain(self, events: Any) -> list[tuple[str, int]]:
        found = []
        for _ in range(1000):  # a GPU that fails over and over must not keep us here
            try:
                event = self._nvml.nvmlEventSetWait_v2(events, 0)
            except self._nvml.NVMLError as error:
                if error.value == self._nvml.NVML_ERROR_TIMEOUT:
                    break
                raise _refusal("nvmlEventSetWait", error, self._nvml) from None
            uuid = _text(self._call("nvmlDeviceGetUUID", event.device))
            found.append((uuid, int(event.eventData)))
        return found

    def close(self) -> None:
        """Ends the session; a driver that is gone already is no error."""
        try:
            self._call("nvmlShutdown")
        except KoordError:
            return

    def _call(self, name: str, *arguments: Any) -> Any:
        point("host.nvml")
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as error:
            raise _refusal(name, error, self._nvml) from None


def _refusal(name: str, error: Any, nvml: Any) -> KoordError:
    codes = {
        nvml.NVML_ERROR_NOT_SUPPORTED: Code.UNSUPPORTED,
        nvml.NVML_ERROR_NOT_FOUND: Code.NOT_FOUND,
    }
    code = codes.get(error.value, Code.UNREADABLE)
    return KoordError("NVML", name, str(error), "an answer of the driver", code)


def _module() -> Any:
    try:
        return import_module("pynvml")
    except ImportError:
        raise KoordError(
            "NVML", "", "no package pynvml", "it from pip install 'koord[agent]'",
            Code.MISSING_EXTRA,
        ) from None  # fmt: skip


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
