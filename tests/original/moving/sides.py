# SPDX-License-Identifier: Apache-2.0
"""The programs of both sides: how each is called, and what is installed for it.

Flags are those of the original's chart, for both; only addresses and places are of this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.cli.commands.check.manifests import FLAGS, NAMESPACE, config_map, workload
from tests.original.source import Source

ORIGINAL, OURS = "original", "koord"
SCHEDULER, MANAGER, DESCHEDULER = "koord-scheduler", "koord-manager", "koord-descheduler"
KOORDLET = "koordlet"
# In the order in which the guide has them moved.
PROGRAMS = (SCHEDULER, MANAGER, DESCHEDULER, KOORDLET)
LEASES = {
    SCHEDULER: "koord-scheduler", MANAGER: "koordinator-manager", DESCHEDULER: "koord-descheduler",
}  # fmt: skip
_MODULES = {name: name.removeprefix("koord-") for name in PROGRAMS}
_CONFIGURATIONS = {SCHEDULER: "scheduler-config", DESCHEDULER: "descheduler-config"}
# By side, since both run at once while one waits for the other's Lease.
_PORTS = {ORIGINAL: 21000, OURS: 22000}
_WEBHOOKS = ("mutating", "validating")
# Nobody here waits for a minute.
KOORDLET_FLAGS = (
    "-kubelet-sync-interval=1s", "-runtime-hooks-reconcile-interval=1s",
    "-runtime-hooks-addr=/run/koordlet/koordlet.sock", "-tsdb-path=/run/koordlet/metrics",
    "-prediction-checkpoint-filepath=/run/koordlet/checkpoints", "-cgroup-root-dir=/sys/fs/cgroup/",
    "-runtime-hooks-config-path=/run/koordlet/hookserver.d",
)  # fmt: skip


def user(side: str, program: str) -> str:
    """Who a program is to the API server."""
    if side == ORIGINAL:
        return f"original:{program}"
    return f"system:serviceaccount:{NAMESPACE}:{program}"


def webhook_port(side: str) -> int:
    """Where a side's admission is."""
    return _PORTS[side] + 2


def command(side: str, program: str, source: Source) -> list[str]:
    """A program's call, without its arguments."""
    if side == ORIGINAL:
        return [str(source.program(program))]
    return [sys.executable, "-m", f"koord.cli.daemons.{_MODULES[program]}"]


def arguments(side: str, program: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of one that runs beside the node."""
    port = _PORTS[side]
    kubeconfig = folder / f"{side}-{program}.kubeconfig"
    own = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE}
    flags = [flag for flag in FLAGS[program] if not flag.startswith(("--config=", "--port="))]
    if side == OURS:
        flags.append(f"--kubeconfig={kubeconfig}")
    if program == MANAGER:
        changed = ("--metrics-addr", "--health-probe-addr", "--leader-election-namespace=")
        flags = [flag for flag in flags if not flag.startswith(changed[:2])]
        flags += [f"--metrics-addr=127.0.0.1:{port}", f"--health-probe-addr=127.0.0.1:{port + 1}"]
        flags += ["--enable-pprof=false"] if side == ORIGINAL else []
        own |= {
            "WEBHOOK_HOST": "127.0.0.1", "WEBHOOK_PORT": str(webhook_port(side)),
            "WEBHOOK_CERT_DIR": str(folder / f"{side}-webhook"),
            "WEBHOOK_CONFIGURATION_FAILURE_POLICY_PODS": "Ignore",
        }  # fmt: skip
        return flags, own
    flags.append(f"--config={folder / f'{side}-{program}.yaml'}")
    if program == SCHEDULER:
        flags.append(f"--port={port + 3}")
        flags += ["--secure-port=0"] if side == ORIGINAL else []
    return flags, own


def write_configurations(source: Source, folder: Path) -> None:
    """Those that the original deploys, for both sides."""
    for side, port in _PORTS.items():
        for program in _CONFIGURATIONS:
            document = yaml.safe_load(_deployed(source, program))
            kubeconfig = str(folder / f"{side}-{program}.kubeconfig")
            document["clientConnection"] = {"kubeconfig": kubeconfig}
            for key in ("healthzBindAddress", "metricsBindAddress"):
                if key in document:
                    document[key] = f"127.0.0.1:{port + 4}"
            path = folder / f"{side}-{program}.yaml"
            path.write_text(yaml.safe_dump(document), encoding="utf-8")


def objects(source: Source, program: str) -> list[dict[str, Any]]:
    """What the original's chart installs of a program, but for definitions and rights."""
    installed = workload(program)
    if installed["kind"] == "Deployment":
        # What runs here is no pod.
        installed["spec"]["replicas"] = 0
    found = [installed]
    if program in _CONFIGURATIONS:
        found.append(config_map(program, _deployed(source, program)))
    if program == MANAGER:
        found += _webhook_configurations(source)
    return found


def _deployed(source: Source, program: str) -> str:
    document = yaml.safe_load(source.read(f"config/manager/{_CONFIGURATIONS[program]}.yaml"))
    (text,) = document["data"].values()
    return str(text)


def _webhook_configurations(source: Source) -> list[dict[str, Any]]:
    """With the changes that kustomize makes of them, and the chart's names."""
    found = {each["kind"]: each for each in _documents(source, "config/webhook/manifests.yaml")}
    for patch in _documents(source, "config/webhook/patch_manifests.yaml"):
        changed = {each["name"]: each for each in patch["webhooks"]}
        for each in found[patch["kind"]]["webhooks"]:
            each |= changed.get(each["name"], {})
    for document in found.values():
        document["metadata"]["name"] = f"koordinator-{document['metadata']['name']}"
        for each in document["webhooks"]:
            each["clientConfig"]["service"] |= {
                "name": "koordinator-webhook-service", "namespace": NAMESPACE,
            }  # fmt: skip
    return list(found.values())


def _documents(source: Source, path: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(source.read(path)) if each]
