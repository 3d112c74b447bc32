# SPDX-License-Identifier: Apache-2.0
"""The controller of HorizontalPodAutoscalers.

``decision`` says how many pods there should be, by ``replica_calculator`` (one metric) and
``rate_limits`` (windows, policies, bounds); ``controller`` reads scales, pods and usage and
writes. Begin with ``decision``.
"""
