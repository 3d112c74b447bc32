# SPDX-License-Identifier: Apache-2.0
"""Limits and weights of block I/O: of the BE class, of pods, and cost models of the whole node.

Rule: docs/reference/strategies.md#block-io. A claim is one device's line of one file; the executor
gives a line back when nobody names its device any more, which is how devices leave the
configuration. Claims have the names and values of cgroup v1; the catalogue of
``koord.kernels.cgroup`` knows them on v2, where the four limits are names in one line of
``io.max`` and weights are those of ``io.weight``: both kernels take 1 to 10000 with 100 as the
default, so a percentage is the weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.claim import Claim
from koord.agent.strategies import one_node, readings
from koord.agent.strategies.blkio import decision
from koord.agent.strategies.blkio.device_resolver import DeviceResolver
from koord.agent.strategies.pod_overlay import lenient
from koord.api.protocol.agent import blkio_qos
from koord.api.protocol.qos import QoSClass
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.qos_strategy import BlkIOQOS, IOCfg, ResourceQOS, ResourceQOSStrategy

_THROTTLES = ("read_iops", "write_iops", "read_bps", "write_bps")
_MODEL = ("read_bps", "read_seq_iops", "read_rand_iops", "write_bps", "write_seq_iops",
          "write_rand_iops")  # fmt: skip
_MODEL_NAMES = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")
_REASON = "blkioQOS"


class BlkIO:
    """Claims limits and weights of block devices for the BE class and for pods.

    It looks at configuration and devices only, so no age of measurements matters.
    """

    name = "blkio"
    gate = "BlkIOReconcile"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds
        self._options = options
        self._scopes: set[str] = set()
        self._pods: tuple[PodState, ...] | None = None
        self._limited: list[tuple[PodState, BlkIOQOS]] = []

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        strategy = readings.slo_spec(tick).resource_qos_strategy
        if strategy is None:
            raise KoordError("NodeSLO", "resourceQOSStrategy", None, "one", Code.NOT_FOUND)
        if self._options.storage is None:
            raise KoordError("storage", "", None, "a list of devices", Code.UNSUPPORTED)
        kubelet = tick.machine.roots.kubelet
        found = DeviceResolver(self._options.storage(), self._options.volume_of, kubelet)
        wanted, notes = _wanted(tick, strategy, found, self._limited_pods(tick))
        for scope, claims in wanted.items():
            hands.executor.state(self.name, scope, claims)
        # A target whose devices cannot be told keeps what it has, and so do its claims.
        for scope in self._scopes - wanted.keys() - notes.keys():
            hands.executor.withdraw(self.name, scope)
        self._scopes = set(wanted) | (self._scopes & notes.keys())
        told: dict[str, object] = {"targets": {scope: len(c) for scope, c in wanted.items()}}
        return {**told, "unresolved": notes} if notes else told

    def _limited_pods(self, tick: Tick) -> list[tuple[PodState, BlkIOQOS]]:
        """Pods with settings of their own; read anew when the pods are others."""
        pods = tick.snapshot.pods.value
        if pods is not self._pods:
            self._pods, self._limited = pods, _with_settings(pods)
        return self._limited

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back."""
        self._scopes.clear()
        hands.executor.withdraw(self.name)


def _wanted(
    tick: Tick,
    strategy: ResourceQOSStrategy,
    resolver: DeviceResolver,
    limited: list[tuple[PodState, BlkIOQOS]],
) -> tuple[dict[str, list[Claim]], dict[str, str]]:
    wanted: dict[str, list[Claim]] = {}
    notes: dict[str, str] = {}

    def add(scope: str, directory: str, own: BlkIOQOS, pod: PodState | None) -> None:
        try:
            if scope == "root":
                wanted[scope] = _costs(own, resolver)
            else:
                wanted[scope] = _limits(directory, own, resolver, pod)
        except KoordError as error:
            notes[scope] = str(error)

    best_effort, root = _enabled(strategy.be_class), _enabled(strategy.cgroup_root)
    if best_effort is not None:
        add("be", tick.machine.layout.best_effort, best_effort, None)
    if root is not None:
        add("root", "", root, None)
    for pod, own in limited:
        add(pod.uid, pod.directory, own, pod)
    return wanted, notes


def _with_settings(pods: Sequence[PodState]) -> list[tuple[PodState, BlkIOQOS]]:
    """Running pods of a class whose annotation is there and does not switch limits off."""
    return [
        (pod, own)
        for pod in pods
        if pod.qos is not QoSClass.NONE and pod.pod.status.phase == "Running"
        if (own := lenient(blkio_qos, pod.pod)) is not None and own.enable is not False
    ]


def _enabled(section: ResourceQOS | None) -> BlkIOQOS | None:
    own = section.blkio_qos if section else None
    return own if own is not None and own.enable is True else None


def _limits(
    directory: str, own: BlkIOQOS, resolver: DeviceResolver, pod: PodState | None
) -> list[Claim]:
    claims: list[Claim] = []
    for block in own.blocks:
        number, config = resolver.number(block, pod), block.io_cfg
        limits = decision.throttles(_column(config, _THROTTLES))
        for name, value in zip(_THROTTLES, limits.tolist(), strict=True):
            resource = f"blkio.throttle.{name}_device"
            claims.append(Claim(resource, directory, f"{number} {value}", _REASON))
        weight = int(decision.weights(_column(config, ("io_weight_percent",)))[0])
        claims.append(Claim("blkio.cost.weight", directory, f"{number} {weight}", _REASON))
    return claims


def _costs(own: BlkIOQOS, resolver: DeviceResolver) -> list[Claim]:
    claims: list[Claim] = []
    for block in own.blocks:
        number, config = resolver.number(block, None), block.io_cfg
        latency, share = decision.latencies(
            _column(config, ("read_latency", "write_latency")),
            _column(config, ("read_latency_percent", "write_latency_percent")),
        )
        quality = (
            f"{number} enable=1 ctrl=user rpct={share[0]} rlat={latency[0]} "
            f"wpct={share[1]} wlat={latency[1]}"
        )
        claims.append(Claim("blkio.cost.qos", "", quality, _REASON))
        claims.append(Claim("blkio.cost.model", "", f"{number} {_model(config)}", _REASON))
    return claims


def _model(config: IOCfg | None) -> str:
    if config is None or not config.enable_user_model:
        return "ctrl=auto"
    # To the kernel 0 is a cost that is not counted; 1 would be a device of one byte a second.
    values = [getattr(config, f"model_{name}") or 0 for name in _MODEL]
    pairs = (f"{name}={value}" for name, value in zip(_MODEL_NAMES, values, strict=True))
    return f"ctrl=user {' '.join(pairs)}"


def _column(config: IOCfg | None, fields: tuple[str, ...]) -> NDArray[np.int64]:
    """The named settings, a row each."""
    values = [getattr(config, field) if config else None for field in fields]
    return one_node.column([decision.UNSET if value is None else value for value in values])
