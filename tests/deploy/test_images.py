# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile's parts; and the chart's life with each container made from its image."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.deploy.chart_files import CHART
from tests.deploy.image import MACHINE, Images, UnknownImageError
from tests.deploy.installation import played
from tests.deploy.test_installation import TEST_POD
from tests.release import contents, sbom
from tests.release.contents import Part
from tests.release.engine import DOCKERFILE
from tests.release.images import OUT, TARGETS, Shipped

FORMER = Path(__file__).parent / "koord-0.1.0.tgz"


def stages() -> dict[str, tuple[str, str]]:
    """Base and text of each stage of the Dockerfile, by name."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    first, *rest = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)
    assert "ARG BASE=" in first
    return {rest[at + 1]: (rest[at], rest[at + 2]) for at in range(0, len(rest), 3)}


@pytest.mark.parametrize("target", TARGETS)
def test_images_begin_with_nothing_and_run_nothing(target: str) -> None:
    """What is in them is copied: no shell and no package manager come along."""
    base, text = stages()[target]
    assert base == "scratch"
    assert "RUN" not in text
    assert 'org.opencontainers.image.version="${VERSION}"' in text


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_modules_have_no_time_in_them(target: str) -> None:
    """What the interpreter writes of what it imports itself would, and would be kept."""
    text = stages()[f"{target}-root"][1]
    assert "PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1" in text
    assert "unchecked-hash" in text


def test_only_the_agent_is_root() -> None:
    assert "USER 65532:65532" in stages()["koord"][1]
    assert "USER" not in stages()["agent"][1]


def test_packages_are_those_that_are_allowed() -> None:
    listed = re.search(r'ARG PACKAGES="([^"]+)"', stages()["root"][1])
    assert listed
    assert set(listed[1].replace("\\\n", " ").split()) == contents.DEBIAN
    assert not {"kubernetes", "matplotlib"} & contents.AGENT_PYTHON
    (added,) = re.findall(r"--no-deps --target /opt/agent/\S+ ([^;]+);", stages()["build"][1])
    assert set(added.split()) == contents.AGENT_PYTHON - contents.PYTHON
    of_koord = r"/opt/koord/bin/python install -q --no-compile --no-deps ([^;]+);"
    (added,) = re.findall(of_koord, stages()["build"][1])
    assert set(added.split()) == contents.CONTROLLER_PYTHON - contents.PYTHON


def test_the_chart_takes_images_that_are_built() -> None:
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"repository: koord/(\S+)", values))
    assert named == set(TARGETS.values())


def laid(root: Path) -> Path:
    """A small image's root."""
    site, status = root / contents.SITE, root / contents.STATUS
    for folder in (site / "one/__pycache__", site / "one-1.dist-info", status, root / "usr/lib"):
        folder.mkdir(parents=True)
    (site / "one/a.py").write_bytes(b"x" * 10)
    (site / "one/__pycache__/a.cpython-311.opt-2.pyc").write_bytes(b"x" * 5)
    metadata = "Name: One\nVersion: 1\nLicense-Expression: MIT\n\nText: no\n"
    (site / "one-1.dist-info/METADATA").write_text(metadata, encoding="utf-8")
    (site / "one-1.dist-info/RECORD").write_text("one/a.py,,10\n", encoding="utf-8")
    (root / "usr/lib/libc.so").write_bytes(b"x" * 100)
    (status / "libc6").write_text("Package: libc6\nVersion: 2.36\n", encoding="utf-8")
    (status / "libc6.md5sums").write_text("0  lib/libc.so\n", encoding="utf-8")
    return root


def test_what_is_in_an_image_is_told_by_package(tmp_path: Path) -> None:
    rest, libc, one = sorted(contents.parts(laid(tmp_path)), key=lambda part: part.origin)
    assert libc == Part("libc6", "2.36", "Debian", "", 100)
    assert one == Part("one", "1", "PyPI", "MIT", 15)
    assert libc.size + one.size + rest.size == contents.total(tmp_path)
    assert contents.strangers([libc, one, rest], contents.PYTHON) == ["one"]


def test_a_bill_of_materials_names_each_package_once(tmp_path: Path) -> None:
    found = contents.parts(laid(tmp_path))
    bill = sbom.document("koordlet", "1.0", found, 0)
    assert bill == sbom.document("koordlet", "1.0", found[::-1], 0)
    places = [each["externalRefs"][0]["referenceLocator"] for each in bill["packages"][1:]]
    assert places == ["pkg:deb/debian/libc6@2.36?distro=bookworm", "pkg:pypi/one@1"]
    assert bill["creationInfo"]["created"] == "1970-01-01T00:00:00Z"


def test_what_is_wrong_with_an_image_is_said() -> None:
    label = {"org.opencontainers.image.version": "1.0"}
    right = Shipped("agent", ("a",), label, 1, (Part("libc6", "", "Debian", "", 1),))
    assert right.faults(("a",), "1.0") == []
    stranger = Part("kubernetes", "37", "PyPI", "", 1)
    wrong = Shipped("agent", ("a",), {}, 200 << 20, (stranger,))
    assert wrong.faults(("b",), "1.0") == [
        "agent: layers differ the second time: ('a',), ('b',)",
        "agent: label org.opencontainers.image.version is None",
        "agent: 200 MiB",
        "agent: not allowed: kubernetes",
    ]


def test_a_node_has_the_images_that_were_built(tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"a:1": {"root": "a", "environment": {"PATH": "/bin"}}}))
    assert Images(index).find("a:1").root == tmp_path / "a"
    with pytest.raises(UnknownImageError, match="b:1: there are a:1"):
        Images(index).find("b:1")
    assert Images().find("b:1") == MACHINE


@pytest.mark.image
def test_the_chart_lives_from_its_images(tmp_path: Path) -> None:
    """`make test-images`: the story of `test_installation`, nothing of this machine in it."""
    assert (OUT / "index.json").is_file(), "no images: `make images` builds them"
    assert os.geteuid() == 0
    assert shutil.which("unshare")
    outcome = played(tmp_path, FORMER, OUT / "index.json")
    print(f"kubelet of the tests: ready {outcome['install_seconds']} s after helm install")
    assert "Phase:          Succeeded" in outcome["test"]
    assert outcome["restarts"] == outcome["refused"] == []
    assert outcome["left"] == TEST_POD
    assert outcome["arrivals"] > 0
