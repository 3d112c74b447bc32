# SPDX-License-Identifier: Apache-2.0
"""What the specs run against: clusters with the same machines, each in processes of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from koord.controllers.webhook.framework.default_configurations import (
    MUTATING_NAME,
    default_configurations,
)
from tests.contract.api import at
from tests.hostile.places import Place
from tests.original.source import Source
from tests.original.specs import Spec
from tests.real.plane import RealControlPlane, free_port

HERE = Path(__file__).resolve().parent
POOLS = HERE / "pools.yaml"
# Specs that can only pass on other machines than the rest.
_OTHER_POOLS = (
    (
        HERE / "single-cards.yaml",
        "3 Pods with 40% matched reservation|only one Pod of all matched reservation",
    ),
    (HERE / "small-machines.yaml", "Restricted policy, reserves 4Core8Gi"),
)
NAMESPACE = "koordinator-system"
# Two groups of specs are about features that are off by default; those of GPUs hold only where
# admission leaves `koordinator.sh/gpu` of pods as it is, since it does so with Reservations'.
GATES = "ElasticQuotaGuaranteeUsage=true,MultiQuotaTree=true"
MANAGER_GATES = f"{GATES},DisableDeviceResourceSpec=true"
READY_SECONDS = 240.0
_BIN = Path(sys.executable).parent
_SCHEDULER_CONFIG = "config/manager/scheduler-config.yaml"


class ClusterError(Exception):
    """A cluster did not come up; the message ends with what its programs said last."""


@contextmanager
def koord_up(folder: Path, source: Source, pools: Path) -> Iterator[Place]:
    """``koord up``: all in one process."""
    del source
    place = Place(folder, folder / "kubeconfig")
    try:
        process = place.start(
            "koord", "up", "-o", "json", "--pools", str(pools),
            "--kubeconfig", str(place.kubeconfig), "--feature-gates", MANAGER_GATES,
        )  # fmt: skip
        _first_line(place, "koord", process)
        yield place
    finally:
        place.stop()


@contextmanager
def real_koord(folder: Path, source: Source, pools: Path) -> Iterator[Place]:
    """A real control plane with koord-scheduler and koord-manager."""
    with _real(folder, pools) as place:
        config = _scheduler_config(place, source)
        common = ("--kubeconfig", str(place.kubeconfig), "--feature-gates")
        place.start("koord-scheduler", *common, GATES, "--port", "0", "--config", str(config))
        local = "127.0.0.1:0"
        place.start(
            "koord-manager", *common, MANAGER_GATES,
            "--metrics-addr", local, "--health-probe-addr", local,
            environment=_webhook_environment(folder),
        )  # fmt: skip
        _wait_until_served(place)
        yield place


@contextmanager
def real_original(folder: Path, source: Source, pools: Path) -> Iterator[Place]:
    """The same with the original's scheduler and manager."""
    with _real(folder, pools) as place:
        scheduler = place.start(
            "koord-scheduler",
            f"--config={_scheduler_config(place, source)}",
            f"--feature-gates={GATES}",
            f"--port={free_port()}",
            "--secure-port=0",
            "--authentication-skip-lookup=true",
            program=source.program("koord-scheduler"),
        )
        assert scheduler.stdout is not None
        place.start(
            "koord-manager",
            f"--kubeconfig={place.kubeconfig}",
            f"--feature-gates={MANAGER_GATES}",
            f"--metrics-addr=127.0.0.1:{free_port()}",
            f"--health-probe-addr=127.0.0.1:{free_port()}",
            "--enable-pprof=false",
            program=source.program("koord-manager"),
            environment=_webhook_environment(folder),
        )
        _wait_until_served(place)
        yield place


ORIGINAL = "real + original"
CLUSTERS: dict[str, Callable[[Path, Source, Path], AbstractContextManager[Place]]] = {
    "koord up": koord_up,
    "real + koord": real_koord,
    ORIGINAL: real_original,
}


def by_pools(specs: Iterable[Spec]) -> Iterator[tuple[Path, list[Spec]]]:
    """Which specs run on which machines; the benchmark, which has its own, on the first."""
    rest = list(specs)
    apart = []
    for pools, pattern in _OTHER_POOLS:
        apart.append((pools, [spec for spec in rest if re.search(pattern, spec.text)]))
        rest = [spec for spec in rest if not re.search(pattern, spec.text)]
    yield POOLS, rest
    yield from apart


def _webhook_environment(folder: Path) -> dict[str, str]:
    """Called by URL, since nothing routes to a Service here."""
    return {
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(free_port()),
        "WEBHOOK_CERT_DIR": str(folder / "webhook-certificates"),
    }


@contextmanager
def _real(folder: Path, pools: Path) -> Iterator[Place]:
    """etcd, kube-apiserver and its controllers, koord's definitions, and the machines."""
    with RealControlPlane(folder) as plane:
        plane.start_controller_manager()
        place = Place(folder, plane.kubeconfig)
        try:
            _install(place)
            machines = place.start(
                "machines", "-m", "tests.original.machines", str(place.kubeconfig), str(pools),
                program=Path(sys.executable),
            )  # fmt: skip
            _first_line(place, "machines", machines)
            yield place
        finally:
            place.stop()


def _install(place: Place) -> None:
    call = [str(_BIN / "koord"), "crds", "install", "--kubeconfig", str(place.kubeconfig)]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    classes = (HERE.parents[1] / "deploy" / "priorityclasses.yaml").read_text(encoding="utf-8")
    # The failure policies are the original's.
    documents = [
        namespace,
        *yaml.safe_load_all(classes),
        *default_configurations(failure_policy=""),
    ]
    api = place.api("setup")
    for document in documents:
        kind = document["kind"].lower()
        answer = api.post(at(f"{kind}es" if kind.endswith("s") else f"{kind}s"), document)
        assert answer.ok, answer.text
    api.close()


def _scheduler_config(place: Place, source: Source) -> Path:
    """As the original deploys it, for pods of the default scheduler too: some specs name none."""
    deployed = yaml.safe_load(source.read(_SCHEDULER_CONFIG))
    config = yaml.safe_load(deployed["data"]["koord-scheduler-config"])
    (profile,) = config["profiles"]
    config["profiles"].append({**profile, "schedulerName": "default-scheduler"})
    config["clientConnection"] = {"kubeconfig": str(place.kubeconfig)}
    path = place.folder / "koord-scheduler.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _first_line(place: Place, name: str, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        raise ClusterError(f"{name} did not come up:\n{place.log(name)}")


def _wait_until_served(place: Place) -> None:
    """Until somebody leads, and API servers know where admission is."""
    api = place.api("setup")
    deadline = time.monotonic() + READY_SECONDS
    path = at("mutatingwebhookconfigurations", "", MUTATING_NAME)
    try:
        while True:
            place.check()
            entries = api.get(path).ok.get("webhooks", ())
            if all("url" in each["clientConfig"] for each in entries) and any(
                name == "koord-scheduler" and holder for name, (holder, _) in place.leases().items()
            ):
                return
            if time.monotonic() > deadline:
                said = "\n".join(place.log(name) for name in place.processes)
                raise ClusterError(f"not served after {READY_SECONDS:.0f} s:\n{said}")
            time.sleep(0.5)
    finally:
        api.close()
