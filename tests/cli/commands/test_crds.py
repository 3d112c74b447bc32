# SPDX-License-Identifier: Apache-2.0
"""``koord crds`` against the embedded API server and a real one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from koord.api import crds
from tests.cli.conftest import Run

NAMES = [document["metadata"]["name"] for document in crds()]
PLAIN = [name for name in NAMES if name != "elasticquotas.quota.koordinator.sh"]
QUOTAS, DEVICES = "elasticquotas.quota.koordinator.sh", "devices.scheduling.koordinator.sh"


def states(run: Run, kubeconfig: Path) -> tuple[int, dict[str, str], list[dict[str, Any]]]:
    status, out, err = run("crds", "check", "--kubeconfig", kubeconfig, "-o", "json")
    assert err == ""
    document = json.loads(out)
    assert document["fine"] == (status == 0)
    found = {each["name"]: each["state"] for each in document["definitions"]}
    return status, found, [d for each in document["definitions"] for d in each["differences"]]


def test_definitions_are_installed_checked_and_repaired(koord: Run, kubeconfig: Path) -> None:
    here = ("--kubeconfig", kubeconfig)
    assert states(koord, kubeconfig)[:2] == (1, dict.fromkeys(PLAIN, "missing"))

    status, out, err = koord("crds", "install", *here, "--dry-run")
    expected = [f"customresourcedefinition/{name} created (server dry run)" for name in PLAIN]
    assert (status, out.splitlines(), err) == (0, expected, "")
    assert states(koord, kubeconfig)[0] == 1

    status, out, err = koord("crds", "install", *here)
    expected = [f"customresourcedefinition/{name} created" for name in PLAIN]
    assert (status, out.splitlines(), err) == (0, expected, "")
    # The guide's own is missed by nobody who has not asked for it.
    assert states(koord, kubeconfig)[:2] == (0, dict.fromkeys(PLAIN, "current"))
    status, out, err = koord("crds", "check", *here, "--guide")
    assert (status, err) == (1, "")
    assert f"{QUOTAS} missing -" in [" ".join(line.split()) for line in out.splitlines()]
    status, out, err = koord("crds", "install", *here, "--guide", "-o", "json")
    created = {each["name"] for each in json.loads(out)["definitions"]
               if each["outcome"] == "created"}  # fmt: skip
    assert (status, created) == (0, {QUOTAS})
    status, out, err = koord("crds", "install", *here, "--guide", "-o", "json")
    rows = [{"name": name, "outcome": "unchanged"} for name in NAMES]
    assert (status, json.loads(out)) == (0, {"dryRun": False, "definitions": rows})

    status, out, err = koord("crds", "check", *here)
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["definition", "state", "differences"]
    assert lines[1:] == [[name, "current", "-"] for name in NAMES]

    change_others(kubeconfig)
    status, found, differences = states(koord, kubeconfig)
    assert status == 1
    assert (found[QUOTAS], found[DEVICES]) == ("older", "differs")
    assert [(each["path"], each["side"]) for each in differences] == [
        ("v1alpha1.spec.hard", "missing"),
        ("v1alpha1.columns.Type", "other"),
    ]
    status, out, err = koord("crds", "check", *here)
    assert f"{QUOTAS}: v1alpha1.spec.hard: missing" in out.splitlines()

    # Another manager has written those fields: theirs until somebody says otherwise.
    status, out, err = koord("crds", "install", *here)
    assert (status, len(err.splitlines())) == (1, 1)
    assert "conflict" in err
    status, out, err = koord("crds", "install", *here, "--force-conflicts")
    assert status == 0
    assert f"customresourcedefinition/{DEVICES} configured" in out.splitlines()
    assert states(koord, kubeconfig)[:2] == (0, dict.fromkeys(NAMES, "current"))


def change_others(kubeconfig: Path) -> None:
    """Another program makes one definition older and another one different."""
    import asyncio

    from koord.kube.client import Client
    from koord.kube.crds import CRD
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    async def change() -> None:
        transport = HttpTransport(load_cluster_config(kubeconfig))
        try:
            client = Client(transport, field_manager="other")
            for name in (QUOTAS, DEVICES):
                document = copy.deepcopy(await client.get(CRD, name))
                (version,) = document["spec"]["versions"]
                if name == QUOTAS:
                    schema = version["schema"]["openAPIV3Schema"]
                    del schema["properties"]["spec"]["properties"]["hard"]
                else:
                    version["additionalPrinterColumns"][0]["jsonPath"] = ".spec.devices[0].id"
                await client.update(document, kind=CRD)
        finally:
            await transport.close()

    asyncio.run(change())


def test_a_cluster_that_is_not_there_is_one_line(koord: Run, tmp_path: Path) -> None:
    path = tmp_path / "config"
    cluster = {"cluster": {"server": "http://127.0.0.1:1"}, "name": "c"}
    context = {"context": {"cluster": "c", "user": "u"}, "name": "c"}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context],
              "users": [{"name": "u", "user": {}}], "current-context": "c"}  # fmt: skip
    path.write_text(json.dumps(config))
    status, out, err = koord("crds", "check", "--kubeconfig", path)
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "127.0.0.1:1" in err
    status, out, err = koord("crds", "install", "--kubeconfig", tmp_path / "no")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
