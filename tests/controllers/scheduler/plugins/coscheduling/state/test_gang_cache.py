# SPDX-License-Identifier: Apache-2.0
"""Which pods belong to which gangs, and what they still lack."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import structs

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.plugins.coscheduling import debug
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState
from tests.controllers.scheduler.plugins.coscheduling.gangs import (
    bound,
    grouped,
    member,
    pod_group,
)


class Cache(GangCache):
    def __init__(self, *pods: Pod) -> None:
        self.told: list[list[str]] = []
        super().__init__(decl.GangDefaults(), lambda: 1_700_000_000.0, self.tell)
        for pod in pods:
            self.pod_changed(pod)

    def tell(self, uids: Iterable[str]) -> None:
        self.told.append(list(uids))


def over(pod: Pod, phase: str = "Succeeded") -> Pod:
    return structs.replace(pod, status=structs.replace(pod.status, phase=phase))


def test_pods_are_told_of_once_their_gang_is_complete() -> None:
    cache = Cache(member("p1"))
    assert cache.told == []
    cache.pod_changed(member("p0"))
    assert cache.told == [["uid-p0", "uid-p1"]]
    cache.pod_changed(member("p2"))
    cache.pod_changed(member("p2"))
    assert len(cache.told) == 1


def test_why_a_pod_waits() -> None:
    cache = Cache(member("p0", least=2))
    said = "[default/g] basic check: memberGangs [default/g] child pod not collect enough"
    tail = "current gang: default/g, podName: default/p0"
    assert cache.blocking_reason(member("p0")) == f"gangGroup {said}, {tail}"
    stranger = member("x", gang="x")
    text = "can't find gang, gangName: default/x, podName: default/x"
    assert cache.blocking_reason(stranger) == text
    cache.pod_changed(grouped("q", gang="q"))
    text = "gang has not init, gangName: default/q, podName: default/q"
    text += ": there is no PodGroup default/q"
    assert cache.blocking_reason(grouped("q", gang="q")) == text


def test_all_that_a_group_lacks_is_said() -> None:
    names = '["default/a","default/b","default/c","default/g"]'
    cache = Cache(
        member("p0", least=1, notes={"groups": names}),
        grouped("q", gang="b"),
        member("c0", gang="c", least=2),
    )
    group = "[default/a default/b default/c default/g]"
    assert cache.blocking_reason(member("p0")) == (
        f"gangGroup {group} basic check: memberGangs [default/a] doesn't exists, memberGangs"
        f" [default/b] has not init, memberGangs {group} child pod not collect enough,"
        " current gang: default/g, podName: default/p0"
    )


def test_a_gang_of_another_group_completes_this_one() -> None:
    cache = Cache(member("p0", least=1, notes={"groups": '["default/g","default/h"]'}))
    assert cache.blocking_reason(member("p0"))
    cache.pod_changed(member("h0", gang="h", least=1))
    assert cache.blocking_reason(member("p0")) == ""
    assert cache.told == [["uid-p0", "uid-h0"], ["uid-h0"]]


@pytest.mark.parametrize("broken_first", [True, False])
def test_a_comma_in_a_name_makes_no_other_group(broken_first: bool) -> None:
    """Joined by commas all three are "a/a,a/b,z/z"; only two of them name the same gangs."""
    broken = pod_group("z", metadata={"namespace": "z"}, least=1, notes={"groups": '["a/a,a/b"]'})
    three = {"groups": '["a/a","a/b","z/z"]'}
    sound = [
        pod_group(name, metadata={"namespace": "a"}, least=1, notes=three) for name in ("a", "b")
    ]
    cache = Cache()
    for each in [broken, *sound] if broken_first else [*sound, broken]:
        cache.pod_group_changed(each)
    pods = [grouped(f"{name}0", name, namespace=space) for name, space in ("aa", "ba", "zz")]
    for pod in pods:
        cache.pod_changed(pod)
    assert [cache.blocking_reason(pod) for pod in pods] == [
        "", "",
        "gangGroup [a/a,a/b z/z] basic check: memberGangs [a/a,a/b] doesn't exists,"
        " current gang: z/z, podName: z/z0",
    ]  # fmt: skip
    assert [cache.gangs[name].group is cache.gangs["a/a"].group for name in ("a/b", "z/z")] == [
        True, False,
    ]  # fmt: skip


def test_a_gang_with_a_comma_in_its_name_is_not_the_group_of_two() -> None:
    cache = Cache(
        member("p0", gang="g,default/h", least=1),
        *(member(f"{name}0", gang=name, least=1, notes=GROUPED) for name in "gh"),
    )
    assert [gang.group.gangs for gang in cache.gangs.values() if gang.group] == [
        ("default/g,default/h",), ("default/g", "default/h"), ("default/g", "default/h"),
    ]  # fmt: skip
    cache.pod_deleted("uid-p0")
    assert sorted(cache.groups) == [("default/g", "default/h")]


def test_the_first_valid_pod_declares_the_gang_for_good() -> None:
    cache = Cache(member("p0", least="x"))
    assert "got 'x', expected an integer" in cache.blocking_reason(member("p0", least="x"))
    cache.pod_changed(member("p1", least=1))
    cache.pod_changed(member("p2", least=7))
    declared = cache.gangs["default/g"].declared
    assert declared is not None
    assert declared.minimum == 1
    assert cache.blocking_reason(member("p0")) == ""


def test_a_pod_group_declares_anew_whenever_it_changes() -> None:
    cache = Cache(grouped("p0"))
    cache.pod_group_changed(pod_group(least=2))
    assert cache.blocking_reason(grouped("p0"))
    cache.pod_group_changed(pod_group(least=1))
    assert cache.blocking_reason(grouped("p0")) == ""
    assert cache.told == [["uid-p0"]]
    cache.pod_group_changed(pod_group(least=-1))
    assert "spec.minMember: got -1" in cache.blocking_reason(grouped("p0"))
    cache.pod_group_deleted(pod_group())
    assert cache.blocking_reason(grouped("p0")).startswith("gang has not init")
    cache.pod_deleted("uid-p0")
    assert not cache.gangs
    assert not cache.groups


GROUPED = {"groups": '["default/g","default/h"]'}


@pytest.mark.parametrize("first", [None, GROUPED])
def test_with_whom_a_gang_goes_is_what_its_pod_group_says_now(
    first: dict[str, str] | None,
) -> None:
    """However it came there; also who satisfies whom: g0 is bound, and g has or had company."""
    then = GROUPED if first is None else {}
    live, fresh = Cache(), Cache()
    for notes in (first or {}, then):
        for name in ("g", "h"):
            live.pod_group_changed(pod_group(name, least=1, notes=notes))
        live.pod_changed(bound(grouped("g0"), "a"))
        live.pod_changed(grouped("h0", "h"))
    for name in ("g", "h"):
        fresh.pod_group_changed(pod_group(name, least=1, notes=then))
    fresh.pod_changed(bound(grouped("g0"), "a"))
    fresh.pod_changed(grouped("h0", "h"))
    together = first is None
    for cache in (live, fresh):
        group = cache.gangs["default/h"].group
        assert group is not None
        assert group.gangs == (("default/g", "default/h") if together else ("default/h",))
        assert cache.gangs["default/h"].satisfied is together
        assert cache.gangs["default/g"].satisfied
        assert sorted(cache.groups) == (
            [("default/g", "default/h")] if together else [("default/g",), ("default/h",)]
        )
    assert debug.gangs(live) == debug.gangs(fresh)


def test_what_is_left_of_a_round_goes_with_its_gang() -> None:
    """Two of g and one of h go; one of g is bound, one failed, when the two are parted."""
    notes = {**GROUPED, "match-policy": "only-waiting"}
    alone = {"match-policy": "only-waiting"}
    cache = Cache(grouped("g0"), grouped("g1"), grouped("h0", "h"))
    cache.pod_group_changed(pod_group("g", least=2, notes=notes))
    cache.pod_group_changed(pod_group("h", least=1, notes=notes))
    for uid in ("uid-g0", "uid-g1", "uid-h0"):
        cache.reserved(uid)
    cache.let_go(cache.gangs["default/g"])
    cache.bound("uid-g0")
    cache.unreserved("uid-g1")
    cache.pod_group_changed(pod_group("g", least=2, notes=alone))
    assert cache.missing(cache.gangs["default/g"]) == 1
    left = cache.gangs["default/h"].group
    assert left is not None
    assert left.unbound == {"uid-h0"}
    cache.bound("uid-h0")
    assert not left.round
    cache.bound("uid-g1")
    assert cache.missing(cache.gangs["default/g"]) == 2


@pytest.mark.parametrize("after", [None, -1])
def test_without_a_pod_group_a_gang_is_as_a_scheduler_that_begins_finds_it(
    after: int | None,
) -> None:
    cache, fresh = Cache(grouped("p0")), Cache(grouped("p0"))
    cache.pod_group_changed(pod_group(least=1))
    cache.bound("uid-p0")
    if after is None:
        cache.pod_group_deleted(pod_group(least=1))
    else:
        for each in (cache, fresh):
            each.pod_group_changed(pod_group(least=after))
    fresh.bound("uid-p0")
    assert debug.gangs(cache) == debug.gangs(fresh)
    assert not cache.groups
    cache.pod_group_changed(pod_group(least=1))
    assert cache.gangs["default/g"].satisfied


def test_an_annotated_gang_goes_with_its_last_pod() -> None:
    cache = Cache(member("p0"), member("p1"))
    cache.pod_deleted("uid-p0")
    assert "default/g" in cache.gangs
    cache.pod_deleted("uid-p1")
    assert not cache.gangs
    assert not cache.groups


def test_a_pod_moves_to_another_gang_with_its_name() -> None:
    cache = Cache(member("p0"), member("p1"))
    cache.pod_changed(member("p0", gang="h"))
    assert sorted(cache.gangs["default/g"].members) == ["uid-p1"]
    assert sorted(cache.gangs["default/h"].members) == ["uid-p0"]


@pytest.mark.parametrize(
    ("policy", "waiting", "running", "missing"),
    [
        ("only-waiting", 2, 0, 1),
        ("only-waiting", 3, 0, 0),
        ("only-waiting", 2, 1, 1),
        ("waiting-and-running", 2, 1, 0),
        ("waiting-and-running", 1, 1, 1),
        ("once-satisfied", 2, 0, 1),
        ("once-satisfied", 3, 0, 0),
        ("once-satisfied", 0, 1, 0),
    ],
)
def test_who_counts_towards_the_minimum(
    policy: str, waiting: int, running: int, missing: int
) -> None:
    pods = [member(f"p{i}", least=3, notes={"match-policy": policy}) for i in range(4)]
    cache = Cache(*pods)
    for pod in pods[:waiting]:
        cache.reserved(pod.metadata.uid)
    for pod in pods[waiting : waiting + running]:
        cache.pod_changed(bound(pod, "a"))
    gang = cache.gangs["default/g"]
    assert cache.missing(gang) == missing


def test_a_group_needs_all_its_gangs() -> None:
    notes = {"groups": '["default/c","default/d"]'}
    pods = [member(f"{g}{i}", gang=g, least=2, notes=notes) for g in "cd" for i in range(2)]
    cache = Cache(*pods)
    for pod in pods[:3]:
        cache.reserved(pod.metadata.uid)
    assert cache.missing(cache.gangs["default/c"]) == 1
    cache.reserved("uid-d1")
    assert cache.missing(cache.gangs["default/c"]) == 0


def test_a_round_that_broke_is_completed() -> None:
    notes = {"match-policy": "only-waiting"}
    pods = [member(f"p{i}", least=3, notes=notes) for i in range(3)]
    cache = Cache(*pods)
    gang = cache.gangs["default/g"]
    for pod in pods:
        cache.reserved(pod.metadata.uid)
    cache.let_go(gang)
    cache.bound("uid-p0")
    assert cache.unreserved("uid-p1")
    assert cache.unreserved("uid-p2")
    assert not cache.unreserved("uid-p2")
    # One of three is bound: two are missing, not three, of which there are not enough.
    assert cache.missing(gang) == 2
    cache.bound("uid-p1")
    cache.bound("uid-p2")
    assert gang.group is not None
    assert not gang.group.round
    assert cache.missing(gang) == 3


@pytest.mark.parametrize(
    ("theirs", "going"),
    [('["default/y","default/z"]', {"uid-x0"}), ("[]", {"uid-x0", "uid-y0"})],
)
def test_of_the_gangs_listed_those_go_that_lack_nothing_themselves(
    theirs: str, going: set[str]
) -> None:
    """x lists y, which lists z, of which there is no pod; or y lists nobody."""
    cache = Cache(
        member("x0", gang="x", least=1, notes={"groups": '["default/y"]'}),
        member("y0", gang="y", least=1, notes={"groups": theirs}),
    )
    cache.reserved("uid-x0")
    cache.reserved("uid-y0")
    assert cache.missing(cache.gangs["default/x"]) == 0
    cache.let_go(cache.gangs["default/x"])
    group = cache.gangs["default/x"].group
    assert group is not None
    assert group.round == going


def test_pods_that_have_ended() -> None:
    cache = Cache(member("p0"), bound(member("p1"), "a"), over(member("p2")))
    cache.pod_changed(over(bound(member("p1"), "a")))
    cache.pod_changed(over(member("p0"), "Failed"))
    gang = cache.gangs["default/g"]
    assert [(m.key, m.state) for m in gang.members.values()] == [("default/p1", MemberState.BOUND)]
    assert gang.free


def test_debug_answers() -> None:
    cache = Cache(member("p0"), bound(member("p1"), "a"))
    found = debug.gangs(cache)["default/g"]
    assert found == debug.gang(cache, "default", "g")
    assert found["waitTime"] == 600_000_000_000
    assert found["createTime"] == "2023-11-14T22:13:20Z"
    assert (found["children"], found["pendingChildren"], found["boundChildren"]) == (
        {"default/p0": {}, "default/p1": {}}, {"default/p0": {}}, {"default/p1": {}}
    )  # fmt: skip
    assert (found["gangFrom"], found["hasGangInit"]) == ("GangFromPodAnnotation", True)
    assert found["gangGroupInfo"]["OnceResourceSatisfied"]
    with pytest.raises(KeyError, match="cannot find gang default/x"):
        debug.gang(cache, "default", "x")
