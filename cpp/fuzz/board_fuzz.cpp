// SPDX-License-Identifier: Apache-2.0
// A board that is changed as a program says, beside one that is made anew of the same columns.
#include <optional>

#include "fuzz.hpp"
#include "koord/placement_board.hpp"
#include "koord/placement_fit.hpp"

using namespace koord::placement;  // NOLINT(google-build-using-namespace): an entry of one board
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

constexpr std::size_t kScores = 4;

std::int64_t raw_of(Program& program, Normalization kind) {
  const bool any_sign = kind == Normalization::kNone || kind == Normalization::kMinMax ||
                        kind == Normalization::kSpread;
  // Now and then more than a board takes.
  const std::int64_t most = program.below(8) == 0 ? koord::fuzz::kInt64Max : 5000;
  return any_sign ? program.signed_amount(most) : program.amount(most);
}

RowSet all(const Board& board) { return {.index = nullptr, .first = 0, .count = board.rows()}; }

// What has been said so far, said again to a new board.
Board copy_of(const Board& board, const std::vector<ScoreRule>& rules,
              const std::vector<std::int64_t>& ranks) {
  Board copy(board.rows(), rules);
  copy.set_ranks(ranks);
  for (const unsigned filter : {0U, 1U, Board::kClosed}) {
    std::vector<std::uint8_t> passes;
    for (const std::uint64_t bits : board.refused()) passes.push_back((bits >> filter & 1U) == 0);
    copy.refuse(filter, all(copy), passes);
  }
  for (std::size_t score = 0; score < rules.size(); ++score) {
    if (!board.raw(score).empty()) copy.rate(score, all(copy), board.raw(score));
  }
  return copy;
}

void check_best(Board& board, const std::vector<ScoreRule>& rules,
                const std::vector<std::int64_t>& ranks) {
  const std::int64_t best = board.best();
  FUZZ_CHECK((best == -1) == (board.feasible() == 0));
  if (best >= 0) FUZZ_CHECK(board.refused()[static_cast<std::size_t>(best)] == 0);
  std::size_t feasible = 0;
  for (const std::uint64_t bits : board.refused()) feasible += bits == 0;
  FUZZ_CHECK(feasible == board.feasible());
  FUZZ_CHECK(board.best_of(std::vector<std::uint8_t>(board.rows(), 1)) == best);
  FUZZ_CHECK(copy_of(board, rules, ranks).best() == best);
}

void step(Program& program, Board& board, const std::vector<ScoreRule>& rules,
          std::vector<std::int64_t>& ranks) {
  const std::int64_t row = program.number(0, static_cast<int>(board.rows()));
  const RowSet one{.index = &row, .first = 0, .count = 1};
  const std::size_t score = program.below(kScores + 1);
  switch (program.below(8)) {
    case 0:
    case 1: {
      const std::vector<std::uint8_t> passes{program.flag()};
      const unsigned filter = program.below(3) == 0 ? Board::kClosed : score & 1U;
      accepted([&] { board.refuse(filter, one, passes); });
      break;
    }
    case 2:
    case 3:
    case 4: {
      const auto kind = rules[std::min(score, kScores - 1)].normalization;
      const std::vector<std::int64_t> raw{raw_of(program, kind)};
      accepted([&] { board.rate(score, one, raw); });
      break;
    }
    case 5:
      accepted([&] { board.skip(score); });
      break;
    case 6:
      accepted([&] { board.clear(static_cast<unsigned>(score & 1U)); });
      break;
    default: {
      const auto shift = static_cast<std::size_t>(program.byte());
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        ranks[i] = static_cast<std::int64_t>((i * 37 + shift) % ranks.size());
      }
      board.set_ranks(ranks);
    }
  }
}

// Rooms of the same rows, at amounts up to what a node may have.
void check_room(Program& program) {
  constexpr std::size_t kRows = 3;
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  std::vector<std::int64_t> allocatable, requested;
  for (std::size_t i = 0; i < 2 * kRows; ++i) {
    allocatable.push_back(program.amount(kMost));
    requested.push_back(program.amount(kMost));
  }
  const Columns columns{allocatable.data(), requested.data(), requested.data(), kRows, 2};
  const RowSet rows{.index = nullptr, .first = 0, .count = kRows};
  std::vector<Counted> counted;
  for (std::size_t resource = 0; resource < 2; ++resource) {
    counted.push_back({resource, program.amount(kMost), program.amount(100), program.flag()});
  }
  std::vector<std::uint8_t> passes(kRows);
  RoomCheck({{0, counted[0].request}, {1, counted[1].request}}).check(columns, rows, passes);
  for (const Strategy strategy :
       {Strategy::kLeast, Strategy::kMost, Strategy::kRatio, Strategy::kBalanced}) {
    std::vector<std::int64_t> scores(kRows);
    RoomScore(strategy, counted, {{0, 0}, {50, 100}, {100, 10}}).score(columns, rows, scores);
    for (const std::int64_t score : scores) FUZZ_CHECK(score >= 0 && score <= 100);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  check_room(program);
  const auto rows = static_cast<std::size_t>(program.number(1, 140));
  std::vector<ScoreRule> rules;
  for (std::size_t i = 0; i < kScores; ++i) {
    rules.push_back({program.amount(1'000'000), static_cast<Normalization>(program.below(5))});
  }
  Board board(rows, rules);
  board.refuse(Board::kClosed, all(board), std::vector<std::uint8_t>(rows, 1));
  std::vector<std::int64_t> ranks(rows);
  for (std::size_t i = 0; i < rows; ++i) ranks[i] = static_cast<std::int64_t>(i);
  for (int steps = 0; steps < 40 && !program.ended(); ++steps) {
    step(program, board, rules, ranks);
    if (steps % 4 == 0) (void)board.best();
  }
  check_best(board, rules, ranks);
  return 0;
}
