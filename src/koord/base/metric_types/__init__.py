# SPDX-License-Identifier: Apache-2.0
"""Prometheus counter, gauge and histogram that cost little to add to; `koord.base.metrics` makes
them. Begin with `labelled`.
"""
