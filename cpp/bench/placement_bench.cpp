// SPDX-License-Identifier: Apache-2.0
// A cluster of 5,000 nodes, half full, and one pod: looked at in full, and with warm caches.
#include <memory>

#include "bench.hpp"
#include "koord/placement.hpp"
#include "koord/placement_placer.hpp"

namespace {

using namespace koord::placement;
using koord::devices::Device;
using koord::devices::FragmentationMeasure;
using koord::devices::PodShape;

constexpr int kNodes = 5000;

struct Cluster {
  NodeTable table{{"cpu", "memory"}, {"gpu"}};
  ShapeId cpu_only = 0;
  ShapeId share = 0;
  std::shared_ptr<const FragmentationMeasure> measure;

  Cluster() {
    koord::SplitMix64 random(7);
    for (int i = 0; i < kNodes; ++i) {
      Node node{"node-" + std::to_string(i), {96000, std::int64_t{384} << 30}, "T4", {}, {}};
      for (int minor = 0; minor < 8; ++minor)
        node.gpus.push_back({.minor = minor, .total = {1000}});
      table.add_node(node);
    }
    cpu_only = table.intern({.request = {2000, std::int64_t{4} << 30}});
    share = table.intern({.request = {2000, std::int64_t{4} << 30}, .gpus = {{300}, 1}});
    measure = std::make_shared<FragmentationMeasure>(
        koord::devices::typical_pods({{PodShape{2000, 300, 1, ""}, 5},
                                      {PodShape{4000, 1000, 1, ""}, 3},
                                      {PodShape{8000, 0, 0, ""}, 2}}));
    for (Row row = 0; row < kNodes; ++row) {
      for (std::uint64_t pod = random.below(16); pod > 0; --pod) {
        table.commit({row, cpu_only, 0});
        table.commit({row, share, koord::devices::MinorMask{1} << (pod % 8)});
      }
    }
  }
};

Cluster& cluster() {
  static Cluster one;
  return one;
}

void filter_all(ShapeId shape) {
  static std::vector<std::uint8_t> mask(kNodes);
  cluster().table.filter(shape, mask);
  koord::bench::keep(mask[17]);
}

void score_all(const char* name, ShapeId shape) {
  static std::vector<std::uint8_t> mask(kNodes);
  static std::vector<Rating> ratings(kNodes);
  const auto policy = make_policy(name, cluster().table,
                                  {.seed = 1, .fragmentation = cluster().measure, .weights = {}});
  cluster().table.filter(shape, mask);
  policy->rate_all(cluster().table, shape, mask, ratings);
  koord::bench::keep(ratings[17]);
}

// One pod placed and removed again: two rows change, and the next pick sees them.
void place_and_remove(const char* name, ShapeId shape) {
  static std::string made_for;
  static std::unique_ptr<Placer> placer;
  if (made_for != name) {
    placer = std::make_unique<Placer>(
        cluster().table,
        make_policy(name, cluster().table,
                    {.seed = 1, .fragmentation = cluster().measure, .weights = {}}));
    made_for = name;
  }
  cluster().table.remove(*placer->place(shape));
}

const koord::bench::Register kFilterCpu("placement/filter 5000 nodes, CPU pod",
                                        [] { filter_all(cluster().cpu_only); });
const koord::bench::Register kFilterGpu("placement/filter 5000 nodes, GPU share",
                                        [] { filter_all(cluster().share); });
const koord::bench::Register kLeast("placement/filter and score 5000 nodes, least",
                                    [] { score_all("least", cluster().cpu_only); });
const koord::bench::Register kBalanced("placement/filter and score 5000 nodes, balanced",
                                       [] { score_all("balanced", cluster().cpu_only); });
const koord::bench::Register kBestFit("placement/filter and score 5000 nodes, bestfit",
                                      [] { score_all("bestfit", cluster().share); });
const koord::bench::Register kPacking("placement/filter and score 5000 nodes, packing",
                                      [] { score_all("packing", cluster().share); });
const koord::bench::Register kFgd("placement/filter and score 5000 nodes, fgd, nothing cached",
                                  [] { score_all("fgd", cluster().share); });
const koord::bench::Register kKoord("placement/filter and score 5000 nodes, koord",
                                    [] { score_all("koord", cluster().share); });
const koord::bench::Register kWarmLeast("placement/place and remove among 5000 nodes, least",
                                        [] { place_and_remove("least", cluster().cpu_only); });
const koord::bench::Register kWarmFgd("placement/place and remove among 5000 nodes, fgd",
                                      [] { place_and_remove("fgd", cluster().share); });
const koord::bench::Register kWarmKoord("placement/place and remove among 5000 nodes, koord",
                                        [] { place_and_remove("koord", cluster().share); });

}  // namespace
