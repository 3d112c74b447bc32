# SPDX-License-Identifier: Apache-2.0
"""What one tenant writes must not cost the others anything."""
