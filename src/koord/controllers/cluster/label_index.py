# SPDX-License-Identifier: Apache-2.0
"""Selectors against labels without a look at all of them: what a selector matches is looked up.

Each label that a pod has, with its value, is a *label token*, and so are its key alone and the
pod's namespace. A :class:`PodSelector` is a conjunction over tokens. :class:`ShapesByLabel` keeps
by token the shapes that have it, :class:`SelectorsByLabel` keeps each selector under one token that
whatever it matches must have, the one that fewest selectors are kept under. So for ``matchLabels``
and ``In`` a new selector, or a new shape, costs what it matches however many there are of both.
A selector that says what pods must not have means nearly all of them: whoever counts its pods takes
those that it leaves out from all (:meth:`PodSelector.difference`).

Rule: Kubernetes' labels.Selector (apimachinery, pkg/labels), as
:func:`koord.api.selectors.matches` says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from koord.api.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from koord.api.kinds.meta import LabelSelector

    LabelToken = tuple[str, str | None] | str
    """A label's key and value, its key and None, or a namespace."""

V = TypeVar("V")

_NOWHERE: frozenset[int] = frozenset()
# So many shapes wait at most to be put under their tokens: who asks waits some 10 ms for them.
_MOST_WAITING = 4096
_NOTHING: frozenset[LabelToken] = frozenset()


class PodSelector:
    """Which pods are meant, by namespace and labels.

    Args:
        selector: what their labels must be, as :func:`koord.api.selectors.check` accepts it; None
            matches nothing.
        namespaces: pods elsewhere are not meant; None for everywhere.
        admits: a further condition on the namespace, or None.

    Attributes:
        wanted: of each of these pods have at least one.
        unwanted: of these they have none.
        admits: the same.
    """

    __slots__ = ("_any_of", "_every", "admits", "unwanted", "wanted")

    def __init__(
        self,
        selector: LabelSelector | None,
        namespaces: Iterable[str] | None = None,
        admits: Callable[[str], bool] | None = None,
    ) -> None:
        wanted: list[tuple[LabelToken, ...]] = []
        unwanted: set[LabelToken] = set()
        if selector is None:
            wanted.append(())
        else:
            wanted += [(label,) for label in selector.match_labels.items()]
            for each in selector.match_expressions:
                of_key = dict.fromkeys((each.key, value) for value in each.values)
                tokens = tuple(of_key) if each.operator in (IN, NOT_IN) else ((each.key, None),)
                if each.operator in (NOT_IN, DOES_NOT_EXIST):
                    unwanted.update(tokens)
                else:
                    wanted.append(tokens)
        if namespaces is not None:
            wanted.append(tuple(sorted(namespaces)))
        self._set(wanted, unwanted, admits)

    def _set(
        self,
        wanted: Iterable[tuple[LabelToken, ...]],
        unwanted: Iterable[LabelToken],
        admits: Callable[[str], bool] | None,
    ) -> None:
        self.wanted = tuple(wanted)
        # Even an empty set takes 216 bytes, and most selectors have a token or two.
        self.unwanted = frozenset(unwanted) or _NOTHING
        self.admits = admits
        self._every = tuple([tokens[0] for tokens in self.wanted if len(tokens) == 1])
        self._any_of = tuple(tokens for tokens in self.wanted if len(tokens) != 1)

    def joined(self, other: PodSelector) -> PodSelector:
        """The pods that both mean."""
        mine, others = self.admits, other.admits

        def both(namespace: str) -> bool:
            return (mine is None or mine(namespace)) and (others is None or others(namespace))

        made = PodSelector(None)
        admits = both if mine is not None or others is not None else None
        made._set((*self.wanted, *other.wanted), self.unwanted | other.unwanted, admits)
        return made

    def difference(self) -> tuple[PodSelector, PodSelector | None]:
        """Two selectors that name nothing unwanted, the pods of the first less those of the second.

        The second is None where this one names nothing unwanted.
        """
        if not self.unwanted:
            return self, None
        whole, left_out = PodSelector(None), PodSelector(None)
        whole._set(self.wanted, (), self.admits)
        left_out._set((*self.wanted, tuple(sorted(self.unwanted, key=repr))), (), self.admits)
        return whole, left_out

    def matches(self, namespace: str, tokens: frozenset[LabelToken]) -> bool:
        """Whether pods with these tokens, all that :func:`tokens_of` gives, are meant."""
        return (
            tokens.issuperset(self._every)
            and tokens.isdisjoint(self.unwanted)
            and not any(tokens.isdisjoint(each) for each in self._any_of)
            and (self.admits is None or self.admits(namespace))
        )


def tokens_of(namespace: str, labels: Mapping[str, str]) -> tuple[LabelToken, ...]:
    """All tokens of pods with these labels in a namespace, each once."""
    return (*labels.items(), *[(key, None) for key in labels], namespace)


class ShapesByLabel:
    """Shapes by the tokens that they have.

    A shape is put under its tokens when somebody asks for shapes: many come and go between two
    questions, and where no pod has a selector nobody asks.
    """

    def __init__(self) -> None:
        self._having: dict[LabelToken, set[int]] = {}
        self._namespaces: dict[int, str] = {}
        # The labels of those that are not under their tokens yet.
        self._waiting: dict[int, Mapping[str, str]] = {}

    def add(self, number: int, namespace: str, labels: Mapping[str, str]) -> None:
        """A shape is there from now on, until it is removed.

        Args:
            number: its id.
            namespace: of its pods.
            labels: of its pods; not to be changed until it is removed.
        """
        self._namespaces[number] = namespace
        self._waiting[number] = labels
        if len(self._waiting) >= _MOST_WAITING:
            self._put_under_tokens()

    def _put_under_tokens(self) -> None:
        having, namespaces = self._having, self._namespaces
        for number, labels in self._waiting.items():
            for token in tokens_of(namespaces[number], labels):
                numbers = having.get(token)
                if numbers is None:
                    having[token] = {number}
                else:
                    numbers.add(number)
        self._waiting.clear()

    def remove(self, number: int, labels: Mapping[str, str]) -> None:
        """The exact inverse."""
        namespace = self._namespaces.pop(number)
        if self._waiting.pop(number, None) is not None:
            return
        for token in tokens_of(namespace, labels):
            having = self._having[token]
            having.discard(number)
            if not having:
                del self._having[token]

    def may_have(self, selector: LabelSelector | None) -> bool:
        """Whether any shape may be what a selector means; where nobody has a label that it wants,
        none is, and nothing need be made of it to know that."""
        if selector is None:
            return False
        if self._waiting:
            self._put_under_tokens()
        having = self._having
        for label in selector.match_labels.items():
            if label not in having:
                return False
        for each in selector.match_expressions:
            if each.operator == IN:
                if not any((each.key, value) in having for value in each.values):
                    return False
            elif each.operator == EXISTS and (each.key, None) not in having:
                return False
        return True

    def matching(self, selector: PodSelector) -> Collection[int]:
        """The ids of shapes that a selector means; not to be changed."""
        if self._waiting:
            self._put_under_tokens()
        found = self._wanted(selector)
        for token in selector.unwanted:
            if found and token in self._having:
                found = found - self._having[token]
        admits = selector.admits
        if admits is None:
            return found
        known: dict[str, bool] = {}
        for namespace in map(self._namespaces.__getitem__, found):
            if namespace not in known:
                known[namespace] = admits(namespace)
        return [number for number in found if known[self._namespaces[number]]]

    def _wanted(self, selector: PodSelector) -> set[int] | frozenset[int]:
        """The shapes that have of all that is wanted; the rarest is looked at first."""
        if not selector.wanted:
            return set(self._namespaces)
        sets = [
            [self._having[token] for token in tokens if token in self._having]
            for tokens in selector.wanted
        ]
        if not all(sets):
            return _NOWHERE
        sets.sort(key=lambda some: sum(map(len, some)))
        first, *others = sets
        found = first[0] if len(first) == 1 else set[int]().union(*first)
        for some in others:
            if len(some) == 1:
                found = found & some[0]
            else:
                found = {number for number in found if any(number in each for each in some)}
        return found


class SelectorsByLabel(Generic[V]):
    """Selectors with what they stand for, found by a shape's tokens."""

    def __init__(self) -> None:
        # Under None those that want nothing.
        self._under: dict[LabelToken | None, dict[Hashable, tuple[PodSelector, V]]] = {}
        # How many selectors are kept under a key, whatever its value.
        self._keys = 0
        self._tokens: dict[Hashable, tuple[LabelToken | None, ...]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, key: Hashable, selector: PodSelector, value: V) -> None:
        """Keeps a selector.

        Args:
            key: which no other has that is kept.
            selector: the selector.
            value: what :meth:`matching` gives for it.
        """
        tokens = self._tokens[key] = self._rarest(selector)
        self._keys += _is_key(tokens)
        for token in tokens:
            self._under.setdefault(token, {})[key] = selector, value

    def remove(self, key: Hashable) -> None:
        """The exact inverse."""
        tokens = self._tokens.pop(key)
        self._keys -= _is_key(tokens)
        for token in tokens:
            under = self._under[token]
            del under[key]
            if not under:
                del self._under[token]

    def matching(self, namespace: str, tokens: Sequence[LabelToken]) -> Iterator[V]:
        """What those selectors stand for that mean pods with these tokens."""
        under_all = self._under
        if not under_all:
            return
        having = frozenset(tokens)
        for token in (*tokens, None):
            under = under_all.get(token)
            if under is not None:
                for selector, value in under.values():
                    if selector.matches(namespace, having):
                        yield value

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether any selector may mean pods with these labels; where not, none does."""
        under = self._under
        if not under.keys().isdisjoint(labels.items()) or None in under or namespace in under:
            return True
        return self._keys > 0 and any((key, None) in under for key in labels)

    def _rarest(self, selector: PodSelector) -> tuple[LabelToken | None, ...]:
        if not selector.wanted:
            return (None,)
        under = self._under
        for tokens in selector.wanted:
            if len(tokens) == 1 and tokens[0] not in under:
                return tokens
        # One of several values of a key stands in one place for each: a pod has one of them.
        return min(
            selector.wanted,
            key=lambda tokens: sum(len(under[token]) for token in tokens if token in under),
        )


def _is_key(tokens: tuple[LabelToken | None, ...]) -> bool:
    """Whether tokens are a label's key alone; such a one stands by itself."""
    return len(tokens) == 1 and isinstance(tokens[0], tuple) and tokens[0][1] is None
