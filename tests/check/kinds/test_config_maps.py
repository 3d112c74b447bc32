# SPDX-License-Identifier: Apache-2.0
"""Bad ConfigMaps and configuration files, and every line that is said of each."""

from __future__ import annotations

from tests.check.conftest import Lines


def test_slo_controller_config(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data:
  colocation-config: |
    {
      "enable": true,
      "cpuReclaimThresholdPercnt": 65,
      "degradeTimeMinutes": 0,
      "nodeConfigs": [
        {"name": "x", "nodeSelector": {"matchLabels": {"a": "b"}},
         "midCPUThresholdPercent": 120}
      ]
    }
  resource-threshold-config: '{"clusterStrategy": {"cpuSuppressThresholdPercent": "x"}}'
  cpu-burst-config: '{"clusterStrategy": '
"""
    where = "ConfigMap koordinator-system/slo-controller-config: data"
    assert lines(text) == [
        f"8: warning: {where}.colocation-config.cpuReclaimThresholdPercnt: "
        "got 'cpuReclaimThresholdPercnt', "
        "expected a known name, such as cpuReclaimThresholdPercent",
        f"9: error: {where}.colocation-config.degradeTimeMinutes: got 0, expected a number >= 1 "
        "(the last good section stays)",
        f"12: warning: {where}.colocation-config.nodeConfigs[0].midCPUThresholdPercent: got 120, "
        "expected a number from 0 to 100 "
        "(in effect, but refused where the validating webhook is on)",
        f"15: error: {where}.resource-threshold-config.clusterStrategy"
        ".cpuSuppressThresholdPercent: got 'x', expected an integer (the last good section stays)",
        f"""16: error: {where}.cpu-burst-config: got '{{"clusterStrategy": ', """
        "expected JSON (Input data was truncated) (the last good section stays)",
    ]


def test_a_label_makes_any_config_map_the_slo_controllers(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: release-slo
  labels: {koordinator.sh/configmap-type: slo-controller-config}
data: {colocation-config: '{"degradeTimeMinutes": -1}'}
"""
    assert lines(text) == [
        "6: error: ConfigMap release-slo: data.colocation-config.degradeTimeMinutes: got -1, "
        "expected a number >= 1 (the last good section stays)"
    ]


def test_more_than_there_is_and_sections_that_nobody_reads(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config}
data:
  colocation-config: |
    {"enable": true,
     "memoryReclaimThresholdPercent": 165}
  colocation-confg: "{}"
"""
    assert lines(text) == [
        "7: warning: ConfigMap slo-controller-config: data.colocation-config"
        ".memoryReclaimThresholdPercent: got 165, expected a number from 0 to 100 (taken as 100)",
        "8: warning: ConfigMap slo-controller-config: data.colocation-confg: "
        "got 'colocation-confg', expected a known name, such as colocation-config",
    ]


def test_host_applications_and_ratios_of_amplification(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config}
data:
  host-application-config: '{"applications":[{"name":"a","qos":"LSX"},{"name":"b","qos":"LS"}]}'
  resource-amplification-config: |
    {"enable": true, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 50}, "nodeConfigs": [
      {"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}}},
      {"name": "b", "nodeSelector": {"matchLabels": {"a": "c"}},
       "resourceAmplificationRatio": {"cpu": 20}}]}
"""
    where = "ConfigMap slo-controller-config: data"
    much = "expected a ratio of at most 10: a node cannot keep what it offers beyond that"
    assert lines(text) == [
        f"5: error: {where}.host-application-config.applications[0].qos: got 'LSX', "
        "expected one of LSE, LSR, LS, BE, SYSTEM (the last good section stays)",
        f"7: warning: {where}.resource-amplification-config.resourceAmplificationRatio.memory: "
        f"got 50.0, {much} (in effect)",
        f"10: warning: {where}.resource-amplification-config.nodeConfigs[1]"
        f".resourceAmplificationRatio.cpu: got 20.0, {much} (in effect)",
    ]


def test_templates_of_shared_gpus(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: gpu-shared-resource-templates, namespace: koordinator-system}
data:
  data.yaml: |
    huawei-Ascend-310P3-300I-DUO:
      vir01:
        huawei.com/npu-core: one
"""
    assert lines(text) == [
        "8: error: ConfigMap koordinator-system/gpu-shared-resource-templates: "
        "data[data.yaml].huawei-Ascend-310P3-300I-DUO.vir01[huawei.com/npu-core]: "
        "got 'one', expected an amount"
    ]


SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      usageThresholds: {cpu: PERCENT}
"""


def test_scheduler_configurations(lines: Lines) -> None:
    assert lines(SCHEDULER.replace("PERCENT", "65")) == [
        "3: warning: KubeSchedulerConfiguration: parallelism: got 'parallelism', "
        "expected nothing: it has no effect, decisions are made on one core"
    ]
    assert lines(SCHEDULER.replace("PERCENT", "165")) == [
        "9: error: KubeSchedulerConfiguration: "
        "profiles[0].pluginConfig[0].args.usageThresholds.cpu: got 165, "
        "expected an integer from 0 to 100"
    ]
    assert lines(SCHEDULER.replace("usageThresholds", "usageTresholds")) == [
        "9: error: KubeSchedulerConfiguration: "
        "profiles[0].pluginConfig[0].args.usageTresholds: "
        "got 'usageTresholds', expected a known field, such as usageThresholds"
    ]
    assert lines(SCHEDULER.replace("LoadAwareScheduling", "LoadAwareSchedulin")) == [
        "7: error: KubeSchedulerConfiguration: profiles[0].pluginConfig[0].name: "
        "got 'LoadAwareSchedulin', expected a known plugin, such as LoadAwareScheduling"
    ]
    assert lines(SCHEDULER.replace("io/v1", "io/v1beta3")) == [
        "1: error: KubeSchedulerConfiguration: apiVersion: "
        "got 'kubescheduler.config.k8s.io/v1beta3', expected kubescheduler.config.k8s.io/v1"
    ]


def test_a_scheduler_configuration_in_a_config_map(lines: Lines) -> None:
    inner = "".join(f"    {line}\n" for line in SCHEDULER.replace("PERCENT", "165").splitlines())
    text = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: koord-scheduler-config}}
data:
  koord-scheduler-config: |
{inner}"""
    assert lines(text) == [
        "14: error: ConfigMap koord-scheduler-config: data.koord-scheduler-config.profiles[0]"
        ".pluginConfig[0].args.usageThresholds.cpu: got 165, expected an integer from 0 to 100"
    ]


def test_the_simulators_files(lines: Lines) -> None:
    pools = (
        "apiVersion: simulator.koord/v1\nkind: NodePools\npools:\n- {name: a, count: 3, cpu: 0}\n"
    )
    assert lines(pools) == [
        "4: error: NodePools: pools[0].cpu: got 0, expected a whole number from 1 to 8192"
    ]
    scenario = "apiVersion: simulator.koord/v1\nkind: Scenario\nhuors: 24\n"
    assert lines(scenario) == [
        "3: error: Scenario: huors: got 'huors', expected a known field, such as hours"
    ]


def test_configuration_of_the_descheduler(lines: Lines) -> None:
    text = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
enableProfiling: true
deschedulingInterval: 10s
profiles: [{name: koord-descheduler}]
---
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingIntervl: 10s
---
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: a
  plugins: {balance: {enabled: [LowNodeLod]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: koord-descheduler-config}
data:
  koord-descheduler.config: |
    apiVersion: descheduler/v1alpha2
    kind: DeschedulerConfiguration
    deschedulingInterval: soon
"""
    found = lines(text)
    assert [line.partition(", expected")[0] for line in found] == [
        "3: warning: DeschedulerConfiguration: enableProfiling: got 'enableProfiling'",
        "9: error: DeschedulerConfiguration: deschedulingIntervl: got 'deschedulingIntervl'",
        "15: error: DeschedulerPolicy: profiles[0].plugins.balance.enabled: got 'LowNodeLod'",
        "24: error: ConfigMap koord-descheduler-config: data[koord-descheduler.config]"
        ".deschedulingInterval: got 'soon'",
    ]
    assert found[1].endswith("such as deschedulingInterval")
