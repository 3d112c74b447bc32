// SPDX-License-Identifier: Apache-2.0
// The groups of QoS classes, and the hardware they must fit.
#include <algorithm>
#include <bit>

#include "koord/resctrl.hpp"
#include "text.hpp"

namespace koord::resctrl {
namespace {

std::string line_of(const Schemata& schemata) {
  std::string text = schemata.format();
  text.pop_back();  // the line end
  return text;
}

template <class Value>
std::map<std::int32_t, Value> table_of(std::span<const std::int32_t> ids, Value value) {
  std::map<std::int32_t, Value> table;
  for (const auto id : ids) table[id] = value;
  return table;
}

std::optional<Error> add_cache(const Limits& limits, std::span<const std::int32_t> ids,
                               const ClassPolicy& policy, GroupPlan& group) {
  if (!policy.cat_range_start_percent || !policy.cat_range_end_percent) return std::nullopt;
  auto mask = cache_mask(limits, *policy.cat_range_start_percent, *policy.cat_range_end_percent);
  if (!mask) return mask.error();
  Schemata line;
  line.l3 = table_of(ids, mask.value().bits);
  group.lines.push_back(line_of(line));
  if (mask.value().widened) {
    group.notes.push_back("L3: range widened to " +
                          std::to_string(std::popcount(mask.value().bits)) +
                          " ways, the fewest the hardware takes");
  }
  if (mask.value().shared != 0) group.notes.emplace_back("L3: some ways are shared with devices");
  return std::nullopt;
}

std::optional<Error> add_bandwidth(Vendor vendor, const Limits& limits,
                                   std::span<const std::int32_t> ids, const ClassPolicy& policy,
                                   GroupPlan& group) {
  if (!policy.mba_percent || *policy.mba_percent < 1 || *policy.mba_percent > 100) {
    return std::nullopt;
  }
  auto value = bandwidth(vendor, limits, *policy.mba_percent);
  if (!value) return value.error();
  Schemata line;
  line.mb = table_of(ids, value.value().value);
  group.lines.push_back(line_of(line));
  if (value.value().clamped) {
    group.notes.push_back("MB: raised to " + std::to_string(value.value().value) +
                          ", the least the hardware takes");
  }
  return std::nullopt;
}

// A number in one of info's files; nothing when the file is not there.
Result<std::optional<std::int64_t>> info_number(const Root& root, const std::string& path,
                                                int base = 10) {
  if (!root.exists(path)) return std::optional<std::int64_t>{};
  auto text = root.read(path);
  if (!text) return text.error();
  const auto number = text::integer<std::int64_t>(text::trim(text.value()), base);
  if (!number || *number < 0 || *number > UINT32_MAX) {
    return invalid(path, text.value(), base == 16 ? "a hex mask" : "a number");
  }
  return number;
}

}  // namespace

Result<std::vector<GroupPlan>> plan(Vendor vendor, const Limits& limits,
                                    std::span<const std::int32_t> l3_ids,
                                    std::span<const ClassPolicy> classes) {
  if (l3_ids.empty()) return invalid("l3 ids", "", "at least one cache id");
  const auto negative = std::find_if(l3_ids.begin(), l3_ids.end(), [](auto id) { return id < 0; });
  if (negative != l3_ids.end()) {
    return invalid("l3 ids", std::to_string(*negative), "ids from 0");
  }
  const auto needed = static_cast<std::int64_t>(classes.size()) + 1;
  if (limits.num_closids > 0 && needed > limits.num_closids) {
    return invalid("num_closids", std::to_string(limits.num_closids),
                   "at least " + std::to_string(needed) + ", one a class and the root group");
  }
  std::vector<GroupPlan> groups;
  for (const auto& policy : classes) {
    GroupPlan group{policy.name, {}, {}};
    if (auto error = add_cache(limits, l3_ids, policy, group)) return *std::move(error);
    if (auto error = add_bandwidth(vendor, limits, l3_ids, policy, group)) {
      return *std::move(error);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

namespace {

// Reads numbers until one fails; absent files leave what was there.
class InfoReader {
 public:
  explicit InfoReader(const Root& root) : root_(root) {}

  template <class Value>
  bool read(const char* path, Value& target, int base = 10) {
    auto number = info_number(root_, path, base);
    if (!number) {
      if (!error_) error_ = number.error();
      return false;
    }
    if (number.value()) target = static_cast<Value>(*number.value());
    return number.value().has_value();
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Root& root_;
  std::optional<Error> error_;
};

}  // namespace

Result<Info> read_info(const Root& root) {
  Info info;
  auto mask_text = root.read("info/L3/cbm_mask");
  if (!mask_text) return mask_text.error();
  auto mask = parse_cbm_mask(mask_text.value());
  if (!mask) return mask.error();
  info.limits.cbm_mask = mask.value();

  InfoReader reader(root);
  reader.read("info/L3/min_cbm_bits", info.limits.min_cbm_bits);
  reader.read("info/L3/shareable_bits", info.limits.shareable_bits, 16);
  reader.read("info/L3/num_closids", info.limits.num_closids);
  info.has_bandwidth = reader.read("info/MB/min_bandwidth", info.limits.min_bandwidth);
  reader.read("info/MB/bandwidth_gran", info.limits.bandwidth_gran);
  reader.read("info/MB/delay_linear", info.delay_linear);
  // The scarcer of the two resources bounds the number of groups.
  int mb_closids = 0;
  if (reader.read("info/MB/num_closids", mb_closids) && info.limits.num_closids > 0) {
    info.limits.num_closids = std::min(info.limits.num_closids, mb_closids);
  }
  if (reader.error()) return *reader.error();

  auto text = root.read("schemata");
  if (!text) return text.error();
  auto schemata = Schemata::parse(text.value());
  if (!schemata) return schemata.error();
  if (!schemata.value().l3) return invalid("schemata", text.value(), "an L3 line");
  for (const auto& [id, bits] : *schemata.value().l3) info.l3_ids.push_back(id);
  return info;
}

}  // namespace koord::resctrl
