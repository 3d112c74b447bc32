// SPDX-License-Identifier: Apache-2.0
#include "koord/resctrl.hpp"

#include <array>
#include <limits>

#include "check.hpp"
#include "scratch.hpp"

using koord::resctrl::Limits;
using koord::resctrl::Schemata;
using koord::resctrl::Vendor;

TEST("resctrl/masks and bandwidths of percentages") {
  CHECK_EQ(koord::resctrl::cache_mask(Limits{0x3ff}, 10, 85).value().bits, 0x1feU);
  CHECK_EQ(koord::resctrl::cache_mask(Limits{0xffffffff}, 0, 100).value().bits, 0xffffffffU);
  CHECK(koord::resctrl::cache_mask(Limits{0x3ff}, 11, 15).value().widened);
  CHECK(!koord::resctrl::cache_mask(Limits{0x101}, 0, 100).ok());
  CHECK_EQ(koord::resctrl::bandwidth(Vendor::kIntel, {}, 85).value().value, 90);
  CHECK_EQ(koord::resctrl::bandwidth(Vendor::kAmd, {}, 33).value().value, 52);
}

TEST("resctrl/a step of the bandwidth beyond everything is everything") {
  Limits limits{0xfff};
  limits.bandwidth_gran = std::numeric_limits<std::int64_t>::max();
  CHECK_EQ(koord::resctrl::bandwidth(Vendor::kIntel, limits, 40).value().value, 100);
}

TEST("resctrl/schemata keep sparse ids") {
  const auto schemata = Schemata::parse("L3:0=fff;8=fff\nMB:0=100;8=90").value();
  CHECK_EQ(schemata.format(), std::string("L3:0=fff;8=fff;\nMB:0=100;8=90;\n"));
  CHECK(schemata.l3_valid(2));
  CHECK(!schemata.l3_valid(1));
  CHECK(schemata.mb_valid());
  CHECK(!Schemata::parse("MB:0=0").value().mb_valid());
}

TEST("resctrl/a tree tells its limits") {
  const koord::test::Scratch scratch;
  scratch.put("info/L3/cbm_mask", "7ff\n");
  scratch.put("info/L3/min_cbm_bits", "2\n");
  scratch.put("schemata", "L3:0=7ff;8=7ff\n");
  const auto root = koord::Root::open(scratch.path()).value();
  const auto info = koord::resctrl::read_info(root).value();
  CHECK_EQ(info.limits.min_cbm_bits, 2);
  CHECK(info.l3_ids == std::vector<std::int32_t>({0, 8}));
  CHECK(!info.has_bandwidth);
}
