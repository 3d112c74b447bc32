// SPDX-License-Identifier: Apache-2.0
// What a board does to the rows of one block, as plain loops over columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "koord/placement_board.hpp"

namespace koord::placement {

// Rows of a block whose feasibility turned, and how many more are feasible (modulo 2^64).
struct Turned {
  std::uint64_t flipped = 0;
  std::uint64_t opened = 0;
};

// Sets a filter's bit of rows, or clears it: `passes` 0 refuses, `left` below 0 does.
Turned refuse_rows(std::uint64_t bit, std::span<const std::uint8_t> passes, std::uint64_t* refused);
Turned refuse_rows(std::uint64_t bit, std::span<const std::int64_t> left, std::uint64_t* refused);

// Clears all but one bit of rows; how many have none then.
std::size_t open_rows(std::span<std::uint64_t> refused, std::uint64_t bit);

// The highest total of feasible rows, kLowest where none is feasible. At most a block of rows.
std::int64_t best_total(std::span<const std::uint64_t> refused, std::span<const Addend> addends);

}  // namespace koord::placement
