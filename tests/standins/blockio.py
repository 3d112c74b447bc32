# SPDX-License-Identifier: Apache-2.0
"""Files of the io controller on cgroup v2 that take, refuse and print what the kernel does.

Rules: Documentation/admin-guide/cgroup-v2.rst (IO), block/blk-throttle.c, block/blk-iocost.c: a
write names one device and changes only what it names; devices like the default are not printed; a
weight of a device needs a cost model; any number makes a model or a quality the user's.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.standins.model import Directory, File, Said, refuse

LIMITS = ("rbps", "wbps", "riops", "wiops")
COEFFICIENTS = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")
_MOST_IOPS = 2**32 - 1
_AUTO_QUALITY = {
    "rpct": "0.00", "rlat": "250000", "wpct": "0.00", "wlat": "250000", "min": "1.00",
    "max": "10000.00",
}  # fmt: skip
_AUTO_MODEL = dict.fromkeys(COEFFICIENTS, "4096")
_PERCENTAGES = ("rpct", "wpct", "min", "max")


@dataclass
class Cost:
    """What is known of a device once something was written to ``io.cost.*``."""

    enabled: bool = False
    user_quality: bool = False
    user_model: bool = False
    quality: dict[str, str] = field(default_factory=lambda: dict(_AUTO_QUALITY))
    model: dict[str, str] = field(default_factory=lambda: dict(_AUTO_MODEL))


@dataclass
class Disks:
    """Whole disks by ``major:minor``; None while no cost model was ever set for one."""

    costs: dict[str, Cost | None]

    def named(self, text: str) -> tuple[str, list[str]]:
        """The device that a write is about, and its other words; ENODEV for no disk."""
        device, *words = text.split() or [""]
        if device not in self.costs:
            raise refuse(errno.ENODEV)
        return device, words

    def cost(self, device: str) -> Cost:
        """Made when it is first asked for."""
        cost = self.costs[device] or Cost()
        self.costs[device] = cost
        return cost

    def print_quality(self) -> str:
        """``io.cost.qos``."""
        return _lines(
            (device, {"enable": str(int(cost.enabled)), "ctrl": _ctrl(cost.user_quality)}
             | cost.quality)
            for device, cost in self.costs.items() if cost
        )  # fmt: skip

    def write_quality(self, text: str) -> None:
        """Any number is the user's; ``ctrl=auto`` after it takes them all back."""
        device, words = self.named(text)
        cost = self.cost(device)
        enabled, user, quality = cost.enabled, cost.user_quality, dict(cost.quality)
        for name, value in map(_pair, words):
            if name == "enable":
                enabled = bool(_number(value))
            elif name == "ctrl":
                user = _user(value)
            elif name in quality:
                quality[name] = _percentage(value) if name in _PERCENTAGES else str(_number(value))
                user = True
            else:
                raise refuse(errno.EINVAL)
        cost.enabled, cost.user_quality = enabled, user
        cost.quality = quality if user else dict(_AUTO_QUALITY)

    def print_model(self) -> str:
        """``io.cost.model``."""
        return _lines(
            (device, {"ctrl": _ctrl(cost.user_model), "model": "linear"} | cost.model)
            for device, cost in self.costs.items() if cost
        )  # fmt: skip

    def write_model(self, text: str) -> None:
        """As for the quality."""
        device, words = self.named(text)
        cost = self.cost(device)
        user, model = cost.user_model, dict(cost.model)
        for name, value in map(_pair, words):
            if name == "ctrl":
                user = _user(value)
            elif name == "model" and value == "linear":
                continue
            elif name in model:
                model[name], user = str(_number(value)), True
            else:
                raise refuse(errno.EINVAL)
        cost.user_model, cost.model = user, model if user else dict(_AUTO_MODEL)


class IoGroup:
    """A cgroup with the io controller; the root has the files of cost, the others the rest.

    Attributes:
        limits: of a device, by name; what is not there is ``max``.
        weights: of devices that have one of their own.
    """

    def __init__(self, disks: Disks, root: bool = True) -> None:
        self.disks, self._root = disks, root
        self.limits: dict[str, dict[str, int]] = {}
        self.weight, self.weights = 100, dict[str, int]()
        self.children: dict[str, IoGroup] = {}

    def entries(self) -> dict[str, Directory | File]:
        """See `Directory`."""
        files: dict[str, Directory | File] = {"cgroup.procs": Said("")}
        if self._root:
            files["io.cost.qos"] = Text(self.disks.print_quality, self.disks.write_quality)
            files["io.cost.model"] = Text(self.disks.print_model, self.disks.write_model)
        else:
            files["io.max"] = Text(self.print_limits, self.write_limits)
            files["io.weight"] = Text(self.print_weights, self.write_weights)
        return {**files, **self.children}

    def mkdir(self, name: str) -> None:
        """A child."""
        if name in self.entries():
            raise refuse(errno.EEXIST)
        self.children[name] = IoGroup(self.disks, root=False)

    def rmdir(self, name: str) -> None:
        """A child without children."""
        if name not in self.children:
            raise refuse(errno.ENOENT)
        if self.children[name].children:
            raise refuse(errno.EBUSY)
        del self.children[name]

    def print_limits(self) -> str:
        """``io.max``."""
        return _lines(
            (device, {name: str(held.get(name, "max")) for name in LIMITS})
            for device, held in self.limits.items() if held
        )  # fmt: skip

    def write_limits(self, text: str) -> None:
        """ERANGE for a limit of nothing, EINVAL for another name."""
        device, words = self.disks.named(text)
        held: dict[str, int] = dict(self.limits.get(device, {}))
        for name, value in map(_pair, words):
            limit = 2**64 - 1 if value == "max" else _number(value)
            if limit == 0:
                raise refuse(errno.ERANGE)
            if name not in LIMITS:
                raise refuse(errno.EINVAL)
            held[name] = min(limit, _MOST_IOPS) if name.endswith("iops") else limit
            if held[name] == (_MOST_IOPS if name.endswith("iops") else 2**64 - 1):
                del held[name]
        self.limits[device] = held

    def print_weights(self) -> str:
        """``io.weight``."""
        own = "".join(f"{device} {weight}\n" for device, weight in self.weights.items())
        return f"default {self.weight}\n{own}"

    def write_weights(self, text: str) -> None:
        """EOPNOTSUPP for a device without a cost model."""
        first, *rest = text.split() or [""]
        if ":" not in first:
            self.weight = _weight(rest[0] if first == "default" and rest else first)
            return
        device, words = self.disks.named(text)
        if self.disks.costs[device] is None:
            raise refuse(errno.EOPNOTSUPP)
        if words == ["default"]:
            self.weights.pop(device, None)
        else:
            self.weights[device] = _weight(words[0] if words else "")


class Text:
    """A file of two functions."""

    writable = True

    def __init__(self, read: Callable[[], str], write: Callable[[str], None]) -> None:
        self.read, self.write = read, write


def _lines(rows: object) -> str:
    return "".join(
        f"{device} {' '.join(f'{name}={value}' for name, value in values.items())}\n"
        for device, values in rows  # type: ignore[attr-defined]
    )


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise refuse(errno.EINVAL)
    return name, value


def _number(text: str) -> int:
    if not text.isdecimal():
        raise refuse(errno.EINVAL)
    return int(text)


def _percentage(text: str) -> str:
    whole, _, part = text.partition(".")
    return f"{_number(whole)}.{_number(part or '0'):0<2d}"


def _weight(text: str) -> int:
    weight = _number(text)
    if not 1 <= weight <= 10000:
        raise refuse(errno.EINVAL)
    return weight


def _user(text: str) -> bool:
    if text not in ("auto", "user"):
        raise refuse(errno.EINVAL)
    return text == "user"


def _ctrl(user: bool) -> str:
    return "user" if user else "auto"
