# SPDX-License-Identifier: Apache-2.0
"""Histories of a small cluster: the real embedded server, a real scheduler, virtual time."""
