# SPDX-License-Identifier: Apache-2.0
"""Kinds of ``networking.k8s.io``: stored and checked; nothing here routes or filters packets."""
