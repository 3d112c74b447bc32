# SPDX-License-Identifier: Apache-2.0
"""What the chart takes from elsewhere in the repository: ``python -m tests.deploy.chart_files``.

A chart holds all that it needs. Rights, definitions, webhooks and policies are those that ``kubectl
apply -f deploy/...`` takes, default configurations those of the programs; a test keeps all in step.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import yaml

from koord.controllers.scheduler.config.defaults import shipped_document

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "charts" / "koord"
COPIED = ("alerts", "crds", "crds/guide", "dashboards", "policies", "rbac", "webhook")
_SUFFIXES = (".json", ".yaml")
_DESCHEDULER = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "leaderElection": {
        "leaderElect": True,
        "resourceName": "koord-descheduler",
        "resourceNamespace": "koordinator-system",
    },
    "deschedulingInterval": "10s",
    "profiles": [
        {
            "name": "koord-descheduler",
            "plugins": {"evict": {"enabled": [{"name": "MigrationController"}]}},
            "pluginConfig": [
                {
                    "name": "MigrationController",
                    "args": {
                        "apiVersion": "descheduler/v1alpha2",
                        "kind": "MigrationControllerArgs",
                        "evictionPolicy": "Eviction",
                        "namespaces": {"exclude": ["kube-system", "koordinator-system"]},
                        "evictQPS": "10",
                        "evictBurst": 1,
                    },
                }
            ],
        }
    ],
}


def contents() -> dict[str, str]:
    """Path below the chart's ``files`` and text of each."""
    deploy = ROOT / "deploy"
    sources = {
        f"{folder}/{path.name}": path
        for folder in COPIED
        for path in (deploy / folder).iterdir()
        if path.suffix in _SUFFIXES
    }
    sources["priorityclasses.yaml"] = deploy / "priorityclasses.yaml"
    files = {name: path.read_text(encoding="utf-8") for name, path in sorted(sources.items())}
    for name, document in (
        ("koord-scheduler", shipped_document()),
        ("koord-descheduler", _DESCHEDULER),
    ):
        files[f"configuration/{name}.yaml"] = yaml.safe_dump(document, sort_keys=False)
    return files


def former_chart(archive: Path, folder: Path) -> Path:
    """A former chart, unpacked, with today's rights: the programs in its pods are today's.

    Those of its own would be those of programs that followed fewer kinds.
    """
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    chart = folder / CHART.name
    for path in (chart / "files" / "rbac").iterdir():
        path.write_bytes((CHART / "files" / "rbac" / path.name).read_bytes())
    return chart


def main() -> None:
    """Writes them, and takes away what is no more."""
    wanted = contents()
    folder = CHART / "files"
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*"):
        if path.suffix in _SUFFIXES and str(path.relative_to(folder)) not in wanted:
            path.unlink()


if __name__ == "__main__":
    main()
