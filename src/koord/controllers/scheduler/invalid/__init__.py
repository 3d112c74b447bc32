# SPDX-License-Identifier: Apache-2.0
"""Objects that cannot be used as they are written, and where people find that said."""
