# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what they may: RBAC over the stored roles and bindings.

`identity` says who, `access` what is asked for, `rbac` whether it is allowed, `escalation` that
nobody grants more than they have, `account_tokens` signs and reads tokens of service accounts,
`impersonation` lets one act as another, `default_roles` are those that every cluster has. Begin
with `rbac`.
"""
