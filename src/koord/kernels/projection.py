# SPDX-License-Identifier: Apache-2.0
"""JSON texts cut down to the members that somebody reads.

An object of a cluster is mostly text that its reader passes over: managed fields, probes,
environments. :class:`Projection` cuts those out several times as fast as a parser skips them, for
it only looks for brackets and quotes. What it keeps stands in the result byte for byte::

    Projection({"metadata": {"name": None}}).cut(b'{"metadata":{"name":"a","uid":"7"}}')
    # b'{"metadata":{"name":"a"}}'

A plan is None (all of a value), a dict (an object: its members that are kept, each with a plan), a
list of one plan (a list: how each item is cut), or, for the items of a list, a text: such an item
is kept whole, unless it is an object with a member of that name. A value of another sort than its
plan thinks is kept whole. A pair of a column and a plan marks a value, for ``marked``, which gives
rows: one for the text, and one for each item of lists that have marks within; and for
:class:`koord.kernels.sharing.Assembly`.
"""

from __future__ import annotations

from koord._native.wire import Projection

__all__ = ["Projection"]
