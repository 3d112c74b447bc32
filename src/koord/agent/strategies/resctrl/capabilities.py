# SPDX-License-Identifier: Apache-2.0
"""What the machine's resctrl can do: read once, when it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import Code, KoordError
from koord.kernels.resctrl import Info, Vendor, read_info

if TYPE_CHECKING:
    from koord.agent.host.roots import HostRoots

_AMD = "AuthenticAMD"


class ResctrlCapabilities(NamedTuple):
    """Vendor, limits and cache ids."""

    vendor: Vendor
    info: Info


def read_facts(roots: HostRoots) -> ResctrlCapabilities:
    """Reads them.

    Raises:
        KoordError: resctrl is not mounted, or a file does not hold what the kernel writes.
    """
    try:
        info = read_info(roots.resctrl)
        cpuinfo = Path(roots.proc, "cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        expected = "a mounted resctrl file system with L3 control"
        reason = error.strerror or str(error)
        raise KoordError(roots.resctrl, "", reason, expected, Code.UNSUPPORTED) from None
    except ValueError as error:
        raise KoordError.wrap(roots.resctrl, "", error) from None
    return ResctrlCapabilities(_vendor(cpuinfo), info)


def _vendor(cpuinfo: str) -> Vendor:
    line = next((line for line in cpuinfo.splitlines() if "vendor_id" in line), "")
    return Vendor.AMD if line.partition(":")[2].strip() == _AMD else Vendor.INTEL
