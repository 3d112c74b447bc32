# SPDX-License-Identifier: Apache-2.0
"""What is made of an object's text, put together of what is made of its frame and of each part.

:mod:`koord.kernels.splitter` says what frame and parts are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.kernels.splitter import Splitter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.kernels.splitter import SplitObject


def frame_texts(made: bytes, sent: SplitObject, texts: Sequence[bytes]) -> list[bytes]:
    """What stands before, between and after the parts of the text that was made of an object.

    Args:
        made: of the whole object.
        sent: what it was made of.
        texts: what is made of each part by itself.

    Returns:
        One text more than there are parts; none at all if the parts are not by themselves.
    """
    names = [name for name, _ in sent.parts]
    found = Splitter(names).split(made)
    if found is None or found.parts != list(zip(names, texts, strict=True)):
        return []
    return found.pieces()


def fill(pieces: Sequence[bytes], texts: Sequence[bytes]) -> bytes:
    """The text that is made of an object.

    Args:
        pieces: as :func:`frame_texts` gives them for its frame.
        texts: what is made of each part.
    """
    joined = [pieces[0]] * (2 * len(texts) + 1)
    joined[1::2] = texts
    joined[2::2] = pieces[1:]
    return b"".join(joined)
