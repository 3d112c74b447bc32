// SPDX-License-Identifier: Apache-2.0
// A machine as the picker wants it. Cores are bits, in the order (socket id, core id). Plane k
// holds every core's k-th CPU, so that "cores whose threads are all free" is the intersection of
// planes and a count is a popcount. Offline CPUs have no place here.
#pragma once

#include <cstdint>
#include <vector>

#include "koord/topology.hpp"

namespace koord::detail {

using Word = std::uint64_t;
inline constexpr std::size_t kWordBits = 64;
inline constexpr std::uint32_t kNoCore = ~std::uint32_t{0};
inline constexpr std::size_t kMaxThreadsPerCore = 64;

/// The cores of a NUMA node or of a socket.
struct CoreGroup {
  int id = kUnknown;
  std::size_t socket = 0;      ///< index of the socket of its lowest core
  std::size_t first_word = 0;  ///< its bits lie in words first_word..end_word-1
  std::size_t end_word = 0;
  std::vector<Word> cores;
};

struct CoreInfo {
  std::uint32_t socket;   ///< index into sockets
  std::uint32_t node;     ///< index into nodes
  std::uint32_t cell;     ///< index into cells
  std::uint32_t threads;  ///< its CPUs that are online
};

/// Where a node and a socket meet; more than the nodes only where one spans sockets.
struct Cell {
  std::uint32_t socket;
  std::uint32_t node;
};

struct CpuLayout {
  std::vector<CpuInfo> cpus;  ///< all, ascending
  CpuSet online;

  std::size_t cpu_words = 0;
  std::size_t core_words = 0;
  std::size_t threads = 0;             ///< the most that a core has: the number of planes
  bool uniform = true;                 ///< every core has that many
  std::vector<CoreInfo> cores;         ///< by core bit
  std::vector<std::uint32_t> core_of;  ///< by CPU id, kNoCore for what cannot be picked
  std::vector<std::uint16_t> cpu_at;   ///< [plane * core_words * 64 + core], 0 where none exists
  std::vector<Word> exists;            ///< [plane * core_words + word]
  std::vector<CoreGroup> nodes;        ///< ascending by id, nameless ones last
  std::vector<CoreGroup> sockets;
  std::vector<Cell> cells;

  [[nodiscard]] std::uint16_t cpu(std::size_t core, std::size_t plane) const {
    return cpu_at[plane * core_words * kWordBits + core];
  }
};

/// Sorts the CPUs, numbers their cores and lays them out. Errors as Topology::from_cpus.
Result<CpuLayout> make_layout(std::vector<CpuInfo> cpus);

}  // namespace koord::detail
