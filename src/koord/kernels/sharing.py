# SPDX-License-Identifier: Apache-2.0
"""Equal parts of decoded objects kept once: the loops over every field of every object.

:mod:`koord.kube.codec.interner` and :mod:`koord.kube.codec.page_reader` say what they are for and
feed them. A :class:`Place` knows the values that were seen in one field, :class:`SharedFields` the
places of a struct type, :class:`Sharing` all types. :class:`Assembly` makes structs out of a text,
of parts that a :class:`KnownPart` knows by their bytes; :class:`LastStates` knows whole objects.
"""

from __future__ import annotations

from koord._native.wire import (
    Assembly,
    KnownPart,
    LastStates,
    Part,
    Place,
    SharedFields,
    Sharing,
    SharingBudget,
)

__all__ = [
    "Assembly",
    "KnownPart",
    "LastStates",
    "Part",
    "Place",
    "SharedFields",
    "Sharing",
    "SharingBudget",
]
