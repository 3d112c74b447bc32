# SPDX-License-Identifier: Apache-2.0
"""What files of the io controller say of one block device, in the form that claims have.

The kernel prints devices that differ from the default only, names in ``io.max`` and ``io.cost.*``,
and some that nobody claims. Rules: Documentation/admin-guide/cgroup-v2.rst, block/blk-throttle.c,
block/blk-iocost.c; what the texts mean to a writer is in ``koord.kernels.cgroup.says_same``.
"""

from __future__ import annotations

from koord.kernels.cgroup import CATALOGUE
from koord.kernels.cgroup_parse import Version

WEIGHT, QOS, MODEL = "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"

_NO_LIMIT, _FULL_WEIGHT, _DEFAULT = "0", "100", "default"
_UNSET = {QOS: "enable=0 ctrl=auto", MODEL: "ctrl=auto"}
_CLAIMED = {
    QOS: ("enable", "ctrl", "rpct", "rlat", "wpct", "wlat"),
    MODEL: ("ctrl", "rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"),
}
_SWITCHES = ("enable", "ctrl")


def held(resource: str, version: Version, text: str, device: str) -> str:
    """The line of a claim that would ask for what the file says now.

    Args:
        resource: a ``blkio.`` key of the catalogue.
        version: of the tree.
        text: the whole file.
        device: ``major:minor``.
    """
    lines = _lines(text)
    line = lines.get(device)
    if resource in _UNSET:
        return f"{device} {_UNSET[resource] if line is None else _claimed(resource, line)}"
    if resource == WEIGHT:
        usual = lines.get(_DEFAULT, _FULL_WEIGHT) if version is Version.V2 else _FULL_WEIGHT
        return f"{device} {usual if line is None else line}"
    in_v2 = CATALOGUE[resource].v2
    if line is not None and version is Version.V2 and in_v2 is not None:
        line = _names(line).get(in_v2.field, "max").replace("max", _NO_LIMIT)
    return f"{device} {_NO_LIMIT if line is None else line}"


def original(resource: str, version: Version, text: str, device: str) -> str:
    """The line that, written later, gives the file back as it is now; arguments as of `held`.

    A device that the kernel chooses values for is not given back those values: naming one of them
    would make it the user's.
    """
    line = _lines(text).get(device)
    if resource == WEIGHT and line is None and version is Version.V2:
        return f"{device} {_DEFAULT}"
    if resource in _UNSET and line is not None and _names(line).get("ctrl") == "user":
        return f"{device} {line}"
    return held(resource, version, text, device)


def _lines(text: str) -> dict[str, str]:
    pairs = (line.strip().partition(" ") for line in text.splitlines())
    return {key: rest.strip() for key, _, rest in pairs}


def _names(line: str) -> dict[str, str]:
    pairs = (field.partition("=") for field in line.split())
    return {name: value for name, _, value in pairs}


def _claimed(resource: str, line: str) -> str:
    names = _names(line)
    chosen = _CLAIMED[resource] if names.get("ctrl") == "user" else _SWITCHES
    return " ".join(f"{name}={_plain(names[name])}" for name in chosen if name in names)


def _plain(number: str) -> str:
    """Percentages are printed with two decimals."""
    return number.rstrip("0").removesuffix(".") if "." in number else number
