# SPDX-License-Identifier: Apache-2.0
"""What hooks may ask of the machine they are made for; each is a function, so that tests answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.host.host_files import HostFiles
from koord.agent.host.kernel.core_sched import scheduler_feature
from koord.agent.host.kernel.features import Feature, Features
from koord.agent.host.procfs.cpuinfo import read_cpu_info
from koord.base.errors import KoordError
from koord.kernels import resctrl

if TYPE_CHECKING:
    from koord.agent.host.roots import HostRoots
    from koord.kube.dry_run import DryRun

HAMI_LIBRARY = "/usr/local/vgpu/libvgpu.so"


def _nothing(name: str) -> str | None:
    return None


def _not_listed(name: str) -> bool | None:
    return None


def _no_names(path: str) -> list[str]:
    return []


def _no_resctrl() -> tuple[resctrl.Info, resctrl.Vendor] | None:
    return None


def _no_directory(path: str) -> None:
    return None


def _no_numbers(folder: str) -> tuple[int, int] | None:
    return None


def _always(path: str) -> bool:
    return True


@dataclass(frozen=True)
class HookOptions:
    """Settings and questions.

    Attributes:
        gate: whether a feature gate is on.
        has: whether the machine has a feature.
        sysctl: value of a file in ``/proc/sys/kernel`` by name; None where there is none.
        scheduler_feature: whether a feature of the kernel's scheduler is on; None where the kernel
            does not list it.
        pci_names: entries of a directory beneath ``/sys/bus/pci/devices``.
        device_numbers: major and minor of a device by its directory beneath ``/sys``; None where
            there is none.
        resctrl_info: limits and vendor of the mounted resctrl tree; None without one.
        host_has: whether a file or directory of the host is there, which a mount may name.
        make_directory: makes a directory of the host anew, writable for all.
        keep_directory: makes a directory of the host that containers share, where it is not there.
        disable_unset_cpu_quota: keeps the quota of pods with bound CPUs
            (``--disable-unset-cpu-quota``).
        hami_library: HAMi-core's library on the host.
    """

    gate: Callable[[str], bool]
    has: Callable[[Feature], bool]
    sysctl: Callable[[str], str | None] = _nothing
    scheduler_feature: Callable[[str], bool | None] = _not_listed
    pci_names: Callable[[str], list[str]] = _no_names
    device_numbers: Callable[[str], tuple[int, int] | None] = _no_numbers
    resctrl_info: Callable[[], tuple[resctrl.Info, resctrl.Vendor] | None] = _no_resctrl
    host_has: Callable[[str], bool] = _always
    make_directory: Callable[[str], None] = _no_directory
    keep_directory: Callable[[str], None] = _no_directory
    disable_unset_cpu_quota: bool = False
    hami_library: str = HAMI_LIBRARY


def machine_options(
    gate: Callable[[str], bool],
    features: Features,
    roots: HostRoots,
    *,
    disable_unset_cpu_quota: bool = False,
    hami_library: str = HAMI_LIBRARY,
    dry_run: DryRun | None = None,
) -> HookOptions:
    """Options that ask the machine itself.

    Args:
        gate: whether a feature gate is on.
        features: what the kernel offers.
        roots: where its files are.
        disable_unset_cpu_quota: see :class:`HookOptions`.
        hami_library: see :class:`HookOptions`.
        dry_run: takes what would be written; None writes.
    """
    host = HostFiles(roots)
    made = HookOptions(
        gate=gate,
        has=features.has,
        sysctl=lambda name: _sysctl(roots, name),
        scheduler_feature=lambda name: scheduler_feature(roots, name),
        pci_names=lambda path: _pci_names(roots, path),
        device_numbers=lambda folder: _device_numbers(roots, folder),
        resctrl_info=lambda: _resctrl_info(roots),
        host_has=host.has,
        make_directory=lambda path: _make_anew(host.place(path)),
        keep_directory=lambda path: _make_shared(host.place(path)),
        disable_unset_cpu_quota=disable_unset_cpu_quota,
        hami_library=hami_library,
    )
    if dry_run is None:
        return made
    record = partial(dry_run.record_local, "make")
    return replace(made, make_directory=record, keep_directory=record)


def _sysctl(roots: HostRoots, name: str) -> str | None:
    try:
        return Path(roots.proc, "sys/kernel", name).read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _pci_names(roots: HostRoots, path: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(roots.sys, "bus/pci/devices", path).iterdir())
    except OSError:
        return []


def _device_numbers(roots: HostRoots, folder: str) -> tuple[int, int] | None:
    try:
        major, _, minor = Path(roots.sys, folder, "dev").read_text("ascii").partition(":")
        return int(major), int(minor)
    except (OSError, ValueError):
        return None


def _resctrl_info(roots: HostRoots) -> tuple[resctrl.Info, resctrl.Vendor] | None:
    try:
        info, cpu = resctrl.read_info(roots.resctrl), read_cpu_info(roots)
    except (OSError, ValueError, KoordError):
        return None
    # Makers without rules of their own follow Intel's.
    return info, cpu.vendor or resctrl.Vendor.INTEL


def _make_anew(place: Path) -> None:
    if place.is_symlink():
        place.unlink()
    place.mkdir(parents=True, exist_ok=True)
    for entry in place.iterdir():
        if entry.is_file() or entry.is_symlink():
            entry.unlink()
    place.chmod(0o777)  # The library writes there as whatever user the container runs.


def _make_shared(place: Path) -> None:
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        place.mkdir()
    number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # As /tmp: every container writes there, and none removes another's files.
        os.fchmod(number, 0o1777)
    finally:
        os.close(number)
