# SPDX-License-Identifier: Apache-2.0
"""Completion: what words may become, what shells read, and names that a cluster gives."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from koord.api import crds
from koord.api.definitions import crd_names
from koord.cli.completion import cluster_names
from koord.cli.completion.complete import answered
from koord.cli.completion.protocol import PROGRAMS
from koord.controlplane.credentials import kubeconfig
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as cluster_crds
from koord.kube.client import Client
from tests.cli.conftest import Run

CODE = {
    "koord": "main", "koord-scheduler": "scheduler", "koord-manager": "manager",
    "koord-webhook": "webhook", "koord-descheduler": "descheduler", "koordlet": "koordlet",
    "koord-runtime-proxy": "runtime_proxy",
}  # fmt: skip


def words(line: str, shell: str = "fish") -> list[str] | None:
    """What the last word of a command line may become, without what it is for."""
    program, *rest = line.split(" ")
    found = answered(program, shell, rest)
    return None if found is None else [each.partition("\t")[0] for each in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("koord e", ["explain"]),
        ("koord explain ", ["pod", "node", "quota", "gang", "reservation", "device", "profile"]),
        ("koord explain pod --ser", ["--server"]),
        ("koord -", ["--version", "-h", "--help"]),
        ("koord up -o ", ["text", "json"]),
        ("koord up -o=j", []),
        ("koord up --output=j", ["--output=json"]),
        (
            "koord up --without ",
            [
                "controllers",
                "scheduler",
                "manager",
                "webhooks",
                "binder",
                "nodes",
                "descheduler",
            ],
        ),
        ("koord up --without scheduler,b", ["scheduler,binder"]),
        ("koord up --without nodes,n", []),
        ("koord up --nodes ", []),
        ("koord up --insecure --ins", []),
        ("koord up --data ", None),
        ("koord check ", None),
        ("koord check a.yaml --strict b.y", None),
        ("koord topology pick 4 --bind-policy F", ["FullPCPUs"]),
        ("koord topology pick 4 ", []),
        ("koord simulate openb --policy fgd,b", ["fgd,bestfit", "fgd,balanced"]),
        ("koord crds check rese", ["reservations.scheduling.koordinator.sh"]),
        ("koord completion ", ["bash", "zsh", "fish"]),
        (
            "koord completion bash koord-",
            [
                "koord-scheduler",
                "koord-manager",
                "koord-webhook",
                "koord-descheduler",
                "koord-runtime-proxy",
            ],
        ),
        ("koord completion -- -", []),
        ("koord bogus ", list(words("koord ") or ())),
        ("koordlet --pods-from ", ["kubelet", "apiserver"]),
        ("koordlet --dry-run=", ["--dry-run=true", "--dry-run=false"]),
        ("koordlet -pods-from ", ["kubelet", "apiserver"]),
        ("koordlet --feature-gates RdtR", ["RdtResctrl=false"]),
        ("koordlet --feature-gates CoreSched=true,OOM", ["CoreSched=true,OOMScoreAdj=true"]),
        ("koordlet --feature-gates Libpf", []),  # which does nothing
        ("koord-manager --controllers=nodes", ["--controllers=nodeslo"]),
        ("koord-manager --controllers *,-nodes", ["*,-nodeslo"]),
        ("koord-manager --noderesource-plugins Mid", ["MidResource"]),
        ("koord-scheduler --conf", ["--config"]),
        ("koord-scheduler --config ", None),
    ],
)
def test_what_a_word_may_become(line: str, expected: list[str] | None) -> None:
    assert words(line) == expected


def test_kinds_are_those_of_the_definitions() -> None:
    assert crd_names() == sorted(each["metadata"]["name"] for each in crds())


def test_every_shell_has_its_form() -> None:
    assert answered("koord", "fish", ["dow"]) == [
        "down\tEnd the cluster that runs on a data folder."
    ]
    assert answered("koord", "zsh", ["dow"]) == ["down:End the cluster that runs on a data folder."]
    assert answered("koord", "bash", ["dow"]) == ["down"]
    # bash parts words at an equals sign, and wants to hear only of the last part.
    assert answered("koord", "bash", ["up", "--without", "=", "nodes,b"]) == ["nodes,binder"]
    assert answered("koordlet", "bash", ["--feature-gates", "CoreSched", "=", "t"]) == ["true"]
    assert answered("koordlet", "bash", ["--feature-gates", "=", "CoreSched", "=", "t"]) == ["true"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_script_comes_out_for_each_program(koord: Run, shell: str, program: str) -> None:
    status, out, err = koord("completion", shell, program)
    assert (status, err) == (0, "")
    assert f"--complete={shell}" in out
    registered = {"bash": f"complete -F _koord_complete {program}\n",
                  "zsh": f"#compdef {program}\n",
                  "fish": f"for program in {program}\n"}  # fmt: skip
    assert registered[shell] in out
    whole = koord("completion", shell)[1]
    assert " ".join(PROGRAMS) in whole


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["tcsh"], "SHELL: got 'tcsh', expected bash, zsh or fish"),
        (["bash", "koordlte"],
         "PROGRAM: got 'koordlte', expected koord, koord-scheduler, koord-manager, "
         "koord-webhook, koord-descheduler, koordlet or koord-runtime-proxy; "
         "did you mean koordlet?"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_one_line(koord: Run, arguments: list[str], error: str) -> None:
    assert koord("completion", *arguments) == (2, "", f"error: {error}\n")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs of these sources."""
    for name, entry in CODE.items():
        file = tmp_path / name
        file.write_text(f"#!{sys.executable}\nfrom koord.cli.entry import {entry}\n{entry}()\n")
        file.chmod(0o755)
    return tmp_path


def test_bash_completes_with_what_it_reads(koord: Run, programs: Path) -> None:
    script = koord("completion", "bash")[1]
    ask = """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _koord_complete; echo "${COMPREPLY[*]}"; }
ask koord exp
ask koord explain ""
ask koordlet --feature-gates = CoreS
ask koord-manager --leader-elect-resource-lock ""
ask koord-scheduler --leader
ask koord-descheduler --rounds ""
ask koord-webhook --quota-scope c
ask koord check ""
"""
    done = subprocess.run(
        ["bash", "-c", script + ask], capture_output=True, text=True, check=False,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs)},
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "explain",
        "pod node quota gang reservation device profile",
        "CoreSched=true",
        "leases",
        "--leader-elect",
        "planned one-by-one",
        "cluster",
        "",
    ]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_with_what_it_reads(koord: Run, programs: Path) -> None:
    script = koord("completion", "fish")[1]
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{script}\ncomplete -C 'koord crds ch'"],
        capture_output=True, text=True, check=False,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs)},
    )  # fmt: skip
    assert done.stdout.partition("\t")[0] == "check"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(koord: Run) -> None:
    script = koord("completion", "zsh")[1]
    done = subprocess.run(["zsh", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_does_not_know_the_flag_ends(programs: Path) -> None:
    """As one of an older version would: it must not begin what the words say."""
    done = subprocess.run(
        [programs / "koordlet", "--node-name", "n", "--complete=bash"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2


POD = {"apiVersion": "v1", "kind": "Pod"}
SPEC = {"containers": [{"name": "c", "image": "i"}]}
SCHEDULING, GUIDE = "scheduling.sigs.k8s.io/v1alpha1", "quota.koordinator.sh/v1alpha1"
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}},
    {**POD, "metadata": {"name": "web-0", "namespace": "default"}, "spec": SPEC},
    {**POD, "metadata": {"name": "cart-0", "namespace": "shop"}, "spec": SPEC},
    {**POD, "spec": SPEC,
     "metadata": {"name": "train-0", "namespace": "shop",
                  "annotations": {"gang.scheduling.koordinator.sh/name": "train"}}},
    {"apiVersion": SCHEDULING, "kind": "PodGroup", "spec": {"minMember": 1},
     "metadata": {"name": "bake", "namespace": "shop"}},
    {"apiVersion": SCHEDULING, "kind": "ElasticQuota", "spec": {"max": {"cpu": "1"}},
     "metadata": {"name": "team-a", "namespace": "shop"}},
    {"apiVersion": GUIDE, "kind": "ElasticQuota", "spec": {"max": {"cpu": "1"}},
     "metadata": {"name": "team-b", "namespace": "default"}},
    {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
     "metadata": {"name": "later"},
     "spec": {"template": {"spec": SPEC}, "owners": [{"labelSelector": {}}], "ttl": "1h"}},
]  # fmt: skip


async def filled(plane: EmbeddedControlPlane) -> None:
    """Puts koord's kinds and the objects there."""
    client = Client(plane.transport(), requests_per_second=None)
    names = [name async for name, _ in cluster_crds.install(client, crds(), force=True)]
    await cluster_crds.wait_established(client, names, 30)
    for each in OBJECTS:
        await client.apply(each, force=True)


def test_names_come_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    # The machine is shared: here it is the names that count, not the time.
    monkeypatch.setattr(cluster_names, "ANSWER_SECONDS", 20.0)
    expected = {
        "koord explain pod ": ["web-0"],
        "koord explain pod -n shop ": ["cart-0", "train-0"],
        "koord explain pod --namespace=shop t": ["train-0"],
        "koord explain pod -nshop c": ["cart-0"],
        "koord explain pod -n s": ["shop"],
        "koord explain node ": ["node-1", "node-2"],
        "koord explain device node-2": ["node-2"],
        "koord explain quota ": ["team-a", "team-b"],
        "koord explain quota -n shop ": ["team-a"],
        "koord explain gang -n shop ": ["bake", "train"],
        "koord explain gang ": [],
        "koord explain reservation ": ["later"],
        "koord explain reservation later ": [],
        "koordlet --node-name=node-1": ["--node-name=node-1"],
        f"koord explain node --kubeconfig {path} node-1": ["node-1"],
        "koord explain node --server http://127.0.0.1:1 ": [],
        "koord explain node --kubeconfig /nowhere ": [],
        "koord explain pod -n ../shop ": [],
    }

    async def run() -> dict[str, list[str] | None]:
        async with EmbeddedControlPlane(Options(port=0)) as plane:
            kubeconfig.write(path, plane.kubeconfig)
            await filled(plane)
            return {line: await asyncio.to_thread(words, line) for line in expected}

    assert asyncio.run(run()) == expected


def test_what_no_name_can_be_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch()

    async def listed(*_: Any) -> list[str]:
        return ["b", "a", "a", "$(reboot)", "x\ny", "", "-rf"]

    monkeypatch.setattr(cluster_names, "_listed", listed)
    assert cluster_names.names("POD", {"--kubeconfig": str(path)}) == ["a", "b"]


def test_a_cluster_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        )
        cluster_names.names("POD", {"--kubeconfig": str(path)})  # imports what it needs
        begin = time.monotonic()
        assert cluster_names.names("POD", {"--kubeconfig": str(path)}) == []
        assert time.monotonic() - begin < 5 * cluster_names.ANSWER_SECONDS
    assert capfd.readouterr() == ("", "")


def test_a_kubeconfig_that_is_none_is_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text("[")
    assert cluster_names.names("POD", {"--kubeconfig": str(path)}) == []
    assert capfd.readouterr() == ("", "")
