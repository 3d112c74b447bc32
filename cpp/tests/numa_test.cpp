// SPDX-License-Identifier: Apache-2.0
#include "koord/numa.hpp"

#include "check.hpp"

namespace {

using namespace koord::numa;
using Amounts = std::vector<std::int64_t>;

Column cpu(Amounts amounts) {
  const Mask listed = (Mask{1} << amounts.size()) - 1;
  return {Kind::kCpu, listed, std::move(amounts)};
}

TEST("numa/zones are kept by id and masks go by position") {
  const ZoneSet zones = ZoneSet::from_ids({9, 0, 4}).value();
  CHECK(zones.ids() == (std::vector<int>{0, 4, 9}));
  CHECK_EQ(zones.mask_of(std::vector<int>{9, 0}).value(), Mask{5});
  CHECK(zones.ids_of(6) == (std::vector<int>{4, 9}));
  CHECK_EQ(zones.text(2), std::string("10000"));
  CHECK_EQ(zones.text(4), std::string("1000000000"));
  CHECK_EQ(zones.text(0), std::string("00"));
}

TEST("numa/bad zones are refused") {
  CHECK(!ZoneSet::from_ids({}).ok());
  CHECK(!ZoneSet::from_ids({1, 1}).ok());
  CHECK(!ZoneSet::from_ids({-1}).ok());
  CHECK(!ZoneSet::from_ids({kMaxZoneId + 1}).ok());
  CHECK(!ZoneSet::from_ids(std::vector<int>(65)).ok());
  const ZoneSet zones = ZoneSet::from_ids({0}).value();
  CHECK(zones.mask_of(std::vector<int>{1}).error().code == koord::Errc::kNotFound);
}

TEST("numa/masks are enumerated by size, then lexicographically") {
  CHECK(enumerate_masks(3).value() == (std::vector<Mask>{1, 2, 4, 3, 5, 6, 7}));
  CHECK_EQ(enumerate_masks(16).value().size(), 65535U);
  CHECK(!enumerate_masks(0).ok());
  CHECK(!enumerate_masks(17).ok());
}

TEST("numa/scarce zones give first") {
  const std::vector<Column> free{cpu({10000, 2000})};
  const std::vector<Demand> demands{{0, 8000, 8000}};
  const CpuSupply cpus{8, {10, 2}, false, false, 2, {}};
  const auto result = distribute(free, demands, 3, 2, &cpus).value();
  CHECK(result.taken == (Amounts{6000, 2000}));
  CHECK(result.insufficient.empty());
}

TEST("numa/a fraction left over by a zone rounds bound CPUs up past the request") {
  const std::vector<Column> free{cpu({1500, 8000})};
  const std::vector<Demand> demands{{0, 4000, 4000}};
  const CpuSupply cpus{4, {8, 8}, false, false, 1, {}};
  const auto result = distribute(free, demands, 3, 2, &cpus).value();
  CHECK(result.taken == (Amounts{1500, 3000}));
  CHECK(result.insufficient == (std::vector<std::size_t>{0}));
}

TEST("numa/hints need whole cores where these are required") {
  HintQuery query;
  query.zones = 2;
  query.total = query.available = {cpu({8000, 8000})};
  query.demands = {{0, 6000, 6000}};
  query.pools = {{query.available, CpuSupply{6, {4, 4}, true, true, 4, {}}}};
  const auto hints = generate_hints(query).value();
  // Six CPUs are one and a half cores of four threads, on any zones.
  CHECK(hints[0].has_value() && hints[0]->empty());
}

TEST("numa/amounts out of range are refused") {
  const std::vector<Demand> demands{{0, 1, 1}};
  CHECK(!distribute(std::vector<Column>{cpu({-1})}, demands, 1, 1, nullptr).ok());
  CHECK(!distribute(std::vector<Column>{cpu({INT64_MAX})}, demands, 1, 1, nullptr).ok());
  CHECK(!distribute(std::vector<Column>{}, demands, 1, 1, nullptr).ok());
  CHECK(!distribute(std::vector<Column>{cpu({1})}, demands, 2, 1, nullptr).ok());
  CHECK(!distribute(std::vector<Column>{{Kind::kCpu, 0, {1}}}, demands, 1, 1, nullptr).ok());
}

TEST("numa/sums of the largest amounts do not overflow a score") {
  const std::int64_t most = std::int64_t{1} << 61;
  HintQuery query;
  query.zones = 16;
  query.total = {cpu(Amounts(16, most))};
  query.available = {cpu(Amounts(16, most / 2))};
  query.demands = {{0, 0, 0}};
  query.pools = {{query.available, std::nullopt}};
  query.scorer = Scorer{Strategy::kMostAllocated, {1}};
  const auto hints = generate_hints(query).value();
  CHECK_EQ(hints[0]->back().score, 50);
}

TEST("numa/what is left counts amplified CPUs") {
  Usage usage{1, {cpu({4000, 0})}, {cpu({0, 1000})}, {3, 4}, 1.5};
  const auto left = available(std::vector<Column>{cpu({12000, 12000})}, usage).value();
  CHECK(left[0].amount == (Amounts{6500, 12000}));
}

TEST("numa/a rejected pod's reason shows preferred and possible masks") {
  const HintList cpus{{Mask{1}, true}, {Mask{3}, false}};
  const HintList memory{{Mask{2}, true}, {Mask{3}, false}};
  const std::vector<Provider> providers{{"", {{"memory", &memory}, {"cpu", &cpus}}}};
  const Machine machine{ZoneSet::from_ids({0, 1}).value(), Exclusive::kNone, {{}, {}}};
  const auto decision = admit(Policy::kSingleNumaNode, machine, providers).value();
  CHECK(!decision.admitted);
  CHECK_EQ(decision.reasons[0],
           std::string("Unaligned NUMA Hint cause cpu prefer [01] among [01 11],"
                       "memory prefer [10] among [10 11]"));
}

TEST("numa/policy names") {
  CHECK(parse_policy("Restricted").value() == Policy::kRestricted);
  CHECK(!parse_policy("restricted").ok());
  const std::vector<std::string> names{"RestrictedPodLevel", "BestEffort"};
  CHECK(reported_policy(names, Naming::kEvery).value() == Policy::kRestricted);
  CHECK(reported_policy(names, Naming::kCompatible).value() == Policy::kBestEffort);
}

}  // namespace
