# SPDX-License-Identifier: Apache-2.0
"""What owners ask of an executor: what lower layers make of files, and what files say now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.composition.value_resolver import compose
from koord.agent.executor.target import CPUS, EFFECTIVE_CPUS, Target
from koord.agent.executor.writers.target_writer import BatchReader
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.executor.claim import Layer
    from koord.agent.executor.composition.claim_index import ClaimIndex
    from koord.agent.executor.journal import Journal
    from koord.agent.executor.target import Value
    from koord.agent.executor.writers.target_writer import TargetWriter

    # Of what directories, as things stood, and what came out.
    Known = tuple[list[str], tuple[int, int], list[int | None]]


class ClaimQueries:
    """Answers owners' questions about targets: what is claimed below a layer, and what files say.

    Args:
        board: the claims.
        journal: the originals.
        kind_of: the kind of a resource.
        version: of the cgroup tree.
    """

    def __init__(
        self,
        board: ClaimIndex,
        journal: Journal,
        kind_of: Callable[[str], TargetWriter],
        version: Version,
    ) -> None:
        self._claims, self._journal = board, journal
        self._kind_of, self._version = kind_of, version
        self._known: dict[tuple[str, Layer], Known] = {}

    def bases(self, resource: str, directories: list[str], below: Layer) -> list[int | None]:
        """An original is a base only for claims that stand on it.

        The same list while the claims, the originals and the directories, as an object, are the
        same: who asks every second is answered at once.
        """
        stand = (self._claims.generation, self._journal.generation)
        known = self._known.get((resource, below))
        if known is None or known[0] is not directories or known[1] != stand:
            found = [self._base(Target(resource, each), below) for each in directories]
            self._known[resource, below] = known = (directories, stand, found)
        return known[2]

    def _base(self, target: Target, below: Layer) -> int | None:
        claims = [owned for owned in self._claims.of(target) if owned.claim.layer < below]
        original = self._journal.original(target)
        made = compose(target.resource, claims, original) if claims else None
        return int(made.value) if made and made.owners else None

    def current(self, resource: str, directory: str) -> str | None:
        """Of a cgroup without CPUs of its own (v2) those that its processes can run on."""
        said = self._held(Target(resource, directory))
        if resource == CPUS and said == "" and self._version is Version.V2:
            return self.current(EFFECTIVE_CPUS, directory)
        return None if said is None else str(said)

    def values(self, resource: str, directories: list[str]) -> list[Value | None]:
        """Read in one go where the kind can."""
        kind = self._kind_of(resource)
        if isinstance(kind, BatchReader):
            return kind.values(resource, directories)
        return [self._held(Target(resource, directory)) for directory in directories]

    def _held(self, target: Target) -> Value | None:
        try:
            return self._kind_of(target.resource).held(target)
        except (OSError, ValueError):
            return None
