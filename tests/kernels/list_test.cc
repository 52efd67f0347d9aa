#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "test_data.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {

TEST_CASE("every kernel that this machine lacks is named as skipped, and an expected ISA is there") {
  const IsaSet have = runnable_isa();
  for (const Kernel& k : all_kernels()) {
    if (k.fn == nullptr) test::say_skipped(k.name, "not in this build");
    if (k.fn != nullptr && !covers(have, k.needs)) test::say_skipped(k.name, "this CPU lacks it, or LATHE_ISA caps it");
  }
  if (const char* expected = std::getenv("LATHE_EXPECT_ISA")) {
    bool known = false;
    for (const IsaLevel& level : kIsaLevels) {
      if (std::strcmp(level.name, expected) != 0) continue;
      known = true;
      CHECK_MESSAGE(covers(have, level.set), "LATHE_EXPECT_ISA=" << expected << " is not available");
    }
    CHECK_MESSAGE(known, "LATHE_EXPECT_ISA=" << expected << " is not an ISA level");
  }
}

TEST_CASE("kernel names are unique and say which ISA they need") {
  std::set<std::string> names;
  for (const Kernel& k : all_kernels()) {
    CHECK_MESSAGE(names.insert(k.name).second, std::string(k.name));
    if (k.needs == kIsaScalar) CHECK_MESSAGE((k.fn != nullptr), std::string(k.name));
    if (k.needs != kIsaScalar)
      CHECK_MESSAGE((std::strstr(k.name, "_x86_") != nullptr || std::strstr(k.name, "_arm_") != nullptr), std::string(k.name));
  }
}

TEST_CASE("every family that has kernels ends with a reference for each storage it supports") {
  for (const Kernel& k : all_kernels()) {
    const Kernel* reference = select(k.family, k.storage, kIsaScalar);
    REQUIRE_MESSAGE(reference != nullptr, family_name(k.family));
    CHECK(reference->needs == kIsaScalar);
    CHECK((reference->fn != nullptr));
    // Nothing of the same family and storage stands after it: selection could never reach it.
    for (const Kernel* next = reference + 1; next != all_kernels().end(); ++next)
      CHECK((next->family != k.family || next->storage != k.storage));
  }
}

TEST_CASE("selection takes the best kernel that the ISA covers") {
  const IsaSet vnni = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni;
  CHECK(select(Family::kGemmS8, Storage::kU8, vnni)->needs == vnni);
  CHECK(select(Family::kGemmS8, Storage::kU8, kIsaAvx2 | kIsaAvx512)->needs == kIsaAvx2);
  CHECK(select(Family::kGemmS8, Storage::kU8, kIsaScalar)->needs == kIsaScalar);
  CHECK(select(Family::kGemmS8, Storage::kS8, vnni)->storage == Storage::kS8);
  CHECK(select(Family::kGemmF32, Storage::kU8, vnni) == nullptr);
  CHECK(select(Family::kBinaryS8, Storage::kS8, kIsaNeon | kIsaDotprod)->needs == kIsaNeon);
}

}  // namespace lathe::kernels
