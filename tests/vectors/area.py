# SPDX-License-Identifier: Apache-2.0
"""What an area is, and where its vectors are kept."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol, cast

from tests.vectors import areas

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

Json = Any
LEAST_PERCENT = 80
VECTORS = Path(__file__).parents[1] / "data" / "vectors"


@dataclass(frozen=True)
class Difference:
    """A difference from the original that is known, by the name it has in docs/reference.

    Give ``adjusted`` where a case may differ for several reasons, else ``covers``. Both get the
    input, the original's answer (after earlier adjustments) and koord's.

    Attributes:
        reason: why koord's answer is another.
        covers: whether a case differs for that reason and for no other.
        adjusted: the original's answer as it were without this difference.
        pending: what has to be done before the difference goes away; only while it is not meant.
    """

    reason: str
    covers: Callable[[Json, Json, Json], bool] = lambda case, theirs, ours: False
    adjusted: Callable[[Json, Json, Json], Json] = lambda case, theirs, ours: theirs
    pending: str = ""


class Area(Protocol):
    """A module of :mod:`tests.vectors.areas`.

    One on which koord goes on from the original's answer has ``pair(case, theirs)`` besides: the
    case that ``answer`` gets, and the answer that is right.
    """

    SEED: int
    DIFFERENCES: Mapping[str, Difference]
    COVERAGE: Mapping[str, str]
    """Why less than :data:`LEAST_PERCENT` of a function is driven, by function."""

    def inputs(self, draw: random.Random) -> list[Json]:
        """At least 300 cases as JSON, the same ones for the same generator."""

    def answer(self, case: Json) -> Json:
        """What koord's own functions make of a case, in the form of the driver's answer."""


def names() -> list[str]:
    """The areas there are, in order."""
    return sorted(module.name for module in iter_modules(areas.__path__))


def load(name: str) -> Area:
    """An area by name."""
    return cast("Area", import_module(f"tests.vectors.areas.{name}"))


def vectors_path(name: str) -> Path:
    """Where an area's vectors are kept."""
    return VECTORS / f"{name}.json.gz"


def read_vectors(name: str) -> dict[str, Json]:
    """``area``, ``commit``, ``seed``, ``coverage`` by function, ``cases`` with ``in`` and ``out``.

    Raises:
        OSError: the area has none.
    """
    document: dict[str, Json] = json.loads(gzip.decompress(vectors_path(name).read_bytes()))
    return document


def write_vectors(name: str, document: dict[str, Json]) -> None:
    """Writes an area's vectors: the same bytes for the same document."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    VECTORS.mkdir(exist_ok=True)
    vectors_path(name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
