# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from pathlib import Path

import pytest

from koord.agent.executor import write_events
from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.journal import Journal
from koord.base import faults
from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule
from tests.agent.executor.rig import BURST, CPUS, MEMORY, QUOTA, SHARES, Killed, Rig, want

POD, ONE, TWO = "kubepods/pod1", "kubepods/pod1/c1", "kubepods/pod1/c2"
TREE = ["kubepods", POD, ONE, TWO]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "state", TREE)


def test_burst_normalization_and_suppression_compose_on_one_quota(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(QUOTA, ONE, 120000)])
    rig.executor.state("CPUNormalization", "pod1", [want(QUOTA, ONE, 1.2, Layer.SCALE)])
    rig.settle()
    assert rig.says(QUOTA, ONE) == "100000"
    assert rig.executor.bases(QUOTA, [ONE], Layer.RAISE) == [100000]
    assert rig.executor.bases(QUOTA, [ONE], Layer.SCALE) == [120000]
    rig.executor.state("CPUBurst", "node", [want(QUOTA, ONE, 300000, Layer.RAISE)])
    rig.settle()
    assert rig.says(QUOTA, ONE) == "300000"
    rig.executor.state("CPUSuppress", "node", [want(QUOTA, ONE, 50000, Layer.CAP)])
    rig.settle()
    assert rig.says(QUOTA, ONE) == "50000"
    rig.executor.withdraw("CPUSuppress")
    rig.executor.withdraw("CPUBurst", "node")
    rig.settle()
    assert rig.says(QUOTA, ONE) == "100000"
    rig.executor.withdraw("CPUNormalization")
    rig.executor.withdraw("BatchResource")
    rig.settle()
    assert rig.says(QUOTA, ONE) == "-1"
    assert Journal(rig.state, "this-boot").targets() == []


def test_ranks_decide_between_two_values(rig: Rig) -> None:
    rig.executor.state("CPUSetAllocator", "pod1", [want(QUOTA, ONE, -1)])
    rig.executor.state("BatchResource", "pod1", [want(QUOTA, ONE, 50000)])
    rig.settle()
    assert rig.says(QUOTA, ONE) == "-1"


def test_a_hooks_cpus_win_over_what_suppression_leaves_and_bow_to_what_it_takes(rig: Rig) -> None:
    left = [want(CPUS, directory, "0-5") for directory in TREE]
    rig.executor.state("cpusuppress", "cpuset", left)
    rig.executor.state("CPUSetAllocator", "pod1", [want(CPUS, ONE, "4-5")])
    rig.settle()
    assert (rig.says(CPUS, ONE), rig.says(CPUS, TWO)) == ("4-5", "0-5")
    taken = [want(CPUS, directory, "2-4", Layer.CAP) for directory in TREE]
    rig.executor.state("cpusuppress", "cpuset", left + taken)
    rig.settle()
    assert (rig.says(CPUS, ONE), rig.says(CPUS, TWO)) == ("4", "2-4")


def test_a_base_needs_a_claim(rig: Rig) -> None:
    assert rig.executor.bases(QUOTA, [ONE], Layer.CAP) == [None]
    rig.executor.state("CPUBurst", "node", [want(QUOTA, ONE, 1000, Layer.RAISE)])
    assert rig.executor.bases(QUOTA, [ONE], Layer.RAISE) == [None]


def test_growing_goes_down_and_shrinking_goes_up(rig: Rig) -> None:
    for pod, container in ((200000, 100000), (50000, 40000), (400000, 300000), (2000, 1000)):
        claims = [want(QUOTA, ONE, container), want(QUOTA, POD, pod)]
        claims += [want(BURST, ONE, container // 2)]
        rig.executor.state("BatchResource", "pod1", claims)
        rig.settle()
        said = [rig.says(QUOTA, POD), rig.says(QUOTA, ONE), rig.says(BURST, ONE)]
        assert said == [str(pod), str(container), str(container // 2)]
        assert rig.executor.failures() == []


def test_a_child_stays_within_its_parent_and_grows_with_it(rig: Rig) -> None:
    rig.executor.state("CPUBurst", "pod1", [want(QUOTA, ONE, 90000), want(BURST, ONE, 80000)])
    rig.executor.state("CPUSuppress", "node", [want(QUOTA, "kubepods", 30000, Layer.CAP)])
    rig.settle()
    assert (rig.says(QUOTA, ONE), rig.says(BURST, ONE)) == ("30000", "30000")
    rig.executor.withdraw("CPUSuppress")
    rig.settle()
    assert (rig.says(QUOTA, ONE), rig.says(BURST, ONE)) == ("90000", "80000")


def test_cpus_are_never_none_and_never_outside_the_parent(rig: Rig) -> None:
    down = [want(CPUS, directory, "0-1", Layer.CAP) for directory in TREE]
    rig.executor.state("CPUSuppress", "node", down)
    rig.executor.state("CPUSetAllocator", "pod1", [want(CPUS, ONE, "4-5"), want(CPUS, TWO, "")])
    rig.settle()
    assert [rig.says(CPUS, directory) for directory in TREE] == ["0-1"] * 4
    rig.executor.withdraw("CPUSuppress")
    rig.settle()
    assert [rig.says(CPUS, directory) for directory in TREE] == ["0-7", "0-7", "4-5", "0-7"]


def test_a_quota_below_a_millisecond_is_one(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(QUOTA, ONE, 1000)])
    rig.executor.state("CPUNormalization", "pod1", [want(QUOTA, ONE, 1.5, Layer.SCALE)])
    rig.settle()
    assert rig.says(QUOTA, ONE) == "1000"


def test_memory_is_cut_to_pages_so_that_it_reads_as_written(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(MEMORY, ONE, 1000001)])
    rig.settle()
    assert rig.says(MEMORY, ONE) == "999424"
    before = len(rig.kernel.writes)
    rig.settle(61)
    assert len(rig.kernel.writes) == before


def test_an_edit_by_hand_is_put_back_and_told(rig: Rig) -> None:
    rig.executor.state("CPUSetAllocator", "pod1", [want(CPUS, ONE, "2-3")])
    rig.settle()
    rig.kernel.put(CPUS, ONE, "0-7")
    rig.settle(59)
    assert rig.says(CPUS, ONE) == "0-7"
    rig.settle(2)
    assert rig.says(CPUS, ONE) == "2-3"
    assert [t.by_hand for t in rig.told if isinstance(t, write_events.ValueWritten)] == [
        False,
        True,
    ]
    rig.kernel.put(CPUS, ONE, "0-7")
    rig.executor.recheck("CPUSetAllocator")
    rig.settle()
    assert rig.says(CPUS, ONE) == "2-3"


def test_a_failure_waits_twice_as_long_each_time(rig: Rig) -> None:
    attempts = []

    def refuse() -> None:
        attempts.append(rig.clock.monotonic_seconds())
        raise OSError(errno.EBUSY, "busy")

    rig.kernel.before_write = refuse
    rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
    for _ in range(40):
        rig.settle(0.5)
    assert attempts == [0.5, 1.5, 3.5, 7.5, 15.5]
    (failure,) = rig.executor.failures()
    assert (failure.result.errno, failure.attempts) == (errno.EBUSY, 5)
    rig.kernel.before_write = lambda: None
    rig.settle(16)
    assert rig.executor.failures() == []
    assert rig.says(SHARES, ONE) == "512"


def test_a_directory_that_goes_is_forgotten(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512), want(SHARES, TWO, 300)])
    rig.settle()
    rig.kernel.remove(ONE)
    rig.executor.withdraw("BatchResource")
    rig.settle()
    assert rig.executor.failures() == []
    assert Journal(rig.state, "this-boot").targets() == []
    assert rig.says(SHARES, TWO) == "1024"


def test_a_container_that_goes_before_a_write_is_no_failure_and_its_claims_go(rig: Rig) -> None:
    down = [want(CPUS, directory, "0-3", Layer.CAP) for directory in TREE]
    rig.executor.state("cpusuppress", "cpuset", down)
    rig.settle()
    rig.kernel.remove(ONE)
    up = [want(CPUS, directory, "0-5", Layer.CAP) for directory in TREE]
    rig.executor.state("cpusuppress", "cpuset", up)
    rig.settle()
    assert rig.executor.failures() == []
    assert [
        told.target.directory for told in rig.told if isinstance(told, write_events.CgroupGone)
    ] == [ONE]
    assert not [told for told in rig.told if isinstance(told, write_events.WriteFailed)]
    assert ONE not in {line.target.directory for line in rig.executor.explain()}
    assert ONE not in {target.directory for target in Journal(rig.state, "this-boot").targets()}
    assert rig.says(CPUS, TWO) == "0-5"


def test_a_container_that_goes_before_the_first_look_is_no_failure(rig: Rig) -> None:
    rig.executor.state("CPUSetAllocator", "pod1", [want(CPUS, f"{POD}/c3", "4-5")])
    rig.settle()
    rig.settle(1)
    assert rig.executor.failures() == []
    assert [type(told) for told in rig.told] == [write_events.CgroupGone]


def test_a_file_that_goes_from_a_directory_that_stays_is_a_failure(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
    rig.settle()
    del rig.kernel.values[ONE, SHARES]
    rig.settle(61)
    (failure,) = rig.executor.failures()
    assert (failure.target.directory, failure.result.errno) == (ONE, errno.ENOENT)
    rig.kernel.make(ONE)
    rig.settle(61)
    assert rig.executor.failures() == []
    assert rig.says(SHARES, ONE) == "512"
    rig.executor.withdraw("BatchResource")
    rig.settle()
    assert rig.says(SHARES, ONE) == "1024"


def test_a_directory_that_comes_back_gets_what_is_claimed_anew(rig: Rig) -> None:
    claims = [want(SHARES, ONE, 512), want(SHARES, TWO, 300)]
    rig.executor.state("BatchResource", "pod1", claims)
    rig.settle()
    rig.kernel.remove(ONE)
    rig.settle(61)
    rig.kernel.make(ONE)
    rig.executor.state("BatchResource", "pod1", claims)
    rig.settle()
    assert (rig.says(SHARES, ONE), rig.says(SHARES, TWO)) == ("512", "300")
    assert rig.executor.give_all_back() == []
    assert (rig.says(SHARES, ONE), rig.says(SHARES, TWO)) == ("1024", "1024")


def test_a_directory_that_comes_late_gets_its_values(rig: Rig) -> None:
    new = f"{POD}/c3"
    rig.executor.state("BatchResource", "pod1", [want(SHARES, new, 512)])
    rig.settle()
    rig.kernel.make(new)
    rig.settle(1)
    assert rig.says(SHARES, new) == "512"


def test_a_cgroup_made_under_a_suppressed_parent_is_not_left_suppressed(rig: Rig) -> None:
    rig.executor.state("cpusuppress", "a", [want(CPUS, d, "0-1", Layer.CAP) for d in TREE])
    rig.settle()
    new = f"{POD}/late"
    rig.kernel.make(new)
    assert rig.says(CPUS, new) == "0-1"
    rig.executor.state("cpusuppress", "b", [want(CPUS, new, "0-1", Layer.CAP)])
    rig.settle()
    rig.executor.withdraw("cpusuppress")
    rig.settle()
    assert [rig.says(CPUS, d) for d in (*TREE, new)] == ["0-7"] * 5


@pytest.mark.parametrize(
    "claim",
    [
        want("cpu.nonsense", ONE, 1),
        want("cpu.stat", ONE, 1),
        want(SHARES, "../etc", 5),
        want(SHARES, "/etc", 5),
        want(SHARES, "a\0b", 5),
        want(SHARES, "kubepods//pod1", 5),
        want(SHARES, "kubepods/./pod1", 5),
        want(SHARES, ONE, 1),
        want(SHARES, ONE, "many"),
        want(CPUS, ONE, "0-x"),
        want(CPUS, ONE, "0-1", Layer.SCALE),
        want(QUOTA, ONE, 0.0, Layer.SCALE),
        want(QUOTA, ONE, float("nan"), Layer.SCALE),
        want("net_cls.classid", ONE, 5, Layer.CAP),
    ],
)  # fmt: skip
def test_what_can_never_be_written_is_refused_alone(rig: Rig, claim: Claim) -> None:
    rig.executor.state("BatchResource", "pod1", [claim, want(SHARES, TWO, 300)])
    rig.settle()
    assert list(rig.executor.refused()) == [("BatchResource", "pod1")]
    assert [(r, d) for r, d, _ in rig.kernel.writes] == [(SHARES, TWO)]
    rig.executor.withdraw("BatchResource")
    assert rig.executor.refused() == {}


def test_dry_run_writes_nothing_and_tells_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state", TREE, dry_run=True)
    for _ in range(3):
        rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
        rig.settle(100)
    assert rig.kernel.writes == []
    assert not rig.state.exists()
    (told,) = rig.told
    assert isinstance(told, write_events.WritePlanned)
    assert told.made.value == 512


def test_after_a_restart_owners_have_time_to_come_back(rig: Rig) -> None:
    both = [want(SHARES, ONE, 512), want(SHARES, TWO, 300)]
    rig.executor.state("BatchResource", "pod1", both)
    rig.settle()
    rig.start()
    rig.settle(10)
    assert (rig.says(SHARES, ONE), rig.says(SHARES, TWO)) == ("512", "300")
    rig.executor.state("BatchResource", "pod1", both[:1])
    rig.settle(120)
    assert (rig.says(SHARES, ONE), rig.says(SHARES, TWO)) == ("512", "1024")


def test_restore_gives_everything_back(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(QUOTA, d, 20000) for d in (POD, ONE)])
    rig.executor.state("CPUSetAllocator", "x", [want(CPUS, d, "0-1") for d in TREE])
    rig.settle()
    before = dict(rig.kernel.values)
    rig.start()
    assert rig.executor.give_all_back() == []
    assert rig.kernel.values != before
    assert rig.kernel.values == Rig(rig.state / "other", TREE).kernel.values
    assert rig.executor.explain() == []


def test_explain_names_every_claim(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(QUOTA, ONE, 50000, reason="limits")])
    rig.executor.state("CPUBurst", "node", [want(QUOTA, ONE, 90000, Layer.RAISE, "throttled")])
    rig.settle()
    (line,) = rig.executor.explain()
    assert (str(line.target), line.value) == (f"{ONE}/{QUOTA}", 90000)
    assert line.claims == (
        "BatchResource (pod1): SET 50000: limits",
        "CPUBurst (node): RAISE 90000: throttled",
    )


def _kill_after(rig: Rig, writes: int) -> None:
    left = [writes]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    rig.kernel.before_write = count


def _claims(rig: Rig, quota: int, cpus: str) -> None:
    quotas = [want(QUOTA, POD, quota), want(QUOTA, ONE, quota // 2), want(BURST, ONE, quota // 4)]
    rig.executor.state("BatchResource", "pod1", quotas)
    rig.executor.state("CPUSuppress", "node", [want(CPUS, d, cpus, Layer.CAP) for d in TREE])


def test_kill_at_any_write_converges_after_the_restart(tmp_path: Path) -> None:
    for writes in range(40):
        rig = Rig(tmp_path / str(writes), TREE)
        originals = dict(rig.kernel.values)
        _claims(rig, 100000, "0-3")
        rig.settle()
        _kill_after(rig, writes)
        _claims(rig, 40000, "4-5")
        try:
            rig.settle()
            finished = True
        except Killed:
            finished = False
        rig.kernel.before_write = lambda: None
        assert rig.kernel.quotas_nest()
        rig.start()
        _claims(rig, 40000, "4-5")
        rig.settle()
        assert [rig.says(CPUS, d) for d in TREE] == ["4-5"] * 4
        said = [rig.says(r, d) for r, d in ((QUOTA, POD), (QUOTA, ONE), (BURST, ONE))]
        assert said == ["40000", "20000", "10000"]
        rig.start()
        assert rig.executor.give_all_back() == []
        assert rig.kernel.values == originals
        if finished:
            break
    assert finished
    assert writes > 5


STEPS = ["executor.journal.write", "executor.journal.sync", "executor.journal.rename",
         "executor.write", "executor.first_look", "executor.read_back"]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("passes", range(3))
def test_kill_at_any_step_converges_after_the_restart(
    tmp_path: Path, step: str, passes: int
) -> None:
    rig = Rig(tmp_path / "state", TREE)
    originals = dict(rig.kernel.values)
    plan = FaultPlan(1, {step: FaultRule(1.0, Killed(), after=passes)})
    with faults.inject(plan):
        try:
            _claims(rig, 100000, "0-3")
            rig.settle()
            rig.executor.withdraw("CPUSuppress")
            _claims(rig, 40000, "2-3")
            rig.settle()
            rig.executor.withdraw("BatchResource")
            rig.settle()
        except Killed:
            pass
    assert plan.passed[step]
    rig.start()
    _claims(rig, 60000, "6-7")
    rig.settle()
    assert rig.says(QUOTA, ONE) == "30000"
    assert rig.executor.give_all_back() == []
    assert rig.kernel.values == originals


def test_nothing_is_written_whose_original_is_not_on_disk(rig: Rig) -> None:
    full = OSError(errno.ENOSPC, "no space left")
    with faults.inject(FaultPlan(1, {"executor.journal.sync": FaultRule(1.0, full)})):
        rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
        rig.settle()
        assert rig.kernel.writes == []
        (failure,) = rig.executor.failures()
        assert failure.result.errno == errno.ENOSPC
    rig.settle(2)
    assert rig.says(SHARES, ONE) == "512"


@pytest.mark.parametrize(
    "damage",
    [b"", b"nonsense", b"koord-executor-journal 9 00000000 x\n[]",
     b"koord-executor-journal 1 00000001 x\n[]", b"\xff\xfe\n"],
)  # fmt: skip
def test_a_damaged_journal_names_the_file_to_remove(rig: Rig, damage: bytes) -> None:
    rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
    rig.settle()
    path = rig.state / "executor.journal"
    path.write_bytes(damage)
    with pytest.raises(KoordError) as caught:
        rig.start()
    assert f"remove {path}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_flipped_byte_of_a_journal_is_noticed(rig: Rig) -> None:
    rig.executor.state("BatchResource", "pod1", [want(SHARES, ONE, 512)])
    rig.settle()
    path = rig.state / "executor.journal"
    text = path.read_bytes()
    start = text.index(b"\n") + 1
    for place in range(start, len(text)):
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
        with pytest.raises(KoordError):
            Journal(rig.state, "this-boot")
    path.write_bytes(text)
    assert len(Journal(rig.state, "this-boot").targets()) == 1
    assert Journal(rig.state, "next-boot").targets() == []
