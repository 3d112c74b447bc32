# SPDX-License-Identifier: Apache-2.0
"""Randomness as a parameter: every stream has a seed and a name, none is shared."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    # numpy is not imported here at run time: koord.api must load without it.
    NumpyGenerator = np.random.Generator


def derive(seed: int, *names: str | int) -> int:
    """A 64-bit seed for the stream that ``names`` stand for.

    Streams of different names are independent, so that adding a consumer of randomness does not
    change what the others draw.
    """
    text = "\x00".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, *names: str | int) -> random.Random:
    """A standard-library generator for one named stream."""
    return random.Random(derive(seed, *names))


def numpy_stream(seed: int, *names: str | int) -> NumpyGenerator:
    """A NumPy PCG64 generator for one named stream."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
