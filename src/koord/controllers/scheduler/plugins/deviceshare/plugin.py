# SPDX-License-Identifier: Apache-2.0
"""DeviceShare at the extension points: finds nodes with the devices a pod wants and holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from koord.api.kinds.cluster import ConfigMap
from koord.api.protocol import keys, reservations
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.recount import by_row
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import adaption, debug, names, summary, waking
from koord.controllers.scheduler.plugins.deviceshare.allocator import Allocator, Terms
from koord.controllers.scheduler.plugins.deviceshare.ask import Ask, InvalidAskError, read_ask
from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache
from koord.controllers.scheduler.plugins.deviceshare.designated import designated
from koord.controllers.scheduler.plugins.deviceshare.fragmentation import (
    UNRATED,
    FragmentationScorer,
)
from koord.controllers.scheduler.plugins.deviceshare.hints import designated_hints, device_hints
from koord.controllers.scheduler.plugins.deviceshare.holding import (
    allocation_text,
    read_holdings,
    sums,
)
from koord.controllers.scheduler.plugins.deviceshare.judge import Judge, Question
from koord.controllers.scheduler.plugins.deviceshare.lacking import lacking
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, NAME
from koord.controllers.scheduler.plugins.deviceshare.nodelock import NodeLocks
from koord.controllers.scheduler.plugins.deviceshare.reserved import AllRefused, NodeAllocator
from koord.controllers.scheduler.plugins.deviceshare.scoring import NodeScorer
from koord.controllers.scheduler.plugins.deviceshare.settings import settings_of
from koord.controllers.scheduler.plugins.deviceshare.templates import Templates, read_templates
from koord.controllers.scheduler.plugins.deviceshare.tracking import Tracker
from koord.controllers.scheduler.plugins.reservation.offer import nominated, reservation_of
from koord.controllers.scheduler.queue.events import Action
from koord.controllers.scheduler.topology.alignment import Alignment
from koord.kernels.numa import Provider

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Changes, Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.deviceshare.holding import Holdings
    from koord.controllers.scheduler.plugins.reservation.offer import Offer
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.controllers.scheduler.topology.alignment import HintProvider
    from koord.kernels.numa import Zones

_LOG = log.get("scheduler.deviceshare")
# Plain integers: flags of an enumeration are slow, and these are tested for every change.
_DEVICES = int(Aspect.DEVICES)
_ASPECTS = cast("Aspect", int(Aspect.NODE | Aspect.DEVICES | Aspect.RESERVATIONS))
_ASPECTS_AND_PODS = cast("Aspect", int(_ASPECTS | Aspect.PODS))


class DeviceShare(Plugin):
    """See the head of this file; the rules stand in docs/reference/devices.md.

    Args:
        args: DeviceShareArgs, or None for the defaults.
        handle: the world.
    """

    name: ClassVar[str] = NAME
    account: ClassVar[str] = "devices"
    restores_from: ClassVar[tuple[str, ...]] = (keys.DEVICE_ALLOCATED,)
    told_by_shape: ClassVar[bool] = False
    depends: ClassVar[Aspect] = _ASPECTS
    applies_by_shape: ClassVar[bool] = True
    allocations_only: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.DEFAULT
    reservation_normalization: ClassVar[Normalization] = Normalization.DEFAULT

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.settings = settings_of(args)
        self.tracker = Tracker(handle)
        self.cache = self.tracker.cache
        self.judge = Judge(self.tracker, self.settings)
        self.scorer = NodeScorer(self.judge, self.settings)
        self.fragmentation: FragmentationScorer | None = None
        if self.settings.fragmentation:
            self.fragmentation = FragmentationScorer(handle.table, self.tracker, self.settings)
            # What a placement costs depends on free CPU and memory too.
            self.depends = _ASPECTS_AND_PODS  # type: ignore[misc]
            self.normalization = Normalization.NONE  # type: ignore[misc]
        self._templates = Templates({})
        self._templates_version = 0
        self._locks = NodeLocks()
        templates = handle.view_of(ConfigMap, *self.settings.templates)
        templates.on_change(self._config_map, self._config_map_updated)

    # The pod.

    def applies(self, cycle: Cycle) -> bool:
        """Whether the pod asks for devices, or any pod matters to fragmentation."""
        return self.fragmentation is not None or self._read(cycle.shape) is not None

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """Pods that ask for no devices. Bound ones may hold some even so."""
        if self.fragmentation is not None or self._read(shape) is not None:
            return ()
        return ("pre_filter", "filter", "score", "reserve", "pre_bind")

    def stamp(self, cycle: Cycle) -> Hashable:
        """Designated cards, templates and the estimate are not told by shape and row."""
        question = self._question(cycle)
        kept = question.designated if question is not None else ()
        return (kept, self._templates_version, self._epoch(cycle))

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses what no node can serve: illegal requests and annotations."""
        read = self._read(cycle.shape)
        if isinstance(read, str):
            return Rejection(NAME, (read,), unresolvable=True)
        if self.fragmentation is not None:
            self.fragmentation.arrived(cycle.pod, self._shape(cycle, read))
        if read is None:
            return None
        made = self._asked(cycle, read)
        if isinstance(made, str):
            return Rejection(NAME, (made,), unresolvable=True)
        cycle.state[NAME] = made
        if self.settings.aligned:
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
        return waking.events(self._read, self.tracker.device)

    # Nodes.

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the node can serve the pod."""
        self.tracker.follow()
        index = _index(cycle, rows)
        question = self._question(cycle)
        if question is None:
            return np.ones(len(index), np.bool_)
        return self.judge.passes(question, index)

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> list[Rejection]:
        """Why rows were refused."""
        self.tracker.follow()
        question = self._question(cycle)
        assert question is not None  # a pod without devices is refused nowhere
        return self.judge.why(question, rows)

    def lacks(self, cycle: Cycle, row: int) -> list[str]:
        """Cards, or shares of one, that are free against those that are wanted."""
        self.tracker.follow()
        question = self._question(cycle)
        if question is None or not self.tracker.known[row]:
            return []
        return lacking(self.judge, question, row)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """Raw scores: shares of the highest count, or 0..100 by what a placement costs."""
        self.tracker.follow()
        index = _index(cycle, rows)
        question = self._question(cycle)
        if self.fragmentation is not None:
            shape = self._shape(cycle, question.ask if question is not None else None)
            if shape != UNRATED:
                return self.fragmentation.rate(shape, index)
        if question is None:
            return np.zeros(len(index), np.int64)
        raw = self.scorer.score(question, index)
        return raw if self.fragmentation is None else raw // len(question.ask.requests)

    # Reservations.

    def heeds_reservations(self, cycle: Cycle) -> bool:
        """Only for pods that want devices."""
        return self._question(cycle) is not None

    def filter_reservation(self, cycle: Cycle, row: int, offer: Offer) -> Rejection | None:
        """Why the pod cannot have its devices with one reservation; None if it can."""
        self.tracker.follow()
        question = self._question(cycle)
        if question is None or not self.tracker.known[row]:
            return None
        base = self.judge.base(question, row)
        found = NodeAllocator(self.cache, row, question.ask, [offer], base).allocate()
        return Rejection(NAME, found.reasons) if isinstance(found, AllRefused) else None

    def score_reservation(self, cycle: Cycle, row: int, offer: Offer) -> int:
        """The node's raw score with what the reservation has left: 0..100 a device type."""
        self.tracker.follow()
        question = self._question(cycle)
        if question is None or not self.tracker.known[row]:
            return 0
        return self.scorer.score_offer(question, row, offer)

    # Joint choice of NUMA nodes.

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> Provider:
        """Which NUMA nodes could serve the pod's devices."""
        self.tracker.follow()
        question = self._question(cycle)
        inventory = self.cache.nodes[row].inventory
        if question is None or inventory is None:
            return Provider()
        if question.designated:
            return designated_hints(question.designated, inventory, zones)
        wanted = Allocator(self.cache, row, question.ask).demands()

        def attempt(word: int) -> Holdings | AllRefused:
            return self._choose(question, row, word, None, reserving=False)

        return device_hints(inventory, zones, wanted, attempt)

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        """Whether the devices can come from some NUMA nodes; a trial."""
        self.tracker.follow()
        question = self._question(cycle)
        if question is None or not self.tracker.known[row]:
            return None
        found = self._choose(question, row, _word(affinity), None, reserving=False)
        return Rejection(NAME, found.reasons) if isinstance(found, AllRefused) else None

    # Holding.

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Chooses cards; nothing where the node has no Device: the kubelet will."""
        self.tracker.follow()
        question = self._question(cycle)
        if question is None or not self.tracker.known[row]:
            return None
        numa_nodes: int | None = None
        if self.settings.aligned:
            decided = Alignment.of(cycle).decide(row)
            if isinstance(decided, Rejection):
                return decided
            numa_nodes = _word(decided.zones)
        found = self._placed(cycle, question, row, numa_nodes)
        if isinstance(found, AllRefused):
            return Rejection(NAME, found.reasons, found.unresolvable)
        template = self.judge.template(question, row)
        cycle.pod.allocations[NAME] = tuple(
            held._replace(template=template) if held.type == GPU else held for held in found
        )
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Forgets the choice."""
        cycle.pod.allocations.pop(NAME, None)

    def restore(self, pod: PodInfo) -> None:
        """Reads what a bound pod holds from its annotation."""
        holdings, problems = read_holdings(pod.pod)
        for problem in problems:
            _LOG.warning("devices of a pod cannot be read", extra=log.fields(reason=problem))
        if holdings:
            pod.allocations[NAME] = holdings

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

    async def pre_bind(self, cycle: Cycle, row: int, changes: Changes) -> None:
        """Writes what the pod got, with the cards' ids."""
        holdings: Holdings | None = cycle.pod.allocations.get(NAME)
        if not holdings:
            return
        node = self.cache.nodes[row]
        changes.annotations[keys.DEVICE_ALLOCATED] = allocation_text(holdings, node.id_of)
        if self.handle.gate("ResizePod") and reservations.is_reserve_pod(cycle.pod.pod):
            resized = summary.resources_text(sums(holdings))
            changes.annotations[keys.RESERVATION_RESIZE_ALLOCATABLE] = resized
        if self.handle.gate(adaption.GATE):
            card = adaption.Card(*self.tracker.vendor_and_model(row))
            await adaption.adapt(
                self.handle, self._locks, cycle.pod.pod, node, holdings, card, changes
            )

    # What is asked, and of whom.

    def _placed(
        self, cycle: Cycle, question: Question, row: int, numa_nodes: int | None
    ) -> Holdings | AllRefused:
        """The policy's GPUs where they will do, else those of the default order."""
        offer = nominated(cycle, row)
        uid = offer.uid if offer is not None else None
        if self.fragmentation is not None and question.ask.gpu and not question.designated:
            word = self.fragmentation.choose(self._shape(cycle, question.ask), row)
            if word:
                found = self._choose(question, row, numa_nodes, uid, only_gpus=word)
                if not isinstance(found, AllRefused):
                    return found
        return self._choose(question, row, numa_nodes, uid)

    def _choose(
        self,
        question: Question,
        row: int,
        numa_nodes: int | None,
        uid: str | None,
        *,
        reserving: bool = True,
        only_gpus: int = 0,
    ) -> Holdings | AllRefused:
        base = self.judge.base(question, row)
        terms = Terms(
            numa_nodes=numa_nodes,
            required={GPU: only_gpus} if only_gpus else {},
            caps=base.caps,
            designated=base.designated,
            reserving=reserving,
        )
        scoring = self.scorer.by_type if reserving else None
        offers = self.judge.offers(question, row)
        return NodeAllocator(self.cache, row, question.ask, offers, terms, scoring).allocate(uid)

    def _read(self, shape: PodShape) -> Ask | str | None:
        """What the pod wants, read once a shape; a text if it cannot be."""
        memo = shape.memo
        if NAME not in memo:
            try:
                memo[NAME] = read_ask(shape.pod, shape.request)
            except InvalidAskError as error:
                memo[NAME] = str(error)
        read: Ask | str | None = memo[NAME]
        return read

    def _question(self, cycle: Cycle) -> Question | None:
        """What is asked in this attempt; None for a pod that wants no devices."""
        found: Question | None = cycle.state.get(NAME)
        if found is None:
            read = self._read(cycle.shape)
            made = self._asked(cycle, read) if isinstance(read, Ask) else None
            if isinstance(made, Question):
                found = cycle.state[NAME] = made
        return found

    def _asked(self, cycle: Cycle, ask: Ask) -> Question | str:
        templates = None
        if ask.gpu is not None and ask.shared:
            each = ask.gpu.each
            if any(name in each for name in self.settings.matched_resources):
                templates = self._templates.matching(each)
                if not templates:
                    return names.NO_TEMPLATE
        try:
            kept = designated(cycle.pod.pod)
            models = bool(self.settings.unsupported_models)
            return Question(ask, cycle, templates, kept, models=models)
        except KoordError as error:
            return str(error)

    def _shape(self, cycle: Cycle, ask: Ask | str | None) -> int:
        if self.fragmentation is None or isinstance(ask, str):
            return UNRATED
        return self.fragmentation.shape(cycle.shape, ask)

    def _epoch(self, cycle: Cycle) -> int:
        if self.fragmentation is None:
            return 0
        return self.fragmentation.epoch(self._shape(cycle, self._read(cycle.shape)))

    def _config_map(self, found: ConfigMap) -> None:
        if (found.metadata.namespace, found.metadata.name) != self.settings.templates:
            return
        try:
            self._templates = read_templates(found.data, found.title)
        except KoordError as error:
            _LOG.warning("templates are left as they were", extra=log.fields(reason=str(error)))
            return
        self._templates_version += 1
        self.handle.wake(names.DEVICES_EVENT, Action.UPDATE, None, waking.EVERYTHING)

    def _config_map_updated(self, old: ConfigMap, found: ConfigMap) -> None:
        self._config_map(found)


def _count(cache: DeviceCache, row: int, pod: PodInfo) -> None:
    """Counts the devices of a pod that has some."""
    sits = pod.allocations.get("Reservation")
    over = sits.pre_allocated if sits is not None else ()
    cache.add(row, pod.uid, pod.key, pod.allocations[NAME], reservation_of(pod), over)


def _index(cycle: Cycle, rows: Rows) -> NDArray[np.intp]:
    return np.arange(cycle.table.size, dtype=np.intp)[rows] if isinstance(rows, slice) else rows


def _word(zones: tuple[int, ...] | None) -> int | None:
    return None if zones is None else sum(1 << zone for zone in zones)
