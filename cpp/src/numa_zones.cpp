// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "numa_internal.hpp"

namespace koord::numa {

std::optional<Error> check_zone_count(std::size_t zones) {
  if (zones >= 1 && zones <= kMaxZones) return std::nullopt;
  return invalid("zones", std::to_string(zones), "1 to 64 zones");
}

Result<ZoneSet> ZoneSet::from_ids(std::vector<int> ids) {
  if (auto error = check_zone_count(ids.size())) return *error;
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > kMaxZoneId) {
      return invalid("zone id", std::to_string(ids[i]), "0 to 1023");
    }
    if (i > 0 && ids[i] == ids[i - 1]) {
      return invalid("zone id", std::to_string(ids[i]), "each zone once");
    }
  }
  return ZoneSet(std::move(ids));
}

Mask ZoneSet::all() const noexcept { return all_of(size()); }

Result<Mask> ZoneSet::mask_of(std::span<const int> ids) const {
  Mask mask = 0;
  for (const int id : ids) {
    const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (at == ids_.end() || *at != id) {
      return not_found("zone id", std::to_string(id), "a zone of this machine");
    }
    mask |= Mask{1} << static_cast<std::size_t>(at - ids_.begin());
  }
  return mask;
}

std::vector<int> ZoneSet::ids_of(Mask mask) const {
  std::vector<int> ids;
  for (std::size_t i = 0; i < size(); ++i) {
    if (contains(mask, i)) ids.push_back(ids_[i]);
  }
  return ids;
}

// Digits come in pairs. A top bit in the lower place of its pair gets a leading zero, unless it is
// the only bit: the kubelet's masks have always been printed that way and people grep for them.
std::string ZoneSet::text(Mask mask) const {
  const std::vector<int> ids = ids_of(mask);
  if (ids.empty()) return "00";
  const int top = ids.back();
  const bool leading_zero = top % 2 == 0 && (ids.size() > 1 || top == 0);
  std::string digits(static_cast<std::size_t>(top + (leading_zero ? 2 : 1)), '0');
  for (const int id : ids) digits[digits.size() - 1 - static_cast<std::size_t>(id)] = '1';
  return digits;
}

Result<std::vector<Mask>> enumerate_masks(std::size_t zones) {
  if (zones == 0 || zones > kMaxEnumeratedZones) {
    return invalid("zones", std::to_string(zones), "1 to 16 zones where hints are enumerated");
  }
  std::vector<Mask> masks;
  masks.reserve((std::size_t{1} << zones) - 1);
  for (std::size_t size = 1; size <= zones; ++size) {
    std::vector<std::size_t> chosen(size);
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    while (true) {
      Mask mask = 0;
      for (const std::size_t position : chosen) mask |= Mask{1} << position;
      masks.push_back(mask);
      // The next choice moves the last position that still has room, and packs those after it.
      std::size_t i = size;
      while (i > 0 && chosen[i - 1] == zones - size + i - 1) --i;
      if (i == 0) break;
      ++chosen[i - 1];
      for (; i < size; ++i) chosen[i] = chosen[i - 1] + 1;
    }
  }
  return masks;
}

}  // namespace koord::numa
