// SPDX-License-Identifier: Apache-2.0
#include "topology_layout.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace koord::detail {
namespace {

// Sorts a nameless thing after all that have a name.
constexpr int kLast = std::numeric_limits<int>::max();

int sort_id(int id) { return id == kUnknown ? kLast : id; }

// CPUs with equal keys share a core. One whose core the kernel does not tell has a core of its own.
using CoreKey = std::tuple<int, int, int>;

CoreKey core_key(const CpuInfo& info) {
  return {sort_id(info.socket), sort_id(info.core), info.core == kUnknown ? info.cpu : 0};
}

// CPUs outside any named node form one a socket, for memory is at least as near as that.
using NodeKey = std::tuple<int, int>;

NodeKey node_key(const CpuInfo& info) {
  return {sort_id(info.node), info.node == kUnknown ? sort_id(info.socket) : 0};
}

std::optional<Error> check_ids(const CpuInfo& info) {
  if (info.cpu < 0 || info.cpu > CpuSet::kMaxId) {
    return invalid("cpu", std::to_string(info.cpu), "an id from 0 to 8191");
  }
  const std::string of_cpu = " of cpu " + std::to_string(info.cpu);
  for (const auto& [name, id] : {std::pair{"core", info.core}, std::pair{"socket", info.socket},
                                 std::pair{"node", info.node}, std::pair{"l3", info.l3}}) {
    if (id < kUnknown) return invalid(name + of_cpu, std::to_string(id), "an id of 0 or more");
  }
  return std::nullopt;
}

std::optional<Error> check_cpus(const std::vector<CpuInfo>& sorted) {
  bool any_online = false;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (auto error = check_ids(sorted[i])) return error;
    if (i > 0 && sorted[i].cpu == sorted[i - 1].cpu) {
      return invalid("cpu", std::to_string(sorted[i].cpu), "every id once");
    }
    any_online |= sorted[i].online;
  }
  if (!any_online) return invalid("online cpus", "none", "one at least");
  return std::nullopt;
}

using Cores = std::map<CoreKey, std::vector<CpuInfo*>>;

std::optional<Error> check_core(const std::vector<CpuInfo*>& threads) {
  const CpuInfo& first = *threads.front();
  if (threads.size() > kMaxThreadsPerCore) {
    return invalid("core of cpu " + std::to_string(first.cpu),
                   std::to_string(threads.size()) + " cpus", "at most 64 cpus on a core");
  }
  for (const CpuInfo* other : threads) {
    if (other->online && first.online && other->node != first.node) {
      return invalid("node of cpu " + std::to_string(other->cpu), std::to_string(other->node),
                     std::to_string(first.node) + ", the node of cpu " + std::to_string(first.cpu) +
                         " on the same core");
    }
  }
  return std::nullopt;
}

void number_cores(const Cores& cores) {
  int number = 0;
  for (const auto& [key, threads] : cores) {
    if (threads.front()->core == kUnknown) continue;
    for (CpuInfo* info : threads) info->core = number;
    ++number;
  }
}

std::uint32_t add_group(std::vector<CoreGroup>& groups, int id) {
  groups.push_back({.id = id == kLast ? kUnknown : id, .cores = {}});
  return static_cast<std::uint32_t>(groups.size() - 1);
}

void add_cores(CpuLayout& layout, const Cores& cores) {
  std::map<int, std::uint32_t> sockets;
  std::map<NodeKey, std::uint32_t> nodes;
  for (const CpuInfo& info : layout.cpus) {
    if (!info.online) continue;
    sockets.try_emplace(sort_id(info.socket));
    nodes.try_emplace(node_key(info));
  }
  for (auto& [id, index] : sockets) index = add_group(layout.sockets, id);
  for (auto& [key, index] : nodes) index = add_group(layout.nodes, std::get<0>(key));
  for (const auto& [key, threads] : cores) {
    const auto online = std::ranges::count_if(threads, [](auto* info) { return info->online; });
    if (online == 0) continue;
    const auto any = *std::ranges::find_if(threads, [](auto* info) { return info->online; });
    layout.cores.push_back({.socket = sockets[sort_id(any->socket)],
                            .node = nodes[node_key(*any)],
                            .cell = 0,
                            .threads = static_cast<std::uint32_t>(online)});
    layout.threads = std::max(layout.threads, static_cast<std::size_t>(online));
  }
}

void set_core(CoreGroup& group, std::size_t core, std::size_t words) {
  const std::size_t word = core / kWordBits;
  if (group.cores.empty()) {
    group.cores.resize(words);
    group.first_word = word;
  }
  group.cores[word] |= Word{1} << (core % kWordBits);
  group.end_word = word + 1;
}

void fill_groups(CpuLayout& layout) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> cells;
  for (std::size_t core = 0; core < layout.cores.size(); ++core) {
    CoreInfo& info = layout.cores[core];
    CoreGroup& node = layout.nodes[info.node];
    if (node.cores.empty()) node.socket = info.socket;
    set_core(node, core, layout.core_words);
    set_core(layout.sockets[info.socket], core, layout.core_words);
    const auto next = static_cast<std::uint32_t>(layout.cells.size());
    const auto [cell, added] = cells.try_emplace({info.socket, info.node}, next);
    if (added) layout.cells.push_back({info.socket, info.node});
    info.cell = cell->second;
    layout.uniform &= info.threads == layout.threads;
  }
}

void fill_planes(CpuLayout& layout, const Cores& cores) {
  const std::size_t stride = layout.core_words * kWordBits;
  layout.cpu_at.assign(layout.threads * stride, 0);
  layout.exists.assign(layout.threads * layout.core_words, 0);
  layout.core_of.assign(layout.cpu_words * kWordBits, kNoCore);
  std::size_t core = 0;
  for (const auto& [key, threads] : cores) {
    std::size_t plane = 0;
    for (const CpuInfo* info : threads) {
      if (!info->online) continue;
      layout.cpu_at[plane * stride + core] = static_cast<std::uint16_t>(info->cpu);
      layout.exists[plane * layout.core_words + core / kWordBits] |= Word{1} << (core % kWordBits);
      layout.core_of[static_cast<std::size_t>(info->cpu)] = static_cast<std::uint32_t>(core);
      ++plane;
    }
    if (plane > 0) ++core;
  }
}

}  // namespace

Result<CpuLayout> make_layout(std::vector<CpuInfo> cpus) {
  std::ranges::sort(cpus, {}, &CpuInfo::cpu);
  if (auto error = check_cpus(cpus)) return *std::move(error);
  CpuLayout layout;
  layout.cpus = std::move(cpus);
  Cores cores;
  for (CpuInfo& info : layout.cpus) {
    cores[core_key(info)].push_back(&info);
    if (info.online) layout.online.insert(info.cpu);
  }
  for (const auto& [key, threads] : cores) {
    if (auto error = check_core(threads)) return *std::move(error);
  }
  add_cores(layout, cores);
  layout.cpu_words = layout.online.words().size();
  layout.core_words = (layout.cores.size() + kWordBits - 1) / kWordBits;
  fill_groups(layout);
  fill_planes(layout, cores);
  number_cores(cores);
  return layout;
}

}  // namespace koord::detail
