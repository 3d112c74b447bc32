# SPDX-License-Identifier: Apache-2.0
# CPU sets: the class. The parsers and printers are libkoord's.
cdef extern from "koord/cpuset.hpp" namespace "koord" nogil:
    cdef cppclass CCpuSet "koord::CpuSet":
        @staticmethod
        Result[CCpuSet] parse(string_view text)
        @staticmethod
        Result[CCpuSet] parse_wire(string_view text)
        @staticmethod
        Result[CCpuSet] parse_mask(string_view text)
        string format()
        string format_mask()
        cbool contains(int id)
        cbool empty()
        int count()
        int first()
        int next(int id)
        void insert(int id)
        cbool is_subset_of(const CCpuSet& other)
        cbool intersects(const CCpuSet& other)
        size_t hash()
        CCpuSet operator|(const CCpuSet& other)
        CCpuSet operator&(const CCpuSet& other)
        CCpuSet operator-(const CCpuSet& other)
        CCpuSet operator^(const CCpuSet& other)
        cbool operator==(const CCpuSet& other)


cdef int MAX_ID = 8191


cdef CPUSet wrap_cpuset(const CCpuSet& native):
    cdef CPUSet cpus = CPUSet.__new__(CPUSet)
    cpus.native = native
    return cpus


cdef class CPUSet:
    """An immutable set of logical CPU ids, 0 to 8191."""

    cdef CCpuSet native

    def __init__(self, *values):
        """The empty set. TypeError for an argument, which else would be left out in silence."""
        if values:
            raise TypeError(f"CPUSet: got {values[0]!r}, expected no argument; "
                            "CPUSet.parse reads a text, CPUSet.from_ids numbers")

    @staticmethod
    def parse(str text not None):
        """Strict: every id once, ranges ascending, no spaces. ValueError names the item."""
        cdef CPUSet cpus = CPUSet.__new__(CPUSet)
        cdef Error error
        if not take(CCpuSet.parse(utf8(text)), cpus.native, error):
            raise value_error(error)
        return cpus

    @staticmethod
    def parse_wire(str text not None):
        """Lenient: ids may repeat, a reversed range is empty, a range ends at 4096 or below."""
        cdef CPUSet cpus = CPUSet.__new__(CPUSet)
        cdef Error error
        if not take(CCpuSet.parse_wire(utf8(text)), cpus.native, error):
            raise value_error(error)
        return cpus

    @staticmethod
    def parse_mask(str text not None):
        """Comma-separated 32-bit words in hex, as in the kernel's shared_cpu_map."""
        cdef CPUSet cpus = CPUSet.__new__(CPUSet)
        cdef Error error
        if not take(CCpuSet.parse_mask(utf8(text)), cpus.native, error):
            raise value_error(error)
        return cpus

    @staticmethod
    def from_ids(ids):
        """The set of some ids; ValueError for one outside 0 to 8191."""
        cdef CPUSet cpus = CPUSet.__new__(CPUSet)
        for id in ids:
            if not 0 <= id <= MAX_ID:
                raise invalid_value("cpu id", id, f"0 to {MAX_ID}")
            cpus.native.insert(id)
        return cpus

    def ids(self):
        """The ids, ascending."""
        cdef list found = []
        cdef int id = self.native.first()
        while id >= 0:
            found.append(id)
            id = self.native.next(id)
        return found

    def mask(self):
        """The mask form that parse_mask reads."""
        return self.native.format_mask().decode()

    def isdisjoint(self, CPUSet other not None):
        """Whether no id is in both."""
        return not self.native.intersects(other.native)

    def issubset(self, CPUSet other not None):
        """Whether every id is in the other; so is <=."""
        return self.native.is_subset_of(other.native)

    def issuperset(self, CPUSet other not None):
        """Whether every id of the other is here; so is >=."""
        return other.native.is_subset_of(self.native)

    def __contains__(self, cpu):
        return isinstance(cpu, int) and 0 <= cpu <= MAX_ID and self.native.contains(cpu)

    def __iter__(self):
        return iter(self.ids())

    def __len__(self):
        return self.native.count()

    def __bool__(self):
        return not self.native.empty()

    def __or__(self, other):
        if not isinstance(other, CPUSet):
            return NotImplemented
        return wrap_cpuset(self.native | (<CPUSet>other).native)

    def __and__(self, other):
        if not isinstance(other, CPUSet):
            return NotImplemented
        return wrap_cpuset(self.native & (<CPUSet>other).native)

    def __sub__(self, other):
        if not isinstance(other, CPUSet):
            return NotImplemented
        return wrap_cpuset(self.native - (<CPUSet>other).native)

    def __xor__(self, other):
        if not isinstance(other, CPUSet):
            return NotImplemented
        return wrap_cpuset(self.native ^ (<CPUSet>other).native)

    def __richcmp__(self, other, int op):
        if not isinstance(other, CPUSet):
            return NotImplemented
        cdef CPUSet theirs = <CPUSet>other
        cdef bint equal = self.native == theirs.native
        if op == Py_EQ:
            return equal
        if op == Py_NE:
            return not equal
        if op == Py_LE:
            return self.issubset(theirs)
        if op == Py_LT:
            return not equal and self.issubset(theirs)
        if op == Py_GE:
            return self.issuperset(theirs)
        return not equal and self.issuperset(theirs)

    def __hash__(self):
        return <Py_hash_t>self.native.hash()

    def __str__(self):
        return self.native.format().decode()

    def __repr__(self):
        return f"CPUSet.parse({str(self)!r})"

    def __reduce__(self):
        return CPUSet.parse, (str(self),)
