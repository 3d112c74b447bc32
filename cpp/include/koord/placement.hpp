// SPDX-License-Identifier: Apache-2.0
// The node table: what every node of a cluster has and has free, one row a node and one contiguous
// column a resource, changed in place by each pod that is placed or removed.
//
//   NodeTable table({"cpu", "memory"}, {"gpu-milli"});
//   table.add_node({.name = "n0", .capacity = {64000, 262144}, .model = "T4", .gpus = {...}});
//   const ShapeId shape = table.intern({.request = {4000, 8192}});
//   Placer placer(table, make_policy("bestfit", table, {}));   // placement_placer.hpp
//   if (auto placed = placer.place(shape)) table.remove(*placed);
//
// Not thread-safe: one thread changes a table, or many read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "koord/devices.hpp"
#include "koord/error.hpp"

namespace koord::placement {

using Row = std::uint32_t;
using ShapeId = std::uint32_t;
using devices::MinorMask;

/// Every table's first resource is CPU in milli-cores; the policies rely on it.
inline constexpr std::size_t kCpu = 0;
/// Every GPU's first resource is compute in milli; this is a whole GPU.
inline constexpr std::int64_t kGpuMilli = 1000;

/// A node as it is added: amounts in the order of the table's resources.
struct Node {
  std::string name = {};
  std::vector<std::int64_t> capacity = {};
  std::string model = {};                ///< of its GPUs, empty for none
  std::vector<std::string> labels = {};  ///< "key=value"
  std::vector<devices::Device> gpus = {};
};

/// What a pod asks for. Pods that ask for the same share everything that is cached.
struct Shape {
  std::vector<std::int64_t> request = {};  ///< one amount a resource
  std::vector<std::int64_t> scored = {};   ///< what scores count instead; empty: the request
  devices::Request gpus = {};
  std::vector<std::string> models = {};  ///< the node's model must be one of them; empty: any
  std::vector<std::string> labels = {};  ///< the node must carry all of them

  bool operator==(const Shape&) const = default;

  /// Compute milli on each GPU, and on all of them.
  [[nodiscard]] std::int64_t gpu_each() const { return gpus.count == 0 ? 0 : gpus.each[0]; }
  [[nodiscard]] std::int64_t gpu_total() const { return gpu_each() * gpus.count; }
};

/// One pod on one node.
struct Placement {
  Row row = 0;
  ShapeId shape = 0;
  MinorMask gpus = 0;

  bool operator==(const Placement&) const = default;
};

/// An int64 column in a block of its own. A view that outlives a growth of the table keeps the old
/// block alive and shows the old values.
class KOORD_API Column {
 public:
  [[nodiscard]] const std::int64_t* data() const noexcept { return block_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::shared_ptr<const std::int64_t[]> block() const noexcept { return block_; }
  std::int64_t operator[](std::size_t i) const noexcept { return block_.get()[i]; }
  std::int64_t& operator[](std::size_t i) noexcept { return block_.get()[i]; }
  void push_back(std::int64_t value);

 private:
  std::shared_ptr<std::int64_t[]> block_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// See the head of this file.
class KOORD_API NodeTable {
 public:
  /// `resources` names the columns, CPU milli first; `gpu_resources` what every GPU has, compute
  /// milli first. Throws kInvalid for no or too many names.
  NodeTable(std::vector<std::string> resources, std::vector<std::string> gpu_resources);

  [[nodiscard]] const std::vector<std::string>& resources() const noexcept { return resources_; }
  [[nodiscard]] std::size_t rows() const noexcept { return names_.size(); }

  // Nodes.

  /// Throws kInvalid for a name that is taken and for amounts out of 0..2^50.
  Row add_node(const Node& node);
  /// Takes a node out of every filter. Its row stays, and is not used again.
  void close_node(Row row);
  /// Sets the capacity; what is requested stays, so free amounts may fall below zero.
  void set_capacity(Row row, std::span<const std::int64_t> capacity);
  /// Sets what GPUs a node has; what is used stays used.
  void set_gpus(Row row, std::span<const devices::Device> gpus);
  /// Makes a row a mirror of a node that is accounted for elsewhere: what it has is what is free
  /// there, amounts below zero counting as zero, with a GPU for each element of `gpu_milli`.
  void mirror(Row row, std::span<const std::int64_t> free, std::span<const std::int64_t> gpu_milli);
  /// Throws kNotFound.
  [[nodiscard]] Row row(std::string_view name) const;
  [[nodiscard]] const std::string& name(Row row) const { return names_.at(row); }
  /// Interned GPU model of a node; model_name() gives the text back.
  [[nodiscard]] std::uint32_t model(Row row) const { return models_[row]; }
  [[nodiscard]] const std::vector<std::string>& model_names() const { return model_names_; }
  /// The order among equals: one distinct rank a row, lowest first. Rows rank as they were added
  /// until this is called. Throws kInvalid unless `ranks` is a permutation of 0..rows-1.
  void set_ranks(std::span<const std::uint32_t> ranks);
  [[nodiscard]] std::span<const std::uint32_t> ranks() const noexcept { return ranks_; }
  /// The row of each rank.
  [[nodiscard]] std::span<const Row> by_rank() const noexcept { return by_rank_; }

  // Columns, indexed by row.

  [[nodiscard]] const Column& capacity(std::size_t resource) const { return capacity_[resource]; }
  [[nodiscard]] const Column& free(std::size_t resource) const { return free_[resource]; }
  /// Requested as scores count it, see Shape::scored.
  [[nodiscard]] const Column& scored(std::size_t resource) const { return scored_[resource]; }
  [[nodiscard]] const devices::DeviceTable& gpus() const noexcept { return gpus_; }
  /// Pods on a node that hold GPUs, and those among them of one kind.
  [[nodiscard]] std::int64_t gpu_pods(Row row) const { return gpu_pods_[row]; }
  [[nodiscard]] std::int64_t gpu_pods(Row row, std::uint32_t kind) const {
    return gpu_pods_of_[kind][row];
  }

  // Shapes.

  /// The id of a shape; equal shapes get one id. Throws kInvalid for wrong arity or amounts.
  ShapeId intern(const Shape& shape);
  [[nodiscard]] const Shape& shape(ShapeId id) const { return shapes_[id].shape; }
  [[nodiscard]] std::size_t shapes() const noexcept { return shapes_.size(); }
  /// GPU pods are of one kind when they want as many whole GPUs, or all a share of one.
  [[nodiscard]] std::uint32_t kind(ShapeId id) const { return shapes_[id].kind; }

  // Filter.

  /// True if one more pod of the shape fits the row.
  [[nodiscard]] bool fits(ShapeId id, Row row) const;
  /// fits() for every row, 1 or 0.
  void filter(ShapeId id, std::span<std::uint8_t> mask) const;

  // Changes.

  /// Puts a pod on a node. Throws kInvalid if its GPUs are not free or not as many as it wants;
  /// other resources may be overdrawn, as they are by pods that another scheduler bound.
  void commit(const Placement& placement);
  /// The exact inverse of commit(). Throws kInvalid if the node holds less.
  void remove(const Placement& placement);

  /// A point to come back to. Changes after it are kept until undo() or forget().
  [[nodiscard]] std::size_t mark();
  /// Takes back every commit and remove since the mark, newest first.
  void undo(std::size_t mark);
  /// Keeps what was done since the newest mark; marks nest.
  void forget();

  // Versions.

  /// Counts changes; a row's version is the count at its last change. A cache remembers a count and
  /// later asks which rows have changed since.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  [[nodiscard]] std::uint64_t version(Row row) const { return versions_[row]; }
  /// Changes when rows were added, closed or ranked anew: a cache by row starts over.
  [[nodiscard]] std::uint64_t layout() const noexcept { return layout_; }
  /// Calls body(row) once for every row changed after `since`.
  template <class Body>
  void for_each_changed(std::uint64_t since, Body body) const {
    if (version_ - since > recent_.size()) {
      for (Row row = 0; row < rows(); ++row) {
        if (versions_[row] > since) body(row);
      }
      return;
    }
    for (std::uint64_t v = since + 1; v <= version_; ++v) {
      const Row row = recent_[v % recent_.size()];
      if (versions_[row] == v) body(row);  // an earlier change of a row that changed again
    }
  }

 private:
  struct Interned {
    Shape shape;
    std::uint32_t kind = 0;
    std::vector<std::uint8_t> admitted;  // by row: open, right model and labels
  };
  struct Change {
    Placement placement;
    bool committed;
  };

  void check_amounts(std::span<const std::int64_t> amounts, std::string_view field) const;
  void check_shape(const Shape& shape) const;
  [[nodiscard]] bool admits(const Shape& shape, Row row) const;
  std::uint32_t intern_kind(const Shape& shape);
  void touch(Row row);
  void apply(const Placement& placement, std::int64_t sign);
  void return_gpus(Row row, MinorMask minors, std::span<const std::int64_t> each);

  std::vector<std::string> resources_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Row> row_of_;
  std::vector<std::uint8_t> open_;
  std::vector<std::uint32_t> models_;
  std::vector<std::string> model_names_;
  std::vector<std::vector<std::uint32_t>> labels_;
  std::unordered_map<std::string, std::uint32_t> label_ids_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Row> by_rank_;
  std::vector<Column> capacity_, free_, scored_;
  devices::DeviceTable gpus_;
  Column gpu_pods_;
  std::vector<Column> gpu_pods_of_;      // by kind
  std::vector<std::int32_t> kind_gpus_;  // GPUs a pod of the kind wants, 0 for shares
  std::vector<Interned> shapes_;
  std::unordered_map<std::string, ShapeId> shape_ids_;
  std::vector<Change> journal_;
  std::size_t marks_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t layout_ = 0;
  std::vector<std::uint64_t> versions_;
  std::vector<Row> recent_;  // ring: the row of version v stands at v modulo its size
};

}  // namespace koord::placement
