// SPDX-License-Identifier: Apache-2.0
// Best fit of one device without branches: GPU policies ask this of every node.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "koord/devices.hpp"
#include "vector_clones.hpp"

namespace koord::devices {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLanes = 4;
static_assert(kMaxAmount < kNone / kMaxMinors);

// Four numbers as one: compilers find no vectors in a search for the least. An extension that gcc
// and clang have for every machine.
__extension__ typedef std::int64_t Lanes
    __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

// Of random numbers, so without a branch.
inline std::int64_t lower(std::int64_t a, std::int64_t b) {
  return b ^ ((a ^ b) & -static_cast<std::int64_t>(a < b));
}

// The device of a key.
inline MinorMask minor_of(std::uint64_t key) {
  return key == kNone ? 0 : MinorMask{1} << (key % kMaxMinors);
}

// What would be left over and the minor share a word, the key, so that ties go to the lowest minor.
// A device that lacks something has kNone. The least key of a row:
inline std::uint64_t least_key(const std::int64_t* amounts, std::size_t width,
                               std::int64_t amount) {
  Lanes best{kNone, kNone, kNone, kNone};
  Lanes minors{0, 1, 2, 3};
  std::size_t at = 0;
  for (; at + kLanes <= width; at += kLanes) {
    Lanes over;
    std::memcpy(&over, amounts + at, sizeof over);
    over -= amount;
    const Lanes keys = ((over * kMaxMinors + minors) | (over < 0)) & kNone;
    best = keys < best ? keys : best;
    minors += static_cast<std::int64_t>(kLanes);
  }
  std::int64_t least = lower(lower(best[0], best[1]), lower(best[2], best[3]));
  for (; at < width; ++at) {
    if (amounts[at] < amount) continue;
    least = std::min(least, (amounts[at] - amount) * kMaxMinors + static_cast<std::int64_t>(at));
  }
  return static_cast<std::uint64_t>(least);
}

// The least key of each row whose mask is not 0.
KOORD_VECTOR_CLONES void least_keys(const std::int64_t* free, std::span<const Slots> rows,
                                    const std::uint8_t* mask, std::int64_t amount,
                                    std::uint64_t* keys) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (mask[row] == 0) continue;
    const auto width = static_cast<std::size_t>(rows[row].width);
    keys[row] = least_key(free + rows[row].offset, width, amount);
  }
}

}  // namespace

MinorMask DeviceTable::tightest(std::uint32_t row, std::int64_t amount) const {
  const auto amounts = free(row, 0);
  const MinorMask found = minor_of(least_key(amounts.data(), amounts.size(), amount));
  return (found & idle_[row]) == 0 ? found : whole_or(row, amount, found);
}

// As in choose(): among untouched devices the lowest minor, whatever their sizes.
MinorMask DeviceTable::whole_or(std::uint32_t row, std::int64_t amount, MinorMask found) const {
  const auto amounts = free(row, 0);
  MinorMask fit = 0;
  for (std::size_t at = 0; at < amounts.size(); ++at) {
    fit |= MinorMask{amounts[at] >= amount} << at;
  }
  return (fit & ~idle_[row]) == 0 ? fit & (~fit + 1) : found;
}

void DeviceTable::choose_best(const Request& request, std::uint32_t first,
                              std::span<const std::uint8_t> mask,
                              std::span<MinorMask> chosen) const {
  const std::int64_t amount = request.each[0];
  // The keys come where the minors will be.
  least_keys(free_[0].data(), std::span(nodes_).subspan(first, mask.size()), mask.data(), amount,
             chosen.data());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    const std::uint32_t row = first + static_cast<std::uint32_t>(i);
    const MinorMask found = minor_of(chosen[i]);
    chosen[i] = (found & idle_[row]) == 0 ? found : whole_or(row, amount, found);
  }
}

}  // namespace koord::devices
