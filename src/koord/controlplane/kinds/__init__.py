# SPDX-License-Identifier: Apache-2.0
"""How objects of the core kinds behave: defaults, validation, field selectors, table rows.

``registry`` lists them all; ``pod``, ``workload``, ``networking``, ``autoscaling`` and
``cluster`` hold a strategy a kind, ``validation`` the rules that several share. Begin with
``registry``, then ``cluster.nodes`` for a short example.
"""
