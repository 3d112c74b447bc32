# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a container's probes and lifecycle hooks."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import NOT_NEGATIVE
from koord.controlplane.kinds.validation.part_cache import checked_once

if TYPE_CHECKING:
    from koord.controlplane.kinds.validation.causes import Causes


PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def check_probes(container: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with all probes and hooks of a container that may have them."""
    for kind in PROBES:
        if (probe := container.get(kind)) is not None:
            _CHECKS[kind](probe, f"{path}.{kind}", causes)
    if lifecycle := container.get("lifecycle"):
        for hook, action in lifecycle.items():
            if isinstance(action, dict):
                _check_handler(action, f"{path}.lifecycle.{hook}", causes)


def _check_probe(kind: str, probe: Document, path: str, causes: Causes) -> None:
    _check_handler(probe, path, causes)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            causes.invalid(f"{path}.{count}", probe[count], NOT_NEGATIVE)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        if grace <= 0:
            causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if kind == "readinessProbe":
            why = "must not be set for readinessProbes"
            causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, why)
    if kind != "readinessProbe" and probe.get("successThreshold") != 1:
        causes.invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


_CHECKS = {kind: checked_once(partial(_check_probe, kind)) for kind in PROBES}


def _check_handler(action: Document, path: str, causes: Causes) -> None:
    given = [kind for kind in _HANDLERS if kind in action]
    if not given:
        causes.required(path, "must specify a handler type")
        return
    if len(given) > 1:
        for kind in given[1:]:
            causes.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    kind, handler = given[0], action[given[0]]
    where = f"{path}.{kind}"
    if kind == "exec":
        if not handler.get("command"):
            causes.required(f"{where}.command")
    elif kind == "httpGet":
        _check_http(handler, where, causes)
    elif kind in ("tcpSocket", "grpc"):
        check_port(handler.get("port", 0), f"{where}.port", causes)


def _check_http(get: Document, path: str, causes: Causes) -> None:
    if not get.get("path"):
        causes.required(f"{path}.path")
    check_port(get.get("port", 0), f"{path}.port", causes)
    if get.get("scheme") not in ("HTTP", "HTTPS"):
        causes.not_supported(f"{path}.scheme", get.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in get.get("httpHeaders") or ():
        if not re.fullmatch("[-A-Za-z0-9]+", header.get("name", "")):
            causes.invalid(f"{path}.httpHeaders", header.get("name", ""), _HEADER)


def check_port(port: int | str, path: str, causes: Causes) -> None:
    """A port by number or by name."""
    whys = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    if whys:
        causes.invalid_all(path, port, whys)
