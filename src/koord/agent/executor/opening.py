# SPDX-License-Identifier: Apache-2.0
"""An executor for a machine, with every kind of target that the machine has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.executor.beneath import Beneath
from koord.agent.executor.cgroup_kind import CgroupKind, NativeFiles
from koord.agent.executor.cookies import Cookies, PrctlCookies
from koord.agent.executor.core_sched_kind import CoreSchedKind
from koord.agent.executor.executor import HostExecutor, Settings
from koord.agent.executor.file_kind import TERWAY_ROOT, TerwayKind
from koord.agent.executor.journal import Journal
from koord.agent.executor.process_kind import OomScoreKind, processes
from koord.agent.executor.resctrl_kind import ResctrlKind
from koord.agent.executor.target import as_found
from koord.kernels.cgroup import Base, Hierarchy

if TYPE_CHECKING:
    from koord.agent.executor.failing import Failure
    from koord.agent.executor.kind import Kind
    from koord.agent.executor.report import Reporter
    from koord.agent.executor.target import Baseline
    from koord.agent.host.machine import Machine
    from koord.agent.host.roots import Roots
    from koord.base.clock import Clock


def open_executor(
    machine: Machine,
    clock: Clock,
    *,
    force_seconds: float = 60.0,
    dry_run: bool = False,
    reporter: Reporter | None = None,
    terway: str = TERWAY_ROOT,
    cookies: Cookies | None = None,
    baseline: Baseline = as_found,
) -> HostExecutor:
    """The executor of this machine; what an earlier agent wrote waits for its owners.

    Raises:
        KoordError: the journal cannot be read; the message names the file to remove.
    """
    roots, cgroups = machine.roots, machine.hierarchy
    settings = Settings(
        version=cgroups.version,
        page_bytes=machine.page_bytes,
        force_seconds=force_seconds,
        dry_run=dry_run,
    )
    resctrl = ResctrlKind(Beneath(roots.resctrl), cgroups)
    others: list[Kind] = [
        OomScoreKind(Beneath(roots.proc), cgroups),
        CoreSchedKind(cookies or PrctlCookies(), lambda place: processes(cgroups, place)),
        TerwayKind(Beneath(terway)),
    ]
    kinds: list[Kind] = [_files(roots, cgroups), resctrl, *others]
    journal = Journal(roots.state, boot_id(roots))
    executor = HostExecutor(kinds, journal, clock, settings, reporter, baseline)
    executor.adopt((group, 0) for group in resctrl.groups())
    return executor


def restore(machine: Machine, clock: Clock, reporter: Reporter | None = None) -> list[Failure]:
    """Gives back everything that the journal holds: ``koord node restore``.

    Returns:
        What could not be given back; empty when all was.

    Raises:
        KoordError: the journal cannot be read.
    """
    return open_executor(machine, clock, reporter=reporter).give_all_back()


def boot_id(roots: Roots) -> str:
    """What tells this boot from others; ``unknown`` where the kernel does not say."""
    try:
        text = Path(roots.proc, "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return "unknown"
    return text if text and " " not in text else "unknown"


def _files(roots: Roots, cgroups: Hierarchy) -> CgroupKind:
    files = {Base.CGROUP: NativeFiles(cgroups)}
    for base, root in ((Base.PROC, roots.proc), (Base.SYS, roots.sys)):
        if Path(root).is_dir():
            files[base] = NativeFiles(Hierarchy(root, cgroups.version))
    return CgroupKind(dict(files))
