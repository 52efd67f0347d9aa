// Fuzzing: everything that reads bytes from outside, as functions of bytes that must come back whatever the bytes are.
//
// A target returns normally for every input; what it finds is a crash, a sanitizer's report, a broken promise (CHECKED), a run
// that takes too long or too much memory. fuzz_lathe runs targets on mutations that follow from a seed (tests/fuzz/main.cc); with
// clang the same targets are libFuzzer programs (option `fuzz`).
#pragma once
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace lathe::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  const char* name;
  void (*run)(Bytes bytes);
  // Valid inputs of this project's own making that between them use what the format has.
  std::vector<std::string> (*seeds)();
  // Ends of the files that belong to it under LATHE_DATA/models, whose small ones are seeds too; null: none.
  const char* extension;
};

// All targets; ends with a null name.
extern const Target kTargets[];

// A promise about results, for sanitizer and release builds alike.
#define CHECKED(condition)                                                              \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                     \
    }                                                                                   \
  } while (false)

}  // namespace lathe::fuzz
