# SPDX-License-Identifier: Apache-2.0
"""The extension points: a plugin is a class that inherits those it takes part in.

Filter and Score are columnar: they answer for many rows of the node table at once, and are asked
again only for rows that changed in an aspect they depend on. All points but PreBind and Bind are
plain functions that must not wait.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from msgspec import Struct

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.changed_rows import Rows as Rows
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.rejection import Rejection, Wait
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import RoomCheck, RoomScore

# No resource has such a name.
SCORED_CPU, SCORED_MEMORY = "scored cpu", "scored memory"
"""Amounts of a pod as scores count them; see :meth:`Plugin.fit_kernel_amounts`."""


class Plugin:
    """What every plugin is.

    Args:
        args: its configuration, typed; None where it takes none.
        handle: the way to everything outside of the plugin.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Struct] | None] = None
    """Of an outside plugin: the type of its arguments in a configuration, None if it takes none."""
    depends: ClassVar[Aspect] = Aspect.ALL
    """Which changes of a row make the plugin's Filter and Score answers for it stale."""
    by_columns: ClassVar[bool] = False
    """Whether all that Filter reads of pods on a row are the request columns of the table.

    Preemption then tries many rows at once, with changed columns.
    """
    applies_by_shape: ClassVar[bool] = False
    """Whether :meth:`applies` depends on the shape and the table's generation alone: it is then
    asked when :meth:`idle_points` is."""
    reads: PodField = PodField.ALL
    """Which parts of a pod decide what :meth:`idle_points` says, and :meth:`applies` where that is
    by shape: for pods that have none of them both follow from the names of the resources that they
    request, and the table's generation. Then they are asked of one such shape for all. May be a
    property that follows the generation; but for ``pod_added`` the same at all times."""
    idle_score: ClassVar[int] = 0
    """What every node counts with, 0 to 100, where :meth:`idle_points` leaves Score out because all
    would get the same: of no consequence for the choice, but a part of the totals that are told."""
    answers_read: ClassVar[PodField | None] = None
    """Which parts of a pod decide what Filter and Score say, beside what its containers request and
    what :meth:`generation` follows; None where that is not known. Shapes that have none of those
    that any plugin reads share answers where they request the same, and so do those to which the
    plugin does not apply: it may be asked for that before anything else."""
    kernels_by_requests: ClassVar[bool] = False
    """Whether :meth:`fit_kernel` and :meth:`score_kernel` are the same for all shapes whose
    containers request the same, among those for which the same plugins have anything to do."""
    filter_at_once: ClassVar[bool] = False
    """Whether Filter's answer for all nodes costs little more than to read columns of them. Of the
    first pod of a shape it is then not kept, which costs less where no second one comes."""
    score_at_once: ClassVar[bool] = False
    """The same of Score, which then does not read :attr:`Cycle.board` either. Where both hold for
    some pods alone, :meth:`answers_at_once` says for which.

    A plugin may have ``filter_bits(cycle)`` and ``score_bits(cycle)`` besides, which say the same
    of all rows as bits (:func:`koord.kernels.placement_board.row_bits`), or None where they do not
    for a pod. Filter's are the rows that pass, or True or False for all; Score's are weights with
    the rows that have them, the sum of which is normalised as ``DEFAULT``. Then many rows cost next
    to nothing, and no answers are kept for their sake.

    Or it may have ``filter_load(cycle)`` and ``score_load(cycle)``, of type
    :data:`koord.kernels.placement_board.LoadCheck` and ``LoadRating``, which a native search works
    out itself. What columns say of a row changes only where an aspect of it is touched on which the
    plugin depends."""
    listens_by_shape: ClassVar[bool] = True
    """Whether :meth:`idle_points` ever names ``pod_added``. Where it does not, it need not be asked
    about the shapes of pods that are bound already, of which a restart brings thousands."""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def answers_at_once(self, cycle: Cycle) -> bool:
        """Whether :attr:`filter_at_once` and :attr:`score_at_once` hold for this pod.

        A plugin that has ``reserved_answers(cycle)`` besides gives by it a pod's reservations as
        :data:`koord.kernels.placement_board.RowBounds` takes them, without the weight: then it is
        not asked about all rows, where its score is normalised as ``DEFAULT``.
        """
        return True

    def applies(self, cycle: Cycle) -> bool:
        """Whether Filter and Score have anything to say about pods of this shape (Skip if not).

        Asked at every attempt; must be cheap.
        """
        return True

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """The points at which the plugin has nothing to do for pods of a shape.

        Asked once a shape, and again in every generation of the table: when nodes came, changed or
        went, or a plugin has called :meth:`NodeTable.advance_generation`. The plugin is then left
        out at ``pre_filter``, ``filter``, ``score``, ``reserve`` (with ``unreserve``), ``permit``,
        ``pre_bind``, ``post_bind`` and ``pod_added`` (with ``pod_removed``), as named here. Of the
        last only the shape may decide, since who is told of a pod that came must be told that it
        goes.
        """
        return ()

    def fit_kernel(self, shape: PodShape) -> RoomCheck | None:
        """The kernel that is Filter's whole answer for pods of a shape; None if there is none.

        While the table's generation stays, Filter and :meth:`generation` are then not called for
        pods without an overlay, and Filter must say of these what the kernel says of the table's
        columns, with the generation 0. Kernels of all plugins answer in one call.
        """
        return None

    def score_kernel(self, shape: PodShape) -> RoomScore | None:
        """The same for Score."""
        return None

    def fit_kernel_amounts(self, names: Sequence[str]) -> Sequence[str] | None:
        """What the amounts of :meth:`fit_kernel` are, of the kernel's first resources in order.

        Where all plugins with ``kernels_by_requests`` say so, their kernels are compiled once for
        all pods that request the same resources, whatever the amounts.

        Args:
            names: of the resources that pods request.

        Returns:
            Names of resources; ``requests.PODS`` is the pod itself, :data:`SCORED_CPU` and
            :data:`SCORED_MEMORY` are ``PodShape.nonzero``. None for what it is not said of.
        """
        return None

    def score_kernel_amounts(self, names: Sequence[str]) -> Sequence[str] | None:
        """The same of :meth:`score_kernel`."""
        return None

    def generation(self, cycle: Cycle) -> Hashable:
        """What changes with whatever the answers depend on beside shape and rows.

        While it stays the same, answers are kept for rows that did not change. None stands for
        "never keep". A plugin that has a method ``stale_rows(cycle, since)`` too is asked by it
        which rows' answers may differ from those given at an earlier generation: an index array, or
        None for all of them. Rows that the table reports as changed need not be among them.

        Where Filter and Score differ in this, methods ``filter_generation`` and
        ``score_generation`` (and ``filter_applies``, ``filter_stale_rows`` and so on) take the
        place of the common ones.
        :attr:`Cycle.board` is set when Score's are called.
        """
        return 0

    def events(self) -> Sequence[HintedEvent]:
        """Which cluster events may make a pod schedulable that the plugin refused."""
        return ()

    def controllers(self) -> Sequence[tuple[str, Callable[[], Awaitable[object]]]]:
        """What runs beside the loop while this process leads: a name and a coroutine function."""
        return ()

    debug_paths: ClassVar[Sequence[str]] = ()
    """What :meth:`debug` answers, as in ``node/:name``; for the list of services."""

    def debug(self, path: Sequence[str]) -> object:
        """The JSON answer of ``/apis/v1/plugins/NAME/PATH``.

        Raises:
            KeyError: there is no such path; the text is for people.
        """
        known = ", ".join(self.debug_paths) or "nothing"
        raise KeyError(f"{self.name} has nothing at {'/'.join(path)!r}; there is {known}")


def normalization_of(plugin: Any, shape: PodShape) -> Normalization:
    """How a Score plugin's scores of pods of a shape become 0..100."""
    asked = getattr(plugin, "normalization_of", None)
    found: Normalization = asked(shape) if asked is not None else plugin.normalization
    return found


class PreEnqueue(Protocol):
    """May hold a pod back from the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Rejection | None:
        """None lets the pod into the active queue; a rejection gates it."""
        ...


class QueueSort(Protocol):
    """Orders the queue; one per scheduler."""

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[Any, ...]:
        """Smaller goes first."""
        ...


class PreFilter(Protocol):
    """Looks at the pod before any node."""

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """A rejection ends the attempt. May narrow the nodes by :meth:`Cycle.restrict`."""
        ...


class Filter(Protocol):
    """Says which nodes a pod may go to."""

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """By row of ``rows``: True where the pod may go."""
        ...

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Why the rows were refused, one rejection a row. Only asked for pods that fit nowhere."""
        ...


class ShortfallReporter(Protocol):
    """A Filter that can say by how much a node falls short; optional, for explanations."""

    def shortfall(self, cycle: Cycle, row: int) -> Sequence[str]:
        """Short phrases: what a row that Filter refused has, and what is wanted.

        Nothing where amounts are not what is wrong. What is short in the table's columns is told
        without it.
        """
        ...


class PerNodeFilter(Protocol):
    """A Filter that can reason about one node at a time only: asked last, on survivors."""

    def filter_node(self, cycle: Cycle, row: int) -> Rejection | None:
        """None where the pod may go."""
        ...


class PostFilter(Protocol):
    """Tries to make room for a pod that fits nowhere."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Called in the profile's order until one succeeds."""
        ...


class PostFilterResult:
    """What came of it.

    Args:
        node: nominated: the pod will fit there soon; empty if not.
        message: joins the pod's condition and event.
        success: whether room was, or is being, made; later plugins are not asked.
        clear: whether an earlier nomination of the pod is to be taken back.
        victims: who had to go.
    """

    __slots__ = ("clear", "message", "node", "success", "victims")

    def __init__(
        self,
        node: str = "",
        message: str = "",
        success: bool = False,
        clear: bool = False,
        victims: Sequence[PodInfo] = (),
    ) -> None:
        self.node = node
        self.message = message
        self.success = success
        self.clear = clear
        self.victims = victims


class Normalization(Enum):
    """How raw scores become 0..100 among feasible rows (Kubernetes' NormalizeScore).

    NONE: they are already. DEFAULT: ``100 s / max`` (0 everywhere if max is 0). REVERSED: ``100 -``
    that (100 everywhere if max is 0). MIN_MAX: ``100 (s - min) / (max - min)``, 0 if all are
    equal. CUSTOM: by :meth:`Score.normalize`. SPREAD: ``100 (max + min - s) / max`` (100 everywhere
    if max is 0); rows of a negative score get 0 and are left out of both bounds.
    """

    NONE = 0
    DEFAULT = 1
    REVERSED = 2
    MIN_MAX = 3
    CUSTOM = 4
    SPREAD = 5


class PreScore(Protocol):
    """Looks at the feasible nodes before any is scored."""

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.intp]) -> None:
        """Rows that passed all filters, ascending."""
        ...


class Score(Protocol):
    """Says how good a node is.

    Where a plugin's scores of pods of some shapes are normalised otherwise than those of others, a
    method ``normalization_of(shape)`` says how; CUSTOM is for all of them or for none.
    """

    normalization: ClassVar[Normalization]

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """By row of ``rows``: the raw score. Asked for refused rows too; those do not count."""
        ...


class CustomNormalize(Protocol):
    """For :attr:`Normalization.CUSTOM`."""

    def normalize(
        self, cycle: Cycle, raw: NDArray[np.int64], feasible: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """0..100 by feasible row.

        Args:
            raw: scores of the feasible rows.
            feasible: those rows, ascending.
        """
        ...


class PerNodeScore(Protocol):
    """A Score that can reason about one node at a time only."""

    normalization: ClassVar[Normalization]

    def score_node(self, cycle: Cycle, row: int) -> int:
        """The raw score of a feasible row."""
        ...


class Reserve(Protocol):
    """Chooses on the node what the pod gets there."""

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Records what it chose in ``cycle.pod.allocations``; a PodListener then counts it."""
        ...

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Takes the choice back; called in reverse order, also where reserve was not reached."""
        ...


class PodListener(Protocol):
    """Keeps account of pods on nodes: assumed, bound and, in a what-if, moved.

    ``labels_matter = False`` in the class says that it does not look at pods' labels or annotations
    beyond its allocation, and need not hear when only those change. ``allocations_only = True``
    says that it looks at nothing else: it is told of pods only that have an allocation, of whatever
    plugin. ``restores_from`` in the class names the annotations that :meth:`restore` reads: of pods
    without any of them it is not asked. A listener may have ``pods_added(arrivals)`` too: pods
    that come with a list, as :class:`koord.controllers.cluster.pods.PodBatch`, to be counted as by
    :meth:`pod_added` one after the other. What follows from a shape is then worked out once.

    What is kept by cluster rather than by node has ``orphan_added(pod)`` and
    ``orphan_removed(pod)``: a pod is bound, or about to be, to a node that is not known (any more).
    It is on no row, but holds what it holds. Where its node comes (back) it is told of as of a pod
    that is added, and not as of an orphan that goes.
    """

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        ...

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse of :meth:`pod_added`."""
        ...

    def restore(self, pod: PodInfo) -> None:
        """Reads ``pod.allocations`` from the annotations of a pod that the API says is bound."""
        ...


class Permit(Protocol):
    """Allows, refuses or delays binding."""

    def permit(self, cycle: Cycle, row: int) -> Rejection | Wait | None:
        """None allows."""
        ...


class PreBind(Protocol):
    """What must be written before the pod is bound."""

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Adds to the one patch of the pod, or does its own writes; raises to undo it all."""
        ...


class Bind(Protocol):
    """Binds the pod; the first plugin that does not return False has done it."""

    async def bind(self, cycle: Cycle, node_name: str) -> bool:
        """False if this plugin does not bind this pod."""
        ...


class PostBind(Protocol):
    """Is told that a pod is bound."""

    def post_bind(self, cycle: Cycle, row: int) -> None:
        """Must not fail."""
        ...
