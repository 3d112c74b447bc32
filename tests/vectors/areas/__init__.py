# SPDX-License-Identifier: Apache-2.0
"""One module an area: inputs, koord's answers, and the differences that are meant."""
