# SPDX-License-Identifier: Apache-2.0
"""A resctrl tree that takes, refuses and prints what the kernel does, for Intel and for AMD.

Rules: Documentation/arch/x86/resctrl.rst, and what Linux 6.1 does beyond it: a line must end, a
bad line changes nothing, masks are printed with all their digits, MB values with blanks before
them.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path

from tests.standins.model import Directory, File, Fixed, Said, refuse

AMD_UNLIMITED = 2048


@dataclass(frozen=True)
class Hardware:
    """What the CPUs offer.

    Attributes:
        ways: bits of a cache mask.
        sparse: whether masks may have holes and be empty (AMD).
        cache_ids: ids of the cache domains; they need not follow each other.
        bandwidth_max: 100 percent, or AMD's value for no limit.
    """

    ways: int = 11
    min_cbm_bits: int = 1
    shareable_bits: int = 0
    sparse: bool = False
    cache_ids: tuple[int, ...] = (0, 1)
    l3_closids: int = 16
    mb_closids: int = 8
    bandwidth_gran: int = 10
    min_bandwidth: int = 10
    bandwidth_max: int = 100

    @property
    def full_mask(self) -> int:
        """All ways."""
        return (1 << self.ways) - 1


def intel(**changes: object) -> Hardware:
    """A Xeon, with changes."""
    return Hardware(**changes)  # type: ignore[arg-type]


def amd(**changes: object) -> Hardware:
    """An EPYC, with changes: sparse masks, absolute bandwidth in eighths of a GB/s."""
    given: dict[str, object] = {
        "ways": 16, "min_cbm_bits": 0, "sparse": True, "cache_ids": (0, 8), "mb_closids": 16,
        "bandwidth_gran": 1, "min_bandwidth": 0, "bandwidth_max": AMD_UNLIMITED,
    }  # fmt: skip
    return Hardware(**{**given, **changes})  # type: ignore[arg-type]


@dataclass
class Group:
    """A control group: tables by cache id, and the threads that are in it."""

    l3: dict[int, int]
    mb: dict[int, int]
    threads: set[int] = field(default_factory=set)


class Resctrl:
    """The mounted file system; also its root directory."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.status = "ok"
        self.root = self._fresh()
        self.groups: dict[str, Group] = {}

    def entries(self) -> dict[str, Directory | File]:
        """See `Directory`."""
        made = {name: Fixed(self._files(group)) for name, group in self.groups.items()}
        return {"info": self._info(), **self._files(self.root), **made}

    def mkdir(self, name: str) -> None:
        """A new group; ENOSPC when no id is left for it."""
        if name in self.entries():
            raise refuse(errno.EEXIST)
        if "\n" in name:
            raise self._refuse("no new line in a name")
        if len(self.groups) + 1 >= min(self.hardware.l3_closids, self.hardware.mb_closids):
            self.status = "Out of CLOSIDs"
            raise refuse(errno.ENOSPC)
        self.groups[name] = self._fresh()
        self.status = "ok"

    def rmdir(self, name: str) -> None:
        """Ends a group; its threads are the root's again."""
        if name not in self.groups:
            raise refuse(errno.EPERM)
        del self.groups[name]

    def group_of(self, thread: int) -> str:
        """The group that a thread is in; empty for the root."""
        return next((name for name, group in self.groups.items() if thread in group.threads), "")

    def write_schemata(self, group: Group, text: str) -> None:
        """All of a text or nothing of it; EINVAL with a line in ``last_cmd_status``."""
        self.status = "ok"
        if not text.endswith("\n"):
            raise refuse(errno.EINVAL)
        staged: list[tuple[dict[int, int], dict[int, int]]] = []
        for line in text.splitlines():
            name, colon, values = line.strip().partition(":")
            if not colon:
                raise self._refuse("Missing ':'")
            if not values.strip():
                raise self._refuse(f"Missing '{name}' value")
            if name not in ("L3", "MB"):
                raise self._refuse(f"Unknown or unsupported resource name '{name}'")
            staged.append((group.l3 if name == "L3" else group.mb, self._table(name, values)))
        for table, changes in staged:
            table.update(changes)

    def write_tasks(self, group: Group, text: str) -> None:
        """Moves one thread; ESRCH where it is gone."""
        try:
            thread = int(text.strip())
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if thread < 0:
            raise refuse(errno.EINVAL)
        if not Path(f"/proc/{thread}").exists():
            raise refuse(errno.ESRCH)
        for other in self.groups.values():
            other.threads.discard(thread)
        if group is not self.root:
            group.threads.add(thread)

    def schemata(self, group: Group) -> str:
        """As the kernel prints it."""
        digits = (self.hardware.ways + 3) // 4
        width = len(str(self.hardware.bandwidth_max))
        mb = ";".join(f"{i}={group.mb[i]:{width}d}" for i in self.hardware.cache_ids)
        l3 = ";".join(f"{i}={group.l3[i]:0{digits}x}" for i in self.hardware.cache_ids)
        return f"    MB:{mb}\n    L3:{l3}\n"

    def tasks(self, group: Group) -> str:
        """Threads that live, ascending."""
        if group is self.root:
            taken = set().union(*(other.threads for other in self.groups.values()))
            every = (
                int(task.name)
                for process in Path("/proc").iterdir()
                if process.name.isdigit()
                for task in _threads(process)
            )
            found = {thread for thread in every if thread not in taken}
        else:
            found = {thread for thread in group.threads if Path(f"/proc/{thread}").exists()}
        return "".join(f"{thread}\n" for thread in sorted(found))

    def _fresh(self) -> Group:
        ids = self.hardware.cache_ids
        return Group(
            dict.fromkeys(ids, self.hardware.full_mask),
            dict.fromkeys(ids, self.hardware.bandwidth_max),
        )

    def _table(self, name: str, values: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for pair in values.split(";"):
            # What follows a trailing semicolon ends the line.
            if not pair.strip():
                break
            number, equals, value = pair.partition("=")
            if not equals or not number.strip().isdecimal():
                raise self._refuse("Missing '=' or non-numeric domain")
            domain = int(number)
            if domain not in self.hardware.cache_ids:
                raise refuse(errno.EINVAL)
            if domain in found:
                raise self._refuse(f"Duplicate domain {domain}")
            check = self._mask if name == "L3" else self._bandwidth
            found[domain] = check(value.strip())
        return found

    def _mask(self, text: str) -> int:
        hardware = self.hardware
        try:
            mask = int(text, 16)
        except ValueError:
            raise self._refuse(f"Non-hex character in the mask {text}") from None
        if mask > hardware.full_mask or (mask == 0 and not hardware.sparse):
            raise self._refuse("Mask out of range")
        lowest = mask & -mask
        if not hardware.sparse and (mask + lowest) & mask:
            raise self._refuse(f"The mask {mask:x} has non-consecutive 1-bits")
        if mask.bit_count() < hardware.min_cbm_bits:
            raise self._refuse(f"Need at least {hardware.min_cbm_bits} bits in the mask")
        return mask

    def _bandwidth(self, text: str) -> int:
        hardware = self.hardware
        if not text.isdecimal():
            raise self._refuse(f"Non-decimal digit in MB value {text}")
        value, most = int(text), hardware.bandwidth_max
        if not hardware.min_bandwidth <= value <= most:
            raise self._refuse(f"MB value {value} out of range [{hardware.min_bandwidth},{most}]")
        step = hardware.bandwidth_gran
        return -(-value // step) * step

    def _refuse(self, why: str) -> OSError:
        self.status = why
        return refuse(errno.EINVAL)

    def _files(self, group: Group) -> dict[str, Directory | File]:
        monitors = {
            f"mon_L3_{cache:02d}": Fixed(
                {
                    "llc_occupancy": Said("1048576\n"),
                    "mbm_local_bytes": Said("4096\n"),
                    "mbm_total_bytes": Said("8192\n"),
                }
            )
            for cache in self.hardware.cache_ids
        }
        return {
            "schemata": _Text(
                lambda: self.schemata(group), lambda text: self.write_schemata(group, text)
            ),
            "tasks": _Text(lambda: self.tasks(group), lambda text: self.write_tasks(group, text)),
            "mode": Said("shareable\n"),
            "mon_data": Fixed({**monitors}),
            "mon_groups": Fixed({}),
        }

    def _info(self) -> Directory:
        hardware = self.hardware
        l3 = {
            "cbm_mask": f"{hardware.full_mask:x}",
            "min_cbm_bits": hardware.min_cbm_bits,
            "shareable_bits": f"{hardware.shareable_bits:x}",
            "num_closids": hardware.l3_closids,
        }
        mb = {
            "bandwidth_gran": hardware.bandwidth_gran,
            "min_bandwidth": hardware.min_bandwidth,
            "delay_linear": 1,
            "num_closids": hardware.mb_closids,
        }
        monitor = {
            "num_rmids": 256,
            "mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes",
        }
        folders: dict[str, Directory | File] = {
            name: Fixed({key: Said(f"{value}\n") for key, value in files.items()})
            for name, files in (("L3", l3), ("MB", mb), ("L3_MON", monitor))
        }
        return Fixed({**folders, "last_cmd_status": Said(lambda: f"{self.status}\n")})


class _Text:
    writable = True

    def __init__(self, read: object, write: object) -> None:
        self._read, self._write = read, write

    def read(self) -> str:
        return self._read()  # type: ignore[operator, no-any-return]

    def write(self, text: str) -> None:
        self._write(text)  # type: ignore[operator]


def _threads(process: Path) -> list[Path]:
    try:
        return list((process / "task").iterdir())
    except OSError:
        return []
