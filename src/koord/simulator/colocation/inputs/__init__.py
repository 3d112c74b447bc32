# SPDX-License-Identifier: Apache-2.0
"""The scenario's file as typed values (`scenario`), what it must be beyond types, and
slo-controller-config. Begin with `scenario.Scenario`.
"""
