# SPDX-License-Identifier: Apache-2.0
"""How a node is brought to what is wanted: which patch is due (`node_patches`, `zone_patches`,
pure), when (`node_writer`), and sent until one is taken (`patch_writer`). Begin with
`node_patches`.
"""
