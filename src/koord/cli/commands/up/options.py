# SPDX-License-Identifier: Apache-2.0
"""The options of ``koord up``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from koord.cli.commands.up.components import COMPONENTS
from koord.cli.options.values import whole_number

DEFAULT_NODES, COLOCATION_NODES = 3, 20
DEFAULT_SPEED, DEFAULT_REPORT = 60, Path("reports/colocation")


class Switch(StrEnum):
    """Whether something is there."""

    ON = "on"
    OFF = "off"


NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        parser=whole_number("--nodes", 0, 10_000),
        help="simulated machines",
        show_default=f"{DEFAULT_NODES}, or {COLOCATION_NODES} with --colocation",
    ),
]
PoolsOption = Annotated[
    Path | None, typer.Option("--pools", metavar="FILE", help="which machines, as YAML")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="keep the state there and go on from it"),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="write the kubeconfig there")
]
MergeOption = Annotated[
    bool,
    typer.Option(
        "--kubeconfig-merge",
        help="put the context koord into KUBECONFIG or ~/.kube/config while the cluster runs",
    ),
]
DetachOption = Annotated[
    bool,
    typer.Option(
        "--detach",
        "-d",
        help="return when it is up; koord down ends it; --data is then ~/.koord by default",
    ),
]
PortOption = Annotated[
    int,
    typer.Option(
        "--port",
        metavar="P",
        parser=whole_number("--port", 0, 65_535),
        help="listen on this port of 127.0.0.1; 0 for any free one",
    ),
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="plain HTTP, and no token asked for")
]
NoRbacOption = Annotated[
    bool, typer.Option("--no-rbac", help="everybody who gets in may do everything")
]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="COMPONENT,...", help="leave out " + ", ".join(COMPONENTS)),
]
WebhooksOption = Annotated[
    Switch,
    typer.Option("--webhooks", metavar="on|off", help="admission; off is --without webhooks"),
]
DeschedulerOption = Annotated[
    bool,
    typer.Option(
        "--descheduler",
        help="koord-descheduler, too: pods leave nodes that are busy, koord migrate works",
    ),
]
GatesOption = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="GATE=BOOL,...",
        help="switch features of the scheduler, the manager and admission",
        show_default=False,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="S",
        parser=whole_number("--seed", 0, 2**63),
        help="of identities, delays and usage",
        show_default="0",
    ),
]
VerbosityOption = Annotated[
    int,
    typer.Option(
        "--verbosity",
        "-v",
        metavar="LEVEL",
        parser=whole_number("--verbosity", 0, 9),
        help="of the log on standard error: 0 warnings, 2 normal, 4 and above everything",
    ),
]
ColocationOption = Annotated[
    bool,
    typer.Option(
        "--colocation",
        help="a day of services and batch jobs in fast time, shown as it goes",
    ),
]
SpeedOption = Annotated[
    int | None,
    typer.Option(
        "--speed",
        metavar="X",
        parser=whole_number("--speed", 0, 100_000),
        help="of --colocation: simulated seconds a second; 0 for as fast as it goes",
        show_default=str(DEFAULT_SPEED),
    ),
]
HoursOption = Annotated[
    int | None,
    typer.Option(
        "--hours",
        metavar="N",
        parser=whole_number("--hours", 1, 100_000),
        help="of --colocation: simulated hours after which it ends; without, Ctrl-C ends it",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help="of --colocation: where the report goes",
        show_default=str(DEFAULT_REPORT),
    ),
]
PictureOption = Annotated[Path | None, typer.Option("--picture", hidden=True)]
