# SPDX-License-Identifier: Apache-2.0
# JSON texts taken apart: the class, and what it gives. libkoord does the splitting.
from libc.stdint cimport uint64_t
from libcpp.memory cimport unique_ptr


cdef extern from "koord/splitter.hpp" namespace "koord" nogil:
    cdef cppclass CPart "koord::Splitter::Part":
        uint32_t name
        string_view text
        size_t place

    cdef cppclass CObject "koord::Splitter::Object":
        string frame
        vector[CPart] parts
        uint64_t noted

    cdef cppclass CSplitter "koord::Splitter":
        CSplitter(vector[string] parts, vector[string] noted) except +ValueError
        cbool split(string_view text, CObject& object) except +

    cbool split_items "koord::Splitter::items"(
        string_view text, vector[string_view]& items
    ) except +


cdef class SplitObject:
    """An object as its frame and its parts; immutable."""

    cdef readonly bytes frame
    cdef readonly list parts
    cdef readonly tuple noted
    # Where in the frame the parts stood.
    cdef vector[size_t] places

    def pieces(self):
        """The frame as what stands before, between and after the parts."""
        cdef list found = []
        cdef size_t begin = 0
        for place in self.places:
            found.append(self.frame[begin:place])
            begin = place
        found.append(self.frame[begin:])
        return found


cdef class Splitter:
    """Which members of objects are parts, and of which names it is noted that they are there."""

    cdef unique_ptr[CSplitter] native
    cdef tuple parts, noted

    def __cinit__(self, parts, noted=()):
        self.parts, self.noted = tuple(parts), tuple(noted)
        self.native.reset(
            new CSplitter(
                [name.encode() for name in self.parts], [name.encode() for name in self.noted]
            )
        )

    def split(self, bytes text not None):
        """An object by its members; None where its text says more, as blanks or a name twice do."""
        cdef CObject found
        cdef SplitObject made
        cdef size_t index
        if not self.native.get().split(string_view(<const char*>text, len(text)), found):
            return None
        made = SplitObject.__new__(SplitObject)
        made.frame, made.parts, made.noted = found.frame, [], ()
        for index in range(found.parts.size()):
            part = bytes_of(found.parts[index].text)
            made.parts.append((self.parts[found.parts[index].name], part))
            made.places.push_back(found.parts[index].place)
        if found.noted:
            made.noted = tuple(
                [name for index, name in enumerate(self.noted) if found.noted >> index & 1]
            )
        return made

    @staticmethod
    def items(bytes text not None):
        """The texts of a list's items; None where its text says more."""
        cdef vector[string_view] found
        cdef size_t index
        if not split_items(string_view(<const char*>text, len(text)), found):
            return None
        return [bytes_of(found[index]) for index in range(found.size())]


cdef inline bytes bytes_of(string_view text):
    return PyBytes_FromStringAndSize(text.data(), text.size())
