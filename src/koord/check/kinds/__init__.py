# SPDX-License-Identifier: Apache-2.0
"""The checkers of koord's own, by kind; the rules stay with the components that keep them."""
