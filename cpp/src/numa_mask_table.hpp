// SPDX-License-Identifier: Apache-2.0
// A hash table from masks to dense numbers. Merging looks up hundreds of masks in microseconds,
// which the node-based tables of the standard library do not allow.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "koord/numa.hpp"

namespace koord::numa {

/// Numbers distinct masks 0, 1, 2, ... in order of insertion. The empty mask cannot be a key.
class MaskTable {
 public:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  explicit MaskTable(std::size_t expected) { resize(std::bit_ceil(expected * 2 + 16)); }

  /// The number of the mask, given now if it is new.
  std::uint32_t insert(Mask mask) {
    if (masks_.size() * 2 >= slots_.size()) resize(slots_.size() * 2);
    std::uint32_t& slot = slots_[place(mask)];
    if (slot == kAbsent) {
      slot = static_cast<std::uint32_t>(masks_.size());
      masks_.push_back(mask);
    }
    return slot;
  }

  [[nodiscard]] std::uint32_t find(Mask mask) const { return slots_[place(mask)]; }
  [[nodiscard]] const std::vector<Mask>& masks() const noexcept { return masks_; }

 private:
  // Fibonacci hashing: the high bits of the product depend on every bit of the mask.
  [[nodiscard]] std::size_t place(Mask mask) const {
    std::size_t at = (mask * 0x9e3779b97f4a7c15U) >> shift_;
    while (slots_[at] != kAbsent && masks_[slots_[at]] != mask) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void resize(std::size_t slots) {
    slots_.assign(slots, kAbsent);
    shift_ = 64 - std::countr_zero(slots);
    for (std::uint32_t i = 0; i < masks_.size(); ++i) slots_[place(masks_[i])] = i;
  }

  std::vector<std::uint32_t> slots_;
  std::vector<Mask> masks_;
  int shift_ = 0;
};

}  // namespace koord::numa
