// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_bounds.hpp"

#include <numeric>
#include <vector>

#include "check.hpp"

using namespace koord::placement;

namespace {

// Rows of one resource, all with 1000 of it and 100 taken.
struct Table {
  explicit Table(std::size_t rows)
      : has(rows, 1000), used(rows, 100), scored(2 * rows), ranks(rows), open(rows, 1) {
    std::iota(ranks.begin(), ranks.end(), 0);
  }

  [[nodiscard]] Columns columns() const {
    return {has.data(), used.data(), scored.data(), has.size(), 1};
  }
  [[nodiscard]] RowSet all() const { return {nullptr, 0, has.size()}; }

  std::vector<std::int64_t> has, used, scored, ranks;
  std::vector<std::uint8_t> open;
};

Rooms rooms(std::int64_t amount) {
  return {{{0, RoomCheck({{0, amount}})}},
          {{0, RoomScore(Strategy::kLeast, {{.resource = 0, .request = amount}})}}};
}

const std::vector<std::int64_t> kWeights{1};

}  // namespace

TEST("placement_bounds/rows are looked at where the best may be") {
  Table table(320);
  RowBounds bounds;
  bounds.update(table.columns(), table.all(), table.open, table.ranks);
  const auto best = [&](std::int64_t amount, const RowAnswers& answers = {}) {
    return bounds.best(rooms(amount), kWeights, answers);
  };
  CHECK_EQ(best(10), 0);
  CHECK_EQ(bounds.looked_at(), std::size_t{32});
  table.used[77] = 0;
  const std::int64_t row = 77;
  bounds.update(table.columns(), {&row, 0, 1}, table.open, table.ranks);
  CHECK_EQ(best(10), 77);
  CHECK_EQ(bounds.looked_at(), std::size_t{32});
  CHECK_EQ(best(1001), -1);
  CHECK_EQ(bounds.looked_at(), std::size_t{0});
  table.open[77] = 0;
  bounds.update(table.columns(), {&row, 0, 1}, table.open, table.ranks);
  CHECK_EQ(best(10), 0);
}

TEST("placement_bounds/answers by row count as those of a board") {
  Table table(320);
  RowBounds bounds;
  bounds.update(table.columns(), table.all(), table.open, table.ranks);
  std::vector<std::uint8_t> mask(320, 1);
  std::vector<std::int64_t> raw(320, 1);
  raw[100] = 7;
  raw[200] = 9;
  mask[200] = 0;
  RowAnswers answers;
  answers.masks.emplace_back(mask);
  answers.ratings.push_back({{.weight = 2, .normalization = Normalization::kDefault}, raw});
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 100);
  answers.ratings[0].rule.normalization = Normalization::kReversed;
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 0);
  raw[5] = (std::int64_t{1} << 56) + 1;
  CHECK_THROWS(bounds.best(rooms(10), kWeights, answers), koord::Exception);
}

TEST("placement_bounds/preferences are normalised among rows that nothing refuses") {
  Table table(320);
  RowBounds bounds;
  bounds.update(table.columns(), table.all(), table.open, table.ranks);
  const auto bits = [](const std::vector<std::size_t>& rows) {
    std::vector<std::uint64_t> words(5);
    for (const std::size_t row : rows) words[row / 64] |= std::uint64_t{1} << row % 64;
    return words;
  };
  const auto near = bits({40, 100, 319});
  const auto far = bits({100, 200});
  auto mask = bits({7, 40, 100, 200, 319});
  RowAnswers answers;
  answers.bit_masks.emplace_back(mask);
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 7);
  answers.preferences.push_back({.weight = 2, .conditions = {{3, near}, {1, far}}});
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 100);
  // Where there is no room the preference of a row counts for none.
  table.used[100] = 1000;
  const std::int64_t row = 100;
  bounds.update(table.columns(), {&row, 0, 1}, table.open, table.ranks);
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 40);
  mask[0] &= ~(std::uint64_t{1} << 40);
  CHECK_EQ(bounds.best(rooms(10), kWeights, answers), 319);
  answers.preferences[0].conditions[0].weight = -1;
  CHECK_THROWS(bounds.best(rooms(10), kWeights, answers), koord::Exception);
  answers.preferences[0].conditions[0] = {1, std::span(near).first(4)};
  CHECK_THROWS(bounds.best(rooms(10), kWeights, answers), koord::Exception);
}

TEST("placement_bounds/rows are ordered by use where searches look at many") {
  Table table(640);
  for (std::size_t row = 0; row < 640; ++row) {
    table.used[row] = 500 - static_cast<std::int64_t>(row * 37 % 500);
  }
  RowBounds bounds;
  bounds.update(table.columns(), table.all(), table.open, table.ranks);
  // All blocks have a row of which next to nothing is taken, and the better is the later one.
  const Rooms finely{{}, {{0, RoomScore(Strategy::kLeast, {{.resource = 0, .request = 1}})}}};
  const std::int64_t row = bounds.best(finely, kWeights);
  const std::size_t before = bounds.looked_at();
  const RowSet some{.index = nullptr, .first = 0, .count = 80};
  bounds.update(table.columns(), some, table.open, table.ranks);
  CHECK_EQ(bounds.best(finely, kWeights), row);
  CHECK(bounds.looked_at() <= before);
  std::vector<std::uint8_t> mask(640, 0);
  mask[333] = 1;
  RowAnswers answers;
  answers.masks.emplace_back(mask);
  CHECK_EQ(bounds.best(finely, kWeights, answers), 333);
}

TEST("placement_bounds/a template takes the amounts of a pod") {
  const RoomsTemplate made(rooms(1), {{1}}, {{0}});
  const std::vector<std::int64_t> amounts{3, 4};
  const Rooms found = made.of(amounts);
  CHECK_EQ(found.checks()[0].second.asked()[0].amount, 4);
  CHECK_EQ(found.scores()[0].second.counted()[0].request, 3);
  CHECK(found == made.of(amounts));
  CHECK_THROWS(made.of(std::vector<std::int64_t>{1}), koord::Exception);
  CHECK_THROWS(RoomsTemplate(rooms(1), {{0, 1}}, {{0}}), koord::Exception);
}
