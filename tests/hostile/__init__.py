# SPDX-License-Identifier: Apache-2.0
"""What a tenant, a client or a neighbour on the machine may throw at koord, and what must hold."""
