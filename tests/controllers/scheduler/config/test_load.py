# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what is read, what is refused and in which words, what has no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.errors import Code, KoordError
from koord.controllers.scheduler.config.args_koord import (
    FRAGMENTATION_AWARE,
    DeviceShareArgs,
    LoadAwareSchedulingArgs,
)
from koord.controllers.scheduler.config.args_kube_scheduler import (
    NodeResourcesFitArgs,
    VolumeBindingArgs,
)
from koord.controllers.scheduler.config.load import SchedulerConfiguration, decode, load
from koord.controllers.scheduler.config.plugin_args import API_VERSION
from tests.controllers.scheduler.config.plugins import plugin_class, registry
from tests.outcomes import refusal

PLUGINS = registry(plugin_class("Example", "filter", "score"))


def document(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"} | fields


def read(**fields: Any) -> SchedulerConfiguration:
    return decode(document(**fields), "config.yaml", PLUGINS)


def configured(name: str, **args: Any) -> Any:
    """The arguments that a plugin gets from a file."""
    plugins = {"multiPoint": {"enabled": [{"name": name}]}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    return read(profiles=[profile]).profiles[0].args[name]


def refused(**fields: Any) -> str:
    return refusal(lambda: read(**fields))


def args_refused(name: str, **args: Any) -> str:
    return refused(profiles=[{"pluginConfig": [{"name": name, "args": args}]}])


def test_a_file_that_says_nothing() -> None:
    config = read()
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert (config.qps, config.burst) == (50, 100)
    assert (config.queue.initial_backoff, config.queue.max_backoff) == (1, 10)
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == (
        "kube-system",
        "kube-scheduler",
    )
    times = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert [time.seconds for time in times] == [15, 10, 2]
    assert config.warnings == ()


def test_a_yaml_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        f"""
apiVersion: {API_VERSION}
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 60
clientConnection: {{kubeconfig: /etc/kubeconfig, qps: 500, burst: 1000}}
leaderElection: {{leaderElect: false, leaseDuration: 0s, resourceName: null}}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: VolumeBinding
    args:
      apiVersion: {API_VERSION}
      kind: VolumeBindingArgs
      bindTimeoutSeconds: 30
"""
    )
    config = load(path, PLUGINS)
    assert config.queue.max_backoff == 60
    assert (config.client.kubeconfig, config.qps, config.burst) == ("/etc/kubeconfig", 500, 1000)
    assert not config.leader_election.leader_elect
    assert config.leader_election.lease_duration.seconds == 15
    assert config.profiles[0].args["VolumeBinding"] == VolumeBindingArgs(bind_timeout_seconds=30)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
         "apiVersion: got 'kubescheduler.config.k8s.io/v1beta3', expected "
         "kubescheduler.config.k8s.io/v1"),
        ({"kind": "KubeletConfiguration"}, "expected KubeSchedulerConfiguration"),
        ({"paralelism": 3}, "got 'paralelism', expected a known field, such as parallelism"),
        ({"profiles": [{"shedulerName": "a"}]},
         "profiles[0]: got 'shedulerName', expected a known field, such as schedulerName"),
        ({"profiles": [{"plugins": {"filters": {}}}]}, "such as filter"),
        ({"profiles": [{"plugins": {"filter": {"enable": []}}}]},
         "profiles[0].plugins.filter: got 'enable', expected a known field, such as enabled"),
        ({"profiles": [{"pluginConfig": [{"name": "Coscheduling", "arg": {}}]}]}, "such as args"),
        ({"extenders": [{"urlPrefix": "http://x"}]}, "koord calls no extenders"),
        ({"parallelism": 0}, "parallelism: got 0, expected an integer of 1 or more"),
        ({"parallelism": True}, "parallelism: got True, expected an integer"),
        ({"percentageOfNodesToScore": 101}, "expected an integer from 0 to 100"),
        ({"profiles": [{"percentageOfNodesToScore": -1}]},
         "profiles[0].percentageOfNodesToScore: got -1"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: got 0"),
        ({"podInitialBackoffSeconds": 11}, "podMaxBackoffSeconds: got 10, expected at least pod"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: got -1"),
        ({"leaderElection": {"leaseDuration": "5s"}},
         "leaderElection.leaseDuration: got '5s', expected more than renewDeadline, which is 10s"),
        ({"leaderElection": {"retryPeriod": "10s"}}, "expected more than retryPeriod"),
        ({"leaderElection": {"retryPeriod": "-1s"}}, "retryPeriod: got '-1s'"),
        ({"leaderElection": {"leaseDuration": "fast"}}, "expected a duration such as 90s"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "expected one of leases"),
        ({"profiles": "koord-scheduler"}, "profiles: got 'koord-scheduler', expected a list"),
        ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: got ''"),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: got None"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
         "profiles[1].schedulerName: got 'a', expected a name that profiles[0] does not have"),
    ],
)  # fmt: skip
def test_refused(fields: dict[str, Any], message: str) -> None:
    assert message in refused(**fields)
    assert refused(**fields).startswith("config.yaml: ")


def test_extenders_are_unsupported_not_wrong() -> None:
    with pytest.raises(KoordError) as caught:
        read(extenders=[{}])
    assert caught.value.code is Code.UNSUPPORTED
    assert read(extenders=[]) == read()


def test_two_documents_and_none(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: 1\n---\nb: 2\n")
    assert "2 documents, expected one document" in refusal(load, path, PLUGINS).replace("'", "")
    path.write_text("")
    assert "got 'an empty file', expected a mapping with apiVersion" in refusal(load, path, PLUGINS)


def test_what_has_no_effect_is_told_once_each() -> None:
    gang = {"name": "Coscheduling", "args": {"skipCheckScheduleCycle": True}}
    device = {"name": "DeviceShare", "args": {"allocator": "x"}}
    profiles: list[dict[str, Any]] = [
        {"schedulerName": name, "percentageOfNodesToScore": 50} for name in ("a", "b")
    ]
    profiles[0]["pluginConfig"] = [gang, device]
    config = read(
        parallelism=16,
        percentageOfNodesToScore=0,
        delayCacheUntilActive=True,
        enableProfiling=True,
        clientConnection={"contentType": "application/vnd.kubernetes.protobuf"},
        profiles=profiles,
    )
    words = [line.removeprefix("config.yaml: ").split(" has no")[0] for line in config.warnings]
    assert words == [
        "parallelism", "percentageOfNodesToScore", "profiles: percentageOfNodesToScore",
        "delayCacheUntilActive", "enableProfiling", "clientConnection: content types have no "
        "effect: JSON is spoken", "CoschedulingArgs: skipCheckScheduleCycle",
        "DeviceShareArgs: allocator",
    ]  # fmt: skip


def test_weight_0_and_an_empty_list_of_resources_are_the_default() -> None:
    strategy = {
        "type": "MostAllocated",
        "resources": [{"name": "cpu"}, {"name": "x/y", "weight": 0}],
    }
    args = configured("NodeResourcesFit", scoringStrategy=strategy)
    assert [(r.name, r.weight) for r in args.scoring_strategy.resources] == [("cpu", 1), ("x/y", 1)]
    empty = configured("NodeResourcesFit", scoringStrategy={"resources": []})
    assert empty == NodeResourcesFitArgs()


def test_load_aware_defaults_depend_on_what_is_given() -> None:
    dominant = configured("LoadAwareScheduling", dominantResourceWeight=5)
    assert dominant.resource_weights == {}
    factors = configured("LoadAwareScheduling", estimatedScalingFactors={"cpu": 50})
    assert factors.estimated_scaling_factors == {"cpu": 50, "memory": 70}
    empty = configured("LoadAwareScheduling", usageThresholds={}, resourceWeights={})
    assert empty == LoadAwareSchedulingArgs()
    aggregated = {"usageAggregationType": "p95", "usageAggregatedDuration": "5m"}
    args = configured("LoadAwareScheduling", aggregated=aggregated)
    assert args.aggregated.usage_aggregated_duration.seconds == 300


def test_null_is_the_same_as_absent() -> None:
    assert configured("LoadAwareScheduling", usageThresholds=None) == LoadAwareSchedulingArgs()


def test_fragmentation_awareness_is_a_strategy() -> None:
    args = configured("DeviceShare", scoringStrategy={"type": FRAGMENTATION_AWARE})
    assert args.scoring_strategy.type == FRAGMENTATION_AWARE
    assert args.scoring_strategy.resources == DeviceShareArgs().scoring_strategy.resources


BAD_POINTS = [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
RATIO = "RequestedToCapacityRatio"


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("LoadAwareScheduling", {"usageTresholds": {}}, "such as usageThresholds"),
        ("LoadAwareScheduling", {"kind": "ReservationArgs"},
         "args.kind: got 'ReservationArgs', expected LoadAwareSchedulingArgs"),
        ("LoadAwareScheduling", {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"},
         "expected kubescheduler.config.k8s.io/v1"),
        ("LoadAwareScheduling", {"usageThresholds": {"cpu": 101}},
         'args.usageThresholds."cpu": got 101, expected an integer from 0 to 100'),
        ("LoadAwareScheduling", {"prodUsageThresholds": {"cpu": -1}}, 'prodUsageThresholds."cpu"'),
        ("LoadAwareScheduling", {"resourceWeights": {"cpu": 0}}, "from 1 to 100"),
        ("LoadAwareScheduling", {"resourceWeights": {"example.com/gpu": 1}},
         "expected a resource that is in estimatedScalingFactors too"),
        ("LoadAwareScheduling", {"nodeMetricExpirationSeconds": 0}, "got 0"),
        ("LoadAwareScheduling", {"dominantResourceWeight": 101}, "got 101"),
        ("LoadAwareScheduling", {"aggregated": {"usageAggregationType": "p42"}}, "one of avg, p99"),
        ("LoadAwareScheduling", {"aggregated": {"scoreAggregatedDuration": "-1s"}},
         "args.aggregated.scoreAggregatedDuration: got '-1s'"),
        ("LoadAwareScheduling", {"estimator": "mine"}, "expected one of defaultEstimator"),
        ("NodeNUMAResource", {"defaultCPUBindPolicy": "ConstrainedBurst"},
         "expected one of FullPCPUs, SpreadByPCPUs"),
        ("NodeNUMAResource", {"numaScoringStrategy": {"type": RATIO}},
         "args.numaScoringStrategy.type"),
        ("NodeNUMAResource", {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
         "args.scoringStrategy.resources[0].weight: got 101"),
        ("DeviceShare", {"scoringStrategy": {"type": "BalancedAllocation"}},
         "expected one of LeastAllocated, MostAllocated, FragmentationAware"),
        ("DeviceShare", {"gpuShareUnsupportedModels": [{"vendor": "huawei"}]}, "model"),
        ("Reservation", {"ignoredResources": ["cpu"]}, "expected the name of an extended resource"),
        ("Reservation", {"ignoredResources": ["kubernetes.io/batch-cpu"]}, "extended resource"),
        ("Reservation", {"ignoredResourceGroups": ["kubernetes.io"]}, "not kubernetes.io"),
        ("Reservation", {"gcIntervalSeconds": -1}, "got -1"),
        ("Reservation", {"minCandidateNodesPercentage": 101}, "from 0 to 100"),
        ("Reservation", {"preAllocationConfig": {"clusterLabelKey": "a b"}}, "got 'a b'"),
        ("ElasticQuota", {"defaultQuotaGroupMax": {"cpu": "-1"}},
         "args.defaultQuotaGroupMax.\"cpu\": got '-1', expected a quantity of 0 or more"),
        ("ElasticQuota", {"defaultQuotaGroupMax": {"cpu": "much"}}, "defaultQuotaGroupMax"),
        ("ElasticQuota", {"delayEvictTime": "-1s"}, "got '-1s'"),
        ("ElasticQuota", {"quotaSnapshotUpdateInterval": "0s"}, "expected a duration above 0"),
        ("ElasticQuota", {"hookPlugins": [{"key": "a"}]}, "hookPlugins[0].factoryKey"),
        ("Coscheduling", {"defaultTimeout": "-1s"}, "got '-1s'"),
        ("Coscheduling", {"controllerWorkers": 0}, "got 0"),
        ("Coscheduling", {"defaultMatchPolicy": "sometimes"}, "expected one of once-satisfied"),
        ("NodeResourcesFitPlus", {"resources": {"cpu": {"type": "Most", "weight": 1}}},
         'args.resources."cpu".type: got \'Most\''),
        ("NodeResourcesFitPlus", {"resources": {"cpu": {"typ": "MostAllocated", "weight": 1}}},
         'args.resources."cpu": got \'typ\', expected a known field, such as type'),
        ("NodeResourcesFitPlus", {"resources": {"cpu": {"type": "MostAllocated", "weight": 0}}},
         "got 0"),
        ("ScarceResourceAvoidance", {"resources": ["-"]}, "args.resources[0]: got '-'"),
        ("SchedulingHint", {"maxHintNodes": 0}, "args.maxHintNodes: got 0"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com/x"]}, "without /"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": RATIO}}, "expected it with type"),
        ("NodeResourcesFit", {"scoringStrategy": {"requestedToCapacityRatio": {}}},
         "expected it only with type"),
        ("NodeResourcesFit",
         {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {"shape": BAD_POINTS}}},
         "shape[1].utilization: got 50, expected more than that of the point before"),
        ("NodeResourcesFit",
         {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "cpu"}]}},
         "resources[1]: got 'cpu', expected every resource once"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]},
         "resources[0].weight: got 2, expected 1"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
         "a number above 0 here or in minCandidateNodesAbsolute"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "from 0 to 100"),
        ("PodTopologySpread", {"defaultConstraints": [SPREAD]}, "expected List with constraints"),
        ("PodTopologySpread",
         {"defaultingType": "List", "defaultConstraints": [SPREAD, SPREAD]}, "once"),
        ("PodTopologySpread",
         {"defaultingType": "List", "defaultConstraints": [SPREAD | {"labelSelector": {}}]},
         "defaultConstraints[0].labelSelector"),
        ("PodTopologySpread",
         {"defaultingType": "List", "defaultConstraints": [SPREAD | {"maxSkew": 0}]}, "maxSkew"),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "got -1"),
        ("NodeAffinity",
         {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
             "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}},
         "nodeSelectorTerms[0].matchExpressions[0].operator: got 'Near'"),
        ("NodeAffinity", {"addedAffinity": {"required": {}}}, "addedAffinity: got 'required'"),
        ("NodePorts", {"a": 1}, "NodePorts takes no arguments"),
        ("EBSLimits", {}, "pluginConfig[0].name: got 'EBSLimits'"),
        ("LoadAwareSheduling", {}, "expected a known plugin, such as LoadAwareScheduling"),
    ],
)  # fmt: skip
def test_wrong_arguments(name: str, args: dict[str, Any], message: str) -> None:
    told = args_refused(name, **args)
    assert message in told
    assert told.startswith("config.yaml: profiles[0].pluginConfig[0]")


def test_arguments_twice() -> None:
    twice = [{"name": "NodePorts"}, {"name": "NodePorts"}]
    assert "every plugin once" in refused(profiles=[{"pluginConfig": twice}])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 200) | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
KEYS = ["profiles", "leaderElection", "clientConnection", "parallelism", "extenders",
        "podMaxBackoffSeconds", "percentageOfNodesToScore"]  # fmt: skip
PROFILE_KEYS = ["schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore"]


@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_document_is_taken_or_refused_in_one_line(fields: dict[str, Any]) -> None:
    refused(**fields)


@given(st.dictionaries(st.sampled_from(PROFILE_KEYS), json_values))
def test_any_profile_is_taken_or_refused_in_one_line(fields: dict[str, Any]) -> None:
    refused(profiles=[fields])


@given(
    st.sampled_from(["LoadAwareScheduling", "NodeResourcesFit", "Reservation", "ElasticQuota"]),
    st.data(),
)
def test_any_arguments_are_taken_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    kind = PLUGINS.args_type(name)
    assert kind is not None
    keys = st.sampled_from(list(kind.__struct_encode_fields__))
    args_refused(name, **data.draw(st.dictionaries(keys, json_values)))
