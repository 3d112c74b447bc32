# SPDX-License-Identifier: Apache-2.0
"""The mounted resctrl tree: what the hardware can do, which groups there are, what they used."""

from __future__ import annotations

from typing import NamedTuple

from koord.agent.host import files
from koord.base.errors import KoordError
from koord.kernels import resctrl as kernel

_DOMAIN = "mon_L3_"


class CacheUsage(NamedTuple):
    """What a group did in one cache domain; None is what the hardware could not say this time.

    Attributes:
        cache_id: the domain.
        occupancy_bytes: of the cache now.
        local_bytes, total_bytes: moved between cache and memory since the group was made: of the
            domain's own memory, and of all.
    """

    cache_id: int
    occupancy_bytes: int | None
    local_bytes: int | None
    total_bytes: int | None


def read_info(resctrl: str) -> kernel.Info:
    """Limits and cache ids.

    Raises:
        KoordError: not mounted, or a file does not hold what the kernel writes.
    """
    try:
        return kernel.read_info(resctrl)
    except (OSError, ValueError) as error:
        raise KoordError.wrap(resctrl, "", error) from None


def groups(resctrl: str) -> list[str]:
    """Names of the control groups, without the root group; ascending.

    Raises:
        KoordError: the tree cannot be listed.
    """
    names = files.names(resctrl)
    return [name for name in names if name != "info" and files.exists(f"{resctrl}/{name}/schemata")]


def read_schemata(resctrl: str, group: str = "") -> kernel.Schemata:
    """Schemata of a group, by default the root's.

    Raises:
        KoordError: no such group, or a bad line.
    """
    path = f"{resctrl}/{group}/schemata" if group else f"{resctrl}/schemata"
    try:
        return kernel.parse_schemata(files.read_bytes(path))
    except ValueError as error:
        raise KoordError.wrap(path, "", error) from None


def read_use(resctrl: str, group: str) -> list[CacheUsage]:
    """What a group used, by cache domain ascending.

    Rule: docs/reference/cgroup.md#monitoring-files.

    Raises:
        KoordError: no such group, or a counter that is neither a number nor a word of the kernel.
    """
    directory = f"{resctrl}/{group}/mon_data"
    names = files.names(directory)
    if not names:
        raise KoordError(directory, "", "nothing", "a directory a cache domain")
    domains = {}
    for name in names:
        # Sub-NUMA clusters and later resources have names of other forms.
        number = name.removeprefix(_DOMAIN)
        if name.startswith(_DOMAIN) and number.isascii() and number.isdigit():
            domains[int(number)] = f"{directory}/{name}"
    return [_domain(cache_id, path) for cache_id, path in sorted(domains.items())]


def _domain(cache_id: int, directory: str) -> CacheUsage:
    return CacheUsage(
        cache_id,
        _counter(f"{directory}/llc_occupancy"),
        _counter(f"{directory}/mbm_local_bytes"),
        _counter(f"{directory}/mbm_total_bytes"),
    )


def _counter(path: str) -> int | None:
    if not files.exists(path):
        return None  # processors may count one and not the other
    try:
        return kernel.parse_counter(files.read_bytes(path))
    except ValueError as error:
        raise KoordError.wrap(path, "", error) from None
