// One kernel on one shape, ready to run: what `lathe kernels` and the benchmarks in bench/ measure.
//
// A case owns its buffers; kernels are serial, so is a case. Cases exist for every family that kMakers in kernel_case.cc lists; a
// test (tests/kernels/bench_case_test.cc) names a family without any.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/kernels/peak.h"
#include "bench/kernels/shape.h"
#include "kernels/kernel.h"

namespace lathe::bench {

struct KernelCase {
  const kernels::Kernel* kernel;
  BenchShape shape;
  double ops;     // two per multiply-add; 0 where memory is what matters
  double bytes;   // read and written once
  ProbeUse peak;  // of `ops`
  std::function<void()> run;
};

// The kinds of shape that kernels of `family` can be measured on.
std::vector<ShapeKind> shape_kinds(kernels::Family family);

// Requires: the kernel is in this build and the machine can run it; shape_kinds() of its family has the shape's kind.
KernelCase make_case(const kernels::Kernel& kernel, const BenchShape& shape);

// The shapes of shapes.inc that fit the family; for kernels of block-sparse weights each with half and with three quarters of
// the blocks zero.
std::vector<BenchShape> shapes_of(kernels::Family family);

// A case for every one of them.
std::vector<KernelCase> listed_cases(const kernels::Kernel& kernel);

// What lowering and select() choose for this shape in the plans of a machine with `isa`.
bool is_selected(const kernels::Kernel& kernel, const BenchShape& shape, kernels::IsaSet isa);
// Requires: kGemm or kConv. Whether weights of this many zeros would be stored block-sparse.
bool is_stored_sparse(const BenchShape& shape);

struct Timing {
  double median_ns = 0, min_ns = 0, max_ns = 0;
};
// Five bunches of runs of together `milliseconds`, after a warm-up.
Timing time_case(const KernelCase& c, double milliseconds);

// Share of what this CPU can do at most: operations against bench/kernels/peak.h's yardstick for the kernel's ISA and type, or
// bytes against the read bandwidth of the cache that holds them. 0 where there is no yardstick.
double share_of_peak(const KernelCase& c, double ns);

// Makers, one file per group of families.
using MakeCase = KernelCase (*)(const kernels::Kernel&, const BenchShape&);
KernelCase gemm_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_s8_zw_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_s8_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_sparse_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_f16_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase dwconv_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase dwconv_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase dwconv_f16_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase max_pool_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase max_pool_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase avg_pool_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase avg_pool_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase mean_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase mean_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase unary_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase binary_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase binary_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase lut8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase regrid_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase quantize_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase dequantize_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase widen_f16_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase narrow_f16_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase softmax_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase softmax_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase layer_norm_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase layer_norm_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase amax_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_pack_s8_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_pack_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase transpose_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase copy_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase gemm_tn_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase winograd_input_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase winograd_gradient_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase winograd_output_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase channel_sums_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase normalize_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase normalize_sums_f32_case(const kernels::Kernel& k, const BenchShape& s);
KernelCase normalize_grad_f32_case(const kernels::Kernel& k, const BenchShape& s);

}  // namespace lathe::bench
