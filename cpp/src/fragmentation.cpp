// SPDX-License-Identifier: Apache-2.0
#include "koord/fragmentation.hpp"

#include <algorithm>

namespace koord::devices {
namespace {

constexpr std::int64_t kMaxMilli = std::int64_t{1} << 30;

// Classes in the order in which an amount adds them up.
constexpr std::array kFragments = {FragmentClass::kLackBoth,   FragmentClass::kLackGpu,
                                   FragmentClass::kLackCpu,    FragmentClass::kCpuSatisfied,
                                   FragmentClass::kCpuLackCpu, FragmentClass::kNoAccess};

constexpr std::size_t at(FragmentClass fragment) { return static_cast<std::size_t>(fragment); }

void check(const PodShape& shape) {
  for (const std::int64_t amount :
       {shape.cpu_milli, shape.gpu_milli, std::int64_t{shape.gpu_count}}) {
    if (amount >= 0 && amount <= kMaxMilli) continue;
    throw Exception(invalid("typical pod", std::to_string(amount), "amounts of 0 to 2^30"));
  }
}

bool more_typical(const ShapeCount& a, const ShapeCount& b) {
  return a.count != b.count ? a.count > b.count : a.shape > b.shape;
}

}  // namespace

TypicalPods typical_pods(std::vector<ShapeCount> counts, std::int64_t coverage_percent) {
  if (coverage_percent < 1 || coverage_percent > 100) {
    throw Exception(invalid("coverage", std::to_string(coverage_percent), "1 to 100 percent"));
  }
  std::ranges::sort(counts, more_typical);
  std::int64_t total = 0;
  for (const ShapeCount& entry : counts) {
    check(entry.shape);
    if (entry.count < 0 || entry.count > kMaxMilli) {
      throw Exception(invalid("shape count", std::to_string(entry.count), "0 to 2^30"));
    }
    total += entry.count;
  }
  TypicalPods taken;
  std::int64_t covered = 0;
  for (const ShapeCount& entry : counts) {
    if (covered * 100 >= total * coverage_percent) break;
    covered += entry.count;
    const double share = static_cast<double>(entry.count) / static_cast<double>(total);
    taken.push_back({entry.shape, share});
  }
  if (taken.size() == counts.size()) return taken;
  // Two divisions rather than count / covered: the last bit decides placements.
  const double coverage = static_cast<double>(covered) / static_cast<double>(total);
  for (TypicalPod& pod : taken) pod.frequency /= coverage;
  return taken;
}

bool accepts_model(std::string_view gpu_spec, std::string_view model) {
  bool any = true;
  while (!gpu_spec.empty()) {
    const std::size_t end = std::min(gpu_spec.find('|'), gpu_spec.size());
    const std::string_view alternative = gpu_spec.substr(0, end);
    if (!alternative.empty()) {
      if (alternative == model) return true;
      any = false;
    }
    gpu_spec.remove_prefix(std::min(end + 1, gpu_spec.size()));
  }
  return any;
}

double fragment_amount(const FragmentSums& sums) noexcept {
  double amount = 0;
  for (const FragmentClass fragment : kFragments) amount += sums[at(fragment)];
  return amount;
}

FragmentationMeasure::FragmentationMeasure(TypicalPods pods) : pods_(std::move(pods)) {
  for (const TypicalPod& pod : pods_) {
    check(pod.shape);
    if (pod.shape.gpu_milli > 0) sizes_.push_back(static_cast<std::int32_t>(pod.shape.gpu_milli));
  }
  std::ranges::sort(sizes_);
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  for (const TypicalPod& pod : pods_) {
    const auto found = std::ranges::find(sizes_, static_cast<std::int32_t>(pod.shape.gpu_milli));
    const bool gpu = pod.shape.gpu_milli > 0;
    entries_.push_back({pod.frequency, pod.shape.cpu_milli, pod.shape.gpu_count,
                        gpu ? static_cast<std::int32_t>(found - sizes_.begin()) : -1});
  }
}

std::vector<std::uint8_t> FragmentationMeasure::accepted(std::string_view model) const {
  std::vector<std::uint8_t> accepted;
  for (const TypicalPod& pod : pods_) accepted.push_back(accepts_model(pod.shape.gpu_spec, model));
  return accepted;
}

GpuProfile FragmentationMeasure::profile(std::span<const std::int64_t> free_milli) const {
  GpuProfile gpus;
  gpus.sizes_.resize(sizes_.size());
  // A GPU with nothing free counts nowhere, so each one enters as a change from nothing.
  for (const std::int64_t milli : free_milli) move(gpus, 0, milli, gpus);
  return gpus;
}

void FragmentationMeasure::move(const GpuProfile& from, std::int64_t before, std::int64_t after,
                                GpuProfile& out) const {
  const auto old_milli = static_cast<std::int32_t>(before);
  const auto new_milli = static_cast<std::int32_t>(after);
  const std::size_t count = sizes_.size();
  out.sizes_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t size = sizes_[i];
    const GpuProfile::Size& was = from.sizes_[i];
    out.sizes_[i] = {was.fitting + (new_milli >= size) - (old_milli >= size),
                     was.too_small_milli + (new_milli < size ? new_milli : 0) -
                         (old_milli < size ? old_milli : 0)};
  }
  out.free_milli_ = from.free_milli_ + after - before;
}

FragmentSums FragmentationMeasure::sums(std::int64_t free_cpu_milli, const GpuProfile& gpus,
                                        std::span<const std::uint8_t> accepted) const {
  FragmentSums sums{};
  const auto idle = static_cast<double>(gpus.free_milli_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& pod = entries_[i];
    const bool cpu = free_cpu_milli >= pod.cpu_milli;
    if (pod.size < 0) {
      sums[at(cpu ? FragmentClass::kCpuSatisfied : FragmentClass::kCpuLackCpu)] +=
          pod.frequency * idle;
      continue;
    }
    if (accepted[i] == 0) {
      sums[at(FragmentClass::kNoAccess)] += pod.frequency * idle;
      continue;
    }
    const auto size = static_cast<std::size_t>(pod.size);
    const bool gpu = gpus.sizes_[size].fitting >= pod.gpu_count;
    if (cpu && gpu) {
      const double unusable = gpus.sizes_[size].too_small_milli;
      sums[at(FragmentClass::kSatisfied)] += pod.frequency * (idle - unusable);
      sums[at(FragmentClass::kLackGpu)] += pod.frequency * unusable;
    } else {
      const FragmentClass lack = cpu   ? FragmentClass::kLackGpu
                                 : gpu ? FragmentClass::kLackCpu
                                       : FragmentClass::kLackBoth;
      sums[at(lack)] += pod.frequency * idle;
    }
  }
  return sums;
}

}  // namespace koord::devices
