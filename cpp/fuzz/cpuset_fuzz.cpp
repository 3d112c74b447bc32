// SPDX-License-Identifier: Apache-2.0
// CPU lists and masks as texts, and sets of two of them.
#include "fuzz.hpp"
#include "koord/cpuset.hpp"

using koord::CpuSet;
using koord::Result;
using koord::fuzz::readable;

namespace {

void check_set(const CpuSet& set) {
  FUZZ_CHECK(set.last() <= CpuSet::kMaxId);
  FUZZ_CHECK(set.empty() == (set.first() == -1));
  FUZZ_CHECK(CpuSet::parse(set.format()).value() == set);
  FUZZ_CHECK(CpuSet::parse_mask(set.format_mask()).value() == set);
  FUZZ_CHECK(CpuSet::from_words(set.words()) == set);
  int ids = 0;
  int before = -1;
  for (const int id : set) {
    FUZZ_CHECK(id > before && set.contains(id));
    before = id;
    ++ids;
  }
  FUZZ_CHECK(ids == set.count() && before == set.last());
}

void check_pair(const CpuSet& a, const CpuSet& b) {
  FUZZ_CHECK((a | b).count() + (a & b).count() == a.count() + b.count());
  FUZZ_CHECK((a ^ b) == (a | b) - (a & b));
  FUZZ_CHECK((a - b).is_subset_of(a) && !(a - b).intersects(b));
  FUZZ_CHECK(a.intersects(b) == !(a & b).empty());
}

CpuSet parsed(std::string_view text) {
  CpuSet largest;
  const auto take = [&](Result<CpuSet> set) {
    FUZZ_CHECK(set.ok() || readable(set.error()));
    if (!set.ok()) return false;
    check_set(set.value());
    if (set.value().count() > largest.count()) largest = std::move(set).value();
    return true;
  };
  const bool strict = take(CpuSet::parse(text));
  const CpuSet typed = largest;
  // What people may type other programs may write, up to the end of ranges that the wire takes.
  if (take(CpuSet::parse_wire(text)) && strict) FUZZ_CHECK(largest == typed);
  if (strict && typed.last() <= CpuSet::kMaxWireRangeEnd) {
    FUZZ_CHECK(CpuSet::parse_wire(text).ok());
  }
  take(CpuSet::parse_mask(text));
  return largest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = koord::fuzz::text_of(data, size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const CpuSet first = parsed(text.substr(0, line));
  if (line < text.size()) check_pair(first, parsed(text.substr(line + 1)));
  return 0;
}
