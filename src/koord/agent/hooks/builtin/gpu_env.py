# SPDX-License-Identifier: Apache-2.0
"""GPU env: which GPUs a container sees, and its share of one under HAMi-core.

Rule: docs/reference/hooks.md#gpu-environment.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage
from koord.agent.hooks.pod_contexts import read_once
from koord.api.protocol import keys
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord.api.protocol.scheduling import AllocatedDevice, device_allocated
from koord.base.errors import KoordError
from koord.kernels.quantity import Rounding

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.hooks.options import HookOptions

_WHOLE_PERCENT = 100
_LOCKS = "/tmp/vgpulock"
_MINORS = range(64)


class GPUEnvInject(BaseHook):
    """Answers the environment, and under HAMi-core the mounts, of containers with GPUs."""

    name = "gpu env inject"
    gate = "GPUEnvInject"
    stages = frozenset({HookStage.PRE_CREATE_CONTAINER})

    def __init__(self, options: HookOptions) -> None:
        self._options = options

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Environment and mounts; only a container that is being made can take them.

        Raises:
            KoordError: the allocation is malformed, or lacks what HAMi-core needs.
        """
        pod = context.pod
        gpus = read_once(pod, device_allocated).get("gpu", [])
        if pod.reconciling or not context.name or not gpus:
            return None
        _check_minors(context, [gpu.minor for gpu in gpus])
        answer = HookResponse(reason="GPUs that the scheduler gave")
        minors = ",".join(str(gpu.minor) for gpu in gpus)
        answer.environment["NVIDIA_VISIBLE_DEVICES"] = minors
        if pod.labels.get(keys.GPU_ISOLATION_PROVIDER) == "HAMi-core":
            self._isolate(context, gpus[0], answer)
        return answer

    def _isolate(
        self, context: ContainerContext, gpu: AllocatedDevice, answer: HookResponse
    ) -> None:
        ratio = _needed(context, gpu, GPU_MEMORY_RATIO)
        if ratio >= _WHOLE_PERCENT:
            return
        library, environment = self._options.hami_library, answer.environment
        limits = {"CUDA_DEVICE_MEMORY_LIMIT": str(_needed(context, gpu, GPU_MEMORY))}
        if GPU_CORE in gpu.resources:
            limits["CUDA_DEVICE_SM_LIMIT"] = str(_needed(context, gpu, GPU_CORE))
        # The library locks in /tmp; on the host that is anybody's, and the same for all cards.
        locks = f"{posixpath.dirname(library)}/locks/{gpu.minor}"
        # No runtime makes a container with a mount of what the host lacks.
        if not self._options.host_has(library):
            answer.missing.append(library)
            return
        if not _made(self._options.keep_directory, locks):
            answer.missing.append(locks)
            return
        environment |= {**limits, "LD_PRELOAD": library}
        answer.mounts += [(library, library), (locks, _LOCKS)]
        if self._options.gate("HamiCoreVGPUMonitor"):
            self._monitor(context, answer)

    def _monitor(self, context: ContainerContext, answer: HookResponse) -> None:
        directory = posixpath.dirname(self._options.hami_library)
        name = f"{_component(context, context.pod.uid)}_{_component(context, context.name)}"
        place = f"{directory}/containers/{name}"
        if not _made(self._options.make_directory, place):
            answer.missing.append(place)
            return
        answer.environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{directory}/{name}.cache"
        answer.mounts.append((place, directory))


def _made(make: Callable[[str], None], path: str) -> bool:
    try:
        make(path)
    except OSError:
        return False
    return True


def _needed(context: ContainerContext, gpu: AllocatedDevice, resource: str) -> int:
    found = gpu.resources.get(resource)
    if found is None:
        where = f"pod {context.pod.namespace}/{context.pod.name}"
        field = f"annotations[{keys.DEVICE_ALLOCATED}].gpu[{gpu.minor}].resources"
        raise KoordError(where, field, sorted(gpu.resources), f"{resource} among them")
    return found.value(Rounding.UP)


def _check_minors(context: ContainerContext, minors: list[int]) -> None:
    if len(set(minors)) == len(minors) and all(minor in _MINORS for minor in minors):
        return
    where = f"pod {context.pod.namespace}/{context.pod.name}"
    field = f"annotations[{keys.DEVICE_ALLOCATED}].gpu"
    raise KoordError(where, field, minors, f"minors from 0 to {_MINORS[-1]}, each once")


def _component(context: ContainerContext, name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        where = f"pod {context.pod.namespace}/{context.pod.name}"
        raise KoordError(where, "uid or container", name, "one that can name a directory")
    return name
