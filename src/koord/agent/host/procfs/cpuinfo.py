# SPDX-License-Identifier: Apache-2.0
"""What the processor is: vendor, model, flags, turbo and hyperthreads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.base.errors import KoordError
from koord.kernels.resctrl import Vendor

if TYPE_CHECKING:
    from koord.agent.host.roots import HostRoots

UNKNOWN = "unknown"
_VENDORS = {"GenuineIntel": Vendor.INTEL, "AuthenticAMD": Vendor.AMD}
_CONTROL = {"cat_l3", "mba"}
_MONITOR = {"cqm_mbm_total", "cqm_mbm_local", "cqm_llc", "cqm_occup_llc"}
# An ARM processor has no vendor_id; this is its place.
_IMPLEMENTER = "CPU implementer"


@dataclass(frozen=True, slots=True)
class ProcessorInfo:
    """The first processor of ``/proc/cpuinfo``; all of a machine are alike in what is told here.

    Attributes:
        vendor_id: ``GenuineIntel``, ``AuthenticAMD``, ...; ``unknown`` where nothing is said.
        model: the name that people know.
        flags: features in the kernel's words.
        turbo: whether clocks may rise above the nominal one; None where nothing tells.
        hyperthreads: whether a core has more than one thread switched on; None where nothing tells.
    """

    vendor_id: str
    model: str
    flags: frozenset[str]
    turbo: bool | None
    hyperthreads: bool | None

    @property
    def vendor(self) -> Vendor | None:
        """Whose rules resctrl follows here; None for a maker that it has no rules for."""
        return _VENDORS.get(self.vendor_id)

    @property
    def controls_cache(self) -> bool:
        """Whether cache ways and memory bandwidth can be given out.

        Rule: docs/reference/cgroup.md#resctrl-mount.
        """
        return self.flags >= _CONTROL

    @property
    def monitors_cache(self) -> bool:
        """Whether occupancy and bandwidth can be measured."""
        return self.flags >= _MONITOR


def read_cpu_info(roots: HostRoots) -> ProcessorInfo:
    """Reads ``/proc/cpuinfo`` and the switches in sysfs.

    Raises:
        KoordError: cpuinfo is unreadable.
    """
    first = parse_cpuinfo(files.read_bytes(f"{roots.proc}/cpuinfo"))
    return ProcessorInfo(
        vendor_id=first.get("vendor_id", UNKNOWN),
        model=first.get("model name", first.get(_IMPLEMENTER, UNKNOWN)),
        flags=frozenset(first.get("flags", first.get("Features", "")).split()),
        turbo=_turbo(roots.sys),
        hyperthreads=_hyperthreads(roots.sys),
    )


def parse_cpuinfo(text: bytes) -> dict[str, str]:
    """The first value of every name; lines without a colon are left out."""
    found: dict[str, str] = {}
    for line in text.decode("utf-8", "backslashreplace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def read_cbm_mask(resctrl: str) -> str:
    """The cache ways that can be given out, in the kernel's hex; empty without resctrl.

    Raises:
        KoordError: the file is there and holds something else.
    """
    path = f"{resctrl}/info/L3/cbm_mask"
    if not files.exists(path):
        return ""
    text = files.read_text(path)
    if not re.fullmatch(r"[0-9a-fA-F]{1,8}", text, re.ASCII):
        raise KoordError(path, "", text, "a mask in hex")
    return text.lower()


def _turbo(sys: str) -> bool | None:
    cpu = f"{sys}/devices/system/cpu"
    # The two drivers say the opposite: switched off, or allowed.
    for path, on in ((f"{cpu}/intel_pstate/no_turbo", "0"), (f"{cpu}/cpufreq/boost", "1")):
        if files.exists(path):
            return files.read_text(path) == on
    return None


def _hyperthreads(sys: str) -> bool | None:
    path = f"{sys}/devices/system/cpu/smt/active"
    return files.read_text(path) == "1" if files.exists(path) else None
