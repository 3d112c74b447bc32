# SPDX-License-Identifier: Apache-2.0
"""How core scheduling is found and switched on, by the files that kernels have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from koord.agent.executor.claim import Claim
from koord.agent.hooks.builtin.core_sched import CoreSched
from koord.agent.hooks.options import machine_options
from koord.agent.hooks.reconciliation.response_claims import claims_of
from koord.agent.host.kernel import core_sched
from koord.agent.host.kernel.feature_probes import probe_features
from koord.agent.host.kernel.features import Feature, Features
from koord.agent.host.roots import HostRoots
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import KubeQos
from tests.agent.hooks.build import qualities, snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

_BE = {"be": {"enable": True}}
_IDENTITY, _CORE = "sched_group_identity_enabled", "sched_core"
_OFF = "GENTLE_FAIR_SLEEPERS NO_HRTICK NO_CORE_SCHED WAKEUP_PREEMPTION\n"
_ON = "GENTLE_FAIR_SLEEPERS NO_HRTICK CORE_SCHED WAKEUP_PREEMPTION\n"
_OTHERS = "GENTLE_FAIR_SLEEPERS NO_HRTICK WAKEUP_PREEMPTION\n"
_WRITTEN = {"sched_features": "CORE_SCHED"}


class Kernel:
    """The files that a kernel has, and whether it tells cookies."""

    def __init__(self, base: Path, sysctls: Mapping[str, str], features: str | None) -> None:
        self.roots = HostRoots().beneath(str(base))
        self._sysctls, self._debug = base / "proc/sys/kernel", base / "sys/kernel/debug"
        self._sysctls.mkdir(parents=True)
        self._debug.mkdir(parents=True)
        for name, text in sysctls.items():
            self.set(name, text)
        if features is not None:
            (self._debug / "sched_features").write_text(features)

    def set(self, name: str, text: str) -> None:
        (self._sysctls / name).write_text(f"{text}\n")

    def missing(self) -> str:
        cgroups = Path(self.roots.cgroup)
        cgroups.mkdir(parents=True, exist_ok=True)
        hierarchy = Hierarchy(cgroups, Version.V1)
        return probe_features(self.roots, hierarchy).missing.get(Feature.CORE_SCHED, "")

    def hook(self) -> CoreSched:
        reasons = {Feature.CORE_SCHED: text} if (text := self.missing()) else {}
        reasons[Feature.CPU_IDLE] = "not here"
        found = CoreSched(machine_options(lambda _: True, Features(reasons), self.roots))
        found.learn(snapshot(slo=qualities("coreSched", **_BE)))
        return found


def switches(hook: CoreSched) -> dict[str, Any] | None:
    answer = hook.kube_qos(KubeQos.GUARANTEED)
    return dict(answer.values) if answer else None


@pytest.mark.parametrize(
    ("sysctls", "features", "cookies", "first", "second"),
    [
        # Mainline: no switch, on if it was built in.
        ({}, None, True, {}, {}),
        ({}, _OTHERS, True, {}, {}),
        ({}, None, False, None, None),
        ({}, _OTHERS, False, None, None),
        # The sysctl alone; it does not stay on: nothing else is left.
        ({_CORE: "0"}, None, False, {_CORE: 1}, {_CORE: 1}),
        ({_CORE: "0"}, _OTHERS, False, {_CORE: 1}, {_CORE: 1}),
        ({_CORE: "1"}, None, False, {_CORE: 1}, {_CORE: 1}),
        ({_IDENTITY: "1", _CORE: "0"}, None, True, {_IDENTITY: 0, _CORE: 1},
         {_IDENTITY: 0, _CORE: 1}),
        # Older ones: the feature alone, also where cookies are told while it is off.
        ({}, _OFF, False, _WRITTEN, _WRITTEN),
        ({}, _OFF, True, _WRITTEN, _WRITTEN),
        ({}, _ON, False, _WRITTEN, _WRITTEN),
        ({_IDENTITY: "1"}, _OFF, False, {_IDENTITY: 0, **_WRITTEN}, {_IDENTITY: 0, **_WRITTEN}),
        # Both: the sysctl; the feature where that was refused.
        ({_CORE: "0"}, _OFF, False, {_CORE: 1}, {_CORE: 1, **_WRITTEN}),
        ({_CORE: "1"}, _OFF, True, {_CORE: 1}, {_CORE: 1}),
        ({_CORE: "1"}, _ON, True, {_CORE: 1}, {_CORE: 1}),
    ],
)  # fmt: skip
def test_what_is_written_while_the_sysctl_stays_as_it_is(
    sysctls: dict[str, str],
    features: str | None,
    cookies: bool,
    first: dict[str, Any] | None,
    second: dict[str, Any] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core_sched, "why_not", lambda: "" if cookies else "refused")
    kernel = Kernel(tmp_path, sysctls, features)
    assert kernel.missing() == ("refused" if first is None else "")
    hook = kernel.hook()
    assert [switches(hook), switches(hook)] == [first, second]


def test_a_sysctl_that_was_set_needs_no_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_sched, "why_not", lambda: "refused")
    kernel = Kernel(tmp_path, {_CORE: "0"}, _OFF)
    hook = kernel.hook()
    assert switches(hook) == {_CORE: 1}
    kernel.set(_CORE, "1")
    assert switches(hook) == {_CORE: 1}


def test_the_feature_is_claimed_of_the_system_and_not_of_a_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_sched, "why_not", lambda: "refused")
    answer = Kernel(tmp_path, {}, _OFF).hook().kube_qos(KubeQos.GUARANTEED)
    assert answer is not None
    assert claims_of(answer, "kubepods", container=False) == [
        Claim("sched_features", "", "CORE_SCHED", answer.reason)
    ]
