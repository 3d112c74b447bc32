# SPDX-License-Identifier: Apache-2.0
"""The checkers of koord's own, one module a kind or a family of kinds; the rules stay with the
components that keep them. Begin with `pods`; a further module is named in
`koord.check.registry.MODULES`.
"""
