// SPDX-License-Identifier: Apache-2.0
// A benchmark registers itself by name; main() times all in turn and keeps the fastest of several
// rounds, since noise on a shared machine only ever adds time.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace koord::bench {

struct Benchmark {
  std::string name;            ///< "kernel/case", as printed
  std::function<void()> body;  ///< one call of what is measured
};

std::vector<Benchmark>& registry();

struct Register {
  Register(std::string name, std::function<void()> body) {
    registry().push_back({std::move(name), std::move(body)});
  }
};

/// Keeps a value alive so that the compiler cannot drop the work that produced it.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

}  // namespace koord::bench
