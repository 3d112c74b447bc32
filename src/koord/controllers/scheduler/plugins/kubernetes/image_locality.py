# SPDX-License-Identifier: Apache-2.0
"""ImageLocality: nodes that have the pod's images already go first.

Rule: docs/reference/stock-plugins.md#other-scores. An image counts by its size times the fraction
of nodes that have it, so that not all pods run after the first node that pulled it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows

_NODE = int(Aspect.NODE)
_MIB = 1 << 20
LEAST_BYTES, MOST_BYTES_A_CONTAINER = 23 * _MIB, 1000 * _MIB


class ImageLocality(Plugin):
    """Follows the table's nodes; see the head of this file."""

    name = "ImageLocality"
    depends = Aspect.NODE
    applies_by_shape = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: None, handle: object) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self._seen = self._nodes = -1
        # By row the images that its node reported last; by name the rows that have one, with sizes.
        self._listed: dict[int, tuple[object, frozenset[str]]] = {}
        self._rows: dict[str, dict[int, int]] = {}

    @property
    def reads(self) -> PodField:  # type: ignore[override]
        """The images, once any node has any."""
        self._follow()
        return PodField.IMAGES if self._rows else PodField.NONE

    def applies(self, cycle: Cycle) -> bool:
        """To pods of which some node has an image."""
        self._follow()
        return any(image in self._rows for image in self._images(cycle.shape))

    def generation(self, cycle: Cycle) -> Hashable:
        """How many nodes have each image, and how many there are."""
        return len(cycle.table), *(len(self._of(image)) for image in self._images(cycle.shape))

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100 by the bytes that need not be pulled."""
        images = self._images(cycle.shape)
        nodes = len(cycle.table)
        total = np.zeros(cycle.table.size, np.int64)
        for image in images:
            having = self._of(image)
            spread = len(having) / nodes
            for row, size in having.items():
                total[row] += int(size * spread)
        most = MOST_BYTES_A_CONTAINER * len(images)
        part = np.clip(total[rows], LEAST_BYTES, most) - LEAST_BYTES
        return part * 100 // (most - LEAST_BYTES)

    def _of(self, image: str) -> Mapping[int, int]:
        return self._rows.get(image, {})

    def _images(self, shape: PodShape) -> tuple[str, ...]:
        images: tuple[str, ...] | None = shape.memo.get(self.name)
        if images is None:
            spec = shape.pod.spec
            containers = (*spec.init_containers, *spec.containers)
            images = shape.memo[self.name] = tuple(_full_name(each.image) for each in containers)
        return images

    def _follow(self) -> None:
        """Takes over what nodes say of their images since it last looked."""
        table = self.handle.table
        if table.nodes_version == self._nodes:
            return
        self._nodes = table.nodes_version
        changes = table.changes(self._seen) if self._seen >= 0 else None
        self._seen = table.version
        rows = (
            range(table.size)
            if changes is None
            else (row for row, aspects in changes.items() if aspects & _NODE)
        )
        for row in rows:
            self._take(row)

    def _take(self, row: int) -> None:
        node = self.handle.table.nodes[row]
        images = node.status.images if node is not None else None
        before = self._listed.get(row)
        if before is not None and before[0] is images:
            return
        for name in before[1] if before is not None else ():
            having = self._rows[name]
            del having[row]
            if not having:
                del self._rows[name]
        sizes = {name: each.size_bytes for each in images or () for name in each.names}
        for name, size in sizes.items():
            self._rows.setdefault(name, {})[row] = size
        self._listed[row] = (images, frozenset(sizes))


def _full_name(image: str) -> str:
    """An image's name as runtimes report it: with a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
