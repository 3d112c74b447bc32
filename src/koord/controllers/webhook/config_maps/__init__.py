# SPDX-License-Identifier: Apache-2.0
"""Admission of slo-controller-config, over the checks of :mod:`koord.api.sloconfig`."""

from koord.controllers.webhook.config_maps.handlers import HANDLERS

__all__ = ["HANDLERS"]
