# SPDX-License-Identifier: Apache-2.0
"""Admission of nodes: what a node offers more than it has, and labels that two strategies match."""

from koord.controllers.webhook.nodes.handlers import HANDLERS

__all__ = ["HANDLERS"]
