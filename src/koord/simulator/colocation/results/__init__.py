# SPDX-License-Identifier: Apache-2.0
"""What runs leave behind (`result`), and how a step is added to it (`recorder`).

Begin with `result.ComparisonResult`.
"""
