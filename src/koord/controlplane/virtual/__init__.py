# SPDX-License-Identifier: Apache-2.0
"""APIs whose objects are answered and never stored.

``reviews``: access and token reviews; ``metrics_api``: ``metrics.k8s.io``, made of NodeMetric
objects. Each is a :class:`koord.controlplane.extension.VirtualApi`; begin there.
"""
