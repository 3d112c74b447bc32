# SPDX-License-Identifier: Apache-2.0
"""The options of ``koord up``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from koord.cli.components import COMPONENTS
from koord.cli.values import whole_number

DEFAULT_NODES, COLOCATION_NODES = 3, 20
DEFAULT_SPEED, DEFAULT_REPORT = 60, Path("reports/colocation")

NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        parser=whole_number("--nodes", 0, 10_000),
        help=f"simulated machines; default {DEFAULT_NODES}",
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
        help="return when it is up; koord down ends it. --data is ~/.koord unless said otherwise",
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
WithoutOption = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="NAME,...", help="leave out " + ", ".join(COMPONENTS)),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="S",
        parser=whole_number("--seed", 0, 2**63),
        help="of identities, delays and usage",
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
        help="a day of services and batch jobs in fast time, shown as it goes; "
        f"{COLOCATION_NODES} machines unless said otherwise",
    ),
]
SpeedOption = Annotated[
    int | None,
    typer.Option(
        "--speed",
        metavar="X",
        parser=whole_number("--speed", 0, 100_000),
        help="of --colocation: simulated seconds a second; 0 for as fast as it goes; "
        f"default {DEFAULT_SPEED}",
    ),
]
HoursOption = Annotated[
    int | None,
    typer.Option(
        "--hours",
        metavar="N",
        parser=whole_number("--hours", 1, 100_000),
        help="of --colocation: simulated hours after which it ends; by default Ctrl-C does that",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help=f"of --colocation: where the report goes; default {DEFAULT_REPORT}",
    ),
]
PictureOption = Annotated[Path | None, typer.Option("--picture", hidden=True)]
