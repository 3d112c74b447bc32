# SPDX-License-Identifier: Apache-2.0
"""The controller that tells which pods stand behind a Service.

``backends`` finds them, ``slices`` and ``legacy`` write them down as EndpointSlices and
Endpoints, ``controller`` is the shell. Begin with ``backends``.
"""
