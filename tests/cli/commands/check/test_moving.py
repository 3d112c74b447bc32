# SPDX-License-Identifier: Apache-2.0
"""What changes when Koordinator's programs become koord's: from files, and from both servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api import crds
from koord.cli.terminal import output
from tests.cli.commands.check.manifests import (
    CONFIGURATIONS,
    FLAGS,
    NAMESPACE,
    SLO,
    WEBHOOKS,
    config_map,
    installation,
    lease,
    workload,
)
from tests.cli.conftest import Run

Changes = dict[str, list[tuple[str, str, str]]]


def written(folder: Path, *documents: dict[str, Any]) -> Path:
    path = folder / "installation.json"
    path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": documents}))
    return path


def changes(run: Run, *words: object) -> tuple[int, Changes]:
    status, out, err = run("check", "--from", "koordinator", "-o", "json", *words)
    assert err == ""
    return status, {
        each["name"]: [(one["effect"], one["subject"], one["why"]) for one in each["changes"]]
        for each in json.loads(out)["components"]
    }


def effects(found: Changes, name: str, *left_out: str) -> list[tuple[str, str]]:
    return [(effect, subject) for effect, subject, _ in found[name] if effect not in left_out]


def test_the_charts_own_flags_and_files_are_taken(koord: Run, tmp_path: Path) -> None:
    status, found = changes(koord, written(tmp_path, *installation()))
    assert status == 0
    assert [name for name in found if name in FLAGS] == [
        "koord-scheduler", "koord-manager", "koord-descheduler", "koordlet", "koord-device-daemon",
    ]  # fmt: skip
    assert effects(found, "koord-scheduler") == [
        ("ignored", "--authentication-skip-lookup"),
        ("ignored", "--enable-network-topology-manager"),
    ]
    assert effects(found, "koord-manager") == [("ignored", "--logtostderr")]
    assert effects(found, "koord-descheduler") == [("ignored", "enableProfiling")]
    assert effects(found, "koordlet") == [("ignored", "--logtostderr")]
    assert effects(found, "koord-device-daemon") == [("note", "koord-device-daemon")]


@pytest.mark.parametrize(
    ("name", "flag", "change"),
    [
        ("koord-scheduler", "--master=http://a", ("refused", "flags")),
        ("koord-manager", "--feature-gates=ColocationProfileControler=true",
         ("refused", "--feature-gates")),
        ("koordlet", "--feature-gates=NoSuchGate=true", ("refused", "--feature-gates")),
        ("koord-scheduler", "--feature-gates=SyncBarrier=true", ("ignored", "gate SyncBarrier")),
        ("koord-descheduler", "--port=99999999", ("refused", "flags")),
    ],
)  # fmt: skip
def test_what_flags_mean_for_koord(
    koord: Run, tmp_path: Path, name: str, flag: str, change: tuple[str, str]
) -> None:
    status, found = changes(koord, written(tmp_path, workload(name, flag)))
    assert change in effects(found, name)
    assert status == (1 if change[0] == "refused" else 0)


def test_what_configuration_means_for_koord(koord: Run, tmp_path: Path) -> None:
    text = CONFIGURATIONS["koord-scheduler"]
    sampled = f"{text}percentageOfNodesToScore: 30\n"
    _, found = changes(koord, written(tmp_path, *installation(koord_scheduler=sampled)))
    assert ("ignored", "percentageOfNodesToScore", "every node is looked at") in found[
        "koord-scheduler"
    ]
    wrong = text.replace("enablePreemption", "enablePreemtion")
    status, found = changes(koord, written(tmp_path, *installation(koord_scheduler=wrong)))
    assert status == 1
    (refused,) = (each for each in found["koord-scheduler"] if each[0] == "refused")
    assert refused[1].startswith("ConfigMap koord-scheduler-config: profiles[0].pluginConfig")
    assert "'enablePreemtion'" in refused[2]
    (no_map,) = (
        each for each in changes(koord, written(tmp_path, workload("koord-scheduler")))[1][
            "koord-scheduler"
        ] if each[0] == "note"
    )  # fmt: skip
    assert no_map[1] == "ConfigMap koord-scheduler-config"


def test_objects_webhooks_and_definitions(koord: Run, tmp_path: Path) -> None:
    (devices,) = (each for each in crds() if each["metadata"]["name"].startswith("devices."))
    schema = devices["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["devices"]["items"]["properties"]["topology"]
    path = written(tmp_path, *installation(), SLO, WEBHOOKS, devices)
    status, found = changes(koord, path, "--strict")
    assert status == 1
    (typing,) = found["objects"]
    assert typing[0] == "differs"
    assert "cpuReclaimThresholdPercent" in typing[2]
    assert ("differs", "mfuture.koordinator.sh", "koord has no webhook of that name") in found[
        "webhooks"
    ]
    assert (
        "differs",
        "mpod-create.koordinator.sh",
        "failurePolicy is Fail; koord's chart has Ignore by default",
    ) in found["webhooks"]
    (lacks,) = (each for each in found["definitions"] if each[0] == "differs")
    assert lacks[1] == "devices.scheduling.koordinator.sh"
    assert "lacks v1alpha1.spec.devices[].topology" in lacks[2]


def test_definitions_that_are_not_among_the_files_are_not_missed(
    koord: Run, tmp_path: Path
) -> None:
    """Charts come without them, or with a few; what a cluster lacks no file tells."""
    own = [each for each in crds() if each["metadata"]["name"].startswith("devices.")]
    most = len(crds(guide=False))
    for given, there in ((own, 1), ([], 0), (crds(), most)):
        path = written(tmp_path, *installation(), *given)
        status, out, err = koord("check", "--from", "koordinator", path)
        assert (status, err) == (0, "")
        assert f"definitions  {there} of {most} among the files\n  nothing changes\n" in out
        assert "not there" not in out


def test_a_program_that_was_moved_is_koords(koord: Run, kubeconfig: Path) -> None:
    """Of one that koord's chart put there nothing changes any more."""
    from tests.cli.commands.check.cluster import fill

    moved = workload("koord-scheduler")
    moved["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/part-of"] = "koord"
    config = config_map("koord-scheduler", CONFIGURATIONS["koord-scheduler"])
    held = lease("koord-scheduler", "pod-2_abc")
    fill(kubeconfig, NAMESPACE, [moved, config, held, workload("koord-manager")])
    status, found = changes(koord, "--cluster", "--kubeconfig", kubeconfig)
    assert status == 0
    assert found["koord-scheduler"] == [
        ("note", "koord-scheduler", "is koord's already"),
        ("note", f"Lease {NAMESPACE}/koord-scheduler", "held by pod-2_abc"),
    ]
    assert effects(found, "koord-manager", "note") == [("ignored", "--logtostderr")]


def test_what_changes_stands_in_one_column_in_a_terminal(
    koord: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 60)
    out = koord("check", "--from", "koordinator", written(tmp_path, *installation()))[1]
    lines = out.splitlines()
    assert max(map(len, lines)) <= 60
    at = lines.index("  ignored  --authentication-skip-lookup: nothing is looked")
    assert lines[at + 1] == "           up: --client-ca-file names the authority of"
    starts = ("  ignored  ", "  note     ", "  differs  ", "           ", "  nothing changes")
    assert all(line.startswith(starts) for line in lines if line.startswith(" "))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "koordinator"), "--from: got 'neither', expected --cluster, or files"),
        (("--from", "volcano", "x.yaml"), "--from: got 'volcano', expected koordinator"),
        (("--from", "koordinator", "missing.yaml"), "expected a file that can be read"),
        ((), "FILE: got '', expected the name of a file, or --from koordinator --cluster"),
    ],
)
def test_wrong_usage(koord: Run, words: tuple[str, ...], said: str) -> None:
    status, out, err = koord("check", *words)
    assert (status, out) == (2, "")
    assert said in err


def test_a_cluster(koord: Run, kubeconfig: Path, tmp_path: Path) -> None:
    from tests.cli.commands.check.cluster import fill

    here = ("--kubeconfig", kubeconfig)
    assert koord("crds", "install", *here)[0] == 0
    objects = [*installation(), SLO, WEBHOOKS, lease("koord-scheduler", "pod-1_abc"),
               lease("koordinator-manager", "")]  # fmt: skip
    fill(kubeconfig, NAMESPACE, objects)
    status, found = changes(koord, *here)
    assert status == 0
    assert effects(found, "koord-scheduler", "note") == [
        ("ignored", "--authentication-skip-lookup"),
        ("ignored", "--enable-network-topology-manager"),
    ]
    assert found["koord-scheduler"][-1] == (
        "note", f"Lease {NAMESPACE}/koord-scheduler",
        "held by pod-1_abc; koord's program waits for it beside, and leads when it ends",
    )  # fmt: skip
    assert found["koord-manager"][-1][2] == "given back: koord's program can lead at once"
    assert found["koord-descheduler"][-1][2] == "nobody leads by it"
    assert effects(found, "definitions") == []
    assert "cpuReclaimThresholdPercent" in found["objects"][0][2]
    assert ("differs", "mfuture.koordinator.sh") in effects(found, "webhooks")
    # As files the same is said, but for who leads.
    path = written(tmp_path, *installation(), SLO, WEBHOOKS)
    assert changes(koord, path)[1]["koordlet"] == found["koordlet"]
    status, out, _ = koord("check", "--from", "koordinator", *here)
    assert "koordlet  DaemonSet koordinator-system/koordlet, v1.8.0" in out
