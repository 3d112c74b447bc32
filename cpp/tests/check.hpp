// SPDX-License-Identifier: Apache-2.0
// The smallest test harness that serves: a build with nothing but a compiler and CMake must be able
// to run the C++ tests, so no framework is fetched.
#pragma once

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace koord::test {

struct Case {
  std::string name;
  std::function<void()> body;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Register {
  Register(std::string name, std::function<void()> body) {
    cases().push_back({std::move(name), std::move(body)});
  }
};

template <class T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };

template <class T>
void print(const T& value) {
  if constexpr (Printable<T>) {
    std::cerr << value;
  } else {
    std::cerr << "(not printable)";
  }
}

template <class A, class B>
void check_equal(const A& got, const B& want, const char* text, const char* file, int line) {
  if (got == want) return;
  ++failures();
  std::cerr << file << ":" << line << ": " << text << "\n  got  ";
  print(got);
  std::cerr << "\n  want ";
  print(want);
  std::cerr << "\n";
}

inline void check(bool ok, const char* text, const char* file, int line) {
  if (ok) return;
  ++failures();
  std::cerr << file << ":" << line << ": " << text << " is false\n";
}

}  // namespace koord::test

#define KOORD_JOIN2(a, b) a##b
#define KOORD_JOIN(a, b) KOORD_JOIN2(a, b)
/// TEST("kernel/what it shows") { ... }
#define TEST(name)                                                         \
  static void KOORD_JOIN(test_body_, __LINE__)();                          \
  static const koord::test::Register KOORD_JOIN(test_register_, __LINE__)( \
      name, KOORD_JOIN(test_body_, __LINE__));                             \
  static void KOORD_JOIN(test_body_, __LINE__)()
#define CHECK(condition) koord::test::check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(got, want) \
  koord::test::check_equal((got), (want), #got " == " #want, __FILE__, __LINE__)
#define CHECK_THROWS(expression, exception)                                            \
  do {                                                                                 \
    bool thrown = false;                                                               \
    try {                                                                              \
      (void)(expression);                                                              \
    } catch (const exception&) {                                                       \
      thrown = true;                                                                   \
    }                                                                                  \
    koord::test::check(thrown, #expression " throws " #exception, __FILE__, __LINE__); \
  } while (false)
