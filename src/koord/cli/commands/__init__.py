# SPDX-License-Identifier: Apache-2.0
"""The verbs of `koord`: a module, or a package where a verb has its own options and screens; `main`
finds them by name. Begin with `quota`, the smallest whole one; `up` is the largest.
"""
