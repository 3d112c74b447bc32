# SPDX-License-Identifier: Apache-2.0
"""Groups of columns: one row written, more rows, the rows that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Group = TypeVar("Group", bound=tuple[Any, ...])
"""A NamedTuple of arrays whose last axis is the row."""


def put(group: Any, row: int, values: Mapping[str, Any]) -> None:
    """Writes one row of the named columns."""
    for name, value in values.items():
        getattr(group, name)[..., row] = value


def take(group: Group, rows: NDArray[np.intp] | slice) -> Group:
    """The given rows of each column, in that order."""
    return type(group)(*(column[..., rows] for column in group))


def joined(one: Group, more: Group) -> Group:
    """One group's rows, then the other's."""
    return type(one)(*(np.concatenate(pair, axis=-1) for pair in zip(one, more, strict=True)))


def differing(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """The rows in which two columns, or sets of them, are not the same."""
    different: NDArray[np.bool_] = (one != other).any(axis=tuple(range(one.ndim - 1)))
    return different
