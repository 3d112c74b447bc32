// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "check.hpp"
#include "koord/placement.hpp"
#include "koord/placement_placer.hpp"

namespace {

using namespace koord::placement;

struct Cluster {
  NodeTable table{{"cpu", "memory"}, {"gpu"}};
  Placer placer{table, make_policy("koord", table, {})};

  void add(const std::string& name, std::int64_t cpu, std::int64_t memory, int gpus,
           const std::string& model) {
    Node node{name, {cpu, memory}, model, {}, {}};
    for (int minor = 0; minor < gpus; ++minor) {
      node.gpus.push_back({.minor = minor, .total = {1000}});
    }
    table.add_node(node);
  }

  ShapeId shape(std::int64_t cpu, std::int64_t memory, std::int64_t gpu_milli, int gpus,
                std::vector<std::string> models = {}) {
    Shape shape{.request = {cpu, memory}, .models = std::move(models)};
    if (gpus > 0) shape.gpus = {{gpu_milli}, gpus};
    return table.intern(shape);
  }

  // Lets the policy see a pod that does not stay.
  void see(ShapeId shape) {
    if (const auto placed = placer.place(shape)) table.remove(*placed);
  }
};

}  // namespace

TEST("placement_koord/fills what common sizes leave") {
  Cluster cluster;
  cluster.add("n0", 64000, 64000, 3, "T4");
  const ShapeId large = cluster.shape(1000, 0, 700, 1);
  const ShapeId small = cluster.shape(1000, 0, 300, 1);
  cluster.see(large);
  cluster.see(small);
  CHECK_EQ(cluster.placer.place(large)->gpus, 1U);
  CHECK_EQ(cluster.placer.place(large)->gpus, 2U);
  CHECK_EQ(cluster.placer.place(small)->gpus, 1U);
}

TEST("placement_koord/keeps CPU and memory for the GPUs that need them") {
  Cluster cluster;
  cluster.add("cpu-poor", 8000, 64000, 2, "T4");
  cluster.add("memory-poor", 64000, 8000, 2, "T4");
  cluster.add("rich", 64000, 64000, 2, "T4");
  cluster.see(cluster.shape(4000, 4000, 1000, 1));
  CHECK_EQ(cluster.placer.place(cluster.shape(8000, 0, 0, 0))->row, 1U);
  CHECK_EQ(cluster.placer.place(cluster.shape(0, 8000, 0, 0))->row, 0U);
  CHECK_EQ(cluster.placer.place(cluster.shape(8000, 8000, 0, 0))->row, 2U);
}

TEST("placement_koord/keeps a scarce model for pods that name it") {
  Cluster cluster;
  cluster.add("n0", 64000, 64000, 2, "V100");
  cluster.add("n1", 64000, 64000, 8, "T4");
  const ShapeId any = cluster.shape(1000, 1000, 1000, 1);
  CHECK_EQ(cluster.placer.pick(any)->row, 0U);
  cluster.see(cluster.shape(1000, 1000, 1000, 1, {"V100"}));
  for (int i = 0; i < 8; ++i) CHECK_EQ(cluster.placer.place(any)->row, 1U);
  CHECK_EQ(cluster.placer.place(any)->row, 0U);
}

TEST("placement_koord/takes the largest amounts that a table holds") {
  constexpr std::int64_t kMost = koord::devices::kMaxAmount;
  Cluster cluster;
  cluster.add("n0", kMost, kMost, 2, "T4");
  cluster.add("n1", kMost, kMost, 2, "V100");
  const ShapeId vast = cluster.shape(kMost, kMost, 1000, 2, {"V100"});
  const ShapeId tiny = cluster.shape(0, 0, 1, 1);
  const ShapeId idle = cluster.shape(0, 0, 0, 0);
  for (int i = 0; i < 50; ++i) cluster.see(i % 2 == 0 ? vast : tiny);
  CHECK_EQ(cluster.placer.place(vast)->row, 1U);
  CHECK(cluster.placer.place(tiny).has_value());
  CHECK(cluster.placer.place(idle).has_value());
}
