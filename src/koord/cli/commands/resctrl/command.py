# SPDX-License-Identifier: Apache-2.0
"""``koord resctrl``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from koord.base.errors import KoordError
from koord.cli.commands.resctrl.slo_config import enabled_classes
from koord.cli.help.typer_help import TyperApp
from koord.cli.options.values import whole_number
from koord.cli.terminal.output import Format, OutputOption, print_json, refuse_beside
from koord.kernels import resctrl

app = TyperApp()

Given = TypeVar("Given")
Made = TypeVar("Made")


@app.callback()
def group() -> None:
    """Verbs of this group."""


@app.command()
def plan(
    vendor: Annotated[str, typer.Option(metavar="intel|amd", help="who made the CPU")],
    cbm_mask: Annotated[str, typer.Option(metavar="HEX", help="info/L3/cbm_mask of the machine")],
    l3_ids: Annotated[str, typer.Option(metavar="LIST", help="cache ids, such as 0-1 or 0,8")],
    config: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="slo-controller-config ConfigMap, or its resource-qos-config JSON",
        ),
    ],
    min_cbm_bits: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=whole_number("--min-cbm-bits", 1, 32),
            help="info/L3/min_cbm_bits of the machine",
        ),
    ] = 1,
    amd_full_scale: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=whole_number("--amd-full-scale", 1, 2048),
            help="with --vendor amd: the whole bandwidth in eighths of a GB/s",
            show_default=str(resctrl.AMD_FULL_SCALE),
        ),
    ] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Print the schemata lines of each class that a configuration enables.

    Exit status:
      0  done
      2  the configuration is not valid, or the machine cannot have it

    Example: koord resctrl plan --vendor intel --cbm-mask 3ff --l3-ids 0-1 --config cm.yaml
    """
    if vendor not in list(resctrl.Vendor):
        raise KoordError("--vendor", "", vendor, "intel or amd")
    if vendor == resctrl.Vendor.INTEL:
        refuse_beside("--vendor intel", {"--amd-full-scale": amd_full_scale})
    mask = _checked("--cbm-mask", resctrl.parse_cbm_mask, cbm_mask)
    if min_cbm_bits > mask.bit_count():
        expected = f"at most {mask.bit_count()}, the bits of --cbm-mask"
        raise KoordError("--min-cbm-bits", "", min_cbm_bits, expected)
    scale = resctrl.AMD_FULL_SCALE if amd_full_scale is None else amd_full_scale
    limits = resctrl.Limits(mask, min_cbm_bits=min_cbm_bits, amd_full_scale=scale)
    ids = _checked("--l3-ids", resctrl.parse_l3_ids, l3_ids)
    classes, warnings = enabled_classes(config)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    groups = _checked(
        config, lambda asked: resctrl.plan(resctrl.Vendor(vendor), limits, ids, asked), classes
    )
    for group in groups:
        for note in group.notes:
            print(f"note: {group.name}: {note}", file=sys.stderr)
    if output is Format.JSON:
        print_json({group.name: group.lines for group in groups})
        return
    for group in groups:
        for line in group.lines:
            print(f"{group.name:<4}{line}")


def _checked(where: str, function: Callable[[Given], Made], value: Given) -> Made:
    try:
        return function(value)
    except ValueError as error:
        raise KoordError.wrap(where, "", error) from None
