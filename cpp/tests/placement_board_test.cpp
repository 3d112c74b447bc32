// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_board.hpp"

#include <vector>

#include "check.hpp"
#include "koord/placement_fit.hpp"
#include "koord/placement_spread.hpp"

using namespace koord::placement;
using koord::Exception;

namespace {

RowSet all(std::size_t rows) { return {.index = nullptr, .first = 0, .count = rows}; }

Board opened(std::size_t rows, std::vector<ScoreRule> rules) {
  Board board(rows, std::move(rules));
  board.refuse(Board::kClosed, all(rows), std::vector<std::uint8_t>(rows, 1));
  return board;
}

}  // namespace

TEST("placement_board/ties fall to the lowest rank, across blocks") {
  Board board = opened(200, {{1, Normalization::kNone}});
  CHECK_EQ(board.best(), 0);
  std::vector<std::int64_t> ranks(200);
  for (std::size_t row = 0; row < 200; ++row) ranks[row] = static_cast<std::int64_t>(199 - row);
  board.set_ranks(ranks);
  CHECK_EQ(board.best(), 199);
  const std::int64_t row = 130;
  board.rate(0, {&row, 0, 1}, std::vector<std::int64_t>{1});
  CHECK_EQ(board.best(), 130);
  board.refuse(3, {&row, 0, 1}, std::vector<std::uint8_t>{0});
  CHECK_EQ(board.best(), 199);
  CHECK_EQ(board.feasible(), std::size_t{199});
}

TEST("placement_board/one that is reset is as new, but for ranks and flips") {
  Board board = opened(130, {{1, Normalization::kNone}, {2, Normalization::kReversed}});
  std::vector<std::int64_t> ranks(130, 500);
  ranks[77] = 1;
  board.set_ranks(ranks);
  board.rate(0, all(130), std::vector<std::int64_t>(130, 7));
  board.rate(1, all(130), std::vector<std::int64_t>(130, 3));
  CHECK_EQ(board.best(), 77);
  const std::uint64_t flips = board.flips();
  board.reset({{3, Normalization::kDefault}});
  CHECK_EQ(board.best(), -1);
  CHECK_EQ(board.feasible(), std::size_t{0});
  CHECK(board.flips() > flips);
  CHECK_EQ(board.scores(), std::size_t{1});
  CHECK(board.raw(0).empty());
  board.refuse(Board::kClosed, all(130), std::vector<std::uint8_t>(130, 1));
  CHECK_EQ(board.best(), 77);
  std::vector<std::int64_t> raw(130, 0);
  raw[128] = 2;
  board.rate(0, all(130), raw);
  CHECK_EQ(board.best(), 128);
}

TEST("placement_board/rows of a part of a block, in one go") {
  Board board = opened(200, {{1, Normalization::kNone}});
  board.refuse(5, {.index = nullptr, .first = 60, .count = 70}, std::vector<std::uint8_t>(70, 0));
  CHECK_EQ(board.feasible(), std::size_t{130});
  CHECK_EQ(board.refused()[59], std::uint64_t{0});
  CHECK_EQ(board.refused()[60], std::uint64_t{1} << 5);
  CHECK_EQ(board.refused()[129], std::uint64_t{1} << 5);
  CHECK_EQ(board.refused()[130], std::uint64_t{0});
  board.rate(0, {.index = nullptr, .first = 100, .count = 50}, std::vector<std::int64_t>(50, 9));
  CHECK_EQ(board.best(), 130);
  CHECK_THROWS(board.refuse(5, {.index = nullptr, .first = 150, .count = 51},
                            std::vector<std::uint8_t>(51, 1)),
               Exception);
}

TEST("placement_board/a bound that moves rates all rows anew") {
  Board board = opened(70, {{1, Normalization::kDefault}, {1, Normalization::kNone}});
  std::vector<std::int64_t> raw(70, 0);
  raw[0] = 1000;
  raw[69] = 10;
  board.rate(0, all(70), raw);
  std::vector<std::int64_t> other(70, 0);
  other[1] = 50;
  board.rate(1, all(70), other);
  CHECK_EQ(board.best(), 0);
  // Without row 0 the 10 of row 69 is the most, and counts as 100.
  const std::int64_t first = 0;
  board.refuse(0, {&first, 0, 1}, std::vector<std::uint8_t>{0});
  CHECK_EQ(board.best(), 69);
  board.skip(0);
  CHECK_EQ(board.best(), 1);
}

TEST("placement_board/rows out of range are named") {
  Board board = opened(3, {{1, Normalization::kNone}});
  const std::int64_t row = 3;
  CHECK_THROWS(board.rate(0, {&row, 0, 1}, std::vector<std::int64_t>{1}), Exception);
  CHECK_THROWS(board.refuse(64, all(3), std::vector<std::uint8_t>(3, 1)), Exception);
  CHECK_THROWS(board.rate(1, all(3), std::vector<std::int64_t>(3, 1)), Exception);
}

TEST("placement_board/room and crowds") {
  const std::vector<std::int64_t> has{4000, 8192};
  const std::vector<std::int64_t> used{3000, 2048};
  const Columns columns{has.data(), used.data(), used.data(), 1, 2};
  std::vector<std::uint8_t> passes(1);
  RoomCheck({{0, 1000}, {1, 6144}}).check(columns, all(1), passes);
  CHECK_EQ(int{passes[0]}, 1);
  RoomCheck({{1, 6145}}).check(columns, all(1), passes);
  CHECK_EQ(int{passes[0]}, 0);
  std::vector<std::int64_t> scores(1);
  RoomScore(Strategy::kLeast, {{0, 500, 1, false}, {1, 2048, 1, false}})
      .score(columns, all(1), scores);
  CHECK_EQ(scores[0], 31);
  Board board(1, {{.weight = 1}});
  board.refuse(Board::kClosed, all(1), std::vector<std::uint8_t>{1});
  const RoomScore least(Strategy::kLeast, {{0, 500, 1, false}});
  Rooms({{5, RoomCheck({{0, 1001}})}}, {{0, least}}).put(board, columns, all(1));
  CHECK_EQ(board.refused()[0], std::uint64_t{1} << 5);
  CHECK_EQ(board.raw(0)[0], 12);
  const std::vector<std::int32_t> label{0};
  const std::vector<std::int64_t> counts{2};
  spread_scores(std::vector<SpreadPart>{{label, label, counts, 1.25, 4}},
                std::vector<std::uint8_t>{1}, all(1), scores);
  CHECK_EQ(scores[0], 7);
}

TEST("placement_board/one that keeps closed rows closed, and rows that are written in place") {
  Board board = opened(130, {{1, Normalization::kNone}, {2, Normalization::kDefault}});
  const std::int64_t gone = 64;
  board.refuse(Board::kClosed, {&gone, 0, 1}, std::vector<std::uint8_t>{0});
  board.refuse(3, all(130), std::vector<std::uint8_t>(130, 0));
  board.reset({{1, Normalization::kNone}, {2, Normalization::kDefault}}, true);
  CHECK_EQ(board.feasible(), std::size_t{129});
  for (std::int64_t& each : board.rated_rows(0, {.index = nullptr, .first = 60, .count = 10})) {
    each = 5;
  }
  CHECK_EQ(board.best(), 60);
  CHECK_EQ(board.raw(0)[59], 0);
  board.refuse_where_short(2, {.index = nullptr, .first = 60, .count = 4},
                           std::vector<std::int64_t>(4, -1));
  CHECK_EQ(board.best(), 65);
  CHECK_THROWS(board.rated_rows(0, {.index = nullptr, .first = 125, .count = 6}), Exception);
  CHECK_THROWS(board.rated_rows(0, {&gone, 0, 1}), Exception);
}

TEST("placement_board/raw scores that no sum holds are refused") {
  Board board = opened(2, {{1'000'000, Normalization::kNone}, {1, Normalization::kMinMax}});
  const std::int64_t row = 1;
  const auto rate = [&](std::size_t score, std::int64_t raw) {
    board.rate(score, {&row, 0, 1}, std::vector<std::int64_t>{raw});
  };
  CHECK_THROWS(rate(0, INT64_MAX), Exception);
  CHECK_THROWS(rate(1, INT64_MIN), Exception);
  rate(0, std::int64_t{1} << 36);
  rate(1, -(std::int64_t{1} << 56));
  CHECK_EQ(board.best(), 1);
  rate(0, 0);
  CHECK_EQ(board.best(), 0);
}
