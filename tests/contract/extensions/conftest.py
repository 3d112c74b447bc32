# SPDX-License-Identifier: Apache-2.0
"""What tests of several extensions make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.api import Api
from tests.contract.extensions.policies import Enforce, enforcing


@pytest.fixture
def enforce(api: Api, namespace: str) -> Iterator[Enforce]:
    """Binds policies to the test's namespace, and waits until they are in force."""
    yield from enforcing(api, namespace)
