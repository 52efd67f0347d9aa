#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

#define LATHE_FUZZ(name, extension)          \
  void run_##name(Bytes bytes);              \
  std::vector<std::string> seeds_##name();
#include "tests/fuzz/targets.inc"
#undef LATHE_FUZZ

const Target kTargets[] = {
#define LATHE_FUZZ(name, extension) {#name, run_##name, seeds_##name, extension},
#include "tests/fuzz/targets.inc"
#undef LATHE_FUZZ
    {nullptr, nullptr, nullptr, nullptr}};

}  // namespace lathe::fuzz
