# SPDX-License-Identifier: Apache-2.0
"""When what is renewed, so that no request is refused meanwhile.

Rule: docs/reference/admission.md#serving-and-certificates. Plain values in, plain values out: which
step comes next follows from what is kept and from what webhook configurations trust, so that any
replica that leads goes on where another ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.webhook.certificates.key_material import (
    KeyMaterial,
    first_of,
    joined,
    new_authority,
    new_certificate,
)

if TYPE_CHECKING:
    from datetime import datetime

CERTIFICATE_AHEAD = timedelta(days=183)
"""A certificate that ends within this time is renewed."""
AUTHORITY_AHEAD = timedelta(days=365)
"""An authority that ends within this time signs no more."""
FORMER_TRUSTED = timedelta(days=1)
"""For so long after the last certificate an authority before it is still trusted."""


class RenewalStep(NamedTuple):
    """One step.

    Attributes:
        material: as it is to be kept.
        reason: why, in a few words; empty where nothing changes.
    """

    material: KeyMaterial
    reason: str = ""


def next_step(
    kept: KeyMaterial | None, name: str, now: datetime, trusted_everywhere: bool
) -> RenewalStep:
    """What is to be kept now.

    Where nothing is kept, or what is kept cannot serve, all is made at once. Else a new authority
    is trusted beside the former first; when configurations have had it for a while a certificate
    is signed by it, and a day later the former goes.

    Args:
        kept: None for nothing.
        name: of the server.
        now: the time.
        trusted_everywhere: whether all configurations have trusted the first kept authority for a
            while.
    """
    if kept is None:
        return RenewalStep(_made_anew(name, now), "there was none")
    sound = kept.authority_holds(now + AUTHORITY_AHEAD)
    if not kept.holds(name, now):
        if sound:
            return RenewalStep(_with_certificate(kept, name, now), "the certificate was not good")
        return RenewalStep(_made_anew(name, now, kept), "nothing was good")
    if not kept.signed_by_first() and sound:
        if trusted_everywhere:
            made = _with_certificate(kept, name, now)
            return RenewalStep(made, "the new authority is trusted everywhere")
        return RenewalStep(kept)
    if not kept.holds(name, now + CERTIFICATE_AHEAD):
        if sound:
            return RenewalStep(_with_certificate(kept, name, now), "the certificate was to end")
        return RenewalStep(_with_authority(kept, now), "the authority was to end")
    return _without_former(kept, now)


def _made_anew(name: str, now: datetime, former: KeyMaterial | None = None) -> KeyMaterial:
    authority_key, authority = new_authority(now)
    key, certificate = new_certificate(authority_key, authority, name, now)
    authorities = joined([authority, former.authorities] if former else [authority], now)
    return KeyMaterial(authority_key, authorities, key, certificate)


def _with_certificate(kept: KeyMaterial, name: str, now: datetime) -> KeyMaterial:
    key, certificate = new_certificate(kept.authority_key, kept.authorities, name, now)
    return KeyMaterial(kept.authority_key, kept.authorities, key, certificate)


def _with_authority(kept: KeyMaterial, now: datetime) -> KeyMaterial:
    authority_key, authority = new_authority(now)
    authorities = joined([authority, kept.authorities], now)
    return KeyMaterial(authority_key, authorities, kept.key, kept.certificate)


def _without_former(kept: KeyMaterial, now: datetime) -> RenewalStep:
    first = first_of(kept.authorities)
    if kept.authorities == first or kept.age(now) < FORMER_TRUSTED or not kept.signed_by_first():
        return RenewalStep(kept)
    material = KeyMaterial(kept.authority_key, first, kept.key, kept.certificate)
    return RenewalStep(material, "the former authority signs nothing any more")
