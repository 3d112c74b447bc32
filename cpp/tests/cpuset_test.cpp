// SPDX-License-Identifier: Apache-2.0
#include "koord/cpuset.hpp"

#include <vector>

#include "check.hpp"

using koord::CpuSet;

namespace {

std::vector<int> ids(const CpuSet& set) { return {set.begin(), set.end()}; }

}  // namespace

TEST("cpuset/ids come back ascending whatever the order they went in") {
  const CpuSet set{130, 3, 64, 3, 63, 8191};
  CHECK(ids(set) == (std::vector<int>{3, 63, 64, 130, 8191}));
  CHECK_EQ(set.count(), 5);
  CHECK_EQ(set.first(), 3);
  CHECK_EQ(set.last(), 8191);
  CHECK_EQ(set.next(64), 130);
  CHECK_EQ(set.next(8191), -1);
}

TEST("cpuset/the empty set") {
  const CpuSet set;
  CHECK(set.empty());
  CHECK_EQ(set.count(), 0);
  CHECK_EQ(set.first(), -1);
  CHECK_EQ(set.last(), -1);
  CHECK_EQ(set.format(), std::string());
  CHECK_EQ(set.format_mask(), std::string("00000000"));
  CHECK(!set.contains(0));
  CHECK(!set.contains(-1));
}

TEST("cpuset/a range crosses words") {
  const CpuSet set = CpuSet::range(60, 200);
  CHECK_EQ(set.count(), 141);
  CHECK(set.contains(60) && set.contains(128) && set.contains(200));
  CHECK(!set.contains(59) && !set.contains(201));
  CHECK(CpuSet::range(5, 4).empty());
  CHECK_EQ(CpuSet::range(0, CpuSet::kMaxId).count(), 8192);
}

TEST("cpuset/set algebra") {
  const CpuSet a = CpuSet::range(0, 99);
  const CpuSet b = CpuSet::range(50, 299);
  CHECK((a | b) == CpuSet::range(0, 299));
  CHECK((a & b) == CpuSet::range(50, 99));
  CHECK((a - b) == CpuSet::range(0, 49));
  CHECK((b - a) == CpuSet::range(100, 299));
  CHECK((a ^ b) == (CpuSet::range(0, 49) | CpuSet::range(100, 299)));
  CHECK((a - a).empty());
  CHECK(a.intersects(b));
  CHECK(!a.intersects(CpuSet::range(100, 199)));
  CHECK((a & b).is_subset_of(a));
  CHECK(!b.is_subset_of(a));
  CHECK(CpuSet().is_subset_of(a));
}

TEST("cpuset/sets that shrank equal sets that never were large") {
  CpuSet set{1, 8000};
  set.erase(8000);
  set.erase(7999);
  CHECK(set == CpuSet{1});
  CHECK_EQ(set.words().size(), 1U);
  CHECK(CpuSet::from_words(set.words()) == set);
}

TEST("cpuset/an id out of range throws") {
  CpuSet set;
  CHECK_THROWS(set.insert(8192), koord::Exception);
  CHECK_THROWS(set.insert(-1), koord::Exception);
  CHECK_THROWS(set.insert_range(0, 8192), koord::Exception);
  const std::vector<CpuSet::Word> words(129, 1);
  CHECK_THROWS(CpuSet::from_words(words), koord::Exception);
}

TEST("cpuset/lists are printed as Linux prints them") {
  CHECK_EQ((CpuSet{1, 2, 3, 5, 6, 8}).format(), std::string("1-3,5-6,8"));
  CHECK_EQ(CpuSet::range(0, 8191).format(), std::string("0-8191"));
}

TEST("cpuset/the strict parser takes what people mean and nothing doubtful") {
  CHECK(CpuSet::parse("8,0-3").value() == (CpuSet{0, 1, 2, 3, 8}));
  CHECK(CpuSet::parse("").value().empty());
  CHECK(CpuSet::parse("0-8191").value().count() == 8192);
  for (const char* bad : {"3-1",  "1,1",    "0-3,2", "1,",    ",",   ",1",          "1,,2",
                          " 1",   "1 ",     "1- 2",  "1-2-3", "-1",  "1-",          "-",
                          "8192", "0-8192", "+1",    "a",     "0x1", "99999999999", "1\n"}) {
    CHECK(!CpuSet::parse(bad).ok());
  }
}

TEST("cpuset/the lenient parser takes what is on the wire") {
  CHECK(CpuSet::parse_wire("1,1,0-2,3-1,+5").value() == (CpuSet{0, 1, 2, 5}));
  CHECK(CpuSet::parse_wire("9000-1").value().empty());
  CHECK(CpuSet::parse_wire("5000").value() == CpuSet{5000});
  CHECK(CpuSet::parse_wire("0-4096").value().count() == 4097);
  for (const char* bad :
       {"0-4097", "8192", "1,", "1,,2", " 1", "1-2-3", "-1", "2147483648", "++1"}) {
    CHECK(!CpuSet::parse_wire(bad).ok());
  }
}

TEST("cpuset/an error names the item and what would be right") {
  CHECK_EQ(CpuSet::parse("0-3,7-5").error().message(),
           std::string("cpu list: got '7-5', expected a range that ascends"));
  CHECK_EQ(CpuSet::parse("0-3,2").error().message(),
           std::string("cpu list: got '2', expected every id once"));
}

TEST("cpuset/masks as in shared_cpu_map") {
  CHECK(CpuSet::parse_mask("f").value() == CpuSet::range(0, 3));
  CHECK(CpuSet::parse_mask("00000001,00000000,80000003").value() == (CpuSet{0, 1, 31, 64}));
  CHECK_EQ((CpuSet{0, 1, 31, 64}).format_mask(), std::string("00000001,00000000,80000003"));
  CHECK(CpuSet::parse_mask("00000000,00000000").value().empty());
  for (const char* bad : {"", ",", "1,", "123456789", "g", "-1", "0x1", "1 "}) {
    CHECK(!CpuSet::parse_mask(bad).ok());
  }
  std::string wide = "1";
  for (int i = 0; i < 256; ++i) wide += ",00000000";
  CHECK(!CpuSet::parse_mask(wide).ok());
}
