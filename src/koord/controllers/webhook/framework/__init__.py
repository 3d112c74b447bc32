# SPDX-License-Identifier: Apache-2.0
"""What every webhook has in common: request, decision, JSON patch, the table of webhooks, and what
a handler is given. Knows neither HTTP nor any rule. Begin with `handler`.
"""
