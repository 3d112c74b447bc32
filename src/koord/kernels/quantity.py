# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities: the exact value and format at the edge, integers in columns.

:class:`Quantity` follows apimachinery's ``resource.Quantity``: all suffixes and exponents, digits
finer than nano rounded away from zero, binary quantities capped at 2^63-1, one canonical text. It
is immutable, and equality, order and hash go by value, so ``1Ki`` equals ``1024``.

Whoever turns a quantity into an integer names the :class:`Rounding`; there is no silent truncation,
and a count beyond 64 bits is a ValueError.
"""

from __future__ import annotations

from koord._native import wire
from koord._native.wire import Format, Quantity, Rounding, Unit, decode_hook, encode_hook

TYPE_CHECKING = False  # importing typing would take longer than all else here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "Format",
    "Quantity",
    "Rounding",
    "Unit",
    "decode_hook",
    "encode_hook",
    "parse_column",
]


def parse_column(
    texts: Sequence[str | int | float],
    out: Buffer,
    *,
    unit: Unit = Unit.MILLI,
    rounding: Rounding = Rounding.UP,
) -> None:
    """Reads many quantities into a buffer of integers, without an object for each.

    Args:
        texts: quantities as :meth:`Quantity.parse` takes them.
        out: a writable buffer of as many signed 64-bit integers: ``array('q')``, a memoryview of
            one, a NumPy array. Nothing is copied.
        unit: what the integers count.
        rounding: what becomes of a fraction of a unit.

    Raises:
        ValueError: a text is no quantity, does not fit in 64 bits, or has a fraction under
            :attr:`Rounding.EXACT`; the message names the row. The rows before it are written.
    """
    wire.parse_column(texts, out, unit, rounding)
