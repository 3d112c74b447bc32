# SPDX-License-Identifier: Apache-2.0
"""Flags of kube-scheduler, which Koordinator's takes too, that have no effect here, each with why.

A Deployment that names them goes on working. Those that say whom to ask or who leads
(``--master``, ``--leader-elect-...``, ``--write-config-to``) are not among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = "served is plain HTTP on --port, without authentication"
_LOG = "the log goes to standard error, one line a message"
_CONFIG = "the configuration's clientConnection says so"
_NO_PPROF = "there are no pprof endpoints"
_METRICS = "metrics have no such switches"
_VERSION = "one version of Kubernetes' rules is known"

UNUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "secure-port", "cert-dir", "disable-http2-serving", "http2-max-streams-per-connection",
            "permit-address-sharing", "permit-port-sharing", "tls-cert-file", "tls-cipher-suites",
            "tls-min-version", "tls-private-key-file", "tls-sni-cert-key",
            "authentication-kubeconfig", "authentication-skip-lookup",
            "authentication-token-webhook-cache-ttl", "authentication-tolerate-lookup-failure",
            "client-ca-file", "requestheader-allowed-names", "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix", "requestheader-group-headers",
            "requestheader-uid-headers", "requestheader-username-headers",
            "authorization-always-allow-paths", "authorization-kubeconfig",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
        ),
        _PLAIN,
    ),
    **dict.fromkeys(("kube-api-burst", "kube-api-content-type", "kube-api-qps"), _CONFIG),
    **dict.fromkeys(("contention-profiling", "profiling"), _NO_PPROF),
    "pod-max-in-unschedulable-pods-duration": "it is always five minutes",
    **dict.fromkeys(
        ("allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics",
         "show-hidden-metrics-for-version"),
        _METRICS,
    ),
    **dict.fromkeys(("emulated-version", "min-compatibility-version"), _VERSION),
    **dict.fromkeys(
        ("log-flush-frequency", "log-json-info-buffer-size", "log-json-split-stream",
         "log-text-info-buffer-size", "log-text-split-stream", "logging-format", *KLOG_FLAGS),
        _LOG,
    ),
}  # fmt: skip

SWITCHES = frozenset(
    {
        "disable-http2-serving", "permit-address-sharing", "permit-port-sharing",
        "authentication-skip-lookup", "authentication-tolerate-lookup-failure",
        "contention-profiling", "profiling", "log-json-split-stream", "log-text-split-stream",
        "logtostderr", "alsologtostderr", "one_output", "add_dir_header", "skip_headers",
        "skip_log_headers",
    }
)  # fmt: skip
"""Those that take a value only behind ``=``."""
