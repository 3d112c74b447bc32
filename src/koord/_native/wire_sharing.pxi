# SPDX-License-Identifier: Apache-2.0
# Equal parts of decoded objects are kept once: the loops of kube.codec.interner and page_reader.
from cpython.bytes cimport PyBytes_FromObject, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.string cimport memcmp
from datetime import datetime
from weakref import ref

# After so many different values it shows whether any come again.
cdef Py_ssize_t TRIAL = 1024
# Of the texts by which values are known: the longest.
cdef Py_ssize_t LONGEST = 64 << 10
# What one generation of values may have of the budget.
cdef Py_ssize_t GENERATIONS = 4
# What a value takes that is remembered, however small: its entry, its text, itself. Of a text each
# byte is kept once; of anything else as the text and as what was decoded.
cdef Py_ssize_t ENTRY_BYTES = 256
cdef Py_ssize_t DECODED = 4
cdef list EMPTY_LIST = []
cdef dict EMPTY_DICT = {}


cdef class SharingBudget:
    """What all that is remembered may take together, as memory.

    Who has most gives, until three quarters are left: so who is to give is looked for seldom.

    Args:
        most: bytes.
    """

    cdef Py_ssize_t most
    cdef readonly Py_ssize_t size
    # Weak, in the order in which they came: what one has goes with it.
    cdef list sharings

    def __init__(self, Py_ssize_t most):
        self.most, self.size = most, 0
        self.sharings = []

    cpdef join(self, Sharing sharing):
        """One more has its memory from this."""
        self.sharings = [each for each in self.sharings if each() is not None]
        self.sharings.append(ref(sharing))

    cdef add(self, Py_ssize_t size):
        self.size += size
        if self.size > self.most:
            self.give()

    cdef bint is_much(self, Py_ssize_t size):
        """Whether so much is enough for what one place has met lately."""
        return size > self.most // GENERATIONS

    cdef give(self):
        """Makes room. What has gone with its Sharing is found here."""
        cdef list holders = []
        cdef Place place
        cdef KnownPart part
        self.size = 0
        for each in self.sharings:
            sharing = each()
            if sharing is None:
                continue
            for place in (<Sharing>sharing).places:
                holders.append((place.seen_bytes + place.old_bytes, len(holders), place))
                self.size += place.seen_bytes + place.old_bytes
            for part in (<Sharing>sharing).known_parts:
                if part.brief:
                    continue
                holders.append((part.held_bytes, len(holders), part))
                self.size += part.held_bytes
        holders.sort(reverse=True)
        # At first a place lets go of what it did not meet lately.
        for _ in range(2):
            for _, _, holder in holders:
                if self.size <= self.most // 4 * 3:
                    return
                if type(holder) is Place:
                    (<Place>holder).next_generation()
                else:
                    (<KnownPart>holder).forget()


cdef class Sharing:
    """How types are shared.

    Args:
        budget: of the memory of what is remembered.
        size: how many different values of one place are remembered, at least.
        to_json: gives the text by which structs, lists and maps are known.
        fields_of: gives the SharedFields of a struct type, None for other types.
        parts_of: gives the field values of a struct as a tuple.
    """

    cdef SharingBudget budget
    cdef Py_ssize_t size
    cdef object to_json, fields_of, parts_of
    cdef dict known
    # All that remember anything.
    cdef list places, known_parts
    cdef object __weakref__

    def __init__(
        self, SharingBudget budget not None, Py_ssize_t size, to_json, fields_of, parts_of
    ):
        self.budget, self.size = budget, size
        self.places, self.known_parts = [], []
        budget.join(self)
        self.to_json, self.fields_of, self.parts_of = to_json, fields_of, parts_of
        self.known = {}

    cpdef object fields(self, kind):
        """How structs of a type are shared; None for other types."""
        if kind not in self.known:
            self.known[kind] = self.fields_of(kind)
        return self.known[kind]

    cpdef object inside(self, value, Place place):
        """The value, its parts shared."""
        cdef Place parts, names
        kind = type(value)
        if kind is list:
            parts = place.parts()
            return [parts.share(item) for item in <list>value]
        if kind is dict:
            names, parts = place.names(), place.parts()
            return {names.share(name): parts.share(item) for name, item in (<dict>value).items()}
        fields = self.fields(kind)
        if fields is not None:
            (<SharedFields>fields).share(value)
        return value


cdef class SharedFields:
    """The fields of one struct type."""

    cdef Sharing sharing
    cdef readonly list places
    cdef object assign

    def __init__(self, Sharing sharing not None, list places not None, assign):
        self.sharing, self.places, self.assign = sharing, places, assign

    cpdef share(self, value):
        """Shares every field, in place."""
        cdef tuple parts = self.sharing.parts_of(value)
        cdef Py_ssize_t index
        for index in range(len(parts)):
            had = parts[index]
            name, place = <tuple>self.places[index]
            shared = (<Place>place).share(had)
            if shared is not had:
                self.assign(value, name, shared)


cdef class Place:
    """One field of one type, or the items of one: what was seen there."""

    cdef Sharing sharing
    # Two generations: a value is forgotten when it was not met while a whole one filled up.
    cdef dict seen, old
    # What the two take, as the budget counts it; values and hits since it was last asked whether
    # any come again.
    cdef Py_ssize_t seen_bytes, old_bytes, values, hits
    cdef bint judged
    # Given up, since what comes here hardly ever comes again.
    cdef readonly bint open
    cdef Place parts_, names_

    def __init__(self, Sharing sharing not None):
        self.sharing = sharing
        self.seen, self.old = {}, {}
        sharing.places.append(self)

    def __len__(self):
        """How many values are remembered."""
        return len(self.seen) + len(self.old)

    cpdef Place parts(self):
        """The place of the items of what is in this one."""
        if self.parts_ is None:
            self.parts_ = Place(self.sharing)
        return self.parts_

    cdef Place names(self):
        if self.names_ is None:
            self.names_ = Place(self.sharing)
        return self.names_

    cpdef object share(self, value):
        """An equal value that was here before, or this one with its parts shared."""
        kind = type(value)
        if value is None or kind is bool or kind is int or kind is float:
            return value
        plain = kind is str or kind is datetime
        if not value:
            if kind is list:
                return EMPTY_LIST
            if kind is dict:
                return EMPTY_DICT
            if kind is str:
                return value
        if self.open:
            return value if plain else self.sharing.inside(value, self)
        # Equal JSON texts of one place mean equal values. Quantities that are equal may be
        # spelled differently, so they go by their text too.
        key = value if plain else self.sharing.to_json(value)
        if kind is not datetime and len(key) > LONGEST:
            return value if plain else self.sharing.inside(value, self)
        found = self.seen.get(key)
        if found is None:
            found = self.old.get(key)
            if found is None:
                return self.remember(key, value if plain else self.sharing.inside(value, self))
            self.remember(key, found)
        self.hits += 1
        return found

    cdef object remember(self, key, value):
        cdef Py_ssize_t size = ENTRY_BYTES
        if type(key) is not datetime:
            size += len(key) if key is value else len(key) * DECODED
        self.seen[key] = value
        self.seen_bytes += size
        self.sharing.budget.add(size)
        self.values += 1
        if len(self.seen) == self.sharing.size or self.sharing.budget.is_much(self.seen_bytes):
            self.next_generation()
        if self.values == self.sharing.size:
            self.judge(self.sharing.size // 4)
            self.values = self.hits = 0
            self.judged = True
        elif self.values == TRIAL and not self.judged:
            self.judge(TRIAL // 32)
        return value

    cdef next_generation(self):
        """The values met lately take the place of those before, which are forgotten."""
        self.sharing.budget.size -= self.old_bytes
        self.old, self.seen = self.seen, {}
        self.old_bytes, self.seen_bytes = self.seen_bytes, 0

    cdef judge(self, Py_ssize_t least_hits):
        if self.hits < least_hits:
            self.open = True
            self.next_generation()
            self.next_generation()


cdef class Part:
    """Makes one field of an object, or the object, of the text's spans that a row says."""

    cdef object make(self, const char* text, const CSpan* row):
        raise NotImplementedError

    cdef object renew(self, value, before):
        """The value before, where the two are the same to who reads them."""
        return value


cdef class KnownPart(Part):
    """A field by its bytes.

    Args:
        column: which span of a row it is.
        place: where its values are shared.
        decode: gives the value of bytes; raises where a field must be there and is not.
        default: where there are no bytes, as a tuple; empty for a field that must be there.
        scalar: whether equal values of one type are the same.
        most: how many different bytes are remembered at most; see :meth:`remember`.
        items: of a list, how its items are made and how its bytes are split into theirs: used
            where whole lists hardly ever come again. None where there are no such.
        text: whether the value is any text.
    """

    cdef uint32_t column
    cdef Place place
    cdef object decode, split
    cdef tuple default
    cdef bint scalar, text
    cdef KnownPart items
    cdef dict known
    # What it takes, as the budget counts it.
    cdef Py_ssize_t held_bytes
    cdef Py_ssize_t most, misses, hits
    cdef bint brief
    # What came last comes again most often: pods of one workload are listed one after the other.
    cdef bytes last
    cdef object value

    def __init__(
        self, uint32_t column, Place place not None, decode, tuple default not None, bint scalar,
        Py_ssize_t most, tuple items=None, bint text=False,
    ):
        self.column, self.place, self.decode, self.text = column, place, decode, text
        self.default = tuple([place.share(each) for each in default])
        self.scalar = scalar
        self.known = {}
        if items is not None:
            self.items, self.split = items
        self.remember(most)
        place.sharing.known_parts.append(self)

    cpdef remember(self, Py_ssize_t most, bint brief=False):
        """Lets go of the bytes that are known, and remembers so many from now on.

        Args:
            most: how many.
            brief: it is for a list that is being read, and over with it: that needs no budget.
        """
        self.forget()
        self.most, self.brief = most, brief
        self.misses = self.hits = 0
        if self.items is not None:
            self.items.remember(most, brief)

    cdef forget(self):
        """Lets go of all bytes that are known."""
        if not self.brief:
            self.place.sharing.budget.size -= self.held_bytes
        self.known = {}
        self.last, self.value = b"", None
        self.held_bytes = 0

    cdef object make(self, const char* text, const CSpan* row):
        cdef CSpan span = row[self.column]
        cdef Py_ssize_t size = span.end - span.begin
        if not size and self.default:
            return self.default[0]
        if not size or size != len(self.last) or memcmp(text + span.begin, <char*>self.last, size):
            key = PyBytes_FromStringAndSize(text + span.begin, size)
            self.value = self.find(key)
            self.last = key
        return self.value

    cdef object renew(self, value, before):
        if self.scalar and type(value) is type(before) and value == before:
            return before
        return value

    cdef object find(self, bytes key):
        cdef Py_ssize_t size
        found = self.known.get(key)
        if found is not None:
            self.hits += 1
            return found
        if len(key) > LONGEST:
            # It would not be remembered whole, and to look for what its parts share takes several
            # times as long as all else: who sends it could take everybody's time.
            return self.decode(key)
        if self.items is not None and self.place.open:
            found = [self.items.find(PyBytes_FromObject(item)) for item in self.split(key)]
        else:
            value = plain_text(key) if self.text else None
            found = self.place.share(self.decode(key) if value is None else value)
        self.misses += 1
        # Bytes that hardly ever come again are not worth the memory.
        if self.misses < TRIAL or self.hits * 8 > self.misses:
            if len(self.known) >= self.most or self.place.sharing.budget.is_much(self.held_bytes):
                self.forget()
            # The place may forget the value sooner than this part does.
            size = ENTRY_BYTES + len(key) * DECODED
            self.held_bytes += size
            self.known[key] = found
            if not self.brief:
                self.place.sharing.budget.add(size)
        return found


cdef object plain_text(bytes key):
    """The text that a JSON string is; None where it has to be decoded."""
    cdef Py_ssize_t at, size = len(key)
    cdef const unsigned char* text = key
    if size < 2 or text[0] != 34 or text[size - 1] != 34:  # quotes
        return None
    for at in range(1, size - 1):
        # Nothing is escaped, ends early, or takes several bytes.
        if text[at] < 32 or text[at] > 126 or text[at] == 34 or text[at] == 92:
            return None
    return PyUnicode_DecodeASCII(<const char*>text + 1, size - 2, NULL)


cdef class LastStates:
    """The last state of each object, known by a digest of all that is read of it but its version.

    Args:
        name, namespace, version: the columns of these.
        digest: gives that of bytes.
        renewed: gives a state again with another version.
    """

    cdef uint32_t name, namespace, version
    cdef object digest, renewed
    cdef dict states
    # Of the object that is looked at.
    cdef object key, text

    def __init__(
        self, uint32_t name, uint32_t namespace, uint32_t version, digest, renewed
    ):
        self.name, self.namespace, self.version = name, namespace, version
        self.digest, self.renewed = digest, renewed
        self.states = {}

    def __len__(self):
        """Of how many objects there is one."""
        return len(self.states)

    def clear(self):
        """Forgets all, where states come from elsewhere."""
        self.states = {}

    def forget(self):
        """Forgets the object that was looked at last: it is gone."""
        self.states.pop(self.key, None)

    cdef object same(self, const char* text, const CSpan* row, CSpan whole):
        """What the last state becomes where the version is all that is new; None where not."""
        cdef CSpan version = row[self.version]
        self.key = None
        if version.end < version.begin + 3 or not row[self.name].end:
            return None
        self.key = span_of(text, row[self.namespace]), span_of(text, row[self.name])
        cdef bytes read = PyBytes_FromStringAndSize(text + whole.begin, version.begin - whole.begin)
        read += PyBytes_FromStringAndSize(text + version.end, whole.end - version.end)
        self.text = self.digest(read)
        last = self.states.get(self.key)
        if last is None or last[0] != self.text:
            return None
        cdef bytes number = PyBytes_FromStringAndSize(
            text + version.begin + 1, version.end - version.begin - 2
        )
        if not number.isdigit():
            return None
        made = self.renewed(last[1], number.decode())
        self.states[self.key] = self.text, made
        return made

    cdef put(self, made):
        """Takes the state of the object that was looked at."""
        if self.key is not None:
            self.states[self.key] = self.text, made


cdef bytes span_of(const char* text, CSpan span):
    return PyBytes_FromStringAndSize(text + span.begin, span.end - span.begin)


cdef class Assembly(Part):
    """Puts structs of one type together.

    Args:
        column: which span of a row is the whole of the struct.
        kind: the type.
        parts_of: gives the field values of a struct as a tuple.
        parts: a Part a field, in their order.
        names: of these fields; None where they cannot be set.
    """

    cdef uint32_t column
    cdef object kind, parts_of
    cdef list parts
    cdef tuple names

    def __init__(self, uint32_t column, kind, parts_of, list parts not None, tuple names=None):
        self.column, self.kind, self.parts_of, self.parts = column, kind, parts_of, parts
        self.names = names

    def read(
        self, Projection projection not None, bytes text not None, Py_ssize_t first, before,
        LastStates last=None,
    ):
        """The bytes in column 0 of the first row, and the structs of rows.

        Args:
            projection: has the columns of the parts.
            text: JSON.
            first: the first row that is a struct's.
            before: gives the state before of a struct, None for none: what has not changed is its.
            last: knows the state before by the text, without one being made.

        Returns:
            None where the text cannot be followed.
        """
        cdef string out
        cdef vector[CSpan] rows
        cdef list found = []
        cdef size_t width = projection.native.columns()
        cdef size_t at
        if not projection.rows(text, out, rows):
            return None
        for at in range(first * width, rows.size(), width):
            if not rows[at + self.column].end:
                return None
            if last is not None:
                same = last.same(out.data(), &rows[at], rows[at + self.column])
                if same is not None:
                    found.append(same)
                    continue
            made = self.make(out.data(), &rows[at])
            then = before(made)
            found.append(made if then is None else self.renew(made, then))
            if last is not None:
                last.put(found[-1])
        return <bytes>out.substr(rows[0].begin, rows[0].end - rows[0].begin), found

    cdef object make(self, const char* text, const CSpan* row):
        cdef Part part
        return self.kind(*[part.make(text, row) for part in self.parts])

    cdef object renew(self, value, before):
        cdef tuple then = self.parts_of(before)
        cdef tuple now = self.parts_of(value)
        cdef list kept = None
        cdef Py_ssize_t index
        cdef bint same = True
        for index in range(len(now)):
            had = now[index]
            if had is then[index]:
                continue
            made = (<Part>self.parts[index]).renew(had, then[index])
            same = same and made is then[index]
            if made is not had:
                if kept is None:
                    kept = list(now)
                kept[index] = made
        if same:
            return before
        if kept is None:
            return value
        if self.names is None:
            return self.kind(*kept)
        # Nobody else has it yet: it was made a moment ago.
        for index in range(len(now)):
            if kept[index] is not now[index]:
                setattr(value, self.names[index], kept[index])
        return value
