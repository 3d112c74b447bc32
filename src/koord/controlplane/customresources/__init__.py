# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions become served resources, and cease to be.

``definitions`` follows the definitions in the store, ``accepted_names`` says which of their
names are free, ``strategies`` how definitions and their objects behave, ``jsonpath`` reads
printer columns. Begin with ``definitions``.
"""
