# SPDX-License-Identifier: Apache-2.0
"""Objects with one of their kind for each node: `object_controller` creates, updates and deletes
them; `nodemetric` and `nodeslo` say what their specs are, `nodeslo_extenders` adds third
parties' sections. Begin with `object_controller`.
"""
