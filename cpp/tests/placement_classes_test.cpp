// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_classes.hpp"

#include <numeric>
#include <vector>

#include "check.hpp"

using namespace koord::placement;

namespace {

// Rows of one resource, all with 10 of it.
struct Table {
  explicit Table(std::size_t rows) : has(rows, 10), used(rows), scored(2 * rows), ranks(rows) {
    std::iota(ranks.begin(), ranks.end(), 0);
  }

  [[nodiscard]] Columns columns() const {
    return {has.data(), used.data(), scored.data(), has.size(), 1};
  }

  bool read(RowClasses& classes, std::int64_t row) const {
    return classes.update(columns(), {&row, 0, 1}, std::vector<std::uint8_t>(has.size(), 1), ranks);
  }

  std::vector<std::int64_t> has, used, scored, ranks;
};

Rooms rooms(std::int64_t amount) {
  return {{{0, RoomCheck({{0, amount}})}},
          {{0, RoomScore(Strategy::kMost, {{.resource = 0, .request = amount}})}}};
}

const std::vector<std::int64_t> kWeights{1};

}  // namespace

TEST("placement_classes/the best class, and in it the lowest rank") {
  Table table(300);
  RowClasses classes(3);
  CHECK(classes.update(table.columns(), {nullptr, 0, 300}, std::vector<std::uint8_t>(300, 1),
                       table.ranks));
  CHECK_EQ(classes.size(), std::size_t{1});
  CHECK_EQ(classes.best(rooms(4), kWeights), 0);
  table.used[7] = table.used[5] = 6;
  CHECK(table.read(classes, 7));
  CHECK_EQ(classes.best(rooms(4), kWeights), 7);
  CHECK(table.read(classes, 5));
  CHECK_EQ(classes.best(rooms(4), kWeights), 5);
  CHECK_EQ(classes.best(rooms(5), kWeights), 0);
  CHECK_EQ(classes.best(rooms(11), kWeights), -1);
}

TEST("placement_classes/rows come and go, and more classes than there may be empty it") {
  Table table(200);
  RowClasses classes(2);
  CHECK(classes.update(table.columns(), {nullptr, 0, 200}, std::vector<std::uint8_t>(200, 1),
                       table.ranks));
  for (std::int64_t turn = 0; turn < 2000; ++turn) {
    const std::int64_t row = turn * 7 % 200;
    table.used[static_cast<std::size_t>(row)] = turn / 200 % 2 == 0 ? 3 : 0;
    CHECK(table.read(classes, row));
    std::int64_t expected = 0;
    for (std::int64_t each = 199; each >= 0; --each) {
      if (table.used[static_cast<std::size_t>(each)] == 3) expected = each;
    }
    CHECK_EQ(classes.best(rooms(1), kWeights), expected);
  }
  table.used[3] = 1;
  CHECK(table.read(classes, 3));
  table.used[4] = 2;
  CHECK(!table.read(classes, 4));
  CHECK_EQ(classes.size(), std::size_t{0});
  CHECK_EQ(classes.best(rooms(1), kWeights), -1);
}
