// SPDX-License-Identifier: Apache-2.0
#include "koord/placement.hpp"

#include <algorithm>

#include "check.hpp"
#include "koord/placement_placer.hpp"
#include "koord/placement_policy.hpp"
#include "koord/placement_replay.hpp"

using namespace koord::placement;
using koord::Exception;
using koord::devices::Device;
using koord::devices::FragmentationMeasure;

namespace {

std::shared_ptr<const FragmentationMeasure> measure() {
  return std::make_shared<FragmentationMeasure>(
      koord::devices::TypicalPods{{{2000, 500, 1, ""}, 0.4},
                                  {{4000, 1000, 1, ""}, 0.3},
                                  {{6000, 1000, 2, ""}, 0.1},
                                  {{1000, 0, 0, ""}, 0.2}});
}

NodeTable cluster(int nodes) {
  NodeTable table({"cpu"}, {"gpu"});
  for (int i = 0; i < nodes; ++i) {
    Node node{.name = std::to_string(i), .capacity = {16000}, .model = "T4"};
    node.gpus = {{.minor = 0, .total = {1000}}, {.minor = 1, .total = {1000}}};
    table.add_node(node);
  }
  return table;
}

Placer placer(NodeTable& table, std::string_view policy) {
  return Placer(table, make_policy(policy, table, {.seed = 1, .fragmentation = measure()}));
}

}  // namespace

// More states than are kept of one pass, many of them of several nodes.
NodeTable random_cluster(koord::SplitMix64& random) {
  NodeTable table({"cpu"}, {"gpu"});
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t cards = random.below(5);
    Node node{
        .name = std::to_string(i), .capacity = {0}, .model = random.below(2) == 0 ? "T4" : "P"};
    node.capacity = {static_cast<std::int64_t>(random.below(5)) * 2000};
    for (std::uint64_t minor = 0; minor < cards; ++minor) {
      const auto milli = static_cast<std::int64_t>(random.below(5)) * 250;
      node.gpus.push_back({.minor = static_cast<std::int32_t>(minor), .total = {milli}});
    }
    table.add_node(node);
  }
  return table;
}

TEST("placement/fgd rates nodes in equal state as each of them alone") {
  koord::SplitMix64 random(27);
  NodeTable table = random_cluster(random);
  for (const Shape& asked :
       {Shape{.request = {2000}, .gpus = {{250}, 1}}, Shape{.request = {2000}, .gpus = {{750}, 1}},
        Shape{.request = {4000}, .gpus = {{1000}, 2}}, Shape{.request = {6000}}}) {
    const ShapeId shape = table.intern(asked);
    std::vector<std::uint8_t> mask(3000);
    table.filter(shape, mask);
    std::vector<Rating> ratings(3000);
    const auto whole = make_policy("fgd", table, {.seed = 1, .fragmentation = measure()});
    whole->rate_all(table, shape, mask, ratings);
    const auto single = make_policy("fgd", table, {.seed = 1, .fragmentation = measure()});
    for (Row row = 0; row < 3000; ++row) {
      if (mask[row] != 0) CHECK_EQ(ratings[row].score, single->rate(table, shape, row).score);
    }
  }
}

TEST("placement/best fit's raw scores") {
  struct Case {
    std::int64_t cpu;
    std::vector<std::int64_t> gpus;
    Shape shape;
    std::int32_t score;
  };
  const std::vector<Case> cases = {
      {16000, {1000, 1000}, {.request = {2000}, .gpus = {{500}, 1}}, 85},
      {14000, {500, 1000}, {.request = {2000}, .gpus = {{500}, 1}}, 89},
      {14000, {500, 1000}, {.request = {4000}, .gpus = {{1000}, 1}}, 92},
      {14000, {600, 700}, {.request = {3000}, .gpus = {{300}, 1}}, 89},
      {7000, {1000, 1000}, {.request = {3000}}, 85},
      {16000, {1000, 1000}, {.request = {6000}, .gpus = {{1000}, 2}}, 96},
  };
  for (const Case& example : cases) {
    NodeTable table({"cpu"}, {"gpu"});
    table.add_node({.name = "n",
                    .capacity = {example.cpu},
                    .gpus = {{.minor = 0, .total = {example.gpus[0]}},
                             {.minor = 1, .total = {example.gpus[1]}}}});
    const auto policy = make_policy("bestfit", table, {});
    CHECK_EQ(policy->rate(table, table.intern(example.shape), 0).score, example.score);
  }
}

TEST("placement/equal shapes share an id, others do not") {
  NodeTable table = cluster(1);
  Shape shape;
  shape.request = {1};
  shape.models = {"a", "b"};
  const ShapeId id = table.intern(shape);
  CHECK_EQ(table.intern(shape), id);
  std::swap(shape.models, shape.labels);
  CHECK(table.intern(shape) != id);
  shape.labels.clear();
  shape.models = {"ab"};
  CHECK(table.intern(shape) != id);
}

TEST("placement/every policy exists by its name") {
  const NodeTable table = cluster(1);
  for (const std::string_view name : policy_names()) {
    CHECK_EQ(make_policy(name, table, {.seed = 0, .fragmentation = measure()})->name(), name);
  }
  CHECK_THROWS(make_policy("x", table, {}), Exception);
}

TEST("placement/a caller's policy may part equal scores before the rank does") {
  class Rightmost final : public RowPolicy<Rightmost> {
   public:
    [[nodiscard]] std::string_view name() const noexcept override { return "rightmost"; }
    Rating rate(const NodeTable&, ShapeId, Row row) override {
      return {50, static_cast<std::int32_t>(row)};
    }
  };
  NodeTable table = cluster(3);
  const ShapeId shape = table.intern({.request = {10000}});
  Placer placer(table, std::make_unique<Rightmost>());
  CHECK_EQ(placer.place(shape)->row, 2U);
  CHECK_EQ(placer.place(shape)->row, 1U);
  CHECK_EQ(placer.place(shape)->row, 0U);
  CHECK(!placer.place(shape));
}

TEST("placement/an epoch drops what was cached") {
  class Moody final : public RowPolicy<Moody> {
   public:
    [[nodiscard]] std::string_view name() const noexcept override { return "moody"; }
    Rating rate(const NodeTable&, ShapeId, Row row) override {
      return {mood_ % 2 == 0 ? static_cast<std::int32_t>(row) : -static_cast<std::int32_t>(row)};
    }
    [[nodiscard]] std::uint64_t epoch(ShapeId) const override { return mood_; }
    void arrived(const NodeTable&, ShapeId) override { ++mood_; }

   private:
    std::uint64_t mood_ = 0;
  };
  NodeTable table = cluster(3);
  const ShapeId shape = table.intern({.request = {1}});
  Placer placer(table, std::make_unique<Moody>());
  CHECK_EQ(placer.place(shape)->row, 0U);
  CHECK_EQ(placer.place(shape)->row, 2U);
}

TEST("placement/the tournament keeps the lowest rank among the best") {
  Tournament tournament;
  koord::SplitMix64 random(5);
  for (std::size_t ranks = 1; ranks < 20; ++ranks) {
    tournament.reset(ranks);
    std::vector<Rating> ratings(ranks, Tournament::kOut);
    CHECK(!tournament.winner());
    for (int change = 0; change < 200; ++change) {
      const auto rank = static_cast<std::uint32_t>(random.below(ranks));
      const auto score = static_cast<std::int32_t>(random.below(4));
      ratings[rank] = score == 0 ? Tournament::kOut : Rating{score, 0};
      tournament.set(rank, ratings[rank]);
      const auto best = std::max_element(ratings.begin(), ratings.end());
      if (*best == Tournament::kOut) {
        CHECK(!tournament.winner());
      } else {
        CHECK_EQ(*tournament.winner(), static_cast<std::uint32_t>(best - ratings.begin()));
      }
    }
  }
}

TEST("placement/marks nest, and undo goes back to its own") {
  NodeTable table = cluster(1);
  const ShapeId shape = table.intern({.request = {1000}, .gpus = {{500}, 1}});
  const std::size_t outer = table.mark();
  table.commit({0, shape, 0b01});
  const std::size_t inner = table.mark();
  table.commit({0, shape, 0b01});
  table.remove({0, shape, 0b01});
  table.commit({0, shape, 0b10});
  table.undo(inner);
  CHECK_EQ(table.free(kCpu)[0], 15000);
  CHECK_EQ(table.gpus().free(0, 0)[1], 1000);
  table.undo(outer);
  CHECK_EQ(table.free(kCpu)[0], 16000);
  CHECK_EQ(table.gpu_pods(0), 0);
  CHECK_THROWS(table.forget(), Exception);
}

TEST("placement/undo gives a pod back what its node has lost meanwhile") {
  NodeTable table = cluster(1);
  const ShapeId share = table.intern({.request = {1000}, .gpus = {.each = {600}, .count = 1}});
  table.commit({0, share, 1});
  table.set_gpus(0, std::vector<Device>{{.minor = 0, .total = {500}}});
  const std::size_t mark = table.mark();
  table.remove({0, share, 1});
  table.undo(mark);
  CHECK_EQ(table.gpus().used(0, 0)[0], 600);
  CHECK_EQ(table.gpus().free(0, 0)[0], 0);
  CHECK_EQ(table.free(kCpu)[0], 15000);
}

TEST("placement/a node closed twice leaves the next of its name") {
  NodeTable table = cluster(1);
  table.close_node(0);
  const Row again = table.add_node({.name = "0", .capacity = {8000}});
  table.close_node(0);
  CHECK_EQ(table.row("0"), again);
}

TEST("placement/a stale cache catches up however much has changed") {
  NodeTable table = cluster(4);
  const ShapeId shape = table.intern({.request = {1000}});
  const ShapeId other = table.intern({.request = {2000}});
  Placer warm = placer(table, "bestfit");
  koord::SplitMix64 random(3);
  for (std::uint64_t changes = 0; changes < 12; ++changes) {
    (void)warm.pick(shape);
    for (std::uint64_t i = 0; i < changes; ++i) {
      const auto row = static_cast<Row>(random.below(4));
      if (table.free(kCpu)[row] >= 2000) table.commit({row, other, 0});
    }
    Placer cold = placer(table, "bestfit");
    CHECK(warm.pick(shape) == cold.pick(shape));
  }
}

TEST("placement/a replay records failed arrivals too") {
  NodeTable table = cluster(1);
  const ShapeId shape = table.intern({.request = {1000}, .gpus = {{1000}, 2}});
  Placer fgd = placer(table, "fgd");
  Replay replay(table, fgd, measure());
  const std::vector<ShapeId> arrivals{shape, shape};
  replay.run(arrivals);
  const ReplayRows rows = replay.finish();
  CHECK(rows.node == (std::vector<std::int32_t>{0, ReplayRows::kNowhere}));
  CHECK(rows.used_milli == (std::vector<std::int64_t>{2000, 2000}));
  CHECK(rows.arrived_milli == (std::vector<std::int64_t>{2000, 4000}));
  CHECK_EQ(rows.fragment_percent[1], 0.0);
}

TEST("placement/a replay refuses unknown shapes, other nodes and strangers") {
  NodeTable table = cluster(1);
  NodeTable other = cluster(1);
  Placer fit = placer(table, "fit");
  Placer stranger = placer(other, "fit");
  CHECK_THROWS(Replay(table, stranger, measure()), Exception);
  Replay replay(table, fit, measure());
  const std::vector<ShapeId> unknown{7};
  CHECK_THROWS(replay.run(unknown), Exception);
  const std::vector<ShapeId> known{table.intern({.request = {1000}})};
  table.add_node({.name = "new", .capacity = {1000}, .model = "T4"});
  CHECK_THROWS(replay.run(known), Exception);
  CHECK(replay.finish().node.empty());
}
