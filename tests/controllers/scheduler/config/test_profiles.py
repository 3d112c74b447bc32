# SPDX-License-Identifier: Apache-2.0
"""Which plugins a profile runs.

Rule: docs/reference/scheduling.md#plugins-of-a-profile.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
from koord.controllers.scheduler.config.load import decode, shipped
from koord.controllers.scheduler.config.profiles import Profile
from koord.controllers.scheduler.framework.plugin import Plugin
from tests.controllers.scheduler.config.plugins import plugin_class, registry
from tests.controllers.scheduler.config.test_load import document, refusal

STOCK_FILTERS = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
    "PodTopologySpread", "InterPodAffinity", "DynamicResources",
)  # fmt: skip
STOCK_SCORES = {
    "TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "VolumeBinding": 1,
    "PodTopologySpread": 2, "InterPodAffinity": 2, "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
}  # fmt: skip


def refs(*names: str, **weights: int) -> list[dict[str, Any]]:
    return [{"name": name} | ({"weight": weights[name]} if name in weights else {})
            for name in (*names, *(w for w in weights if w not in names))]  # fmt: skip


def resolved(plugins: dict[str, Any], *more: type[Plugin], config: Any = ()) -> Profile:
    profile = {"plugins": plugins, "pluginConfig": list(config)}
    return decode(document(profiles=[profile]), "config.yaml", registry(*more)).profiles[0]


def refused(plugins: dict[str, Any], *more: type[Plugin]) -> str:
    return refusal(lambda: resolved(plugins, *more))


def test_the_default_set() -> None:
    profile = resolved({})
    assert profile.at("filter") == STOCK_FILTERS
    assert {name: profile.weight(name) for name in profile.at("score")} == STOCK_SCORES
    assert tuple(profile.at("score")) == tuple(STOCK_SCORES)
    assert (profile.at("queueSort"), profile.at("bind")) == (("PrioritySort",), ("DefaultBinder",))
    assert profile.at("postFilter") == ("DynamicResources", "DefaultPreemption")
    # DefaultPreemption holds back pods whose victims are on their way out.
    assert profile.at("preEnqueue") == ("SchedulingGates", "DynamicResources", "DefaultPreemption")
    assert profile.at("permit") == ()


def test_koords_own_profile() -> None:
    profile = shipped(registry()).profiles[0]
    assert profile.scheduler_name == "koord-scheduler"
    numa, device, gang = "NodeNUMAResource", "DeviceShare", "Coscheduling"
    load, quota, reservation = "LoadAwareScheduling", "ElasticQuota", "Reservation"
    assert profile.at("filter") == (*STOCK_FILTERS, load, numa, device, reservation)
    assert profile.at("preFilter")[-6:] == (
        "SchedulingHint", reservation, numa, device, gang, quota,
    )  # fmt: skip
    assert profile.at("postFilter") == (reservation, gang, quota, "DefaultPreemption")
    fit_plus = "NodeResourcesFitPlus"
    # Koordinator's scheduler places no pod by a file that has it for scores alone.
    assert profile.at("preScore")[-3:] == (reservation, gang, fit_plus)
    own = {load: 1, numa: 1, device: 1, reservation: 5000, gang: 1, fit_plus: 1}
    assert dict(profile.weights) == STOCK_SCORES | own
    assert profile.at("reserve")[2:] == (load, numa, device, reservation, gang, quota)
    assert profile.at("preBind") == (
        "VolumeBinding",
        "DynamicResources",
        numa,
        device,
        reservation,
        gang,
    )
    assert profile.at("bind") == (reservation, "DefaultBinder")
    assert (profile.at("permit"), profile.at("postBind")) == ((gang,), (gang,))
    assert profile.args[load] == LoadAwareSchedulingArgs(
        filter_expired_node_metrics=False,
        node_metric_expiration_seconds=300,
        usage_thresholds={"cpu": 0, "memory": 0},
    )
    packed = profile.args["NodeResourcesFitPlus"].resources
    assert {name: each.type for name, each in packed.items()} == {
        "kubernetes.io/batch-cpu": "MostAllocated"
    }
    spread = profile.args["NodeResourcesFit"].scoring_strategy
    assert spread.type == "LeastAllocated"
    assert [each.name for each in spread.resources] == ["cpu", "memory"]


def test_names_come_in_the_order_in_which_a_pod_meets_them() -> None:
    names = resolved({}).plugin_names()
    assert names[:3] == ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
    assert names[-1] == "DefaultBinder"
    assert len(names) == len(set(names)) == 19


def test_one_profile_a_name() -> None:
    names = [p.scheduler_name for p in shipped(registry(), "koord-scheduler", "default").profiles]
    assert names == ["koord-scheduler", "default"]


def test_a_default_plugin_is_disabled_at_one_point() -> None:
    profile = resolved({"score": {"disabled": refs("TaintToleration")}})
    assert "TaintToleration" not in profile.at("score")
    assert "TaintToleration" in profile.at("filter")


def test_a_default_plugin_is_disabled_everywhere_or_all_are() -> None:
    profile = resolved({"multiPoint": {"disabled": refs("TaintToleration")}})
    assert "TaintToleration" not in profile.plugin_names()
    few = refs("PrioritySort", "NodeName", "DefaultBinder")
    profile = resolved({"multiPoint": {"disabled": refs("*"), "enabled": few}})
    assert profile.plugin_names() == ["PrioritySort", "NodeName", "DefaultBinder"]


def test_named_at_a_point_it_goes_first_with_its_own_weight() -> None:
    profile = resolved({"score": {"enabled": refs("ImageLocality", NodeResourcesFit=5)}})
    assert profile.at("score")[:3] == ("ImageLocality", "NodeResourcesFit", "TaintToleration")
    assert (profile.weight("ImageLocality"), profile.weight("NodeResourcesFit")) == (1, 5)


def test_named_everywhere_it_keeps_its_place() -> None:
    profile = resolved({"multiPoint": {"enabled": refs(TaintToleration=10)}})
    assert profile.at("filter") == STOCK_FILTERS
    assert profile.weight("TaintToleration") == 10


def test_new_plugins_come_last_but_before_those_of_one_point() -> None:
    both = plugin_class("Both", "filter", "score")
    one = plugin_class("One", "filter")
    profile = resolved(
        {"multiPoint": {"enabled": refs(Both=7)}, "filter": {"enabled": refs("One")}}, both, one
    )
    assert profile.at("filter") == (*STOCK_FILTERS, "Both", "One")
    assert profile.weight("Both") == 7


def test_enabled_wins_over_disabled() -> None:
    sets = {"filter": {"disabled": refs("*"), "enabled": refs("NodeName")}}
    assert resolved(sets).at("filter") == ("NodeName",)
    sets = {"multiPoint": {"disabled": refs("NodeName"), "enabled": refs("NodeName")}}
    assert resolved(sets).at("filter") == (
        *(n for n in STOCK_FILTERS if n != "NodeName"),
        "NodeName",
    )


def test_a_point_that_koord_has_no_use_for_is_taken_from_files_for_the_original() -> None:
    slim = plugin_class("NodeNUMAResource", "filter")
    profile = resolved({"preFilter": {"enabled": refs("NodeNUMAResource")},
                        "filter": {"enabled": refs("NodeNUMAResource")},
                        "preBind": {"enabled": refs("DefaultPreBind")}}, slim)  # fmt: skip
    assert "NodeNUMAResource" not in profile.at("preFilter")
    assert "NodeNUMAResource" in profile.at("filter")
    assert "DefaultPreBind" not in profile.plugin_names()


def test_a_point_that_the_original_does_not_have_is_added() -> None:
    rich = plugin_class("ElasticQuota", "preFilter", "postBind")
    sets = {"preFilter": {"enabled": refs("ElasticQuota")}}
    assert resolved(sets, rich).at("postBind") == ("ElasticQuota",)
    assert resolved({}, rich).at("postBind") == ()
    kept_out = sets | {"postBind": {"disabled": refs("ElasticQuota")}}
    assert resolved(kept_out, rich).at("postBind") == ()


class Args(msgspec.Struct, rename="camel"):
    """Arguments of a plugin of somebody else's."""

    most_pods: int
    zones: list[str] = []


def test_an_outside_plugin_gets_its_own_arguments() -> None:
    outside = plugin_class("Outside", "score", args_type=Args)
    sets = {"score": {"enabled": refs("Outside")}}
    given_args = {"name": "Outside", "args": {"mostPods": 3}}
    assert resolved(sets, outside, config=[given_args]).args["Outside"] == Args(most_pods=3)
    told = refused(sets, outside)
    assert "mostPods" in told
    assert refusal(
        lambda: resolved(sets, outside, config=[{"name": "Outside", "args": {"mostpods": 1}}])
    ).endswith("got 'mostpods', expected a known field, such as mostPods")


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"filter": {"enabled": refs("NodName")}},
         "profiles[0].plugins.filter.enabled[0].name: got 'NodName', expected a known plugin, "
         "such as NodeName"),
        ({"multiPoint": {"enabled": refs("GangScheduling")}}, "got 'GangScheduling', expected"),
        ({"filter": {"enabled": refs("EBSLimits")}}, "expected NodeVolumeLimits, which does"),
        ({"filter": {"enabled": [*refs("NodeName"), *refs("NodeName")]}},
         "filter.enabled[1]: got 'NodeName', expected every plugin once"),
        ({"multiPoint": {"enabled": [*refs("One"), *refs("One")]}}, "every plugin once"),
        ({"score": {"enabled": refs("One")}},
         "score.enabled[0].name: got 'One', expected a plugin that takes part here; "
         "this one does at filter"),
        ({"score": {"enabled": refs(ImageLocality=-1)}}, "weight: got -1"),
        ({"queueSort": {"disabled": refs("*")}}, "queueSort: got [], expected one plugin"),
        ({"queueSort": {"enabled": refs("Sort")}}, "expected one plugin"),
        ({"bind": {"disabled": refs("*")}}, "bind: got [], expected at least one plugin"),
    ],
)  # fmt: skip
def test_profiles_that_cannot_be(plugins: dict[str, Any], message: str) -> None:
    more = plugin_class("One", "filter"), plugin_class("Sort", "queueSort")
    assert message in refused(plugins, *more)


def test_all_profiles_sort_the_queue_alike() -> None:
    sort = plugin_class("Sort", "queueSort")
    profiles = [
        {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"queueSort": {"disabled": refs("*"),
                                                         "enabled": refs("Sort")}}},
    ]  # fmt: skip
    told = refusal(lambda: decode(document(profiles=profiles), "c.yaml", registry(sort)))
    assert "profiles[1].plugins.queueSort: got 'Sort', expected PrioritySort" in told


# The rule again, as plainly as it can be said, at one point.
SOME = ("NodeName", "TaintToleration", "ImageLocality", "One", "Both")

plugin_sets = st.fixed_dictionaries(
    {
        "enabled": st.lists(st.sampled_from(SOME), unique=True),
        "disabled": st.lists(st.sampled_from([*SOME, "*"]), unique=True),
    }
)


def expected(here: dict[str, list[str]], everywhere: dict[str, list[str]]) -> list[str]:
    out = everywhere["disabled"]
    kept = [] if "*" in out else [name for name in STOCK_FILTERS if name not in out]
    shared = kept + [name for name in everywhere["enabled"] if name not in kept]
    if "*" in here["disabled"]:
        shared = []
    shared = [name for name in shared if name not in here["disabled"] and name != "ImageLocality"]
    overriding = [name for name in here["enabled"] if name in shared]
    others = [name for name in here["enabled"] if name not in shared]
    return [*overriding, *(name for name in shared if name not in overriding), *others]


@given(plugin_sets, plugin_sets)
def test_merging_against_the_plain_rule(
    here: dict[str, list[str]], everywhere: dict[str, list[str]]
) -> None:
    # ImageLocality only scores.
    here = here | {"enabled": [name for name in here["enabled"] if name != "ImageLocality"]}
    sets = {
        "queueSort": {"enabled": refs("PrioritySort")},
        "bind": {"enabled": refs("DefaultBinder")},
        "filter": {key: refs(*value) for key, value in here.items()},
        "multiPoint": {key: refs(*value) for key, value in everywhere.items()},
    }
    more = plugin_class("One", "filter"), plugin_class("Both", "filter", "score")
    assert list(resolved(sets, *more).at("filter")) == expected(here, everywhere)
