// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_spread.hpp"

#include <cmath>
#include <string>

namespace koord::placement {
namespace {

double crowd(const SpreadPart& part, std::size_t row) {
  const std::size_t domain = part.domain.empty() ? row : static_cast<std::size_t>(part.domain[row]);
  if (domain >= part.counts.size()) {
    throw Exception(not_found("domain", std::to_string(domain), "a domain with a count"));
  }
  return static_cast<double>(part.counts[domain]) * part.weight + static_cast<double>(part.bias);
}

}  // namespace

void spread_scores(std::span<const SpreadPart> parts, std::span<const std::uint8_t> rated,
                   RowSet rows, std::span<std::int64_t> scores) {
  std::size_t known = rated.size();
  for (const SpreadPart& part : parts) {
    known = std::min(known, part.label.size());
    if (!part.domain.empty()) known = std::min(known, part.domain.size());
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= known) {
      throw Exception(not_found("row", std::to_string(rows[i]), "a row of the columns"));
    }
    const auto row = static_cast<std::size_t>(rows[i]);
    double total = 0;
    for (const SpreadPart& part : parts) {
      if (part.label[row] >= 0) total += crowd(part, row);
    }
    // Adding a half first would round up some numbers just below it.
    const double whole = std::floor(total);
    const std::int64_t up = total - whole >= 0.5 ? 1 : 0;
    scores[i] = rated[row] == 0 ? -1 : static_cast<std::int64_t>(whole) + up;
  }
}

}  // namespace koord::placement
