# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-descheduler and of kubernetes-sigs/descheduler that are taken and have no effect
here, each with why.

Rule: docs/reference/descheduling.md#flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_CERTIFICATE = "--tls-cert-file and --tls-private-key-file name the certificate"
_HTTP = "served is HTTP/1.1 over TLS 1.2 or newer, with Python's choice of ciphers"
_SHARING = "a port is one process's"
_LOG = "the log goes to standard error, one line a message"
_METRICS = "metrics have no such switches"
_NO_TRACES = "no traces are written"

UNUSED: Mapping[str, str] = {
    **dict.fromkeys(("cert-dir", "tls-sni-cert-key"), _CERTIFICATE),
    **dict.fromkeys(
        ("disable-http2-serving", "http2-max-streams-per-connection", "tls-cipher-suites",
         "tls-min-version"),
        _HTTP,
    ),
    **dict.fromkeys(("permit-address-sharing", "permit-port-sharing"), _SHARING),
    **dict.fromkeys(
        ("allow-metric-labels", "allow-metric-labels-manifest", "disable-metrics",
         "disabled-metrics", "show-hidden-metrics-for-version"),
        _METRICS,
    ),
    **dict.fromkeys(
        ("otel-collector-endpoint", "otel-fallback-no-op-on-error", "otel-sample-rate",
         "otel-service-name", "otel-trace-namespace", "otel-transport-ca-cert"),
        _NO_TRACES,
    ),
    **dict.fromkeys(
        ("log-flush-frequency", "log-json-info-buffer-size", "log-json-split-stream",
         "log-text-info-buffer-size", "log-text-split-stream", "logging-format", *KLOG_FLAGS),
        _LOG,
    ),
}  # fmt: skip
