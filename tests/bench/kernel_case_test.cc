#include "bench/kernels/kernel_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "runtime/plan/bind.h"
#include "tests/kernels/under_test.h"

namespace lathe::bench {
namespace {

// One for each kind, small and odd.
const BenchShape kSmall[] = {
    {.kind = ShapeKind::kGemm, .m = 7, .n = 19, .k = 13},
    {.kind = ShapeKind::kConv, .h = 6, .w = 5, .c = 3, .oc = 18, .kernel = 3, .stride = 2, .pad = 1},
    {.kind = ShapeKind::kDepthwise, .h = 6, .w = 5, .c = 20, .oc = 20, .kernel = 3, .stride = 1, .pad = 1},
    {.kind = ShapeKind::kWindow, .h = 6, .w = 6, .c = 20, .oc = 20, .kernel = 3, .stride = 2, .pad = 1},
    {.kind = ShapeKind::kRows, .m = 3, .n = 21},
};

TEST_CASE("every kernel family can be benchmarked, and every kernel that runs here does run") {
  for (const kernels::Kernel& k : kernels::all_kernels()) {
    const auto kinds = shape_kinds(k.family);
    CHECK_MESSAGE(!kinds.empty(), std::string("bench/kernels has no case for family ") << kernels::family_name(k.family));
    if (k.fn == nullptr || !kernels::covers(kernels::runnable_isa(), k.needs)) continue;
    for (const BenchShape& s : kSmall) {
      if (std::find(kinds.begin(), kinds.end(), s.kind) == kinds.end()) continue;
      const KernelCase c = make_case(k, s);
      REQUIRE(c.run);
      c.run();
      CHECK(c.kernel == &k);
      CHECK(c.bytes > 0);
    }
  }
}

TEST_CASE("operations count two per multiply-add, padding included") {
  const auto ops = [](kernels::Family f, const BenchShape& s) {
    return make_case(*kernels::select(f, kernels::Storage::kS8, 0), s).ops;
  };
  CHECK(ops(kernels::Family::kGemmS8, kSmall[0]) == 2 * 7 * 19 * 13);
  CHECK(ops(kernels::Family::kGemmF32, kSmall[1]) == 2 * (3 * 3 * 18) * (3 * 3 * 3));
  CHECK(ops(kernels::Family::kDwConvS8, kSmall[2]) == 2 * (6 * 5 * 20) * (3 * 3));
}

TEST_CASE("exactly one kernel of a family is chosen for a machine, the one that select() gives its plans") {
  for (const kernels::IsaLevel& level : kernels::kIsaLevels) {
    std::set<kernels::Family> families, chosen;
    for (const kernels::Kernel& k : kernels::all_kernels()) {
      families.insert(k.family);
      if (!is_selected(k, shapes_of(k.family).front(), level.set)) continue;
      CHECK_MESSAGE(chosen.insert(k.family).second, std::string(k.name) << " is not the only one");
      CHECK(kernels::covers(level.set, k.needs));
    }
    CHECK(chosen == families);
  }
  const auto& avx2 = *kernels::select(kernels::Family::kGemmS8, kernels::Storage::kU8, kernels::kIsaAvx2);
  const auto gemm = [](const char* text) { return *parse_shape(ShapeKind::kGemm, text); };
  CHECK(is_selected(avx2, gemm("128x384x384"), kernels::kIsaAvx2));
  CHECK(!is_selected(avx2, gemm("128x384x384"), kernels::kIsaScalar));
  // Block-sparse weights, dense or not as lowering stores them.
  const auto& sparse = *kernels::select(kernels::Family::kGemmSparseS8, kernels::Storage::kU8, kernels::kIsaAvx2);
  for (const char* text : {"128x384x384@50", "128x384x384@75", "1x1024x1024@50"}) {
    CHECK(is_selected(sparse, gemm(text), kernels::kIsaAvx2));
    CHECK(!is_selected(avx2, gemm(text), kernels::kIsaAvx2));
  }
  for (const char* text : {"128x384x384", "128x384x384@30", "12544x96x16@75", "1x64x64@75", "3136x8x64@50"}) {
    CHECK(!is_selected(sparse, gemm(text), kernels::kIsaAvx2));
    CHECK(is_selected(avx2, gemm(text), kernels::kIsaAvx2));
  }
}

TEST_CASE("shapes are read in the form that they are printed in") {
  const auto same = [](ShapeKind kind, const char* text) {
    const auto s = parse_shape(kind, text);
    return s && s->text() == text;
  };
  CHECK(same(ShapeKind::kGemm, "128x384x1536"));
  CHECK(same(ShapeKind::kGemm, "128x384x1536@75"));
  CHECK(same(ShapeKind::kConv, "56x57x64:65:3:2@50"));
  CHECK(same(ShapeKind::kConv, "56x57x64:65:3:2"));
  CHECK(same(ShapeKind::kDepthwise, "14x15x384:5:1"));
  CHECK(parse_shape(ShapeKind::kConv, "8x8x4:4:5:1")->pad == 2);
  CHECK(parse_shape(ShapeKind::kConv, "9x8x4:6:3:2")->oh() == 5);
}

TEST_CASE("a shape that is none is an error") {
  for (const char* text : {"", "x", "1x2", "1x2x3x4", "1x2x0", "-1x2x3", "1x2x3 ", "1x2:3", "4294967296x1x1", "2048x2048x2048"})
    CHECK_MESSAGE(!parse_shape(ShapeKind::kGemm, text), std::string(text));
  for (const char* text : {"8x8x4:4:3", "8x8x4:3:1", "8x8x4:4:3:0", "8x8x4:4:33:1", "8x8x4x4:3:1"})
    CHECK_MESSAGE(!parse_shape(ShapeKind::kConv, text), std::string(text));
  CHECK(!parse_shape(ShapeKind::kDepthwise, "8x8x4:4:3:1"));
  CHECK(parse_shape(ShapeKind::kGemm, "1x2").error().message.find("MxNxK") != std::string::npos);
}

TEST_CASE("shapes.inc has shapes of every kind") {
  for (const BenchShape& s : kSmall) CHECK(!listed_shapes(s.kind).empty());
}

}  // namespace
}  // namespace lathe::bench
