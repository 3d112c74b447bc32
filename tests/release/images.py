# SPDX-License-Identifier: Apache-2.0
"""Builds the images twice and looks at what is in them: ``python -m tests.release.images``.

Writes to ``build/images``: ``koord.tar`` and ``koordlet.tar`` (OCI archives), a bill of materials
beside each, their unpacked roots, ``index.json`` for `tests.deploy.image`, and ``images.md``, which
docs/images-table.md keeps a copy of.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.deploy.chart_files import CHART
from tests.release import contents, sbom
from tests.release.contents import MIB, Part
from tests.release.engine import ROOT, Document, Engine, EngineError, call, debian_root

OUT = ROOT / "build" / "images"
TARGETS = {"koord": "koord", "agent": "koordlet"}
ALLOWED = {"koord": contents.CONTROLLER_PYTHON, "agent": contents.AGENT_PYTHON}


@dataclass(frozen=True)
class Shipped:
    """An image.

    Attributes:
        target: of the Dockerfile.
        layers: their digests, as they are unpacked.
        size: bytes of its files.
    """

    target: str
    layers: tuple[str, ...]
    labels: dict[str, str]
    size: int
    contents: tuple[Part, ...]

    def faults(self, again: tuple[str, ...], version: str) -> list[str]:
        """What is not as it has to be, a line each."""
        label = "org.opencontainers.image.version"
        strangers = contents.strangers(list(self.contents), ALLOWED[self.target])
        tests = {
            f"layers differ the second time: {self.layers}, {again}": self.layers == again,
            f"label {label} is {self.labels.get(label)}": self.labels.get(label) == version,
            f"{self.size / MIB:.0f} MiB": self.size < contents.LIMIT_MIB * MIB,
            f"not allowed: {', '.join(strangers)}": not strangers,
        }
        return [f"{self.target}: {text}" for text, right in tests.items() if not right]


def app_version() -> str:
    """The version of the images that the chart takes."""
    chart: Document = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["appVersion"])


def epoch_of_commit() -> int:
    """SOURCE_DATE_EPOCH, or when the last commit was made; in seconds."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or call("git", "log", "-1", "--format=%ct"))


def layers(configuration: Document) -> tuple[str, ...]:
    """Digests of an image's layers."""
    return tuple(configuration["rootfs"]["diff_ids"])


def ship(engine: Engine, target: str, version: str, epoch: int) -> Shipped:
    """Unpacks and exports an image that was built, and looks at it."""
    name, image = f"localhost/{target}", TARGETS[target]
    root = OUT / image
    engine.unpack(name, root)
    engine.export(name, OUT / f"{image}.tar")
    found = contents.parts(root)
    bill = sbom.document(image, version, found, epoch)
    (OUT / f"{image}.spdx.json").write_text(json.dumps(bill, indent=1), encoding="utf-8")
    configuration = engine.configuration(name)
    labels = configuration["config"]["Labels"]
    return Shipped(target, layers(configuration), labels, contents.total(root), tuple(found))


def index(engine: Engine, version: str) -> Document:
    """Of each reference in the chart, root and environment."""
    environments = {
        target: engine.configuration(f"localhost/{target}")["config"]["Env"] for target in TARGETS
    }
    return {
        f"koord/{image}:{version}": {
            "root": image,
            "environment": dict(each.split("=", 1) for each in environments[target]),
        }
        for target, image in TARGETS.items()
    }


def table(shipped: list[Shipped], version: str, driver: str, same: bool) -> str:
    """What came out, as a page; `same` if it was so both times."""
    compared = "the same" if same else "not the same"
    lines = [
        "# What is in the images\n",
        f"Version {version}, built twice by buildah (storage driver {driver}, isolation chroot)",
        "from a Debian 12 of mmdebstrap, without a daemon and without a registry; layers of",
        f"the two are {compared}. `make images` makes this page.\n",
    ]
    for each in shipped:
        lines += [
            f"## {TARGETS[each.target]}\n",
            f"{each.size / MIB:.0f} MiB in {len(each.layers)} layers:\n",
            *(f"- `{digest}`" for digest in each.layers),
            "\n| package | from | version | MiB |",
            "|---|---|---|---|",
            *(_row(part) for part in each.contents),
            "",
        ]
    return "\n".join(lines)


def _row(part: Part) -> str:
    return f"| {part.name} | {part.origin} | {part.version} | {part.size / MIB:.1f} |"


def build_targets(
    engine: Engine, base: Path, epoch: int, given: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """Builds both images; digests of their layers, by target."""
    engine.import_base(base)
    built = {}
    for target in TARGETS:
        since = time.monotonic()
        built[target] = layers(engine.configuration(engine.build(target, epoch, given)))
        print(f"{target}: built in {time.monotonic() - since:.0f} s", flush=True)
    return built


def build(arguments: argparse.Namespace) -> list[str]:
    """Builds, looks and writes; what is wrong, a line each."""
    version, epoch = app_version(), epoch_of_commit()
    scratch = OUT / "scratch"
    base = Path(arguments.base or OUT / "base" / "base.tar").absolute()
    if not base.is_file():
        base.parent.mkdir(parents=True, exist_ok=True)
        debian_root(base, epoch)
    given = {"VERSION": version, **({"WHEEL": arguments.wheel} if arguments.wheel else {})}
    built: list[dict[str, tuple[str, ...]]] = []
    for number in (1, 2):
        with Engine(scratch / str(number), arguments.driver) as engine:
            built.append(build_targets(engine, base, epoch, given))
            if number == 1:
                shipped = [ship(engine, target, version, epoch) for target in TARGETS]
                text = json.dumps(index(engine, version))
                (OUT / "index.json").write_text(text, encoding="utf-8")
    same = all(each.layers == built[1][each.target] for each in shipped)
    text = table(shipped, version, arguments.driver, same)
    (OUT / "images.md").write_text(text, encoding="utf-8")
    return [fault for each in shipped for fault in each.faults(built[1][each.target], version)]


def main() -> int:
    """Prints what is in them; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="tests.release.images")
    parser.add_argument("--base", help="an archive of a Debian 12; else mmdebstrap makes one")
    parser.add_argument("--wheel", help="of dist/, for this image's Python; else it is compiled")
    parser.add_argument("--driver", default="overlay", choices=("overlay", "vfs"))
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for image in TARGETS.values():
        shutil.rmtree(OUT / image, ignore_errors=True)
    try:
        faults = build(arguments)
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print((OUT / "images.md").read_text(encoding="utf-8"))
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
