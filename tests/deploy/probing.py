# SPDX-License-Identifier: Apache-2.0
"""HTTP probes of a container, as a kubelet makes them."""

from __future__ import annotations

import http.client
import time
from typing import Any

Document = dict[str, Any]


class Probe:
    """One probe of one run of a container.

    Attributes:
        passed: whether its last answers were right; nothing before the first.
        failures: how many in a row were not.
    """

    def __init__(self, spec: Document, address: str, ports: dict[str, int]) -> None:
        get = spec["httpGet"]
        self._path = get.get("path", "/")
        self._address, self._port = address, ports.get(get["port"], get["port"])
        self._timeout = spec.get("timeoutSeconds", 1)
        self._period = spec.get("periodSeconds", 10)
        self._threshold = spec.get("failureThreshold", 3)
        self._due = time.monotonic() + spec.get("initialDelaySeconds", 0)
        self.passed: bool | None = None
        self.failures = 0

    @property
    def failed(self) -> bool:
        """Whether it failed as often as it may."""
        return self.failures >= self._threshold

    def look(self) -> None:
        """Asks, if it is time."""
        if time.monotonic() < self._due:
            return
        if self._ask():
            self.passed, self.failures = True, 0
        else:
            self.failures += 1
            self.passed = bool(self.passed) and not self.failed
        self._due = time.monotonic() + self._period

    def _ask(self) -> bool:
        connection = http.client.HTTPConnection(self._address, self._port, timeout=self._timeout)
        try:
            connection.request("GET", self._path)
            status: int = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return http.HTTPStatus.OK <= status < http.HTTPStatus.BAD_REQUEST
