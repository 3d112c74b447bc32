// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_load.hpp"

#include <limits>
#include <vector>

#include "check.hpp"
#include "koord/placement_bounds.hpp"

using namespace koord::placement;

namespace {

constexpr double kEver = std::numeric_limits<double>::infinity();

RowSet all(std::size_t rows) { return {.index = nullptr, .first = 0, .count = rows}; }

}  // namespace

TEST("placement_load/what stays unused, weighted, and what passes a bound") {
  // By resource: 3 of 8 used, and nothing of nothing; 6 of 10, and 2 of 4.
  const std::vector<std::int64_t> used{3, 0, 6, 2};
  const std::vector<std::int64_t> has{8, 0, 10, 4};
  const std::vector<std::int64_t> amounts{1, 1};
  const std::vector<std::int64_t> weights{1, 1};
  std::vector<double> until{kEver, kEver};
  const LoadColumns columns{used.data(), has.data(), 2, 2};
  LoadRating rating{columns, amounts, {weights, 0}, {until, 5}};
  std::vector<std::int64_t> scores(2);
  load_scores(rating, all(2), scores);
  CHECK_EQ(scores[0], 40);  // (50 + 30) / 2
  CHECK_EQ(scores[1], 12);  // (0 + 25) / 2
  rating.weights.dominant = 2;
  load_scores(rating, all(2), scores);
  CHECK_EQ(scores[0], 35);
  until[0] = 5;
  const std::vector<std::int64_t> index{1, 0};
  load_scores(rating, {index.data(), 0, 2}, scores);
  CHECK_EQ(scores[0], 6);
  CHECK_EQ(scores[1], 0);
  std::vector<std::uint8_t> within(2);
  load_within({columns, amounts, {until, 5}, true}, all(2), within);
  CHECK_EQ(int{within[0]}, 1);  // expired
  CHECK_EQ(int{within[1]}, 0);
  load_within({columns, amounts, {until, 4}, false}, all(2), within);
  CHECK_EQ(int{within[0]}, 1);
}

TEST("placement_load/amounts that doubles do not hold are divided as integers") {
  constexpr std::int64_t kMuch = std::int64_t{1} << 53;
  const std::vector<std::int64_t> used{kMuch / 2 + 1};
  const std::vector<std::int64_t> has{kMuch};
  const std::vector<std::int64_t> nothing{0};
  const std::vector<std::int64_t> weights{1};
  const std::vector<double> until{kEver};
  std::vector<std::int64_t> scores(1);
  load_scores({{used.data(), has.data(), 1, 1}, nothing, {weights, 0}, {until, 0}}, all(1), scores);
  CHECK_EQ(scores[0], 49);
}

TEST("placement_load/the best of rows by their load, read again where it changes") {
  const std::size_t rows = 200;
  const std::vector<std::int64_t> has(rows, 100);
  const std::vector<std::int64_t> nothing(2 * rows, 0);
  const std::vector<std::uint8_t> open(rows, 1);
  std::vector<std::int64_t> ranks(rows);
  for (std::size_t row = 0; row < rows; ++row) ranks[row] = static_cast<std::int64_t>(row);
  const Columns columns{has.data(), nothing.data(), nothing.data(), rows, 1};
  RowBounds bounds;
  bounds.update(columns, all(rows), open, ranks);
  std::vector<std::int64_t> used(rows, 50);
  used[70] = 10;
  const std::vector<std::int64_t> amounts{5};
  const std::vector<std::int64_t> weights{1};
  const std::vector<double> until(rows, kEver);
  RowAnswers answers;
  answers.loads.push_back(
      {.key = 1,
       .weight = 1,
       .rating = {{used.data(), has.data(), rows, 1}, amounts, {weights, 0}, {until, 0}}});
  const auto best = [&](const RowAnswers& all) { return bounds.best(Rooms({}, {}), {}, all); };
  CHECK_EQ(best(answers), 70);
  used[130] = 0;
  const std::int64_t row = 130;
  bounds.update(columns, {&row, 0, 1}, open, ranks);
  CHECK_EQ(best(answers), 130);
  // One that is above its bound, or that another score among those left leaves out.
  std::vector<std::int64_t> bound(rows, 60);
  bound[130] = 4;
  answers.load_checks.push_back({{used.data(), bound.data(), rows, 1}, amounts, {until, 0}, false});
  CHECK_EQ(best(answers), 70);
  std::vector<std::int64_t> raw(rows, 0);
  raw[130] = 100;
  raw[3] = 50;
  answers.ratings.push_back({{.weight = 9, .normalization = Normalization::kDefault}, raw});
  CHECK_EQ(best(answers), 3);
  answers.loads[0].weight = -1;
  CHECK_THROWS(static_cast<void>(best(answers)), koord::Exception);
  answers.loads[0].weight = 1;
  answers.loads[0].rating.freshness.until = {until.data(), rows - 1};
  CHECK_THROWS(static_cast<void>(best(answers)), koord::Exception);
}
