# SPDX-License-Identifier: Apache-2.0
"""Prometheus series of what is measured, made when they are asked for: of the node, of pods and
containers, of what was last reported. Begin with `agent_exporter`.
"""
