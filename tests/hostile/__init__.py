# SPDX-License-Identifier: Apache-2.0
"""What a tenant, a broken component or a broken disk may hand a component."""
