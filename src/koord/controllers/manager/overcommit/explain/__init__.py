# SPDX-License-Identifier: Apache-2.0
"""Why a node offers what it offers: the sum behind an offer term by term (`breakdown`), and how
offers changed over the last hour (`recent_offers`). Begin with `breakdown`.
"""
