# SPDX-License-Identifier: Apache-2.0
"""One module a concern; which there are is in :mod:`koord.agent.metrics.registry`."""
