// SPDX-License-Identifier: Apache-2.0
// The table of policies, and what a policy does unless it says otherwise.
#include "placement_policies.hpp"

#include <algorithm>
#include <array>

namespace koord::placement {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(const NodeTable&, const PolicyOptions&);
};

// A policy of your own: one line here, see placement_policy.hpp.
constexpr std::array kPolicies = {
    Entry{"random", make_random},         Entry{"dotprod", make_dotprod},
    Entry{"clustering", make_clustering}, Entry{"packing", make_packing},
    Entry{"bestfit", make_bestfit},       Entry{"fgd", make_fgd},
    Entry{"koord", make_koord},           Entry{"fit", make_fit},
    Entry{"least", make_least},           Entry{"most", make_most},
    Entry{"balanced", make_balanced},
};

}  // namespace

MinorMask Policy::choose_gpus(const NodeTable& table, ShapeId shape, Row row) {
  return table.gpus().choose(row, table.shape(shape).gpus, devices::Choice::kBest);
}

std::int64_t Policy::draw(std::int64_t) { return -1; }

void Policy::normalise(std::span<const std::uint8_t>, std::span<Rating>) const {}

void spread_scores(std::span<const std::uint8_t> mask, std::span<Rating> ratings) {
  std::int32_t low = INT32_MAX;
  std::int32_t high = INT32_MIN;
  for (std::size_t row = 0; row < mask.size(); ++row) {
    if (mask[row] == 0) continue;
    low = std::min(low, ratings[row].score);
    high = std::max(high, ratings[row].score);
  }
  for (std::size_t row = 0; row < mask.size(); ++row) {
    if (mask[row] == 0) continue;
    const std::int64_t above = std::int64_t{ratings[row].score} - low;
    ratings[row].score =
        high == low ? 0 : static_cast<std::int32_t>(above * 100 / (std::int64_t{high} - low));
  }
}

std::unique_ptr<Policy> make_policy(std::string_view name, const NodeTable& table,
                                    const PolicyOptions& options) {
  const auto found = std::ranges::find(kPolicies, name, &Entry::name);
  if (found != kPolicies.end()) return found->make(table, options);
  std::string known;
  for (const Entry& entry : kPolicies)
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Exception(not_found("policy", name, "one of " + known));
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  names.reserve(kPolicies.size());
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

}  // namespace koord::placement
