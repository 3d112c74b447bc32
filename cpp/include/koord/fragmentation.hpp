// SPDX-License-Identifier: Apache-2.0
// How much of a node's free GPU capacity is useless to the pods one expects: the fragmentation
// measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).
//
// Sums are taken in IEEE double in one stated order. A placement score truncates the difference of
// two such sums, so another order would send pods to other nodes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

namespace koord::devices {

/// What a pod asks for, as far as fragmentation sees it. Memory is not seen.
struct PodShape {
  std::int64_t cpu_milli = 0;
  std::int64_t gpu_milli = 0;  ///< per GPU
  std::int32_t gpu_count = 0;
  std::string gpu_spec;  ///< allowed models separated by '|', empty for any

  auto operator<=>(const PodShape&) const = default;
};

/// A shape with how often it occurs and how it counts.
struct TypicalPod {
  PodShape shape;
  double frequency = 0;
};

/// The shapes expected to arrive, most frequent first; frequencies add up to 1.
using TypicalPods = std::vector<TypicalPod>;

/// A shape and how many pods have it.
struct ShapeCount {
  PodShape shape;
  std::int64_t count = 0;
};

/// Takes shapes by count (ties: the larger shape) until `coverage_percent` of all pods are covered.
/// Frequencies are (count / total) / (covered / total), the outer division left out when nothing
/// was dropped. Throws kInvalid for a negative count or amount, a shape twice, or a coverage out
/// of 1..100.
KOORD_API TypicalPods typical_pods(std::vector<ShapeCount> counts,
                                   std::int64_t coverage_percent = 95);

/// True if `model` is one of the alternatives of `gpu_spec`, or there are none.
KOORD_API bool accepts_model(std::string_view gpu_spec, std::string_view model);

/// What a typical pod could do with the free GPU capacity of a node.
enum class FragmentClass : std::uint8_t {
  kLackBoth,      ///< neither GPUs nor CPU suffice
  kLackGpu,       ///< CPU suffices, GPUs do not; also the GPUs too small for a pod that fits
  kSatisfied,     ///< usable, the one class that is no fragment
  kLackCpu,       ///< GPUs suffice, CPU does not
  kCpuSatisfied,  ///< a CPU-only pod that fits: GPU capacity is useless to it
  kCpuLackCpu,    ///< a CPU-only pod that does not fit
  kNoAccess,      ///< the pod does not accept the node's model
};
inline constexpr std::size_t kFragmentClasses = 7;
using FragmentSums = std::array<double, kFragmentClasses>;

/// Everything but kSatisfied, added in class order.
KOORD_API double fragment_amount(const FragmentSums& sums) noexcept;

/// A node's free GPUs as typical pods see them: for each size that occurs among them, how many GPUs
/// hold it and what the others add up to. Made by FragmentationMeasure, moved by one GPU at a time.
class KOORD_API GpuProfile {
 public:
  [[nodiscard]] std::int64_t free_milli() const noexcept { return free_milli_; }

 private:
  friend class FragmentationMeasure;
  struct Size {
    std::int32_t fitting = 0;
    std::int32_t too_small_milli = 0;
  };
  std::int64_t free_milli_ = 0;
  std::vector<Size> sizes_;
};

/// The measure for one set of typical pods. Immutable; may be shared between threads.
class KOORD_API FragmentationMeasure {
 public:
  /// Throws kInvalid for amounts that are negative or above 2^30.
  explicit FragmentationMeasure(TypicalPods pods);

  [[nodiscard]] const TypicalPods& pods() const noexcept { return pods_; }
  /// One byte a typical pod: 1 if it accepts the model.
  [[nodiscard]] std::vector<std::uint8_t> accepted(std::string_view model) const;

  [[nodiscard]] GpuProfile profile(std::span<const std::int64_t> free_milli) const;
  /// Writes `from` with one GPU changed from `before` to `after` into `out`; both may be one
  /// object.
  void move(const GpuProfile& from, std::int64_t before, std::int64_t after, GpuProfile& out) const;

  /// Class sums of one node; `accepted` comes from accepted(model).
  [[nodiscard]] FragmentSums sums(std::int64_t free_cpu_milli, const GpuProfile& gpus,
                                  std::span<const std::uint8_t> accepted) const;
  /// fragment_amount(sums(...)).
  [[nodiscard]] double amount(std::int64_t free_cpu_milli, const GpuProfile& gpus,
                              std::span<const std::uint8_t> accepted) const {
    return fragment_amount(sums(free_cpu_milli, gpus, accepted));
  }

 private:
  struct Entry {
    double frequency;
    std::int64_t cpu_milli;
    std::int32_t gpu_count;
    std::int32_t size;  // index into sizes_, -1 for a CPU-only pod
  };

  TypicalPods pods_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> sizes_;  // the distinct gpu_milli that occur
};

/// trunc(100 / (1 + exp(-x))) for x in GPUs: 50 means nothing changed, more means less fragmented.
/// Looked up in a table of exact boundaries, so that no library's exp() decides a placement.
KOORD_API std::int32_t gradient_score(double before_milli, double after_milli) noexcept;

}  // namespace koord::devices
