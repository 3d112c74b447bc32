# SPDX-License-Identifier: Apache-2.0
"""Whatever a hook server answers: what goes to the runtime is what the kernel takes, and what was
nobody's business is as it was.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.delivery.cri.cgroup_limits import CgroupLimitReader, CgroupLimits
from koord.delivery.cri.hook_answers import clamp, wanted_resources
from koord.delivery.cri.interception import Interception
from koord.delivery.cri.messages import CRI, RUNTIME_SERVICE
from koord.delivery.cri.pod_store import PodStore
from koord.delivery.hooks.messages import HOOKS
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet
from tests.profiles import examples

_AMOUNTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 200_000)
_CPUS = st.sampled_from(["", "0", "1-3", "0-7", "9", "5,1", "nonsense", "0-", "\n"])
_KEYS = st.text("ab./\n", max_size=4)
_RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "cpu_period": _AMOUNTS, "cpu_quota": _AMOUNTS, "cpu_shares": _AMOUNTS,
        "memory_limit_in_bytes": _AMOUNTS, "memory_swap_limit_in_bytes": _AMOUNTS,
        "oom_score_adj": _AMOUNTS, "cpuset_cpus": _CPUS, "cpuset_mems": _CPUS,
        "unified": st.dictionaries(_KEYS, _KEYS, max_size=2),
    },
)  # fmt: skip
# As a kubelet asks: what it asks for a runtime takes.
_ASKED = st.fixed_dictionaries(
    {},
    optional={
        "cpu_period": st.just(100_000), "cpu_quota": st.sampled_from([0, -1, 1000, 5000]),
        "cpu_shares": st.integers(2, 1024), "memory_limit_in_bytes": st.just(1 << 20),
        "memory_swap_limit_in_bytes": st.just(1 << 20), "cpuset_cpus": st.sampled_from(["", "1"]),
    },
)  # fmt: skip
_LIMITS = st.builds(
    lambda quota, cpus, v1, readable: CgroupLimits(
        readable, Version.V1 if v1 else Version.V2, quota if v1 and readable else None,
        CPUSet.parse(cpus) if v1 and readable else None, CPUSet.parse("0") if v1 else None,
    ),
    st.none() | st.tuples(st.sampled_from([5000, 99_999]), st.sampled_from([100_000, 33_333])),
    st.sampled_from(["1-3", "0-7", "1"]), st.booleans(), st.booleans(),
)  # fmt: skip


def refusal(resources: dict[str, Any], limits: CgroupLimits) -> str:
    """What a kernel or runc says against a container's resources: a plain model of both."""
    quota, period = resources["cpu_quota"], resources["cpu_period"] or 100_000
    if not 1000 <= period <= 1_000_000:
        return "period"
    if (quota != -1 and quota < 0) or 0 < quota < 1000 or quota > 1 << 44:
        return "quota"
    if quota > 0 and limits.quota and Fraction(quota, period) > Fraction(*limits.quota):
        return "quota above the pod's"
    if resources["cpu_shares"] and not 2 <= resources["cpu_shares"] <= 262_144:
        return "shares"
    memory, swap = resources["memory_limit_in_bytes"], resources["memory_swap_limit_in_bytes"]
    if 0 < memory < 4096 or 0 < swap < memory:
        return "memory"
    if not -1000 <= resources["oom_score_adj"] <= 1000:
        return "score"
    for name, most in (("cpuset_cpus", limits.cpus), ("cpuset_mems", limits.mems)):
        if not CPUSet.parse(resources[name]) <= (most or CPUSet.parse("0-8191")):
            return name
    unified = resources["unified"]
    if unified and limits.version is Version.V1:
        return "unified"
    return "unified" if any("/" in key or "." not in key for key in unified) else ""


@settings(max_examples=examples(1), deadline=None)
@given(_ASKED, _RESOURCES, _LIMITS)
def test_what_is_put_into_a_request_is_what_a_kernel_takes(
    asked: dict[str, Any], answer: dict[str, Any], limits: CgroupLimits
) -> None:
    if limits.quota:
        asked = {**asked, "cpu_quota": min(asked.get("cpu_quota", 0), 1000)}
    before = HOOKS.LinuxContainerResources(**asked)
    wanted = wanted_resources(before, HOOKS.LinuxContainerResources(**answer))
    made = clamp(wanted, before, limits)
    names = ("cpu_period", "cpu_quota", "cpu_shares", "oom_score_adj", "cpuset_cpus", "cpuset_mems")
    memory = ("memory_limit_in_bytes", "memory_swap_limit_in_bytes")
    whole = {name: made.get(name, getattr(before, name)) for name in (*names, *memory)}
    assert refusal({**whole, "unified": made.get("unified", {})}, limits) == ""
    # Nothing is there that nobody wanted, but for what goes with what was.
    assert set(made) <= {*wanted, "cpu_quota", "memory_swap_limit_in_bytes"}


@settings(max_examples=examples(0.5), deadline=None)
@given(_RESOURCES)
def test_an_echo_wants_nothing(asked: dict[str, Any]) -> None:
    before = HOOKS.LinuxContainerResources(**asked)
    assert wanted_resources(before, before) == {}


class _Answers:
    """Hook calls that answer with some bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def call(self, stage: str, request: Any, name: str) -> tuple[Any, None]:
        del name
        kind = "PodSandbox" if request.DESCRIPTOR.name.startswith("Pod") else "ContainerResource"
        try:
            return getattr(HOOKS, f"{kind}HookResponse").FromString(self._raw), None
        except DecodeError:
            return None, None

    def call_later(self, *_: Any) -> None:
        """Nobody hears of it."""


_METHODS = (
    "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer",
    "UpdateContainerResources", "StopContainer", "RemoveContainer",
)  # fmt: skip
# Field 1000 with two bytes, which nobody knows.
_UNKNOWN = b"\xc2\x3e\x02hi"


def _valid(method: str) -> bytes:
    made = getattr(CRI, f"{method}Request")()
    for name in ("pod_sandbox_id", "container_id"):
        if name in made.DESCRIPTOR.fields_by_name:
            setattr(made, name, "c" if name == "container_id" else "s")
    raw: bytes = made.SerializeToString()
    return raw


@settings(max_examples=examples(1), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(_METHODS), st.binary(max_size=60), st.booleans(), st.binary()),
        max_size=6,
    ),
    st.binary(max_size=60),
)
def test_bytes_of_any_kind_end_in_a_call_of_the_runtime(
    calls: list[tuple[str, bytes, bool, bytes]], answer: bytes
) -> None:
    async def run() -> None:
        store = PodStore()
        nowhere = CgroupLimitReader(Path("/nowhere"))
        answers: Any = _Answers(answer)
        interception = Interception(answers, store, nowhere, ("k", "v"))
        for method, noise, valid, reply in calls:
            raw = _valid(method) + _UNKNOWN if valid else noise
            plan = await interception.before(f"{RUNTIME_SERVICE}{method}", raw)
            if valid:
                assert _UNKNOWN in plan.request
            if plan.answered is not None:
                plan.answered(reply)
            if plan.failed is not None:
                plan.failed()

    asyncio.run(run())
