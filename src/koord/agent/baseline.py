# SPDX-License-Identifier: Apache-2.0
"""What a file says while no agent writes it: what koord gives back, whatever it found there.

Another agent may have written the files before koord came, so what they say at first sight is no
measure. Derived is what the kubelet and the runtime make of a pod's spec, or what the kernel starts
a cgroup with; where neither tells, what was found is kept. ``docs/takeover.md`` lists all files.

Rules: kubelet, ``pkg/kubelet/cm/helpers_linux.go`` (shares, quota, memory of a pod),
``pkg/kubelet/qos/policy.go`` (OOM scores); Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import (
    BURST,
    CLASSID,
    CPUS,
    OOM_SCORE_ADJ,
    PERIOD,
    QUOTA,
    SHARES,
    TERWAY_BANDWIDTH,
    TERWAY_PODS,
    Value,
    whole_pages,
)
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.states.cpu_manager import read_cpu_manager
from koord.agent.states.pod_state import ContainerKind, least_oom_score
from koord.agent.strategies import pod_resources
from koord.api.protocol.scheduling import resource_status
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.executor.target import Target
    from koord.agent.host.machine import Machine
    from koord.agent.states.pod_state import ContainerState, PodState

    # A directory's pod, and its container where it is one's.
    Owner = tuple[PodState, ContainerState | None]

_MEMORY_LIMIT, _OOM_GROUP = "memory.limit_in_bytes", "memory.oom.group"
_WEIGHT = "blkio.cost.weight"
_NO_LIMIT, _MOST = -1, 2**63 - 1
_PERIOD_US, _LEAST_SHARES = 100_000, 2

KERNEL: dict[str, Value] = {
    BURST: 0,
    "cpu.bvt_warp_ns": 0,
    "cpu.idle": 0,
    "memory.min": 0,
    "memory.low": 0,
    "memory.high": _MOST,
    "memory.wmark_ratio": 0,
    "memory.wmark_scale_factor": 50,
    "memory.wmark_min_adj": 0,
    "memory.priority": 0,
    "memory.use_priority_oom": 0,
    _OOM_GROUP: 0,
    "memory.pagecache_limit.enable": 0,
    "memory.pagecache_limit.size": 0,
    "memory.pagecache_limit.sync": 0,
    CLASSID: "0",
}
"""What the kernel starts a cgroup with, in files that neither kubelet nor runtime writes."""

_THROTTLES = frozenset(
    f"blkio.throttle.{way}_{unit}_device" for way in ("read", "write") for unit in ("bps", "iops")
)


class Baseline:
    """The values of one node, from its pods as they are now.

    Args:
        machine: layout, cgroup tree and memory of the node.
        pods: those of the node, newest; the same tuple while nothing changed.
    """

    def __init__(self, machine: Machine, pods: Callable[[], tuple[PodState, ...]]) -> None:
        self._machine, self._pods = machine, pods
        self._indexed: tuple[PodState, ...] | None = None
        self._owners: dict[str, Owner] = {}

    def __call__(self, target: Target, current: Value) -> Value:
        """What a target says while no agent writes it.

        Args:
            target: which value.
            current: what it said at first sight, in v1 units; the answer where nothing better is
                known.
        """
        if target.resource in (TERWAY_BANDWIDTH, TERWAY_PODS):
            return ""  # nobody but a node agent makes these files
        if not self._is_pods(target.directory):
            return current
        if target.resource in KERNEL:
            return self._of_kernel(target, current)
        if target.resource == CPUS:
            return self._cpus(target.directory, current)
        if self._machine.hierarchy.version is Version.V1:
            # The other agent has no files of block devices on v2.
            if target.resource in _THROTTLES:
                return f"{target.field} 0"
            if target.resource == _WEIGHT:
                return f"{target.field} 100"
        return self._of_spec(target, current)

    def _is_pods(self, directory: str) -> bool:
        kubepods = self._machine.layout.kubepods
        return directory == kubepods or directory.startswith(f"{kubepods}/")

    def _of_kernel(self, target: Target, current: Value) -> Value:
        v2 = self._machine.hierarchy.version is Version.V2
        if target.resource == _OOM_GROUP and v2 and self._is_container(target.directory):
            return current  # the kubelet's own choice (singleProcessOOMKill)
        return KERNEL[target.resource]

    def _of_spec(self, target: Target, current: Value) -> Value:
        if target == (QUOTA, self._machine.layout.best_effort, ""):
            return _NO_LIMIT
        owner = self._owner(target.directory)
        if owner is None:
            return current
        pod, container = owner
        if container is not None and container.spec is None:
            return current
        if target.resource == QUOTA:
            return self._quota(target.directory, pod, container, current)
        if target.resource == OOM_SCORE_ADJ:
            return self._oom_score(pod, container, current)
        context = pod_context(pod)
        asked = (
            context.requested
            if container is None
            else container_context(context, container).requested
        )
        if target.resource == SHARES:
            return self._shares(asked.cpu_shares, current)
        if target.resource == _MEMORY_LIMIT and asked.memory_limit_bytes is not None:
            return whole_pages(_MEMORY_LIMIT, asked.memory_limit_bytes, self._machine.page_bytes)
        return current

    # -- whose ---------------------------------------------------------------------------------

    def _owner(self, directory: str) -> Owner | None:
        pods = self._pods()
        if pods is not self._indexed:
            self._indexed, self._owners = pods, {}
            for pod in pods:
                self._owners[pod.directory] = (pod, None)
                self._owners |= {c.directory: (pod, c) for c in pod.containers if c.directory}
        return self._owners.get(directory)

    def _is_container(self, directory: str) -> bool:
        owner = self._owner(directory)
        return owner is not None and owner[1] is not None

    # -- CPU -----------------------------------------------------------------------------------

    def _quota(
        self, directory: str, pod: PodState, container: ContainerState | None, current: Value
    ) -> int:
        """No quota is kept: a kubelet may set none, and gives none to CPUs of its own binding.

        Only of a pod whose CPUs the scheduler bound it was the other agent that took the quota.
        """
        if current == _NO_LIMIT and not _is_bound(pod):
            return _NO_LIMIT
        if container is None:
            milli = pod_resources.kubelet_quota_milli(pod.pod) or 0
        else:
            assert container.spec is not None, "looked at before"
            milli = pod_resources.cpu_limit_milli(container.spec)
        return pod_resources.quota_us(milli, self._period_us(directory))

    def _period_us(self, directory: str) -> int:
        tree = self._machine.hierarchy
        try:
            return int(tree.read_text(tree.path_of(PERIOD, directory)).split()[-1])
        except (OSError, ValueError, IndexError):
            return _PERIOD_US

    def _shares(self, shares: int | None, current: Value) -> Value:
        # How runtimes make a weight of shares has changed; only the least is the same in all.
        v1 = self._machine.hierarchy.version is Version.V1
        return shares if shares is not None and (v1 or shares == _LEAST_SHARES) else current

    def _cpus(self, directory: str, current: Value) -> Value:
        """CPUs of the kubelet's binding; else those of all pods, which v2 says with nothing."""
        if directory == self._machine.layout.kubepods:
            return current
        try:
            kubelet = read_cpu_manager(self._machine.roots.kubelet)
        except (KoordError, OSError):
            return current
        owner = self._owner(directory)
        if kubelet.is_static and owner is not None and owner[1] is not None:
            return kubelet.cpus_of(owner[0].uid, owner[1].name) or current
        if self._machine.hierarchy.version is Version.V2:
            return ""
        tree = self._machine.hierarchy
        try:
            text = tree.read_text(tree.path_of(CPUS, self._machine.layout.kubepods))
        except OSError:
            return current
        return text.decode("ascii", "replace").strip() or current

    # -- memory --------------------------------------------------------------------------------

    def _oom_score(self, pod: PodState, container: ContainerState | None, current: Value) -> Value:
        if container is None or container.kind is not ContainerKind.REGULAR:
            return current
        if pod.pod.spec.resources is not None or container.spec is None:
            return current  # requests of the whole pod are divided by rules that vary
        return least_oom_score(pod, container, self._machine.memory_bytes)


def _is_bound(pod: PodState) -> bool:
    """Whether the scheduler bound its CPUs; a malformed annotation binds none."""
    try:
        return bool(resource_status(pod.pod).cpuset)
    except KoordError:
        return False
