# SPDX-License-Identifier: Apache-2.0
"""Strategies on the real executor and a model of the kernel: what files say after many rounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor import write_events
from koord.agent.executor.claim import Claim, Layer
from koord.agent.strategies.strategy import Actuators
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet
from tests.agent.executor.rig import Rig
from tests.agent.strategies.cpuburst import test_cpuburst
from tests.agent.strategies.cpusuppress import test_cpusuppress
from tests.agent.strategies.fakes import FakeEvictor

_QUOTA, _BURST, _CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"


def _suppression(tmp_path) -> tuple[test_cpusuppress.Scene, Rig]:
    scene = test_cpusuppress.Scene(tmp_path, version=Version.V1)
    rig = Rig(tmp_path / "state", ["kubepods.slice", *scene.be_directories])
    scene.executor = rig.executor
    scene.hands = Actuators(rig.executor, FakeEvictor())
    return scene, rig


def _cpus(rig: Rig, directories: list[str]) -> set[str | None]:
    return {rig.says(_CPUS, directory) for directory in directories}


def test_every_best_effort_cgroup_says_what_was_decided(tmp_path):
    scene, rig = _suppression(tmp_path)
    for cores in (0.5, 2.2, 2.2, 4.9, 8.0, 1.0, 1.0, 0.0, 0.0):
        told = scene.uses(cores, ls=cores).run()
        assert _cpus(rig, scene.be_directories) == {told["cpus"]}


def test_a_container_made_while_its_parents_were_narrow_grows_with_them(tmp_path):
    scene, rig = _suppression(tmp_path)
    for _ in range(2):
        scene.uses(8.0, ls=8.0).run()
    made = f"{scene.be_directories[1]}/cri-containerd-late.scope"
    (tmp_path / "cgroup" / "cpuset" / made).mkdir()
    rig.kernel.make(made)
    narrow = rig.says(_CPUS, made)
    for _ in range(12):
        told = scene.uses(0.0, ls=0.0).run()
    assert _cpus(rig, [*scene.be_directories, made]) == {told["cpus"]}
    assert len(CPUSet.parse(told["cpus"])) > len(CPUSet.parse(narrow))


def test_policies_change_places_and_stop_leaves_no_trace(tmp_path):
    scene, rig = _suppression(tmp_path)
    root = scene.be_directories[0]
    scene.uses(2.2, ls=2.2).run()
    assert rig.says(_QUOTA, root) == "-1"
    scene.config.cpu_suppress_policy = "cfsQuota"
    scene.run()
    assert rig.says(_QUOTA, root) == "300000"
    assert _cpus(rig, scene.be_directories) == {"0-6"}
    scene.config.cpu_suppress_policy = "cpuset"
    told = scene.run()
    assert rig.says(_QUOTA, root) == "-1"
    assert _cpus(rig, scene.be_directories) == {told["cpus"]}
    scene.strategy.stop(scene.hands)
    rig.settle()
    assert _cpus(rig, scene.be_directories) == {"0-7"}
    assert rig.says(_QUOTA, root) == "-1"


def test_what_an_earlier_agent_left_is_no_bound(tmp_path):
    scene, rig = _suppression(tmp_path)
    root = scene.be_directories[0]
    rig.kernel.put(_QUOTA, root, "2000")
    for directory in reversed(scene.be_directories):
        rig.kernel.put(_CPUS, directory, "6-7")
    scene.config.cpu_suppress_policy = "cfsQuota"
    for _ in range(12):
        scene.uses(2.2, ls=2.2).run()
    assert rig.says(_QUOTA, root) == "300000"
    assert _cpus(rig, scene.be_directories) == {"0-6"}


@pytest.mark.parametrize(
    ("exceeds", "bursts"),
    [(False, ["250000", "200000", "50000"]), (True, ["2500000", "2000000", "500000"])],
)
def test_the_series_of_bursts_says_what_the_files_say(tmp_path, exceeds, bursts):
    scene = test_cpuburst.Scene(tmp_path, Version.V1, policy="cpuBurstOnly")
    pod = scene.pods[0]
    directories = [pod.directory, *(each.directory for each in pod.containers)]
    rig = Rig(
        tmp_path / "state", ["kubepods.slice", pod.directory.rpartition("/")[0], *directories]
    )
    rig.kernel.exceeds = exceeds
    for directory, quota in zip(directories, ("250000", "200000", "50000"), strict=True):
        rig.kernel.put(_QUOTA, directory, quota)
    scene.executor, scene.hands = rig.executor, Actuators(rig.executor, FakeEvictor())
    for _ in range(2):
        scene.run()
    assert [rig.says(_BURST, directory) for directory in directories] == bursts
    text = scene.registry.expose().decode()
    name = "koordlet_container_scaled_cfs_burst_us{"
    told = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
    assert [str(int(float(value))) for value in told] == bursts[1:]
    assert scene.executor.failures() == []


_ROUNDS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([1.0, 3.7, 7.0]), st.sampled_from([1.0, 1.25, 1.6])),
    min_size=1,
    max_size=6,
)


@given(_ROUNDS)
def test_burst_and_normalization_never_fight_and_the_kernel_takes_all(tmp_path_factory, rounds):
    tmp_path = tmp_path_factory.mktemp("burst")
    scene = test_cpuburst.Scene(tmp_path, Version.V1)
    pod = scene.pods[0]
    big, small = (each.directory for each in pod.containers)
    above = "kubepods.slice"
    besteffort = pod.directory.rpartition("/")[0]
    rig = Rig(tmp_path / "state", [above, besteffort, pod.directory, big, small])
    for directory, quota in ((pod.directory, "250000"), (big, "200000"), (small, "50000")):
        rig.kernel.put(_QUOTA, directory, quota)
    scene.executor, scene.hands = rig.executor, Actuators(rig.executor, FakeEvictor())
    limits = {pod.directory: 250_000, big: 200_000, small: 50_000}
    for throttled, busy, ratio in rounds:
        scene.throttled, scene.busy = {"web-c0": throttled}, busy
        for directory, limit in limits.items():
            rig.executor.state("hooks", directory, [
                Claim(_QUOTA, directory, limit, "limit"),
                Claim(_QUOTA, directory, ratio, "CPUs are fast", Layer.SCALE),
            ])  # fmt: skip
        rig.settle()
        scene.run()
        said = {d: int(str(rig.says(_QUOTA, d))) for d in limits}
        bursts = {d: int(str(rig.says(_BURST, d))) for d in limits}
        for directory, limit in limits.items():
            least = -(-limit * 100 // int(100 * ratio))
            assert least <= said[directory] <= 3 * least + 3
            assert 0 <= bursts[directory] <= said[directory]
        assert said[big] <= said[pod.directory]
    assert not [told for told in rig.told if isinstance(told, write_events.WriteFailed)]
    scene.strategy.stop(scene.hands)
    rig.executor.withdraw("hooks")
    rig.settle()
    assert {d: int(str(rig.says(_QUOTA, d))) for d in limits} == limits
    assert {rig.says(_BURST, d) for d in limits} == {"0"}


def test_bursts_are_stated_again_only_where_claims_have_changed(tmp_path, monkeypatch):
    scene = test_cpuburst.Scene(tmp_path, Version.V1, policy="cpuBurstOnly")
    pod = scene.pods[0]
    scene.pods = tuple(scene.pods)
    directories = [pod.directory, *(each.directory for each in pod.containers)]
    rig = Rig(
        tmp_path / "state", ["kubepods.slice", pod.directory.rpartition("/")[0], *directories]
    )
    for directory, quota in zip(directories, ("250000", "200000", "50000"), strict=True):
        rig.kernel.put(_QUOTA, directory, quota)
    scene.executor, scene.hands = rig.executor, Actuators(rig.executor, FakeEvictor())
    state, stated = rig.executor.state, []
    monkeypatch.setattr(rig.executor, "state", lambda *said: (stated.append(said[1]), state(*said)))

    def scopes() -> list[str]:
        stated.clear()
        scene.run()
        return list(stated)

    assert scopes() == [pod.uid]
    scopes()
    assert scopes() == []
    # A container goes, and another comes in its place: what was claimed of the first is forgotten.
    gone = pod.containers[0].directory
    rig.kernel.remove(gone)
    rig.executor.recheck("cpuburst")
    rig.settle()
    rig.kernel.make(gone)
    rig.kernel.put(_QUOTA, gone, "200000")
    assert scopes() == [pod.uid]
    assert rig.says(_BURST, gone) == "200000"
