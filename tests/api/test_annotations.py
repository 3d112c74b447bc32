# SPDX-License-Identifier: Apache-2.0
"""The typed accessors of labels and annotations: defaults, odd values, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Device, ElasticQuota, NodeResourceTopology, Reservation, to_document
from koord.api.codec import to_json
from koord.api.kinds.meta import Object
from koord.api.protocol import (
    agent,
    annotation,
    eviction,
    gang,
    keys,
    node_reservation,
    nodes,
    quotas,
    reservations,
    scheduling,
    topology,
)
from koord.base.errors import KoordError
from tests.outcomes import refusal

from .samples import make_node, make_pod


def annotated(kind: type[Object], key: str, text: str) -> Any:
    found = kind()
    found.metadata.name = "x"
    found.metadata.annotations[key] = text
    return found


def pod(key: str, text: str) -> Any:
    return make_pod(annotations={key: text})


READS: list[tuple[Callable[[Any], Any], type[Object] | None, str, str, Any]] = [
    # accessor, kind (None: pod), key, text, value
    (scheduling.resource_spec, None, keys.RESOURCE_SPEC, '{"preferredCPUBindPolicy":"FullPCPUs"}',
     {"preferredCPUBindPolicy": "FullPCPUs"}),
    (scheduling.resource_status, None, keys.RESOURCE_STATUS,
     '{"cpuset":"0-3","numaNodeResources":[{"node":0,"resources":{"cpu":"4"}}]}',
     {"cpuset": "0-3", "numaNodeResources": [{"node": 0, "resources": {"cpu": "4"}}]}),
    (scheduling.numa_topology_spec, None, keys.NUMA_TOPOLOGY_SPEC,
     '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}',
     {"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Required"}),
    (scheduling.device_allocated, None, keys.DEVICE_ALLOCATED,
     '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"},"id":"u",'
     '"extension":{"vfs":[{"minor":1,"busID":"b"}]}}]}',
     {"gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-core": "100"}, "id": "u",
               "extension": {"vfs": [{"minor": 1, "busID": "b"}]}}]}),
    (scheduling.device_hints, None, keys.DEVICE_ALLOCATE_HINT,
     '{"rdma":{"vfSelector":{"matchLabels":{"a":"b"}},"requiredTopologyScope":"PCIe"}}',
     {"rdma": {"vfSelector": {"matchLabels": {"a": "b"}}, "requiredTopologyScope": "PCIe"}}),
    (scheduling.device_joint_allocate, None, keys.DEVICE_JOINT_ALLOCATE,
     '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}',
     {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}),
    (scheduling.gpu_partition_spec, None, keys.GPU_PARTITION_SPEC,
     '{"allocatePolicy":"Restricted","ringBusBandwidth":400}',
     {"allocatePolicy": "Restricted", "ringBusBandwidth": "400"}),
    (scheduling.scheduling_hint, None, keys.SCHEDULING_HINT_OLD, '{"nodeNames":["a"]}',
     {"nodeNames": ["a"]}),
    (agent.cpu_burst, None, keys.CPU_BURST, '{"policy":"auto","CPUBurstPercent":200}',
     {"policy": "auto", "cpuBurstPercent": 200}),
    (agent.cpu_qos, None, keys.CPU_QOS, '{"groupIdentity":-1}', {"groupIdentity": -1}),
    (agent.memory_qos, None, keys.MEMORY_QOS, '{"wmarkRatio":90}',
     {"wmarkRatio": 90, "policy": "default"}),
    (agent.blkio_qos, None, keys.BLKIO_QOS, '{"blocks":[{"ioCfg":{"readIOPS":0}}]}',
     {"blocks": [{"ioCfg": {"readIOPS": 0}}]}),
    (agent.resctrl, None, keys.RESCTRL,
     '{"mb":{"schemata":{"range":[0,9]},"schemataPerCache":[{"cacheID":0,"percent":10}]}}',
     {"mb": {"schemata": {"range": [0, 9]}, "schemataPerCache": [{"cacheID": 0, "percent": 10}]}}),
    (agent.extended_resource_spec, None, keys.EXTENDED_RESOURCE_SPEC,
     '{"containers":{"a":{"limits":{"kubernetes.io/batch-cpu":1000}}}}',
     {"containers": {"a": {"limits": {"kubernetes.io/batch-cpu": "1k"}}}}),
    (eviction.soft_eviction, None, keys.SOFT_EVICTION, '{"timestamp":"1","initiator":"d"}',
     {"timestamp": "1", "initiator": "d"}),
    (gang.groups, None, keys.GANG_GROUPS, '["ns/a","ns/b"]', ["ns/a", "ns/b"]),
    (gang.network_topology_spec, None, keys.GANG_NETWORK_TOPOLOGY_SPEC,
     '{"gatherStrategy":[{"layer":"rack","strategy":"MustGather"}]}',
     {"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}),
    (reservations.reservation_allocated, None, keys.RESERVATION_ALLOCATED, '{"name":"r"}',
     {"name": "r", "uid": ""}),
    (reservations.reservation_affinity, None, keys.RESERVATION_AFFINITY,
     '{"reservationSelector":{"a":"b"}}', {"reservationSelector": {"a": "b"}}),
    (reservations.reservation_affinity, None, keys.RESERVATION_AFFINITY, "", {}),
    (reservations.exact_match, None, keys.EXACT_MATCH_RESERVATION, '{"resourceNames":["cpu"]}',
     {"resourceNames": ["cpu"]}),
    (reservations.reservation_owners, None, keys.RESERVATION_OWNERS, '[{"object":{"name":"a"}}]',
     [{"object": {"name": "a"}}]),
    (reservations.reservation_current_owner, None, keys.RESERVATION_CURRENT_OWNER, '{"name":"a"}',
     {"name": "a"}),
    (reservations.restricted_options, Reservation, keys.RESERVATION_RESTRICTED_OPTIONS,
     '{"resources":["cpu"]}', {"resources": ["cpu"]}),
    (topology.cpu_topology, NodeResourceTopology, keys.CPU_TOPOLOGY,
     '{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}',
     {"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}]}),
    (topology.pod_cpu_allocs, NodeResourceTopology, keys.POD_CPU_ALLOCS, "null", []),
    (topology.pod_cpu_allocs, NodeResourceTopology, keys.POD_CPU_ALLOCS,
     '[{"namespace":"a","name":"b","uid":"c","cpuset":"0","managedByKubelet":true}]',
     [{"namespace": "a", "name": "b", "uid": "c", "cpuset": "0", "managedByKubelet": True}]),
    (topology.shared_pools, NodeResourceTopology, keys.CPU_SHARED_POOLS,
     '[{"socket":0,"node":0,"cpuset":"0-7"}]', [{"socket": 0, "node": 0, "cpuset": "0-7"}]),
    (topology.cpu_basic_info, NodeResourceTopology, keys.CPU_BASIC_INFO,
     '{"cpuModel":"m","catL3CbmMask":"7ff","vendorID":"v","hyperThreadEnabled":true}',
     {"cpuModel": "m", "hyperThreadEnabled": True, "catL3CbmMask": "7ff", "vendorID": "v"}),
    (topology.kubelet_cpu_manager_policy, NodeResourceTopology, keys.CPU_MANAGER_POLICY,
     '{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0"}',
     {"policy": "static", "options": {"full-pcpus-only": "true"}, "reservedCPUs": "0"}),
    (topology.gpu_partitions, Device, keys.GPU_PARTITIONS,
     '{"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi"}]}',
     {2: [{"minors": [0, 1], "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi"}]}),
    (quotas.resource_keys, ElasticQuota, "x", "", ["cpu", "memory"]),
    (quotas.strictly_checked_keys, ElasticQuota, keys.QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS,
     '["cpu"]', ["cpu"]),
]  # fmt: skip


@pytest.mark.parametrize(("accessor", "kind", "key", "text", "value"), READS)
def test_reading(
    accessor: Callable[[Any], Any], kind: type[Object] | None, key: str, text: str, value: Any
) -> None:
    found = pod(key, text) if kind is None else annotated(kind, key, text)
    assert to_document(accessor(found)) == value


# Accessors of JSON annotations that refuse what they cannot read.
LENIENT = ("x", keys.GANG_GROUPS)
STRICT = {key: (accessor, kind) for accessor, kind, key, _, _ in READS if key not in LENIENT} | {
    keys.NETWORK_QOS: (agent.network_limits_bytes, None),
    keys.OOM_SCORE_ADJ_SPEC: (lambda p: agent.oom_score_adj(p, "a"), None),
    keys.NODE_RESERVATION: (node_reservation.node_reservation, Device),
    keys.SYSTEM_QOS_RESOURCE: (nodes.system_qos_resource, Device),
    keys.USAGE_THRESHOLDS: (nodes.usage_thresholds, Device),
    keys.RESOURCE_AMPLIFICATION_RATIO: (nodes.amplification_ratios, Device),
    keys.RAW_ALLOCATABLE: (nodes.raw_allocatable, Device),
    keys.ORIGIN_EXTENDED_ALLOCATABLE: (nodes.origin_allocatable, Device),
    keys.THIRD_PARTY_ALLOCATIONS: (nodes.third_party_allocations, Device),
}


@pytest.mark.parametrize("key", STRICT)
@pytest.mark.parametrize("text", ["{", '"text"', "3", "{} {}", "[1]"])
def test_malformed_json_names_object_and_annotation(key: str, text: str) -> None:
    accessor, kind = STRICT[key]
    found = pod(key, text) if kind is None else annotated(kind, key, text)
    with pytest.raises(KoordError) as raised:
        accessor(found)
    assert str(raised.value).startswith(f"{found.title}: annotations[{key}]")
    assert "\n" not in str(raised.value)


@given(st.sampled_from(sorted(STRICT)), st.text('{}[]":,0a\\u-', max_size=12) | st.text(max_size=5))
def test_any_text_is_read_or_refused(key: str, text: str) -> None:
    accessor, kind = STRICT[key]
    found = pod(key, text) if kind is None else annotated(kind, key, text)
    refusal(accessor, found)


def test_absent_annotations_are_empty_or_none() -> None:
    bare = make_pod()
    assert scheduling.resource_spec(bare) == scheduling.ResourceSpec()
    assert scheduling.device_allocated(bare) == {}
    assert scheduling.gpu_partition_spec(bare) is None
    assert agent.memory_qos(bare) is None
    assert agent.network_limits_bytes(bare) is None
    assert agent.resctrl(bare) == agent.ResctrlConfig()
    assert reservations.reservation_affinity(bare) is None


def test_hints_need_a_known_scope_and_the_current_key_wins() -> None:
    text = '{"gpu":{"requiredTopologyScope":"Rack"}}'
    with pytest.raises(KoordError, match=r"gpu\.requiredTopologyScope: got 'Rack'"):
        scheduling.device_hints(pod(keys.DEVICE_ALLOCATE_HINT, text))
    both = {keys.SCHEDULING_HINT: "", keys.SCHEDULING_HINT_OLD: '{"nodeNames":["old"]}'}
    hint = scheduling.scheduling_hint(make_pod(annotations=both))
    assert hint is not None
    assert hint.node_names == ["old"]
    both[keys.SCHEDULING_HINT] = '{"nodeNames":["new"]}'
    hint = scheduling.scheduling_hint(make_pod(annotations=both))
    assert hint is not None
    assert hint.node_names == ["new"]


def test_lenient_readings_of_the_scheduler() -> None:
    key = keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED
    cases = [("30", 30), ("", -1), ("x", -1), ("-5", -5), ("9" * 20, -1)]
    assert [scheduling.load_estimated_seconds(pod(key, t), key) for t, _ in cases] == [
        value for _, value in cases
    ]
    factors = keys.LOAD_ESTIMATED_SCALING_FACTORS
    assert scheduling.load_scaling_factors(pod(factors, '{"cpu":85}')) == {"cpu": 85}
    assert scheduling.load_scaling_factors(pod(factors, "{")) == {}
    labelled = make_pod(labels={keys.SCHEDULER_NAME: ""})
    labelled.spec.scheduler_name = "default-scheduler"
    assert scheduling.scheduler_name(labelled) == ""
    assert scheduling.scheduler_name(make_pod()) == ""


def test_network_limits_are_bits_on_the_wire_and_bytes_here() -> None:
    found = agent.network_limits_bytes(pod(keys.NETWORK_QOS, '{"ingressLimit":"10M"}'))
    assert found == (1_250_000, 0)
    with pytest.raises(KoordError, match=r"networkQOS\]?.egressLimit: got '9223372036854775808'"):
        agent.network_limits_bytes(pod(keys.NETWORK_QOS, '{"egressLimit":9223372036854775808}'))


@pytest.mark.parametrize(
    ("key", "text", "field"),
    [
        (keys.CPU_QOS, '{"groupIdentity":3}', "groupIdentity: got 3"),
        (keys.MEMORY_QOS, '{"policy":"always"}', "policy: got 'always'"),
        (keys.OOM_SCORE_ADJ, "1001", "got 1001"),
        (keys.OOM_SCORE_ADJ_SPEC, '{"a":-1001}', "a: got -1001"),
        (keys.OOM_SCORE_ADJ, "one", "got 'one'"),
    ],
)
def test_values_out_of_range(key: str, text: str, field: str) -> None:
    accessors = (agent.cpu_qos, agent.memory_qos, lambda p: agent.oom_score_adj(p, "a"))
    messages = [refusal(accessor, pod(key, text)) for accessor in accessors]
    assert [field in message for message in messages if message] == [True]


def test_the_oom_score_of_a_container_counts_before_the_pods() -> None:
    annotations = {keys.OOM_SCORE_ADJ: "-5", keys.OOM_SCORE_ADJ_SPEC: '{"a":7}'}
    found = make_pod(annotations=annotations)
    assert (agent.oom_score_adj(found, "a"), agent.oom_score_adj(found, "b")) == (7, -5)
    assert agent.oom_score_adj(make_pod(), "a") is None


def test_core_scheduling() -> None:
    found = make_pod(labels={keys.CORE_SCHED_POLICY: "exclusive", keys.CORE_SCHED_GROUP_ID: "g"})
    found.metadata.uid = "u"
    assert (agent.core_sched_policy(found), agent.core_sched_group(found)) == ("exclusive", "u")
    found = make_pod(labels={keys.CORE_SCHED_POLICY: "other", keys.CORE_SCHED_GROUP_ID: "g"})
    assert (agent.core_sched_policy(found), agent.core_sched_group(found)) == ("", "g")


COSTS = [
    ("0", 0), ("1", 1), ("-1", -1), ("2147483647", eviction.NEVER_EVICT), ("-2147483648", -(2**31)),
    ("+10", None), ("008", None), ("", None), ("-", None), ("2147483648", None), ("1e3", None),
    ("0x1", None), ("1_0", None), (" 1", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cost"), COSTS)
def test_eviction_cost(text: str, cost: int | None) -> None:
    for found in (pod(keys.EVICTION_COST, text), make_pod(labels={keys.EVICTION_COST: text})):
        if cost is not None:
            assert eviction.eviction_cost(found) == cost
        else:
            with pytest.raises(KoordError, match="eviction-cost"):
                eviction.eviction_cost(found)


def test_the_cost_annotation_counts_before_the_label() -> None:
    both = make_pod(annotations={keys.EVICTION_COST: "1"}, labels={keys.EVICTION_COST: "2"})
    assert eviction.eviction_cost(both) == 1
    assert eviction.eviction_cost(make_pod()) == 0


def test_eviction_priority_is_decimal() -> None:
    key = keys.EVICTION_PRIORITY
    assert [eviction.eviction_priority(pod(key, t)) for t in ("-3", "+4", "010")] == [-3, 4, 10]
    assert eviction.eviction_priority(make_pod()) == 0
    for text in ("", "0x1", "2147483648"):
        with pytest.raises(KoordError):
            eviction.eviction_priority(pod(key, text))


def test_who_may_evict() -> None:
    assert eviction.eviction_enabled(make_pod(labels={keys.EVICTION_ENABLED: "true"}))
    assert not eviction.eviction_enabled(make_pod(labels={keys.EVICTION_ENABLED: "True"}))
    key, feature = keys.EVICTION_POLICY, "evictByMemoryUsage"
    cases = {'["evictByMemoryUsage"]': True, '["evictBymemoryusage"]': False, "": False, "[": False}
    for text, allowed in cases.items():
        assert eviction.allows_eviction_by(pod(key, text), feature) is allowed
    assert eviction.allows_eviction_by(make_pod(), feature)


def test_replacement_rules() -> None:
    text = " cpu : kubernetes.io/batch-cpu ,memory:m,bad,a:b:c,erase:,"
    assert eviction.replacement_rules(pod(keys.REPLACE_RESOURCES, text)) == (
        {"cpu": "kubernetes.io/batch-cpu", "memory": "m"},
        {"erase"},
    )


def test_gangs() -> None:
    labels = {keys.POD_GROUP: "", keys.POD_GROUP_OLD: "old"}
    waiting = {keys.GANG_WAITING_TIME: "30s"}
    annotations = {
        **waiting,
        keys.GANG_NAME: "own",
        keys.GANG_MIN_AVAILABLE: "3",
        keys.GANG_WAITING_TIME: "30s",
    }
    found = make_pod(labels=labels, annotations=annotations)
    assert gang.gang_name(found) == "old"
    assert gang.gang_name(make_pod(annotations=annotations)) == "own"
    assert (gang.min_available(found), gang.total_number(found)) == (3, 0)
    assert gang.waiting_time(found).seconds == 30
    assert gang.waiting_time(make_pod()).seconds == 0
    assert gang.mode(found) == "Strict"
    assert gang.mode(pod(keys.GANG_MODE, "NonStrict")) == "NonStrict"
    assert gang.match_policy(found) == "once-satisfied"
    assert gang.match_policy(pod(keys.POD_GROUP_MATCH_POLICY, "only-waiting")) == "only-waiting"
    for bad in (make_pod(), pod(keys.GANG_MIN_AVAILABLE, "x")):
        with pytest.raises(KoordError, match="min-available"):
            gang.min_available(bad)
    assert gang.waiting_time(pod(keys.GANG_WAITING_TIME, "soon")).seconds == 0
    assert gang.total_number(pod(keys.GANG_TOTAL_NUMBER, "x")) == 0
    assert gang.total_number(pod(keys.GANG_TOTAL_NUMBER, "7")) == 7
    assert gang.match_policy(pod(keys.GANG_MATCH_POLICY, "x"), "only-waiting") == "only-waiting"
    assert [gang.groups(pod(keys.GANG_GROUPS, text)) for text in ("", "{", "[1]")] == [[]] * 3
    old = make_pod(
        labels={keys.POD_GROUP_MIN_AVAILABLE_OLD: "5"}, annotations={keys.GANG_MIN_AVAILABLE: "3"}
    )
    assert gang.min_available(old) == 5


def test_the_order_of_a_gang() -> None:
    def named(name: str, index: str | None) -> Any:
        found = pod(keys.GANG_NETWORK_TOPOLOGY_INDEX, index) if index else make_pod()
        found.metadata.name = name
        return found

    pods = [named("d", None), named("c", "1"), named("a", None), named("b", "0"), named("a1", "1")]
    ordered = sorted(
        pods, key=lambda p: gang.topology_order(gang.network_topology_index(p), p.metadata.name)
    )
    assert [p.metadata.name for p in ordered] == ["b", "a1", "c", "a", "d"]


EXACT = [
    (None, {}, {}, True),
    ([], {"cpu": "1"}, {}, True),
    (["cpu"], {"cpu": "1"}, {"cpu": "1000m"}, True),
    (["cpu"], {"cpu": "1"}, {"cpu": "2"}, False),
    (["cpu"], {"cpu": "1"}, {}, False),
    (["gpu", "cpu"], {"cpu": "1"}, {"cpu": "2"}, True),
    (["cpu", "gpu"], {"cpu": "1"}, {"cpu": "2"}, False),
]


@pytest.mark.parametrize(("names", "asked", "held", "expected"), EXACT)
def test_exact_match(names: list[str] | None, asked: Any, held: Any, expected: bool) -> None:
    spec = None if names is None else reservations.ExactMatch(names)
    amounts = [quotas.amounts(annotated(ElasticQuota, "k", to_json(a).decode()), "k")
               for a in (asked, held)]  # fmt: skip
    assert reservations.matches_exactly(spec, *amounts) is expected


def test_quota_labels() -> None:
    quota = ElasticQuota()
    assert quotas.parent(quota) == "koordinator-root-quota"
    assert (quotas.is_parent(quota), quotas.allows_lending(quota)) == (False, True)
    quota.metadata.labels = {
        keys.QUOTA_PARENT: "p", keys.QUOTA_IS_PARENT: "true", keys.QUOTA_TREE_ID: "t",
        keys.QUOTA_ALLOW_LENT_RESOURCE: "false", keys.QUOTA_IS_ROOT: "True",
        keys.QUOTA_ALLOW_FORCE_UPDATE: "true", keys.QUOTA_IGNORE_DEFAULT_TREE: "true",
    }  # fmt: skip
    assert (quotas.parent(quota), quotas.tree_id(quota)) == ("p", "t")
    assert (quotas.is_parent(quota), quotas.allows_lending(quota)) == (True, False)
    assert (quotas.is_tree_root(quota), quotas.allows_force_update(quota)) == (False, True)
    assert quotas.ignores_default_tree(quota)
    quota.metadata.name = quotas.ROOT_QUOTA
    assert quotas.parent(quota) == ""
    assert quotas.is_quota_preemptible(make_pod())
    assert not quotas.is_quota_preemptible(make_pod(labels={keys.QUOTA_PREEMPTIBLE: "false"}))


def test_shared_weight_falls_back_to_max() -> None:
    for text, expected in (
        ('{"cpu":"3"}', {"cpu": "3"}),
        ('{"cpu":0}', {"cpu": "9"}),
        ("{", {"cpu": "9"}),
        ("", {"cpu": "9"}),
    ):
        quota = annotated(ElasticQuota, keys.QUOTA_SHARED_WEIGHT, text)
        quota.spec.max = quotas.amounts(annotated(ElasticQuota, "k", '{"cpu":9}'), "k")
        assert to_document(quotas.shared_weight(quota)) == expected


def test_quota_amounts_and_namespaces() -> None:
    quota = annotated(ElasticQuota, keys.QUOTA_RUNTIME, "")
    assert quotas.amounts(quota, keys.QUOTA_RUNTIME) == {}
    with pytest.raises(KoordError, match="runtime"):
        quotas.amounts(annotated(ElasticQuota, keys.QUOTA_RUNTIME, "[]"), keys.QUOTA_RUNTIME)
    assert quotas.namespaces(annotated(ElasticQuota, keys.QUOTA_NAMESPACES, '["a"]')) == ["a"]
    assert quotas.namespaces(annotated(ElasticQuota, keys.QUOTA_NAMESPACES, "a")) == []


def test_ratios_have_two_decimals() -> None:
    assert nodes.ratios_text({"memory": 1.256, "cpu": 1.5}) == '{"cpu":1.50,"memory":1.26}'
    text = nodes.ratios_text({"cpu": 1.5})
    node = make_node(annotations={keys.RESOURCE_AMPLIFICATION_RATIO: text})
    assert nodes.amplification_ratios(node) == {"cpu": 1.5}
    assert nodes.ratio_text(1.1) == "1.10"
    assert not nodes.ratios_differ(1.1, 1.109)
    assert nodes.ratios_differ(1.1, 1.12)


def test_cpu_normalization() -> None:
    key = keys.CPU_NORMALIZATION_RATIO
    assert nodes.cpu_normalization_ratio(make_node()) == -1
    assert nodes.cpu_normalization_ratio(make_node(annotations={key: "1.20"})) == 1.2
    for text in ("0", "-1", "x", "", "5.01", "1000000"):
        with pytest.raises(KoordError, match="cpu-normalization-ratio"):
            nodes.cpu_normalization_ratio(make_node(annotations={key: text}))
    label = keys.CPU_NORMALIZATION_ENABLED
    assert nodes.cpu_normalization_enabled(make_node()) is None
    assert nodes.cpu_normalization_enabled(make_node(labels={label: "F"})) is False
    with pytest.raises(KoordError, match="cpu-normalization-enabled"):
        nodes.cpu_normalization_enabled(make_node(labels={label: "on"}))


@pytest.mark.parametrize(
    ("text", "percent"), [("0.8", 80), ("0.999", 99), ("1", 100), ("0", 0), ("-0.1", None),
                          ("x", None), ("", None)]
)  # fmt: skip
def test_reclaim_ratios(text: str, percent: int | None) -> None:
    node = make_node(labels={keys.CPU_RECLAIM_RATIO: text})
    assert nodes.ratio_label_percent(node, keys.CPU_RECLAIM_RATIO) == percent


def test_system_cpus_are_exclusive_unless_said_otherwise() -> None:
    for text, exclusive in (('{"cpuset":"0-1"}', True), ('{"cpusetExclusive":false}', False)):
        found = nodes.system_qos_resource(make_node(annotations={keys.SYSTEM_QOS_RESOURCE: text}))
        assert found is not None
        assert found.exclusive is exclusive


def test_bind_policy_of_a_node() -> None:
    def effective(label: str, policy: str = "none", option: str = "") -> str:
        node = make_node(labels={keys.CPU_BIND_POLICY: label})
        return nodes.cpu_bind_policy(node, policy, {"full-pcpus-only": option})

    assert effective("FullPCPUsOnly") == "FullPCPUsOnly"
    assert effective("SpreadByPCPUs") == "SpreadByPCPUs"
    assert effective("SpreadByPCPUs", "static", "true") == "FullPCPUsOnly"
    assert effective("SpreadByPCPUs", "static", "false") == "SpreadByPCPUs"
    assert effective("other", "none", "true") == "None"


def test_node_labels_override() -> None:
    node = make_node(labels={keys.NUMA_ALLOCATE_STRATEGY: "", keys.NUMA_TOPOLOGY_POLICY: "X"})
    assert nodes.numa_allocate_strategy(node, "MostAllocated") == "MostAllocated"
    assert nodes.numa_topology_policy(node, "Restricted") == "X"
    assert nodes.gpu_partition_policy({keys.GPU_PARTITION_POLICY: "Honor"}) == "Honor"
    assert nodes.gpu_partition_policy({}) == "Prefer"
    for text in ("honor", "Prefer", ""):
        assert nodes.gpu_partition_policy({keys.GPU_PARTITION_POLICY: text}) == "Prefer"


def test_third_parties_are_summed_by_class() -> None:
    text = (
        '{"allocations":[{"name":"a","priority":"koord-batch","resources":{"cpu":"1"}},'
        '{"name":"b","priority":"koord-batch","resources":{"cpu":"2","memory":"1Gi"}},'
        '{"name":"c","priority":"koord-mid","resources":{"cpu":"4"}}]}'
    )
    node = make_node(annotations={keys.THIRD_PARTY_ALLOCATIONS: text})
    total = nodes.third_party_total(node, "koord-batch")
    assert to_document(total) == {"cpu": "3", "memory": "1Gi"}


def test_bandwidth() -> None:
    key = keys.NETWORK_BANDWIDTH
    assert nodes.network_bandwidth(make_node()) is None
    assert str(nodes.network_bandwidth(make_node(annotations={key: "10G"}))) == "10G"
    with pytest.raises(KoordError, match="network-bandwidth"):
        nodes.network_bandwidth(make_node(annotations={key: "fast"}))


def test_device_labels_and_partitions() -> None:
    device = Device()
    assert topology.secondary_device_well_planned(device) is None
    device.metadata.labels[keys.SECONDARY_DEVICE_WELL_PLANNED] = "false"
    assert topology.secondary_device_well_planned(device) is False
    assert topology.gpu_partitions(device) is None
    with pytest.raises(KoordError, match="gpu-partitions"):
        topology.gpu_partitions(annotated(Device, keys.GPU_PARTITIONS, "null"))


def test_no_bound_pods_are_written_as_null() -> None:
    assert topology.pod_cpu_allocs_text([]) == "null"
    text = annotation.text([topology.PodCPUAlloc(uid="u")])
    assert topology.pod_cpu_allocs_text([topology.PodCPUAlloc(uid="u")]) == text == '[{"uid":"u"}]'


_ORIGINS = [
    '{"resources":{"kubernetes.io/batch-cpu":"5k","kubernetes.io/batch-memory":"6"}}',
    '{"resources":{"kubernetes.io/batch-cpu":"5000"}}',
    '{"Resources":{"kubernetes.io/batch-cpu":"5k"}}',
    '{"resources":{"a":"1"},"RESOURCES":{"a":"2"}}',
    '{"resources":{"a":"1","a":"2"}}',
    '{"resources":null}',
    '{"resources":{"a":null}}',
    "{}",
    "null",
]


@pytest.mark.parametrize("text", _ORIGINS)
def test_an_origin_says_the_same_however_it_is_read(text: str) -> None:
    node = annotated(Device, keys.ORIGIN_EXTENDED_ALLOCATABLE, text)
    plain = annotation.read(node, keys.ORIGIN_EXTENDED_ALLOCATABLE, nodes.OriginAllocatable)
    assert nodes.origin_allocatable(node) == plain


def test_only_text_of_koords_own_making_is_canonical() -> None:
    canonical = [annotation.canonical(text, nodes.OriginAllocatable) for text in _ORIGINS]
    assert [found is not None for found in canonical] == [True, *[False] * 6, True, False]
    assert annotation.canonical("{", nodes.OriginAllocatable) is None
