# SPDX-License-Identifier: Apache-2.0
"""koord on inputs of ours, against the answers that the original's own code gave.

See docs/vectors.md.
"""
