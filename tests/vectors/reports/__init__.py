# SPDX-License-Identifier: Apache-2.0
"""Cases of what an agent reports, and what areas of reports share."""
