# SPDX-License-Identifier: Apache-2.0
"""An executor for a machine, with every kind of target that the machine has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.target import (
    CORE_SCHED,
    OOM_SCORE_ADJ,
    TRAFFIC,
    unchanged_baseline,
)
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.executor.writers.resctrl import ResctrlWriter
from koord.agent.executor.writers.rooted_files import RootedFiles
from koord.agent.executor.writers.target_writer import LateWriter
from koord.agent.executor.writers.terway_files import TERWAY_ROOT, TerwayWriter
from koord.agent.host.process_limits import kept_descriptors
from koord.kernels.cgroup import Base, Hierarchy

if TYPE_CHECKING:
    from koord.agent.executor.target import Baseline
    from koord.agent.executor.write_events import Reporter
    from koord.agent.executor.write_failures import WriteFailure
    from koord.agent.executor.writers.core_sched_cookies import Cookies
    from koord.agent.executor.writers.target_writer import TargetWriter
    from koord.agent.executor.writers.traffic import TrafficKernel
    from koord.agent.host.machine import Machine
    from koord.agent.host.roots import HostRoots
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
    traffic: TrafficKernel | None = None,
    baseline: Baseline = unchanged_baseline,
) -> HostExecutor:
    """The executor of this machine; what an earlier agent wrote waits for its owners.

    Raises:
        KoordError: the journal cannot be read; the message names the file to remove.
    """
    roots, cgroups = machine.roots, machine.hierarchy
    settings = ExecutorOptions(
        version=cgroups.version,
        page_bytes=machine.page_bytes,
        force_seconds=force_seconds,
        dry_run=dry_run,
    )
    resctrl = ResctrlWriter(RootedFiles(roots.resctrl), cgroups)
    kinds: list[TargetWriter | LateWriter] = [
        _files(roots, cgroups),
        resctrl,
        LateWriter(OOM_SCORE_ADJ, lambda: _oom_scores(roots, cgroups)),
        LateWriter(CORE_SCHED, lambda: _core_scheduling(cgroups, cookies)),
        TerwayWriter(RootedFiles(terway)),
        LateWriter(TRAFFIC, lambda: _traffic(cgroups, traffic)),
    ]
    journal = Journal(roots.state, boot_id(roots))
    executor = HostExecutor(kinds, journal, clock, settings, reporter, baseline)
    executor.adopt((group, 0) for group in resctrl.groups())
    return executor


def restore(machine: Machine, clock: Clock, reporter: Reporter | None = None) -> list[WriteFailure]:
    """Gives back everything that the journal holds: ``koord node restore``.

    Returns:
        What could not be given back; empty when all was.

    Raises:
        KoordError: the journal cannot be read.
    """
    return open_executor(machine, clock, reporter=reporter).give_all_back()


def boot_id(roots: HostRoots) -> str:
    """What tells this boot from others; ``unknown`` where the kernel does not say."""
    try:
        text = Path(roots.proc, "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return "unknown"
    return text if text and " " not in text else "unknown"


def _oom_scores(roots: HostRoots, cgroups: Hierarchy) -> TargetWriter:
    from koord.agent.executor.writers.oom_score import OomScoreWriter

    return OomScoreWriter(RootedFiles(roots.proc), cgroups)


def _core_scheduling(cgroups: Hierarchy, cookies: Cookies | None) -> TargetWriter:
    from koord.agent.executor.writers.core_sched import CoreSchedWriter
    from koord.agent.executor.writers.core_sched_cookies import PrctlCookies
    from koord.agent.executor.writers.oom_score import processes

    return CoreSchedWriter(cookies or PrctlCookies(), lambda place: processes(cgroups, place))


def _traffic(cgroups: Hierarchy, kernel: TrafficKernel | None) -> TargetWriter:
    from koord.agent.executor.writers.traffic import TrafficWriter

    return TrafficWriter(cgroups, kernel)


def _files(roots: HostRoots, cgroups: Hierarchy) -> CgroupFileWriter:
    files = {Base.CGROUP: NativeCgroupFiles(cgroups, kept_descriptors() // 4)}
    for base, root in ((Base.PROC, roots.proc), (Base.SYS, roots.sys)):
        if Path(root).is_dir():
            files[base] = NativeCgroupFiles(Hierarchy(root, cgroups.version))
    return CgroupFileWriter(dict(files))
