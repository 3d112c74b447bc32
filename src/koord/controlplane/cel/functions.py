# SPDX-License-Identifier: Apache-2.0
"""The functions that Kubernetes adds to CEL and that this server has; others do not compile.

Lists (``isSorted``, ``sum``, ``min``, ``max``), quantities, URLs, sets, ``find`` and ``findAll``;
optional values, ``format`` and other functions of text are the runtime's own. A quantity or URL is
a map with one key that users do not see, in a canonical form, so that equal ones are equal.
Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from koord.controlplane.cel.access_checks import ACCESS_FUNCTIONS
from koord.controlplane.cel.networks import NETWORK_FUNCTIONS
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SCANNED = 100_000_000
"""``findAll`` may go through a text from each of its matches on: characters, all in all."""

_QUANTITY, _URL = "kubernetes.Quantity", "kubernetes.URL"
CelMap = dict[str, str]


@cache
def declarations() -> list[Any]:
    """All of them, for an environment."""
    from cel_expr_python import cel

    kinds = cel.Type
    any_list, any_map = kinds.List(kinds.DYN), kinds.Map(kinds.STRING, kinds.DYN)
    texts = kinds.List(kinds.STRING)
    # l a list, m a quantity or URL, s text, i a number, d anything, t a list of texts.
    letters = {
        "l": any_list, "m": any_map, "s": kinds.STRING, "i": kinds.INT, "b": kinds.BOOL,
        "d": kinds.DYN, "f": kinds.DOUBLE, "t": texts,
    }  # fmt: skip
    found: dict[str, list[Any]] = {}
    for name, parameters, result, is_member, function in [
        *_FUNCTIONS,
        *NETWORK_FUNCTIONS,
        *ACCESS_FUNCTIONS,
    ]:
        overload = cel.Overload(
            id=f"koord_{name}_{parameters}_{is_member}".replace(".", "_"),
            return_type=letters[result], parameters=[letters[each] for each in parameters],
            is_member=is_member, impl=function,
        )  # fmt: skip
        found.setdefault(name, []).append(overload)
    return [cel.FunctionDecl(name, overloads) for name, overloads in found.items()]


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _extreme(choose: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def of(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return of


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _quantity(text: str) -> CelMap:
    return {_QUANTITY: str(Quantity.parse(text))}


def _amount(value: CelMap) -> Quantity:
    if _QUANTITY not in value:
        raise ValueError("no such overload: expected a quantity")
    return Quantity.parse(value[_QUANTITY])


def _combined(sign: int) -> Callable[[CelMap, Any], CelMap]:
    def of(left: CelMap, right: Any) -> CelMap:
        other = Quantity.parse(str(right)) if isinstance(right, int) else _amount(right)
        total = _amount(left) + other if sign > 0 else _amount(left) - other
        return {_QUANTITY: str(total)}

    return of


def _compared(left: CelMap, right: CelMap) -> int:
    a, b = _amount(left), _amount(right)
    return (a > b) - (a < b)


def _sign(value: CelMap) -> int:
    amount = _amount(value)
    return (amount > Quantity()) - (amount < Quantity())


def _is_integer(value: CelMap) -> bool:
    amount = _amount(value)
    return Quantity.parse(str(amount.value(Rounding.UP))) == amount


def _as_integer(value: CelMap) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _amount(value).value(Rounding.UP)


def _split(text: str) -> SplitResult:
    parts = urlsplit(text)
    # Kubernetes takes absolute URLs and absolute paths.
    if not (parts.scheme or text.startswith("/")) or any(c.isspace() for c in text):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    _ = parts.port
    return parts


def _is_url(text: str) -> bool:
    try:
        _split(text)
    except ValueError:
        return False
    return True


def _url_part(part: Callable[[SplitResult], Any]) -> Callable[[CelMap], Any]:
    def of(value: CelMap) -> Any:
        if _URL not in value:
            raise ValueError("no such overload: expected a URL")
        return part(_split(value[_URL]))

    return of


def _url(text: str) -> CelMap:
    return {_URL: _split(text).geturl()}


def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(each in items for each in wanted)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(each in left for each in right)


def _pattern(text: str) -> Any:
    # Like the runtime's own: in linear time, whatever the pattern.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        told = error.args[0]
        shown = told.decode(errors="replace") if isinstance(told, bytes) else told
        raise ValueError(f"Illegal regex: {shown}") from None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return "" if found is None else str(found.group(0))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches from left to right; an empty one right behind another is none."""
    found: list[str] = []
    if limit == 0:
        return found
    end = -1
    for number, match in enumerate(_pattern(pattern).finditer(text)):
        if number * len(text) > MAX_SCANNED:
            raise ValueError(f"budget exceeded: {number} matches in {len(text)} characters")
        if match.end() > match.start() or match.start() != end:
            found.append(match.group(0))
        end = match.end()
        if len(found) == limit:
            break
    return found


# Name, parameters, result, whether it is called on its first parameter, what does it.
_FUNCTIONS: list[tuple[str, str, str, bool, Callable[..., Any]]] = [
    ("isSorted", "l", "b", True, _is_sorted),
    ("sum", "l", "d", True, sum),
    ("min", "l", "d", True, _extreme(min, "min")),
    ("max", "l", "d", True, _extreme(max, "max")),
    ("find", "ss", "s", True, _find),
    ("findAll", "ss", "t", True, _find_all),
    ("findAll", "ssi", "t", True, _find_all),
    ("isQuantity", "s", "b", False, _is_quantity),
    ("quantity", "s", "m", False, _quantity),
    ("add", "mm", "m", True, _combined(1)),
    ("add", "mi", "m", True, _combined(1)),
    ("sub", "mm", "m", True, _combined(-1)),
    ("sub", "mi", "m", True, _combined(-1)),
    ("compareTo", "mm", "i", True, _compared),
    ("isGreaterThan", "mm", "b", True, lambda a, b: _compared(a, b) > 0),
    ("isLessThan", "mm", "b", True, lambda a, b: _compared(a, b) < 0),
    ("sign", "m", "i", True, _sign),
    ("isInteger", "m", "b", True, _is_integer),
    ("asInteger", "m", "i", True, _as_integer),
    ("isURL", "s", "b", False, _is_url),
    ("url", "s", "m", False, _url),
    ("getScheme", "m", "s", True, _url_part(lambda url: url.scheme)),
    ("getHost", "m", "s", True, _url_part(lambda url: url.netloc.rpartition("@")[2])),
    ("getHostname", "m", "s", True, _url_part(lambda url: url.hostname or "")),
    ("getPort", "m", "s", True, _url_part(lambda url: str(url.port or ""))),
    ("getEscapedPath", "m", "s", True, _url_part(lambda url: url.path)),
    ("getQuery", "m", "m", True, _url_part(lambda url: parse_qs(url.query))),
    ("sets.contains", "ll", "b", False, _contains),
    ("sets.equivalent", "ll", "b", False, _equivalent),
    ("sets.intersects", "ll", "b", False, _intersects),
]
