// SPDX-License-Identifier: Apache-2.0
// What a board does to the rows of one block, as plain loops over columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

// Adds scores to totals, weighted or as they are.
void add_scores(std::int64_t weight, std::span<const std::int64_t> scores, std::int64_t* totals);
void add_scores(std::span<const std::int32_t> scores, std::int64_t* totals);

// The feasible row of the highest total, of the lowest rank among equals; -1 for none.
std::int64_t best_row(std::span<const std::uint64_t> refused, const std::int64_t* totals,
                      const std::int64_t* ranks);

}  // namespace koord::placement
