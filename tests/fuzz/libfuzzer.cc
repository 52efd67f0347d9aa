// One target as a libFuzzer program; LATHE_FUZZ_TARGET is its name.
#define DOCTEST_CONFIG_IMPLEMENT  // helpers of the tests are used here
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const lathe::fuzz::Target* t = lathe::fuzz::kTargets; t->name != nullptr; ++t)
    if (std::strcmp(t->name, LATHE_FUZZ_TARGET) == 0) t->run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
