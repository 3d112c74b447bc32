# SPDX-License-Identifier: Apache-2.0
"""The NUMA allocate strategy DistributeEvenly: equal parts of as few zones as can give them."""

from __future__ import annotations

from collections.abc import Mapping


def even_shares(free: Mapping[int, int], count: int, unit: int) -> dict[int, int]:
    """How many CPUs each zone should give; empty where no even split works.

    The fewest zones that can, those with the most free CPUs first, ties by id. Shares are multiples
    of ``unit``, the threads of a core, and differ by one unit at the most; a rest that is no whole
    unit goes to the last of the zones. That is what the kubelet's option
    ``distribute-cpus-across-numa`` does for a pod that needs several zones.
    """
    zones = sorted(free, key=lambda zone: (-free[zone], zone))
    units, rest = divmod(count, unit)
    for ways in range(1, len(zones) + 1):
        chosen = zones[:ways]
        base, more = divmod(units, ways)
        shares = {zone: (base + (place < more)) * unit for place, zone in enumerate(chosen)}
        shares[chosen[-1]] += rest
        if all(shares[zone] <= free[zone] for zone in chosen):
            return {zone: share for zone, share in shares.items() if share}
    return {}
