# SPDX-License-Identifier: Apache-2.0
"""``koord quota``: what quotas come to, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from koord.api import ResourceList, codec
from koord.base.documents import decode_text, read_text
from koord.base.errors import KoordError
from koord.cli.help.typer_help import TyperApp
from koord.cli.terminal.output import Format, OutputOption, print_json, print_table
from koord.controllers.cluster.quota_objects import MOST, QuotaObject, integer_amounts
from koord.kernels.quota_report import quantity_text
from koord.simulator.quota_what_if import GroupRow, QuotaPlan, read_manifests

app = TyperApp()

_COLUMNS = ["kind", "namespace", "name", "tree", "parent", "priority"]
_LESS = "an amount that 64 bits hold"
_FIGURES = ["min", "max", "request", "runtime"]


@app.callback()
def group() -> None:
    """Work out elastic quotas from manifests."""


@app.command()
def runtime(
    manifests: Annotated[
        list[str], typer.Argument(metavar="MANIFEST...", help="YAML or JSON files, - for stdin")
    ],
    total: Annotated[
        list[str], typer.Option("--total", metavar="RESOURCES", help="what the cluster has")
    ],
    request: Annotated[
        list[str] | None,
        typer.Option("--request", metavar="NAME:RESOURCES", help="what a group's pods ask for"),
    ] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Print min, max, request and runtime of every group.

    The runtime is what a group may use now. MANIFESTs hold ElasticQuota objects of either API group
    (scheduling.sigs.k8s.io or quota.koordinator.sh; the latter are children of koord-guide).
    RESOURCES is a list such as cpu=500,memory=500Gi. A NAME is the object's, or NAMESPACE/NAME;
    requests of one group add up.

    Exit status:
      0  done
      2  a file, a quota or a list cannot be read

    Example: koord quota runtime quotas.yaml --total cpu=500,memory=500Gi --request team-a:cpu=90
    """
    objects = _read_all(manifests)
    plan = QuotaPlan(objects, _add_up("--total", total))
    if not objects:
        print("warning: no ElasticQuota in the manifests", file=sys.stderr)
    for text in request or []:
        name, _, resources = text.partition(":")
        if not resources:
            raise KoordError("--request", "", text, "NAME:RESOURCE=QUANTITY[,...]")
        ignored = plan.add_request("--request", name, _resources(f"--request {name}", resources))
        for resource in ignored:
            print(f"warning: {name} does not count {resource}: its max lacks it", file=sys.stderr)
    rows = list(plan.rows())
    if output is Format.JSON:
        print_json({"groups": [_json(row) for row in rows]})
    else:
        print_table([*_COLUMNS, "resource", *_FIGURES], [r for row in rows for r in _table(row)])


def _read_all(manifests: list[str]) -> list[QuotaObject]:
    objects: list[QuotaObject] = []
    for source in manifests:
        if source == "-":
            name = "standard input"
            objects += read_manifests(name, decode_text(sys.stdin.buffer.read(), name))
        else:
            objects += read_manifests(source, read_text(Path(source)))
    return objects


def _add_up(label: str, texts: list[str]) -> dict[str, int]:
    total: dict[str, int] = {}
    for text in texts:
        for resource, amount in _resources(label, text).items():
            total[resource] = min(total.get(resource, 0) + amount, MOST)
    return total


def _resources(label: str, text: str) -> dict[str, int]:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        resource, _, quantity = part.partition("=")
        resource = resource.strip()
        if not resource or not quantity or resource in pairs:
            raise KoordError(label, "", text, "each resource once, as in cpu=500,memory=500Gi")
        pairs[resource] = quantity.strip()
    quantities = codec.convert(pairs, ResourceList, label, "resources")
    amounts = integer_amounts(label, "resources", quantities)
    for resource, amount in amounts.items():
        if amount >= MOST:  # On the wire as much is taken; a person typed a zero too many.
            raise KoordError(label, f"resources[{resource}]", pairs[resource], _LESS)
    return amounts


def _identity(row: GroupRow) -> dict[str, Any]:
    source = row.source
    return {
        "kind": source.kind if source else None,
        "namespace": source.namespace if source else None,
        "name": source.name if source else row.name,
        "tree": row.tree,
        "parent": row.parent,
        "priority": source.priority if source else None,
    }


def _json(row: GroupRow) -> dict[str, Any]:
    return _identity(row) | {figure: _quantities(getattr(row, figure)) for figure in _FIGURES}


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity_text(name, amounts[name]) for name in sorted(amounts)}


def _table(row: GroupRow) -> list[list[str]]:
    identity = ["-" if value in (None, "") else str(value) for value in _identity(row).values()]
    figures = [_quantities(getattr(row, figure)) for figure in _FIGURES]
    resources = sorted({resource for amounts in figures for resource in amounts}) or ["-"]
    return [
        [*identity, resource, *(amounts.get(resource, "-") for amounts in figures)]
        for resource in resources
    ]
