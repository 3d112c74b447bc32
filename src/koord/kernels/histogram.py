# SPDX-License-Identifier: Apache-2.0
"""Decaying histograms with exponential buckets: peaks over weeks in a fixed piece of memory.

Koordinator's peak prediction, and the Vertical Pod Autoscaler's before it: a sample at time t
weighs ``2 ** ((t - reference) / half_life)`` times its own weight, and a percentile is the end of
the bucket in which that share of the weight is reached. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from koord._native.core import histogram as _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CPU", "MEMORY", "Buckets", "Histogram"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_UINT32 = 2**32 - 1


class Buckets:
    """Buckets that grow by ``ratio``: bucket n starts at ``first * (ratio**n - 1) / (ratio - 1)``.

    There are as many as it takes for the last, which has no end, to start at ``maximum`` or above.

    Raises:
        ValueError: unless first > 0, maximum >= first, ratio > 1 and there are at most 10,000.
    """

    def __init__(self, first: float, maximum: float, ratio: float = 1.05) -> None:
        self._native = _native.Buckets(first, maximum, ratio)
        self._repr = f"Buckets(first={first}, maximum={maximum}, ratio={ratio})"

    def __len__(self) -> int:
        return self._native.count()

    def find(self, value: float) -> int:
        """The bucket of a value; a value equal to a start is in the bucket that starts there."""
        return self._native.find(value)

    @property
    def starts(self) -> NDArray[np.float64]:
        """Where each bucket starts; a read-only view."""
        return self._native.starts()

    def __repr__(self) -> str:
        return self._repr


CPU = Buckets(first=0.025, maximum=1024.0)
"""Cores: 158 buckets."""

MEMORY = Buckets(first=5.0 * 2**20, maximum=2.0**41)
"""Bytes: 205 buckets."""


class Histogram:
    """The decaying weights of one workload.

    Args:
        buckets: shared between histograms; :data:`CPU` or :data:`MEMORY`.
        half_life_ms: after which a sample counts half.

    Raises:
        ValueError: half_life_ms is not in 1 to 10^13.
    """

    def __init__(self, buckets: Buckets, half_life_ms: int) -> None:
        self._native = _native.Histogram(buckets._native, half_life_ms)

    def add(self, value: float, time_ms: int, weight: float = 1.0) -> None:
        """Adds a sample.

        Raises:
            ValueError: the value is NaN, the weight is not in 0..10^100, or the time is outside
                the years 1 to 9999.
        """
        self._native.add(value, weight, time_ms)

    def subtract(self, value: float, time_ms: int, weight: float = 1.0) -> None:
        """Takes a sample back; a bucket below 0.0001 becomes 0. Raises as :meth:`add`."""
        self._native.subtract(value, weight, time_ms)

    def merge(self, other: Histogram) -> None:
        """Adds the other's samples. ValueError when buckets or half-lives differ."""
        self._native.merge(other._native)

    def percentile(self, p: float) -> float:
        """The end of the bucket in which the share p (0 to 1) of the weight is reached, 0 if empty.

        Raises:
            ValueError: p is not in 0 to 1.
        """
        return self._native.percentile(p)

    @property
    def is_empty(self) -> bool:
        """Whether no bucket weighs 0.0001 or more."""
        return self._native.empty()

    @property
    def total_weight(self) -> float:
        """The weight of all samples as of the reference time."""
        return self._native.total_weight()

    @property
    def reference_ms(self) -> int:
        """The time at which a sample's weight is its own."""
        return self._native.reference_ms()

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each bucket; a read-only view that follows the histogram."""
        return self._native.weights()

    def save(self) -> dict[str, Any]:
        """The checkpoint as the JSON object that Koordinator writes; weights are out of 10,000."""
        reference_ms, weights, total = self._native.save()
        return {
            "referenceTimestamp": _to_rfc3339(reference_ms),
            "bucketWeights": {str(bucket): weight for bucket, weight in weights},
            "totalWeight": total,
        }

    def load(self, checkpoint: Mapping[str, Any] | None) -> None:
        """Adds the content of a checkpoint, read from JSON, to what is there.

        Keys are matched without regard to case, as Koordinator matches them.

        Raises:
            ValueError: there is none, a field has the wrong form, the total is negative, or a
                bucket does not exist. Nothing was changed.
        """
        if not isinstance(checkpoint, Mapping):
            raise _invalid("checkpoint", checkpoint, "an object")
        fields = {str(key).lower(): value for key, value in checkpoint.items()}
        self._native.load(
            _reference_ms(fields.get("referencetimestamp")),
            _bucket_weights(fields.get("bucketweights")),
            _total_weight(fields.get("totalweight", 0.0)),
        )

    def __repr__(self) -> str:
        return f"<Histogram of weight {self.total_weight:.6g}>"


def _invalid(field: str, value: object, expected: str) -> ValueError:
    # The attributes are those that the native kernels attach.
    # An array's own text may have several lines.
    shown = " ".join(ascii(value).split())[:80]
    error = ValueError(f"{field}: got {shown}, expected {expected}")
    vars(error).update(koord_field=field, koord_value=value, koord_expected=expected)
    return error


def _to_rfc3339(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat().removesuffix("+00:00") + "Z"


def _reference_ms(text: object) -> int:
    expected = "an RFC 3339 time"
    if not isinstance(text, str):
        raise _invalid("referenceTimestamp", text, expected)
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError):
        raise _invalid("referenceTimestamp", text, expected) from None


def _bucket_weights(weights: object) -> list[tuple[int, int]]:
    if weights is None:
        return []
    if not isinstance(weights, Mapping):
        raise _invalid("bucketWeights", weights, "an object of bucket numbers and weights")
    return sorted((_bucket(key), _weight(weight)) for key, weight in weights.items())


def _bucket(key: object) -> int:
    if isinstance(key, str) and key.isascii() and key.removeprefix("-").isdigit() and len(key) < 19:
        return int(key)
    raise _invalid("bucketWeights", key, "the number of a bucket")


def _weight(weight: object) -> int:
    if isinstance(weight, int) and not isinstance(weight, bool) and 0 <= weight <= _MAX_UINT32:
        return weight
    raise _invalid("bucketWeights", weight, "weights from 0 to 2^32-1")


def _total_weight(total: object) -> float:
    # A JSON integer may be longer than a double reaches.
    if isinstance(total, int | float) and not isinstance(total, bool) and abs(total) < 2.0**1000:
        return float(total)
    raise _invalid("totalWeight", total, "a number")
