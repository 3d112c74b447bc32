// SPDX-License-Identifier: Apache-2.0
// ReservedBounds, and searches by them, beside plain looks at every row.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "check.hpp"
#include "koord/placement_bounds.hpp"
#include "koord/placement_reserved.hpp"
#include "koord/random.hpp"

using namespace koord::placement;
using koord::Exception;
using koord::SplitMix64;

namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

std::int64_t draw(SplitMix64& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

// Nodes, and reservations on some of them; there is a slot more than rows, which is nobody's.
struct Table {
  Table(std::size_t row_count, std::size_t resource_count)
      : rows(row_count), resources(resource_count), slots(rows, -1), nonzero(2 * rows) {
    for (Ints* column : {&allocatable, &requested}) column->assign(resources * rows, 0);
    for (Ints* column : {&held, &used, &remaining, &limit}) {
      column->assign(resources * (rows + 1), 0);
    }
  }

  // Another node, and another reservation: full, empty, of some resources only, or none.
  void change(SplitMix64& random, std::size_t row) {
    const std::size_t slot = rows - row;
    slots[row] = draw(random, 4) == 0 ? -1 : static_cast<std::int64_t>(slot);
    for (std::size_t r = 0; r < resources; ++r) {
      allocatable[r * rows + row] = 100 * (2 + draw(random, 8));
      requested[r * rows + row] = draw(random, 300);
      const std::size_t at = r * (rows + 1) + slot;
      held[at] = 200 * draw(random, 3);
      used[at] = std::min(held[at], 99 * draw(random, 3));
      remaining[at] = std::max<std::int64_t>(held[at] - used[at] - 50 * draw(random, 2), 0);
      limit[at] = draw(random, 3) == 0 ? held[at] - used[at] : kUnlimited;
    }
  }
  void change_all(SplitMix64& random) {
    for (std::size_t row = 0; row < rows; ++row) change(random, row);
  }
  // Returns the rows, in any order and some of them twice.
  Ints change_some(SplitMix64& random) {
    Ints changed(static_cast<std::size_t>(draw(random, 12)));
    for (std::int64_t& row : changed) {
      row = draw(random, static_cast<std::int64_t>(rows));
      change(random, static_cast<std::size_t>(row));
    }
    return changed;
  }

  [[nodiscard]] Columns columns() const {
    return {allocatable.data(), requested.data(), nonzero.data(), rows, resources};
  }
  [[nodiscard]] Reserved reserved() const {
    return {held.data(), used.data(), remaining.data(), limit.data(), rows + 1, resources};
  }
  [[nodiscard]] RowSet all() const { return {nullptr, 0, rows}; }
  [[nodiscard]] std::size_t blocks() const {
    return (rows + ReservedBounds::kBlock - 1) / ReservedBounds::kBlock;
  }

  std::size_t rows, resources;
  Ints slots, nonzero, allocatable, requested, held, used, remaining, limit;
};

RowSet set_of(const Ints& rows) { return {rows.data(), 0, rows.size()}; }

std::vector<ReservedAmount> drawn_amounts(SplitMix64& random, std::size_t resources) {
  std::vector<ReservedAmount> amounts;
  for (std::size_t r = 0; r < resources; ++r) {
    amounts.push_back({.resource = r,
                       .place = draw(random, 8) == 0 ? -1 : static_cast<std::int64_t>(r),
                       .amount = draw(random, 250),
                       .checked = draw(random, 5) != 0,
                       .given = draw(random, 5) != 0,
                       .shared = draw(random, 5) != 0});
  }
  return amounts;
}

ReservedQuestion question_of(const Table& table, const std::vector<ReservedAmount>& amounts,
                             bool required = false, bool skips_node = false) {
  return {table.columns(), table.reserved(), table.slots, amounts, required, skips_node};
}

// How full a pod makes a reservation: the mean over what it holds.
std::int64_t plain_fill(const Table& table, std::size_t slot,
                        std::span<const ReservedAmount> amounts) {
  std::int64_t sum = 0;
  std::int64_t count = 0;
  for (std::size_t r = 0; r < table.resources; ++r) {
    const std::size_t at = r * (table.rows + 1) + slot;
    if (table.held[at] == 0) continue;
    std::int64_t used = table.used[at];
    for (const ReservedAmount& each : amounts) {
      if (each.shared && each.place == static_cast<std::int64_t>(r)) used += each.amount;
    }
    sum += used > table.held[at] ? 0 : 100 * used / table.held[at];
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

struct Answer {
  bool passes = true;
  std::int64_t filled = 0;
};

Answer plain_answer(const Table& table, std::size_t row, const ReservedQuestion& question) {
  if (table.slots[row] < 0) return {};
  const auto slot = static_cast<std::size_t>(table.slots[row]);
  bool alone = true;
  bool beside = true;
  bool within = true;
  bool shares = question.required;
  for (const ReservedAmount& each : question.amounts) {
    const std::size_t node = each.resource * table.rows + row;
    const std::int64_t free = table.allocatable[node] - table.requested[node];
    std::int64_t given = 0;
    if (each.place >= 0) {
      const std::size_t at = static_cast<std::size_t>(each.place) * (table.rows + 1) + slot;
      if (each.shared && table.held[at] > 0) shares = true;
      if (each.checked && each.amount > table.limit[at]) within = false;
      if (each.given) given = table.remaining[at];
    }
    if (each.checked && each.amount > free) alone = false;
    if (each.checked && each.amount > free + given) beside = false;
  }
  const bool serves = within && shares;
  const std::int64_t full = plain_fill(table, slot, question.amounts);
  return {(alone && !question.required) || (serves && (beside || question.skips_node)),
          question.required || (serves && beside) ? full : 0};
}

std::vector<Answer> plain_answers(const Table& table, const ReservedQuestion& question) {
  std::vector<Answer> answers;
  for (std::size_t row = 0; row < table.rows; ++row) {
    answers.push_back(plain_answer(table, row, question));
  }
  return answers;
}

Ints limits_of(const ReservedBounds& bounds, const Table& table, const ReservedQuestion& question) {
  Ints limits(table.blocks(), -1);
  bounds.limits(question, limits);
  return limits;
}

// What is kept is what is read anew, and no row is above the limit of its block.
void check_limits(const ReservedBounds& bounds, const Table& table,
                  const ReservedQuestion& question) {
  const Ints limits = limits_of(bounds, table, question);
  ReservedBounds anew;
  anew.update(table.reserved(), table.slots, table.all());
  CHECK(limits == limits_of(anew, table, question));
  for (const std::int64_t limit : limits) CHECK(limit >= 0 && limit <= 100);
  std::vector<std::uint8_t> passes(table.rows);
  Ints filled(table.rows);
  reserved_answers(question, 0, passes, filled);
  const std::vector<Answer> answers = plain_answers(table, question);
  for (std::size_t row = 0; row < table.rows; ++row) {
    CHECK_EQ(passes[row] != 0, answers[row].passes);
    CHECK_EQ(filled[row], answers[row].filled);
    CHECK(answers[row].filled <= limits[row / ReservedBounds::kBlock]);
  }
}

// What a search is asked beside columns and reservations.
struct Beside {
  Beside(SplitMix64& random, std::size_t rows) : ranks(rows), open(rows), mask(rows), raw(rows) {
    std::iota(ranks.begin(), ranks.end(), 0);
    for (std::size_t i = 1; i < rows; ++i) std::swap(ranks[i], ranks[random.below(i + 1)]);
    for (std::size_t row = 0; row < rows; ++row) {
      open[row] = static_cast<std::uint8_t>(draw(random, 10) != 0);
      mask[row] = static_cast<std::uint8_t>(draw(random, 3) != 0);
      raw[row] = draw(random, 30);
    }
  }

  Ints ranks;
  std::vector<std::uint8_t> open, mask;
  Ints raw;
};

// Adds raw scores normalised among rows, as Normalization::kDefault says it.
void add_normalised(const Ints& raw, std::int64_t weight, const Ints& rows, Ints& totals) {
  std::int64_t most = 0;
  for (const std::int64_t row : rows) most = std::max(most, raw[static_cast<std::size_t>(row)]);
  for (const std::int64_t row : rows) {
    const auto at = static_cast<std::size_t>(row);
    if (most > 0) totals[at] += weight * (100 * raw[at] / most);
  }
}

// The best of all rows: each is asked everything.
std::int64_t plain_best(const Table& table, const Rooms& rooms, const Beside& beside,
                        const RowAnswers& answers) {
  std::vector<std::uint8_t> fits(table.rows);
  Ints totals(table.rows);
  rooms.checks()[0].second.check(table.columns(), table.all(), fits);
  rooms.scores()[0].second.score(table.columns(), table.all(), totals);
  Ints filled;
  for (const Answer& each : plain_answers(table, answers.reserved.question)) {
    fits[filled.size()] &= static_cast<std::uint8_t>(each.passes);
    filled.push_back(each.filled);
  }
  Ints rows;
  for (std::size_t row = 0; row < table.rows; ++row) {
    const bool masked = !answers.masks.empty() && beside.mask[row] == 0;
    if (fits[row] != 0 && beside.open[row] != 0 && !masked) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  add_normalised(filled, answers.reserved.weight, rows, totals);
  if (!answers.ratings.empty()) add_normalised(beside.raw, 2, rows, totals);
  const auto best = std::ranges::min_element(rows, {}, [&](std::int64_t row) {
    const auto at = static_cast<std::size_t>(row);
    return std::tuple(-totals[at], beside.ranks[at]);
  });
  return best == rows.end() ? -1 : *best;
}

void check_search(SplitMix64& random, const Table& table, const ReservedBounds& reserved,
                  RowBounds& bounds) {
  const std::vector<ReservedAmount> amounts = drawn_amounts(random, table.resources);
  const Beside beside(random, table.rows);
  bounds.update(table.columns(), table.all(), beside.open, beside.ranks);
  const std::int64_t cpu = draw(random, 250);
  const Rooms rooms{{{0, RoomCheck({{0, cpu}})}},
                    {{0, RoomScore(Strategy::kLeast, {{.resource = 0, .request = cpu}})}}};
  RowAnswers answers;
  if (draw(random, 2) == 0) answers.masks.emplace_back(beside.mask);
  if (draw(random, 3) == 0) {
    answers.ratings.push_back(
        {{.weight = 2, .normalization = Normalization::kDefault}, beside.raw});
  }
  answers.reserved = {
      .bounds = &reserved,
      .question = question_of(table, amounts, draw(random, 3) == 0, draw(random, 3) == 0),
      .weight = draw(random, 4)};
  const Ints weights{1};
  CHECK_EQ(bounds.best(rooms, weights, answers), plain_best(table, rooms, beside, answers));
}

}  // namespace

TEST("placement_reserved_bounds/no row is above its limit, whatever has changed") {
  SplitMix64 random(20261128);
  for (int history = 0; history < 40; ++history) {
    ReservedBounds bounds;
    for (int size = 0; size < 2; ++size) {
      Table table(1 + random.below(150), 1 + random.below(3));
      table.change_all(random);
      bounds.update(table.reserved(), table.slots, table.all());
      CHECK_EQ(bounds.rows(), table.rows);
      for (int step = 0; step < 6; ++step) {
        const std::vector<ReservedAmount> amounts = drawn_amounts(random, table.resources);
        check_limits(bounds, table,
                     question_of(table, amounts, draw(random, 2) == 0, draw(random, 2) == 0));
        const Ints changed = table.change_some(random);
        bounds.update(table.reserved(), table.slots, set_of(changed));
      }
    }
  }
}

TEST("placement_reserved_bounds/where reservations are alike the limit is what each is filled") {
  SplitMix64 random(7);
  for (int time = 0; time < 200; ++time) {
    Table table(64, 3);
    table.change_all(random);
    for (std::size_t row = 0; row < 64; ++row) {
      const std::size_t first = row / ReservedBounds::kBlock * ReservedBounds::kBlock;
      table.slots[row] = static_cast<std::int64_t>(64 - first);
    }
    ReservedBounds bounds;
    bounds.update(table.reserved(), table.slots, table.all());
    const std::vector<ReservedAmount> amounts = drawn_amounts(random, table.resources);
    const ReservedQuestion question = question_of(table, amounts, true);
    const Ints limits = limits_of(bounds, table, question);
    for (std::size_t block = 0; block < 2; ++block) {
      const std::size_t slot = 64 - block * ReservedBounds::kBlock;
      CHECK_EQ(limits[block], plain_fill(table, slot, amounts));
    }
  }
}

TEST("placement_reserved_bounds/the best row beside reservations is that of a look at all rows") {
  SplitMix64 random(11);
  for (int history = 0; history < 100; ++history) {
    Table table(1 + random.below(400), 1 + random.below(3));
    table.change_all(random);
    RowBounds bounds(true);
    ReservedBounds reserved;
    reserved.update(table.reserved(), table.slots, table.all());
    for (int step = 0; step < 4; ++step) {
      check_search(random, table, reserved, bounds);
      const Ints changed = table.change_some(random);
      reserved.update(table.reserved(), table.slots, set_of(changed));
    }
  }
}

TEST("placement_reserved_bounds/what cannot be read or asked is named") {
  SplitMix64 random(13);
  Table table(40, 2);
  table.change_all(random);
  ReservedBounds bounds;
  const Ints one{3};
  const Ints far{40};
  CHECK_THROWS(bounds.update(table.reserved(), table.slots, set_of(one)), Exception);
  bounds.update(table.reserved(), table.slots, table.all());
  CHECK_THROWS(bounds.update(table.reserved(), table.slots, set_of(far)), Exception);
  Ints limits(1);
  CHECK_THROWS(bounds.limits(question_of(table, {}), limits), Exception);
  const Table other(40, 3);
  limits.resize(2);
  CHECK_THROWS(bounds.limits(question_of(other, {}), limits), Exception);
  table.slots[3] = 41;
  CHECK_THROWS(bounds.update(table.reserved(), table.slots, set_of(one)), Exception);
}

TEST("placement_reserved_bounds/after a read that failed all rows are to be read again") {
  SplitMix64 random(17);
  Table table(70, 2);
  table.change_all(random);
  ReservedBounds bounds;
  bounds.update(table.reserved(), table.slots, table.all());
  Ints before(3);
  bounds.limits(question_of(table, {}), before);

  const std::int64_t slot = std::exchange(table.slots[40], 71);
  const Ints rows{1, 40};
  CHECK_THROWS(bounds.update(table.reserved(), table.slots, set_of(rows)), Exception);
  table.slots[40] = slot;
  Ints limits(3);
  CHECK_THROWS(bounds.limits(question_of(table, {}), limits), Exception);
  CHECK_THROWS(bounds.update(table.reserved(), table.slots, set_of(rows)), Exception);
  bounds.update(table.reserved(), table.slots, table.all());
  bounds.limits(question_of(table, {}), limits);
  CHECK(limits == before);
}
