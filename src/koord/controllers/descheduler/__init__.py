# SPDX-License-Identifier: Apache-2.0
"""koord-descheduler (docs/descheduler.md): ``config`` reads both configuration files, ``framework``
runs rounds of plugins over a snapshot, ``predicates`` are what plugins ask of pods and nodes.
Begin with ``framework.round``.
"""
