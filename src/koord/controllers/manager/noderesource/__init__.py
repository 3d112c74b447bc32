# SPDX-License-Identifier: Apache-2.0
"""The node-resource controller: `state` keeps the overcommit cache true and knows which nodes are
reconciled, `plugins` say what a node is to have, `writers` bring it there, `explain` says why.
Begin with `controller`.
"""
