// SPDX-License-Identifier: Apache-2.0
// A node table that pods come to and leave as a program says, with marks, and placers over it.
#include <bit>

#include "fuzz.hpp"
#include "koord/placement_placer.hpp"

using namespace koord::placement;  // NOLINT(google-build-using-namespace): an entry of one table
using koord::devices::Device;
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

constexpr std::size_t kResources = 2;
constexpr std::size_t kMostRows = 12;

std::int64_t amount_of(Program& program) {
  const std::size_t what = program.below(32);
  if (what == 0) return program.signed_amount(koord::fuzz::kInt64Max);
  return program.amount(what < 4 ? koord::devices::kMaxAmount : 64'000);
}

std::vector<Device> gpus_of(Program& program) {
  std::vector<Device> gpus(program.below(5));
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].minor = static_cast<std::int32_t>(i);
    gpus[i].total = {program.below(8) == 0 ? amount_of(program) : kGpuMilli};
    gpus[i].healthy = program.below(8) != 0;
  }
  return gpus;
}

Node node_of(Program& program) {
  Node node;
  node.name = "n" + std::to_string(program.below(16));
  for (std::size_t i = 0; i < kResources; ++i) node.capacity.push_back(amount_of(program));
  node.gpus = gpus_of(program);
  if (!node.gpus.empty()) node.model = program.flag() ? "A" : "B";
  if (program.below(4) == 0) node.labels = {"a=b"};
  return node;
}

Shape shape_of(Program& program) {
  Shape shape;
  for (std::size_t i = 0; i < kResources; ++i) shape.request.push_back(amount_of(program));
  if (program.below(4) == 0) shape.scored = {amount_of(program), amount_of(program)};
  const std::int32_t gpus = program.number(-2, 3);
  if (gpus > 0) {
    shape.gpus = {{gpus > 1 || program.flag() ? kGpuMilli : program.amount(kGpuMilli)}, gpus};
  }
  if (program.below(4) == 0) shape.models = {"A"};
  if (program.below(4) == 0) shape.labels = {"a=b"};
  return shape;
}

// What changes of a table are taken back to.
std::vector<std::int64_t> figures_of(const NodeTable& table) {
  std::vector<std::int64_t> figures;
  for (Row row = 0; row < table.rows(); ++row) {
    for (std::size_t i = 0; i < kResources; ++i) {
      figures.push_back(table.free(i)[row]);
      figures.push_back(table.scored(i)[row]);
    }
    figures.push_back(table.gpu_pods(row));
    figures.push_back(table.gpus().free_sums()[row]);
    figures.push_back(static_cast<std::int64_t>(table.gpus().idle(row)));
  }
  return figures;
}

class Cluster {
 public:
  Cluster() : table_({"cpu", "memory"}, {"gpu-milli"}) {
    for (const std::string_view name : {"bestfit", "packing", "dotprod", "least", "balanced"}) {
      PolicyOptions options;
      options.weights = {1, 2};
      accepted([&] { placers_.emplace_back(table_, make_policy(name, table_, options)); });
    }
    FUZZ_CHECK(placers_.size() == 5);
  }

  void step(Program& program) {
    switch (program.below(8)) {
      case 0:
        if (table_.rows() < kMostRows) accepted([&] { table_.add_node(node_of(program)); });
        break;
      case 1:
        accepted([&] { shapes_.push_back(table_.intern(shape_of(program))); });
        break;
      case 2:
        change_node(program);
        break;
      case 3:
        remove(program);
        break;
      case 4:
        what_if(program);
        break;
      case 5:
        commit(program);
        break;
      default:
        place(program);
    }
  }

  void check() const {
    for (const ShapeId shape : shapes_) {
      std::vector<std::uint8_t> mask(table_.rows());
      table_.filter(shape, mask);
      for (Row row = 0; row < table_.rows(); ++row) {
        FUZZ_CHECK((mask[row] != 0) == table_.fits(shape, row));
      }
    }
    for (Row row = 0; row < table_.rows(); ++row) FUZZ_CHECK(table_.gpu_pods(row) >= 0);
  }

 private:
  [[nodiscard]] bool empty() const { return table_.rows() == 0 || shapes_.empty(); }
  Row row(Program& program) { return static_cast<Row>(program.below(table_.rows())); }
  ShapeId shape(Program& program) { return shapes_[program.below(shapes_.size())]; }

  void change_node(Program& program) {
    if (table_.rows() == 0) return;
    const Row at = row(program);
    const std::vector<std::int64_t> amounts{amount_of(program), amount_of(program)};
    switch (program.below(4)) {
      case 0:
        table_.close_node(at);
        break;
      case 1:
        accepted([&] { table_.set_capacity(at, amounts); });
        break;
      case 2:
        accepted([&] { table_.set_gpus(at, gpus_of(program)); });
        break;
      default: {
        std::vector<std::uint32_t> ranks(table_.rows());
        const std::size_t shift = program.byte();
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          ranks[i] = static_cast<std::uint32_t>((i + shift) % ranks.size());
        }
        table_.set_ranks(ranks);
      }
    }
  }

  void place(Program& program) {
    if (empty()) return;
    Placer& placer = placers_[program.below(placers_.size())];
    const ShapeId wanted = shape(program);
    const auto placed = placer.place(wanted);
    bool fits_some = false;
    if (placed) {
      pods_.push_back(*placed);
      FUZZ_CHECK(std::popcount(placed->gpus) == table_.shape(wanted).gpus.count);
    } else {
      for (Row at = 0; at < table_.rows(); ++at) fits_some |= table_.fits(wanted, at);
    }
    FUZZ_CHECK(!fits_some);
  }

  void commit(Program& program) {
    if (empty()) return;
    const Placement pod{row(program), shape(program), program.byte()};
    if (accepted([&] { table_.commit(pod); })) pods_.push_back(pod);
  }

  void remove(Program& program) {
    if (pods_.empty()) return;
    const std::size_t which = program.below(pods_.size());
    // A node that shrank may seem to hold less than its pods.
    if (accepted([&] { table_.remove(pods_[which]); })) {
      pods_.erase(pods_.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  void what_if(Program& program) {
    if (empty()) return;
    const std::vector<std::int64_t> before = figures_of(table_);
    const std::vector<Placement> pods = pods_;
    const std::size_t mark = table_.mark();
    for (std::size_t left = program.below(6); left > 0; --left) {
      program.flag() ? place(program) : remove(program);
    }
    table_.undo(mark);
    pods_ = pods;
    FUZZ_CHECK(figures_of(table_) == before);
  }

  NodeTable table_;
  std::vector<Placer> placers_;
  std::vector<ShapeId> shapes_;
  std::vector<Placement> pods_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  Cluster cluster;
  for (int steps = 0; steps < 60 && !program.ended(); ++steps) cluster.step(program);
  cluster.check();
  return 0;
}
