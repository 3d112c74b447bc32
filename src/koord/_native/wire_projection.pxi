# SPDX-License-Identifier: Apache-2.0
# JSON texts cut down to the members that somebody reads: the class. libkoord does the cutting.
cdef extern from "koord/projection.hpp" namespace "koord" nogil:
    cdef cppclass CSpan "koord::Projection::Span":
        uint32_t begin
        uint32_t end

    cdef cppclass CProjection "koord::Projection":
        CProjection()
        uint32_t object(
            const vector[string]& names, const vector[uint32_t]& members
        ) except +ValueError
        uint32_t list(uint32_t item) except +ValueError
        uint32_t unless(const string& name) except +ValueError
        uint32_t mark(uint32_t node, uint32_t column) except +ValueError
        cbool cut(string_view text, uint32_t node, string& out) except +ValueError
        cbool cut(
            string_view text, uint32_t node, string& out, vector[CSpan]& rows
        ) except +ValueError
        size_t columns()


cdef class Projection:
    """What of a JSON text is kept; immutable."""

    cdef CProjection native
    cdef uint32_t root

    def __cinit__(self, plan):
        self.root = self.node(plan)

    cdef uint32_t node(self, plan) except *:
        cdef vector[string] names
        cdef vector[uint32_t] members
        if plan is None:
            return 0
        if isinstance(plan, str):
            return self.native.unless(plan.encode())
        if isinstance(plan, tuple):
            column, below = plan
            return self.native.mark(self.node(below), column)
        if isinstance(plan, list):
            (item,) = plan
            return self.native.list(self.node(item))
        for name, below in plan.items():
            names.push_back(name.encode())
            members.push_back(self.node(below))
        return self.native.object(names, members)

    def cut(self, bytes text not None):
        """The text with what is kept of it; None where it cannot be followed."""
        cdef string out
        cdef string_view whole = string_view(<const char*>text, len(text))
        cdef cbool followed
        # Nobody else has `out`, bytes do not change, and nor does a projection.
        with nogil:
            out.reserve(whole.size() // 2)
            followed = self.native.cut(whole, self.root, out)
        return <bytes>out if followed else None

    cdef cbool rows(self, bytes text, string& out, vector[CSpan]& rows) except *:
        """The same with the places of what is marked; false where the text cannot be followed."""
        cdef string_view whole = string_view(<const char*>text, len(text))
        with nogil:
            out.reserve(whole.size() // 2)
            return self.native.cut(whole, self.root, out, rows)

    def marked(self, bytes text not None):
        """By row and column, the marked values of a text; None where it cannot be followed.

        Empty bytes stand for a value that is not there.
        """
        cdef string out
        cdef vector[CSpan] rows
        if not self.rows(text, out, rows):
            return None
        kept = <bytes>out
        spans = [kept[rows[index].begin : rows[index].end] for index in range(rows.size())]
        width = self.native.columns() or 1
        return [spans[start : start + width] for start in range(0, len(spans), width)]
