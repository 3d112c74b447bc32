# SPDX-License-Identifier: Apache-2.0
"""An installation of Koordinator with the flags of its chart 1.8.0, as far as checks read it."""

from __future__ import annotations

from typing import Any

NAMESPACE = "koordinator-system"
FLAGS = {
    "koord-scheduler": [
        "--port=10251", "--authentication-skip-lookup=true", "--v=4", "--feature-gates=",
        "--config=/config/koord-scheduler.config", "--enable-network-topology-manager=true",
    ],
    "koord-manager": [
        "--enable-leader-election", "--metrics-addr=:8080", "--health-probe-addr=:8000",
        "--logtostderr=true", "--leader-election-namespace=koordinator-system", "--v=4",
        "--feature-gates=", "--sync-period=0", "--config-namespace=koordinator-system",
    ],
    "koord-descheduler": ["--v=4", "--config=/config/koord-descheduler.config"],
    "koordlet": [
        "-addr=:9316", "-cgroup-root-dir=/host-cgroup/",
        "-feature-gates=BECPUEvict=true,BEMemoryEvict=true,CgroupReconcile=true,Accelerators=true",
        "-runtime-hooks-host-endpoint=/var/run/koordlet/koordlet.sock", "--logtostderr=true",
        "--v=4",
    ],
    "koord-device-daemon": ["--v=4"],
}  # fmt: skip
"""As that chart renders them with its own values."""
CONFIGURATIONS = {
    "koord-scheduler": """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceLock: leases, resourceName: koord-scheduler,
                 resourceNamespace: koordinator-system}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: CoschedulingArgs,
           enablePreemption: true, awareNetworkTopology: true}
""",
    "koord-descheduler": """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
enableProfiling: true
leaderElection: {resourceLock: leases, resourceName: koord-descheduler,
                 resourceNamespace: koordinator-system}
deschedulingInterval: 10s
profiles:
- name: koord-descheduler
  plugins: {evict: {disabled: [{name: "*"}], enabled: [{name: MigrationController}]}}
""",
}


def installation(**configurations: str) -> list[dict[str, Any]]:
    """All workloads and ConfigMaps; other configurations by program, ``_`` for ``-``."""
    changed = {name.replace("_", "-"): text for name, text in configurations.items()}
    return [
        *(workload(name) for name in FLAGS),
        *(config_map(name, text) for name, text in {**CONFIGURATIONS, **changed}.items()),
    ]


def workload(name: str, *more: str) -> dict[str, Any]:
    """The Deployment, or DaemonSet, of a program."""
    config = {
        "name": f"{name}-config",
        "items": [{"key": f"{name}-config", "path": f"{name}.config"}],
    }
    container = {
        "name": name if name == "koord-device-daemon" else name.removeprefix("koord-"),
        "image": f"example.com/koordinator-sh/{name}:v1.8.0",
        "command": [f"/{name}"],
        "args": [*FLAGS[name], *more],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "config", "configMap": config}]}
    labels = {"koord-app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet" if name in ("koordlet", "koord-device-daemon") else "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def config_map(name: str, text: str) -> dict[str, Any]:
    """The one that holds a program's configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-config", "namespace": NAMESPACE},
        "data": {f"{name}-config": text},
    }


def lease(name: str, holder: str) -> dict[str, Any]:
    """A Lease that somebody leads by."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"holderIdentity": holder},
    }


SLO = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config", "namespace": NAMESPACE},
    "data": {"colocation-config": '{"enable": true, "cpuReclaimThresholdPercnt": 60}'},
}
"""With a name that is misspelt."""
WEBHOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "koordinator-mutating-webhook-configuration"},
    "webhooks": [
        {
            "name": name,
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com/x"},
        }
        for name, policy in (
            ("mpod-create.koordinator.sh", "Fail"),
            ("mfuture.koordinator.sh", "Fail"),
        )
    ],
}
"""One of ours that fails, and one that koord does not know."""
