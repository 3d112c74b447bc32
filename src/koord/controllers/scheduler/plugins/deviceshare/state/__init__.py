# SPDX-License-Identifier: Apache-2.0
"""Who holds which cards of every node (`cache`), kept true to nodes and Devices (`event_handlers`).

`columns` is what quick filters read of all nodes, `cycle_state` what one attempt keeps, `templates`
the configured GPU templates. Begin with `cache.DeviceCache`.
"""
