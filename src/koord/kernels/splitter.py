# SPDX-License-Identifier: Apache-2.0
"""JSON texts taken apart: an object into its parts and its frame, a list into its items.

Objects that differ in a few places have most of their text in common. :class:`Splitter` takes the
members that are *parts* out of an object's text; what is left is its *frame*, by which the next
object like it is known::

    split = Splitter(["args"]).split(b'{"name":"a","args":["1"],"tty":true}')
    split.frame  # b'{"name":"a","args":,"tty":true}'
    split.parts  # [("args", b'["1"]')]
    split.pieces()  # [b'{"name":"a","args":', b',"tty":true}']

Of the names in ``noted`` a :class:`SplitObject` says which are there. ``Splitter.items`` gives the
texts of a list's items. Both give None for texts that say more than their members or items do:
space around them, a name twice or with escapes or beyond ASCII, more than 64 members, none at all.

Values are followed by their brackets and quotes alone. So a text should be known to be JSON; of any
other the parts may be none, but frame and parts are still all of it, in its order.
"""

from __future__ import annotations

from koord._native.wire import SplitObject, Splitter

__all__ = ["SplitObject", "Splitter"]
