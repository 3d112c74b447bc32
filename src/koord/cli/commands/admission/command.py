# SPDX-License-Identifier: Apache-2.0
"""``koord admission review``: what each rule would do with manifests, and who made it so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koord.base.errors import MissingExtraError
from koord.cli.commands.admission import review_text
from koord.cli.commands.check.command import named_cluster
from koord.cli.commands.crds import ContextOption, KubeconfigOption
from koord.cli.help.typer_help import TyperApp
from koord.cli.terminal.output import Format, OutputOption, print_json, refuse_beside

if TYPE_CHECKING:
    from pathlib import Path

    from koord.cli.commands.admission.review_world import ReviewedObject

app = TyperApp()
_EXIT_REFUSED = 1


@app.callback()
def _group() -> None:
    """Keeps the verb's name, being the only one."""


@app.command("review")
def review(
    files: Annotated[
        list[str],
        typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; - for standard input"),
    ],
    profiles: Annotated[
        list[str] | None,
        typer.Option(
            "--profiles",
            metavar="FILE",
            help="ask no cluster; profiles, priority classes, quotas, namespaces are these",
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of objects that name none"),
    ] = "default",
    feature_gates: Annotated[
        str,
        typer.Option("--feature-gates", metavar="A=true,...", help="as koord-manager has them"),
    ] = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say what admission would do with manifests, rule by rule, and write nothing.

    Of workloads the pods are judged that they would make. Each change comes with the rule and the
    profile behind it; objects are judged as if they were new.

    Exit status:
      0  everything would get in
      1  something would be refused
      2  a file or the cluster cannot be read

    Example: koord admission review -f job.yaml --profiles profiles.yaml
    """
    if profiles:
        refuse_beside("--profiles", {"--kubeconfig": kubeconfig, "--context": context})
    reviewed, notes = _reviewed(files, profiles, namespace, feature_gates, kubeconfig, context)
    if output is Format.JSON:
        print_json(review_text.document(reviewed, notes))
    else:
        review_text.show(reviewed, notes)
    if not all(each.review.allowed for each in reviewed):
        raise typer.Exit(_EXIT_REFUSED)


def _reviewed(
    files: list[str],
    profiles: list[str] | None,
    namespace: str,
    feature_gates: str,
    kubeconfig: Path | None,
    context: str | None,
) -> tuple[list[ReviewedObject], list[str]]:
    try:
        from koord.cli.commands.admission.review_world import ReviewWorld
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
    world = ReviewWorld(feature_gates)
    world.read(files)
    if profiles:
        world.know_files(profiles)
    else:
        with named_cluster(kubeconfig, context, wanted=True) as live:
            assert live is not None
            world.know_cluster(live)
    reviewed: Any = asyncio.run(world.reviewed(namespace))
    return reviewed, world.notes
