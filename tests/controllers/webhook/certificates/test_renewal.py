# SPDX-License-Identifier: Apache-2.0
"""Which step comes next, and that what is shown is trusted before, at and after each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest

from koord.controllers.webhook.certificates.key_material import (
    KeyMaterial,
    new_authority,
    new_certificate,
    trusted,
)
from koord.controllers.webhook.certificates.renewal import next_step

NAME = "koordinator-webhook-service.koordinator-system.svc"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


@cache
def first() -> KeyMaterial:
    return next_step(None, NAME, NOW, False).material


def test_what_is_made_is_good_for_ten_years_and_for_its_name_alone() -> None:
    made = first()
    assert made.holds(NAME, NOW)
    assert made.holds("localhost", NOW + 9 * YEAR)
    assert not made.holds("elsewhere.svc", NOW)
    assert not made.holds(NAME, NOW + 11 * YEAR)
    assert not made.holds(NAME, NOW - timedelta(days=1))
    assert next_step(made, NAME, NOW, True).reason == ""
    assert KeyMaterial.of_files(made.files()) == made
    assert KeyMaterial.of_files({**made.files(), "key.pem": b""}) is None


@pytest.mark.parametrize("field", ["authority_key", "authorities", "key", "certificate"])
@pytest.mark.parametrize("text", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_cannot_be_read_is_made_anew(field: str, text: bytes) -> None:
    broken = replace(first(), **{field: text})
    step = next_step(broken, NAME, NOW, False)
    if field == "authority_key":  # it still serves: only who signs next is another
        assert step.material.holds(NAME, NOW)
        return
    assert step.reason
    assert step.material.holds(NAME, NOW)


def test_a_certificate_alone_is_renewed_by_the_same_authority() -> None:
    authority_key, authority = new_authority(NOW, 10 * YEAR)
    key, certificate = new_certificate(authority_key, authority, NAME, NOW, timedelta(days=100))
    step = next_step(KeyMaterial(authority_key, authority, key, certificate), NAME, NOW, False)
    assert step.reason == "the certificate was to end"
    assert step.material.authorities == authority
    assert step.material.holds(NAME, NOW + 9 * YEAR)


def test_another_name_needs_another_certificate() -> None:
    step = next_step(first(), "10.0.0.1", NOW, False)
    assert step.material.authorities == first().authorities
    assert step.material.holds("10.0.0.1", NOW)


def test_whoever_trusts_what_was_published_before_a_step_trusts_what_is_shown_after_it() -> None:
    """API servers are a step behind: what they trust is the bundle of the step before."""
    kept, now, trusts_first = first(), NOW + timedelta(days=3550), False
    reasons = []
    for _ in range(8):
        behind = kept.authorities
        step = next_step(kept, NAME, now, trusts_first)
        if not step.reason:
            now += timedelta(days=1)
            trusts_first = True
            continue
        reasons.append(step.reason)
        kept, trusts_first = step.material, False
        assert replace(kept, authorities=behind).holds(NAME, now)
        assert kept.holds(NAME, now)
    assert reasons == [
        "the authority was to end",
        "the new authority is trusted everywhere",
        "the former authority signs nothing any more",
    ]
    assert len(trusted(kept.authorities)) == 1
    assert kept.holds(NAME, now + 9 * YEAR)
