# SPDX-License-Identifier: Apache-2.0
"""What the controller keeps.

`event_handlers` turn informer events into deltas of the overcommit cache. `reconciled_nodes` are
the nodes that show all that is wanted, so that new offers cost no plugin: `published` reads what
they show, `observed` from which states of their objects, `reconciled_columns` decides for all of
them at once. Begin with `event_handlers`.
"""
