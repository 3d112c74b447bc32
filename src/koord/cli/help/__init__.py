# SPDX-License-Identifier: Apache-2.0
"""Help of all programs in one style, whatever reads their command lines."""
