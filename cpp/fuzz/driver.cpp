// SPDX-License-Identifier: Apache-2.0
// Runs an entry on inputs that were kept, then on mutations of them.
//
//   koord_fuzz_NAME [--inputs=N] [--seconds=S] [--seed=X] [--dictionary=FILE] PATH...
//
// Paths are inputs or folders of them. KOORD_FUZZ_SECONDS and KOORD_FUZZ_SEED go before the
// arguments, so that ctest runs longer as well. The input that ends the program is kept as
// crash-NAME-SEED-NUMBER in the working directory; replayed, it ends the program again.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "fuzz.hpp"
#include "mutate.hpp"

// All that sanitizers find ends in SIGABRT, where the input is kept.
extern "C" const char* __asan_default_options();
extern "C" const char* __ubsan_default_options();
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "abort_on_error=1:allocator_may_return_null=0";
}
extern "C" __attribute__((visibility("default"))) const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

namespace {

namespace fs = std::filesystem;

// No input takes a thousandth of it; one that takes all of it does not end.
constexpr unsigned kMostSeconds = 60;

struct Arguments {
  std::uint64_t inputs = 0;
  std::uint64_t seconds = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> tokens;
  std::vector<fs::path> paths;
};

// What the handler of a signal needs, made before there is one.
std::string current;
std::string kept_as;

extern "C" void keep_input(int signal) {
  std::signal(signal, SIG_DFL);
  if (!kept_as.empty()) {
    // Not a call that a handler may make, but the program ends here either way.
    std::ofstream(kept_as, std::ios::binary).write(current.data(), std::ssize(current));
    std::cerr << "the input was kept as " << kept_as << std::endl;
  }
  if (signal == SIGALRM) std::cerr << "the input took " << kMostSeconds << " s" << std::endl;
  std::abort();
}

void run(const std::string& input, const std::string& name) {
  current = input;
  kept_as = name;
  alarm(kMostSeconds);
  // A copy of its own, so that a read behind its end is seen.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::invalid_argument("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t number(const std::string& field, const std::string& text) {
  const bool digits = !text.empty() && text.size() < 19 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) {
    throw std::invalid_argument(field + ": got '" + text + "', expected a number from 0 on");
  }
  return std::stoull(text);
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (option == "--inputs") {
      arguments.inputs = number(option, value);
    } else if (option == "--seconds") {
      arguments.seconds = number(option, value);
    } else if (option == "--seed") {
      arguments.seed = number(option, value);
    } else if (option == "--dictionary") {
      arguments.tokens = koord::fuzz::read_tokens(content(value));
    } else if (option.starts_with("-")) {
      throw std::invalid_argument("got '" + option +
                                  "', expected --inputs, --seconds, --seed or --dictionary");
    } else {
      arguments.paths.emplace_back(word);
    }
  }
  if (const char* text = std::getenv("KOORD_FUZZ_SECONDS"); text != nullptr) {
    arguments.seconds = number("KOORD_FUZZ_SECONDS", text);
  }
  if (const char* text = std::getenv("KOORD_FUZZ_SEED"); text != nullptr) {
    arguments.seed = number("KOORD_FUZZ_SEED", text);
  }
  return arguments;
}

// In the order of their names, which is that of no file system.
std::vector<fs::path> files_of(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> within;
    for (const auto& entry : fs::directory_iterator(path)) within.push_back(entry.path());
    std::ranges::sort(within);
    if (within.empty()) throw std::invalid_argument(path.string() + ": got no files");
    files.insert(files.end(), within.begin(), within.end());
  }
  return files;
}

void drive(const Arguments& arguments, const std::string& name) {
  std::vector<std::string> inputs;
  for (const fs::path& path : files_of(arguments.paths)) {
    std::cerr << path.filename().string() << std::endl;
    inputs.push_back(content(path));
    run(inputs.back(), "");  // it has a file already
  }
  const std::size_t kept = inputs.size();
  koord::fuzz::Mutator mutator(arguments.seed, std::move(inputs), arguments.tokens);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(arguments.seconds);
  std::uint64_t made = 0;
  while (made < arguments.inputs || (arguments.seconds > 0 && Clock::now() < end)) {
    ++made;
    run(mutator.next(),
        "crash-" + name + "-" + std::to_string(arguments.seed) + "-" + std::to_string(made));
  }
  alarm(0);
  std::cout << name << ": " << kept << " inputs kept, " << made << " made of seed "
            << arguments.seed << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, keep_input);
  std::signal(SIGALRM, keep_input);
  std::string name = fs::path(argv[0]).filename().string();
  if (const std::string prefix = "koord_fuzz_"; name.starts_with(prefix)) {
    name.erase(0, prefix.size());
  }
  try {
    drive(read_arguments(argc, argv), name);
  } catch (const std::invalid_argument& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
