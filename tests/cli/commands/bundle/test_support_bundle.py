# SPDX-License-Identifier: Apache-2.0
"""``koord support-bundle`` against the embedded API server and a real one."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.commands.bundle.planted_secrets import MARK, plant, secret
from tests.cli.conftest import Run
from tests.contract.embedded import start_embedded
from tests.real.plane import RealControlPlane

NAMESPACE = "support-bundle"


class Scene(NamedTuple):
    """A cluster with secrets everywhere."""

    kubeconfig: Path
    folder: Path


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def scene(request: pytest.FixtureRequest, tmp_path: Path, koord: Run) -> Iterator[Scene]:
    if request.param == "embedded":
        with start_embedded(tmp_path, controllers=False) as embedded:
            yield planted(Scene(embedded.kubeconfig, tmp_path), koord)
        return
    plane: RealControlPlane = request.getfixturevalue("own_plane")
    yield planted(Scene(plane.kubeconfig, tmp_path), koord)


def planted(scene: Scene, koord: Run) -> Scene:
    status, _, err = koord("crds", "install", "--kubeconfig", scene.kubeconfig)
    assert status == 0, err

    async def create() -> None:
        transport = HttpTransport(load_cluster_config(scene.kubeconfig))
        try:
            await plant(transport, NAMESPACE)
        finally:
            await transport.close()

    asyncio.run(create())
    return scene


def collected(koord: Run, scene: Scene, name: str, *more: Any) -> tuple[dict[str, bytes], str]:
    """The files of a bundle, and what was said on standard error."""
    file = scene.folder / name
    here = ("--kubeconfig", scene.kubeconfig, "-n", NAMESPACE, "--file", file)
    status, _, err = koord("support-bundle", *here, *more)
    assert status == 0, err
    with tarfile.open(file) as archive:
        found = {
            each.name.removeprefix("koord-support/"): read.read()
            for each in archive
            if (read := archive.extractfile(each)) is not None
        }
    assert file.stat().st_mode & 0o77 == 0
    return found, err


def test_it_has_what_helps_and_no_secret(
    koord: Run, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", secret("environment"))
    log = scene.folder / "up.log"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{secret('key')}\n-----END RSA PRIVATE KEY-----"
    log.write_text(f"level=info msg=started\npassword: {secret('log')}\n{key}\nlast line\n")
    files, err = collected(koord, scene, "one.tar.gz", "--log", log)
    leaks = [name for name, data in files.items() if MARK.encode() in data]
    assert (leaks, MARK in err) == ([], False)
    for line in scene.kubeconfig.read_text().splitlines():
        word = line.strip().strip('",').rpartition('"')[2].rpartition(": ")[2]
        if len(word) > 40:  # a token, a key, a certificate
            assert not [name for name, data in files.items() if word.encode() in data]

    def objects(name: str) -> list[Any]:
        found: list[Any] = json.loads(files[f"objects/{name}.json"])
        return found

    (deployment,) = objects("deployments")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    left = "<left out>"
    assert container["flags"] == [
        "--feature-gates=A=False", "--port=10251", f"--token={left}", f"--unknown={left}", "-x",
        left,
    ]  # fmt: skip
    assert container["image"] == "koord/koord:1"
    assert not {"env", "envFrom", "args", "command"} & set(container)
    assert [each["metadata"]["name"] for each in objects("pending-pods")] == ["waits"]
    (reservation,) = objects("reservations.scheduling.koordinator.sh")
    assert reservation["spec"]["ttl"] == "1h"
    (event,) = json.loads(files["events.json"])
    assert event["reason"] == "Failed"
    config = json.loads(files["configuration/slo-controller-config.json"])["data"]
    assert list(config) == ["colocation-config"]
    assert '"enable": true' in config["colocation-config"]
    assert files["logs/up.log"].startswith(b"level=info msg=started\n")
    assert files["logs/up.log"].endswith(b"\nlast line\n")
    contents = files["contents.txt"].decode()
    assert "components/koord-manager: no Lease of koordinator-manager has" in contents
    assert contents.splitlines()[: len(files) - 1] == list(files)[1:]


@pytest.mark.parametrize("scene", ["embedded"], indirect=True)
def test_the_same_cluster_gives_the_same_bytes_within_bounds(koord: Run, scene: Scene) -> None:
    collected(koord, scene, "one.tar.gz")
    collected(koord, scene, "two.tar.gz")
    one, two = ((scene.folder / f"{name}.tar.gz").read_bytes() for name in ("one", "two"))
    assert one == two
    log = scene.folder / "long.log"
    log.write_bytes(b"a line of a log\n" * (9 << 16))
    files, err = collected(koord, scene, "cut.tar.gz", "--log", log)
    assert len(files["logs/long.log"]) <= 8 << 20
    files, err = collected(koord, scene, "small.tar.gz", "--log", log, "--max-size", "2")
    assert "logs/long.log" not in files
    assert "not had: logs/long.log: left out: the bundle is as large as --max-size allows" in err
    assert sum(map(len, files.values())) < 2 << 20


def test_what_cannot_be_written_or_reached_is_one_line(koord: Run, tmp_path: Path) -> None:
    status, _, err = koord("support-bundle", "--file", tmp_path / "no" / "x.tar.gz")
    assert status == 2
    assert err.startswith("error: --file: got '")
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    file = tmp_path / "x.tar.gz"
    status, out, err = koord("support-bundle", "--file", file, "--kubeconfig", nowhere)
    assert (status, out, file.exists()) == (1, "", False)
    assert "127.0.0.1:9" in err
    assert len(err.splitlines()) == 1
