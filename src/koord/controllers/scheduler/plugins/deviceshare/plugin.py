# SPDX-License-Identifier: Apache-2.0
"""The plugin DeviceShare at the extension points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from koord.api.protocol import keys, reservations
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.recounting import by_row
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.topology_manager import Alignment
from koord.controllers.scheduler.plugins.deviceshare import queueing_hints, reasons
from koord.controllers.scheduler.plugins.deviceshare.allocation.allocator import DeviceAllocator
from koord.controllers.scheduler.plugins.deviceshare.allocation.designated_allocation import (
    designated,
)
from koord.controllers.scheduler.plugins.deviceshare.allocation.reservation_pools import (
    NodeDeviceAllocator,
)
from koord.controllers.scheduler.plugins.deviceshare.allocation.topology_hints import (
    designated_hints,
    device_hints,
)
from koord.controllers.scheduler.plugins.deviceshare.args import options_of
from koord.controllers.scheduler.plugins.deviceshare.evaluation.card_choice import CardChooser
from koord.controllers.scheduler.plugins.deviceshare.evaluation.fragmentation import (
    UNRATED,
    FragmentationScorer,
)
from koord.controllers.scheduler.plugins.deviceshare.evaluation.kept_answers import (
    KeptDeviceAnswers,
)
from koord.controllers.scheduler.plugins.deviceshare.evaluation.node_evaluator import (
    DeviceNodeEvaluator,
)
from koord.controllers.scheduler.plugins.deviceshare.evaluation.scoring import DeviceScorer
from koord.controllers.scheduler.plugins.deviceshare.explain import debug
from koord.controllers.scheduler.plugins.deviceshare.explain.shortfall import device_shortfalls
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, NAME
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    allocation_text,
    sums,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import (
    DeviceRequest,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import resources_text
from koord.controllers.scheduler.plugins.deviceshare.state.cache import DeviceCache
from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState
from koord.controllers.scheduler.plugins.deviceshare.state.event_handlers import DeviceTracker
from koord.controllers.scheduler.plugins.deviceshare.state.recorded_cards import RecordedCards
from koord.controllers.scheduler.plugins.deviceshare.state.request_table import DeviceRequestTable
from koord.controllers.scheduler.plugins.deviceshare.state.templates import TemplateCache
from koord.controllers.scheduler.plugins.deviceshare.writers import device_plugin_adapter
from koord.controllers.scheduler.plugins.deviceshare.writers.node_lock import NodeLocks
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    nominated,
    reservation_of,
)
from koord.kernels.numa import Provider

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.topology_manager import HintProvider
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.numa import Zones

_LOG = log.get("scheduler.deviceshare")
# Plain integers: flags of an enumeration are slow, and these are tested for every change.
_DEVICES = int(Aspect.DEVICES)
_ASPECTS = cast("Aspect", int(Aspect.NODE | Aspect.DEVICES | Aspect.RESERVATIONS))
_ASPECTS_AND_PODS = cast("Aspect", int(_ASPECTS | Aspect.PODS))


class DeviceShare(Plugin):
    """Finds nodes with the devices that a pod requests, and gives it cards of one.

    Rule: docs/reference/devices.md.

    Args:
        args: DeviceShareArgs, or None for the defaults.
        handle: the cluster's state.
    """

    name: ClassVar[str] = NAME
    reads = PodField.DEVICES
    account: ClassVar[str] = "devices"
    restores_from: ClassVar[tuple[str, ...]] = (keys.DEVICE_ALLOCATED,)
    listens_by_shape: ClassVar[bool] = False
    depends: ClassVar[Aspect] = _ASPECTS
    applies_by_shape: ClassVar[bool] = True
    allocations_only: ClassVar[bool] = True
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.DEFAULT
    reservation_normalization: ClassVar[Normalization] = Normalization.DEFAULT

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.options = options_of(args)
        self.tracker = DeviceTracker(handle)
        self.cache = self.tracker.cache
        self._requests = DeviceRequestTable()
        self._recorded = RecordedCards(handle, self.tracker, self._read)
        self.evaluator = DeviceNodeEvaluator(self.tracker, self.options)
        self.scorer = DeviceScorer(self.evaluator, self.options)
        self.fragmentation: FragmentationScorer | None = None
        if self.options.fragmentation:
            self.fragmentation = FragmentationScorer(handle.table, self.tracker, self.options)
            # What a placement costs depends on free CPU and memory too.
            self.depends = _ASPECTS_AND_PODS  # type: ignore[misc]
            self.normalization = Normalization.NONE  # type: ignore[misc]
        self._kept = KeptDeviceAnswers(handle.table, int(self.depends), self.evaluator, self.scorer)
        self._templates = TemplateCache(handle, self.options.templates)
        self._chooser = CardChooser(self.evaluator, self.scorer)
        self._locks = NodeLocks()

    # The pod.

    def applies(self, cycle: Cycle) -> bool:
        """Whether the pod asks for devices, or any pod matters to fragmentation."""
        return self.fragmentation is not None or self._read(cycle.shape) is not None

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods that ask for no devices. Bound ones may hold some even so."""
        if self.fragmentation is not None or self._read(shape) is not None:
            return ()
        return ("pre_filter", "filter", "score", "reserve", "pre_bind")

    def answers_at_once(self, cycle: Cycle) -> bool:
        """Where numbers of cards decide, which one call finds for all nodes."""
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or self.fragmentation is not None:
            return False
        narrowed = cycle_state.designated or cycle_state.templates is not None
        return cycle_state.request.by_count and not narrowed

    def generation(self, cycle: Cycle) -> Hashable:
        """Designated cards, templates and the estimate do not follow from shape and row."""
        cycle_state = self._cycle_state(cycle)
        designated = cycle_state.designated if cycle_state is not None else ()
        return (designated, self._templates.generation, self._epoch(cycle))

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses what no node can serve: illegal requests and annotations."""
        read = self._read(cycle.shape)
        if isinstance(read, str):
            return Rejection(NAME, (read,), unresolvable=True)
        if self.fragmentation is not None:
            self.fragmentation.arrived(cycle.pod, self._shape(cycle, read))
        if read is None:
            return None
        made = self._make_cycle_state(cycle, read)
        if isinstance(made, str):
            return Rejection(NAME, (made,), unresolvable=True)
        cycle.state[NAME] = made
        if self.options.aligned:
            Alignment.of(cycle).join(cast("HintProvider", self))
        return None

    debug_paths: ClassVar[Sequence[str]] = ("nodeDeviceSummaries", "nodeDeviceSummaries/:name")

    def debug(self, path: Sequence[str]) -> object:
        """``nodeDeviceSummaries`` of all nodes, ``nodeDeviceSummaries/NAME`` of one.

        Raises:
            KeyError: there is no such path, or nothing is known of the node's devices.
        """
        self.tracker.follow()
        if list(path) == ["nodeDeviceSummaries"]:
            return debug.summaries(self.cache)
        if len(path) == 2 and path[0] == "nodeDeviceSummaries":
            return debug.summary(self.cache, path[1])
        return super().debug(path)

    def events(self) -> Sequence[HintedEvent]:
        """Pods that leave cards behind, Devices that have more, nodes that come with some."""
        return queueing_hints.events(self._read, self.tracker.device)

    # Nodes.

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the node can serve the pod."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        kept = None if cycle_state is None else self._kept.fits(cycle_state, rows)
        if kept is not None:
            return kept
        index = _index(cycle, rows)
        if cycle_state is None:
            return np.ones(len(index), np.bool_)
        return self.evaluator.passes(cycle_state, index)

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> list[Rejection]:
        """Why each of some rejected rows was rejected."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        assert cycle_state is not None  # a pod without devices is refused nowhere
        return self.evaluator.diagnose(cycle_state, rows)

    def shortfall(self, cycle: Cycle, row: int) -> list[str]:
        """Cards, or shares of one, that are free against those that are wanted."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or not self.tracker.columns.known[row]:
            return []
        return device_shortfalls(self.evaluator, cycle_state, row)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """Raw scores: shares of the highest count, or 0..100 by what a placement costs."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if self.fragmentation is None and cycle_state is not None:
            kept = self._kept.scores(cycle_state, rows)
            if kept is not None:
                return kept
        index = _index(cycle, rows)
        if self.fragmentation is not None:
            shape = self._shape(cycle, cycle_state.request if cycle_state is not None else None)
            if shape != UNRATED:
                return self.fragmentation.rate(shape, index)
        if cycle_state is None:
            return np.zeros(len(index), np.int64)
        raw = self.scorer.score(cycle_state, index)
        return raw if self.fragmentation is None else raw // len(cycle_state.request.requests)

    # Reservations.

    def heeds_reservations(self, cycle: Cycle) -> bool:
        """Only for pods that want devices."""
        return self._cycle_state(cycle) is not None

    def filter_reservation(
        self, cycle: Cycle, row: int, matched: MatchedReservation
    ) -> Rejection | None:
        """Why the pod cannot have its devices with one reservation; None if it can."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or not self.tracker.columns.known[row]:
            return None
        base = self.evaluator.base(cycle_state, row)
        request = cycle_state.request
        chosen = NodeDeviceAllocator(self.cache, row, request, [matched], base).allocate()
        return Rejection(NAME, chosen.reasons) if isinstance(chosen, Rejection) else None

    def score_reservation(self, cycle: Cycle, row: int, matched: MatchedReservation) -> int:
        """The node's raw score with what the reservation has left: 0..100 a device type."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or not self.tracker.columns.known[row]:
            return 0
        return self.scorer.score_with(cycle_state, row, matched)

    # Joint choice of NUMA nodes.

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> Provider:
        """Which NUMA nodes could serve the pod's devices."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        inventory = self.cache.nodes[row].inventory
        if cycle_state is None or inventory is None:
            return Provider()
        if cycle_state.designated:
            return designated_hints(cycle_state.designated, inventory, zones)
        wanted = DeviceAllocator(self.cache, row, cycle_state.request).demands()

        def attempt(numa_nodes: int) -> CardAllocations | Rejection:
            return self._chooser.try_numa_nodes(cycle_state, row, numa_nodes)

        return device_hints(inventory, zones, wanted, attempt)

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        """Whether the devices can come from some NUMA nodes; a trial."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or not self.tracker.columns.known[row]:
            return None
        chosen = self._chooser.try_numa_nodes(cycle_state, row, _word(affinity))
        return Rejection(NAME, chosen.reasons) if isinstance(chosen, Rejection) else None

    # Holding.

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Chooses cards; nothing where the node has no Device: the kubelet will."""
        self.tracker.follow()
        cycle_state = self._cycle_state(cycle)
        if cycle_state is None or not self.tracker.columns.known[row]:
            return None
        numa_nodes: int | None = None
        if self.options.aligned:
            decided = Alignment.of(cycle).decide(row)
            if isinstance(decided, Rejection):
                return decided
            numa_nodes = _word(decided.zones)
        matched = nominated(cycle, row)
        uid = matched.uid if matched is not None else None
        gpus = self._preferred_gpus(cycle, cycle_state, row)
        chosen = self._chooser.choose(cycle_state, row, numa_nodes, uid, gpus)
        if isinstance(chosen, Rejection):
            return chosen
        template = self.evaluator.template(cycle_state, row)
        cycle.pod.allocations[NAME] = tuple(
            held._replace(template=template) if held.type == GPU else held for held in chosen
        )
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Forgets the choice."""
        cycle.pod.allocations.pop(NAME, None)

    def restore(self, pod: PodInfo) -> None:
        """Reads what a bound pod holds from its annotation."""
        self._recorded.restore(pod)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts a pod's devices."""
        if not pod.allocations.get(NAME):
            return
        self.tracker.ensure(row)
        _count(self.cache, row, pod)
        self.handle.table.touch(row, _DEVICES)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        if not pod.allocations.get(NAME):
            return
        self.tracker.ensure(row)
        self.cache.drop(row, pod.uid)
        self.handle.table.touch(row, _DEVICES)

    def recount(self) -> Iterator[str | None]:
        """Cards that pods hold, node by node."""
        return by_row(self.handle.table, self._differs)

    def _differs(self, row: int) -> bool:
        self.tracker.follow()
        pods = [p for p in self.handle.table.pods[row].values() if p.allocations.get(NAME)]
        node = self.cache.nodes[row]
        if not pods and not node.holders and node.inventory is None:
            return False
        fresh = DeviceCache()
        fresh.open(0, node.name)
        for pod in pods:
            _count(fresh, 0, pod)
        return self.cache.holdings(row) != fresh.holdings(0)

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Writes what the pod got, with the cards' ids."""
        holdings: CardAllocations | None = cycle.pod.allocations.get(NAME)
        if not holdings:
            return
        node = self.cache.nodes[row]
        changes.annotations[keys.DEVICE_ALLOCATED] = allocation_text(holdings, node.id_of)
        if self.handle.gate("ResizePod") and reservations.is_reserve_pod(cycle.pod.pod):
            resized = resources_text(sums(holdings))
            changes.annotations[keys.RESERVATION_RESIZE_ALLOCATABLE] = resized
        if self.handle.gate(device_plugin_adapter.GATE):
            card = device_plugin_adapter.GPUModel(*self.tracker.vendor_and_model(row))
            await device_plugin_adapter.adapt(
                self.handle, self._locks, cycle.pod.pod, node, holdings, card, changes
            )

    # What is kept by shape and by attempt.

    def _preferred_gpus(self, cycle: Cycle, cycle_state: DeviceCycleState, row: int) -> int:
        """The GPUs that the policy takes on a row, as a word; 0 where it does not say."""
        request = cycle_state.request
        if self.fragmentation is None or not request.gpu or cycle_state.designated:
            return 0
        return self.fragmentation.choose(self._shape(cycle, request), row)

    def _read(self, shape: PodShape) -> DeviceRequest | str | None:
        """What the pod wants, read once a shape; a text if it cannot be."""
        memo = shape.memo
        if NAME not in memo:
            memo[NAME] = self._requests.of(shape)
        read: DeviceRequest | str | None = memo[NAME]
        return read

    def _cycle_state(self, cycle: Cycle) -> DeviceCycleState | None:
        """What holds in this attempt; None for a pod that requests no devices."""
        kept: DeviceCycleState | None = cycle.state.get(NAME)
        if kept is None:
            read = self._read(cycle.shape)
            made = self._make_cycle_state(cycle, read) if isinstance(read, DeviceRequest) else None
            if isinstance(made, DeviceCycleState):
                kept = cycle.state[NAME] = made
        return kept

    def _make_cycle_state(self, cycle: Cycle, request: DeviceRequest) -> DeviceCycleState | str:
        templates = None
        if request.gpu is not None and request.shared:
            per_card = request.gpu.per_card
            if any(name in per_card for name in self.options.matched_resources):
                templates = self._templates.templates.matching(per_card)
                if not templates:
                    return reasons.NO_TEMPLATE
        try:
            keep = designated(cycle.pod.pod)
            models = bool(self.options.unsupported_models)
            return DeviceCycleState(request, cycle, templates, keep, models=models)
        except KoordError as error:
            return str(error)

    def _shape(self, cycle: Cycle, request: DeviceRequest | str | None) -> int:
        if self.fragmentation is None or isinstance(request, str):
            return UNRATED
        return self.fragmentation.shape(cycle.shape, request)

    def _epoch(self, cycle: Cycle) -> int:
        if self.fragmentation is None:
            return 0
        return self.fragmentation.epoch(self._shape(cycle, self._read(cycle.shape)))


def _count(cache: DeviceCache, row: int, pod: PodInfo) -> None:
    """Counts the devices of a pod that has some."""
    reserved = pod.allocations.get("Reservation")
    taken_over = reserved.pre_allocated if reserved is not None else ()
    cache.add(row, pod.uid, pod.key, pod.allocations[NAME], reservation_of(pod), taken_over)


def _index(cycle: Cycle, rows: Rows) -> NDArray[np.intp]:
    if isinstance(rows, slice):
        return np.arange(*rows.indices(cycle.table.size), dtype=np.intp)
    return rows


def _word(zones: tuple[int, ...] | None) -> int | None:
    return None if zones is None else sum(1 << zone for zone in zones)
