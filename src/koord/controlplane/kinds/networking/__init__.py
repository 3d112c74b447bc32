# SPDX-License-Identifier: Apache-2.0
"""Kinds of ``networking.k8s.io``, Services and EndpointSlices: stored and checked; nothing here
routes or filters packets.

A module a kind. Begin with ``services``.
"""
