// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string_view>

#include "check.hpp"

int main(int argc, char** argv) {
  const std::string_view filter = argc > 1 ? argv[1] : "";
  int run = 0;
  for (const auto& test : koord::test::cases()) {
    if (test.name.find(filter) == std::string::npos) continue;
    ++run;
    try {
      test.body();
    } catch (const std::exception& error) {
      ++koord::test::failures();
      std::cerr << test.name << ": threw " << error.what() << "\n";
    }
  }
  std::cout << run << " cases, " << koord::test::failures() << " failures\n";
  // A filter that matches nothing is a mistake in the caller, not a pass.
  return run > 0 && koord::test::failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
