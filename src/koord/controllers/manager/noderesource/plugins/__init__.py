# SPDX-License-Identifier: Apache-2.0
"""What a node is to have: `plugin` has the protocol and its values (inputs, calculated resources,
desired node), `plugin_chain` the order; then a module a concern. Begin with `plugin`, then
`batch_and_mid`.
"""
