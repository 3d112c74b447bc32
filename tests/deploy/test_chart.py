# SPDX-License-Identifier: Apache-2.0
"""The chart as helm renders it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api import definitions
from tests.deploy import openapi
from tests.deploy.chart_files import CHART
from tests.deploy.helm import HelmError, helm, rendered
from tests.real.binaries import OLDER_KUBERNETES
from tests.real.fixtures import need

Document = dict[str, Any]
SYSTEM = "koordinator-system"
COMPONENTS = {
    "scheduler.enabled": "koord-scheduler",
    "manager.enabled": "koord-manager",
    "descheduler.enabled": "koord-descheduler",
    "koordlet.enabled": "koordlet",
}
WORKLOADS = ("Deployment", "DaemonSet")
PROFILES = ("values-small.yaml", "values-large.yaml", "values-scheduler-only.yaml")
pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def has_helm() -> None:
    need("helm")


def objects(home: Path, *arguments: object, **options: Any) -> list[Document]:
    """What the chart makes of values."""
    text = rendered(*arguments, home=home, **options)
    return [each for each in yaml.safe_load_all(text) if each]


def named(found: list[Document], *kinds: str) -> dict[str, Document]:
    """Those of these kinds, by name."""
    return {each["metadata"]["name"]: each for each in found if each["kind"] in kinds}


def test_lint(tmp_path: Path) -> None:
    for profile in (None, *PROFILES):
        values = ["-f", CHART / profile] if profile else []
        helm("lint", "--strict", CHART, *values, home=tmp_path)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("scheduler.replica=3", "'/scheduler': additional properties 'replica' not allowed"),
        ("scheduler.port=70000", "at '/scheduler/port': maximum"),
        ("webhookConfiguration.failurePolicy.pods=Perhaps", "one of 'Ignore', 'Fail'"),
        ("koordlet.podsFrom=nowhere", "one of 'auto', 'kubelet', 'apiserver'"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        rendered("--set", setting, home=tmp_path)
    assert said in str(refused.value)


def test_the_guides_quota_comes_only_when_it_is_asked_for(tmp_path: Path) -> None:
    guides = "elasticquotas.quota.koordinator.sh"
    plain = named(objects(tmp_path), "CustomResourceDefinition")
    assert set(plain) == {each["metadata"]["name"] for each in definitions.crds(guide=False)}
    asked = named(objects(tmp_path, "--set", "crds.guide=true"), "CustomResourceDefinition")
    assert set(asked) == {*plain, guides}
    assert asked[guides]["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    unmanaged = objects(tmp_path, "--set", "crds.guide=true,crds.managed=false")
    assert not named(unmanaged, "CustomResourceDefinition")


@pytest.mark.parametrize("switch", sorted(COMPONENTS))
def test_each_component_can_be_left_out(tmp_path: Path, switch: str) -> None:
    off = COMPONENTS[switch]
    found = objects(tmp_path, "--set", f"{switch}=false")
    assert set(named(found, *WORKLOADS)) == {*COMPONENTS.values()} - {off}
    of_it = [
        each["metadata"]["name"]
        for each in found
        if each["metadata"]["name"].startswith(off) and each["kind"] not in WORKLOADS
    ]
    assert of_it == []
    tests = [each for each in found if each["kind"] == "Pod"]
    assert not [argument for each in tests for argument in _arguments(each) if off in argument]


def test_profiles(tmp_path: Path) -> None:
    small, large, scheduler = (objects(tmp_path, "-f", CHART / name) for name in PROFILES)
    assert {each["spec"].get("replicas") for each in named(small, "Deployment").values()} == {1}
    assert not named(small, "PodDisruptionBudget")
    assert set(named(large, "Deployment")) == set(named(large, "NetworkPolicy"))
    assert "koord-webhook" in named(large, "Deployment")
    assert set(named(scheduler, *WORKLOADS)) == {"koord-scheduler"}


def test_every_account_secret_and_configuration_is_there(tmp_path: Path) -> None:
    for values in ([], *(["-f", CHART / name] for name in PROFILES)):
        found = objects(tmp_path, *values)
        for workload in named(found, *WORKLOADS).values():
            spec = workload["spec"]["template"]["spec"]
            assert spec["serviceAccountName"] in named(found, "ServiceAccount")
            for volume in spec["volumes"]:
                if "secret" in volume:
                    assert volume["secret"]["secretName"] in named(found, "Secret")
                if "configMap" in volume:
                    assert volume["configMap"]["name"] in named(found, "ConfigMap")


def test_pods_have_no_rights_that_they_do_not_need(tmp_path: Path) -> None:
    found = named(objects(tmp_path, "-f", CHART / "values-large.yaml"), "Deployment")
    for deployment in found.values():
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_an_agent_without_privileges(tmp_path: Path) -> None:
    found = named(objects(tmp_path, "--set", "koordlet.privileged=false"), "DaemonSet")
    (container,) = found["koordlet"]["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert "privileged" not in context
    assert context["capabilities"]["drop"] == ["ALL"]
    assert "ALL" not in context["capabilities"]["add"]
    assert "NET_ADMIN" not in context["capabilities"]["add"]


def test_an_agent_that_divides_the_nodes_link_may(tmp_path: Path) -> None:
    gates = "koordlet.features=CPUEvict=true\\,TCNetworkQoS=true"
    settings = ("--set", "koordlet.privileged=false", "--set", gates)
    found = named(objects(tmp_path, *settings), "DaemonSet")
    (container,) = found["koordlet"]["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["capabilities"]["add"][-1] == "NET_ADMIN"


@pytest.mark.parametrize("folder", ["", "/etc/runtime/hookserver.d"])
def test_hooks_are_served_where_a_proxy_is_named(tmp_path: Path, folder: str) -> None:
    setting = f"koordlet.hostDirs.koordProxyRegisterDir={folder}"
    found = named(objects(tmp_path, "--set", setting), "DaemonSet")
    spec = found["koordlet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    flags = [flag for flag in container["args"] if flag.startswith("--runtime-hooks-")]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    folders = {each["name"]: each.get("hostPath", {}).get("path") for each in spec["volumes"]}
    if not folder:
        assert (flags, "hookservers" in mounts, "hookservers" in folders) == ([], False, False)
        return
    socket = f"{mounts['socket']}/koordlet.sock"
    assert flags == [f"--runtime-hooks-addr={socket}", f"--runtime-hooks-host-endpoint={socket}"]
    # The proxy is on the host: it finds the socket by the same path.
    assert folders["socket"] == mounts["socket"]
    assert (folders["hookservers"], mounts["hookservers"]) == (folder, "/host-etc-hookserver")


def test_another_namespace_is_named_everywhere(tmp_path: Path) -> None:
    found = objects(tmp_path, "--set", "installation.namespace=elsewhere")
    # Names of quotas and accounts' names in policies apart, nobody is told of the usual one.
    kept = [
        each
        for each in found
        if each["kind"] != "CustomResourceDefinition" and SYSTEM in json.dumps(each)
    ]
    assert kept == []


def test_webhooks_stop_nobody_before_they_are_answered(tmp_path: Path) -> None:
    """``Fail`` stands in the list from which koord makes its own once it answers."""
    for chosen in ("Ignore", "Fail"):
        setting = f"webhookConfiguration.failurePolicy.pods={chosen}"
        found = named(
            objects(tmp_path, "--set", setting),
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        )
        for configuration in found.values():
            entries = configuration["webhooks"]
            assert {each["failurePolicy"] for each in entries} == {"Ignore"}
            wished = json.loads(configuration["metadata"]["annotations"]["template"])
            for entry, wish in zip(entries, wished, strict=True):
                of_pods = entry["rules"][0]["resources"] == ["pods"]
                policy = chosen if of_pods else "Ignore"
                assert wish == {**entry, "failurePolicy": policy}


def test_where_pods_come_from(tmp_path: Path) -> None:
    def flags(version: str, *arguments: object) -> list[str]:
        found = named(objects(tmp_path, *arguments, version=version), "DaemonSet")
        return _arguments(found["koordlet"]["spec"]["template"])

    assert "--pods-from=kubelet" in flags("1.33.0")
    assert {"--pods-from=apiserver", "--disable-query-kubelet-config"} <= {*flags(OLDER_KUBERNETES)}
    chosen = flags(OLDER_KUBERNETES, "--set", "koordlet.rights.nodesProxy=true")
    assert "--pods-from=kubelet" in chosen


def test_configuration_is_laid_over_the_default(tmp_path: Path) -> None:
    settings = "scheduler.config.clientConnection.qps=7,descheduler.config.dryRun=true"
    found = named(objects(tmp_path, "--set", settings), "ConfigMap")
    scheduler = yaml.safe_load(found["koord-scheduler-config"]["data"]["koord-scheduler.yaml"])
    assert scheduler["clientConnection"] == {"qps": 7}
    assert [each["schedulerName"] for each in scheduler["profiles"]] == ["koord-scheduler"]
    text = found["koord-descheduler-config"]["data"]["koord-descheduler.yaml"]
    assert yaml.safe_load(text)["dryRun"] is True


def test_dashboards_and_alerts_come_where_they_are_asked_for(tmp_path: Path) -> None:
    assert not [each for each in objects(tmp_path) if each["kind"] == "PrometheusRule"]
    settings = "monitoring.dashboards.enabled=true,monitoring.alerts.enabled=true"
    found = objects(tmp_path, "--set", settings, "--set", "monitoring.namespace=watching")
    files = {
        name: json.loads(text)
        for each in named(found, "ConfigMap").values()
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in each["data"].items()
        if each["metadata"]["namespace"] == "watching"
    }
    folder = CHART / "files" / "dashboards"
    assert files == {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    (rule,) = named(found, "PrometheusRule").values()
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts/koord.yaml").read_text())


def _arguments(pod: Document) -> list[str]:
    (container,) = pod["spec"]["containers"]
    return list(container["args"])


@pytest.mark.parametrize("version", openapi.VERSIONS)
def test_what_it_renders_is_of_the_types_that_kubernetes_publishes(
    tmp_path: Path, version: str
) -> None:
    types, foreign = openapi.TypeTable(version), set()
    for values in ([], *(["-f", CHART / name] for name in PROFILES)):
        for each in objects(tmp_path, *values, version=f"{version}.0"):
            if types.knows(each):
                assert types.problems(each) == [], each["metadata"]["name"]
            else:
                foreign.add(each["apiVersion"].partition("/")[0])
    assert foreign <= {"scheduling.sigs.k8s.io", "monitoring.coreos.com"}


def test_unknown_and_wrong_fields_are_seen() -> None:
    types = openapi.TypeTable("1.35")
    spec = {"replicas": "2", "selector": {}, "templates": {}, "strategy": {"type": "Rollin"}}
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    assert types.problems(wrong) == [
        ".spec.template: missing",
        ".spec.replicas: '2' is no int32",
        ".spec.templates: unknown",
    ]
