#include "bench/kernels/kernel_case.h"

#include <algorithm>
#include <chrono>

#include "runtime/plan/bind.h"

namespace lathe::bench {
namespace {

using kernels::Family;

struct Maker {
  Family family;
  ShapeKind kind;
  MakeCase make;
};
const Maker kMakers[] = {
    {Family::kGemmS8, ShapeKind::kGemm, gemm_s8_case},
    {Family::kGemmS8, ShapeKind::kConv, gemm_s8_case},
    {Family::kGemmS8Zw, ShapeKind::kGemm, gemm_s8_zw_case},
    {Family::kGemmS8Zw, ShapeKind::kConv, gemm_s8_zw_case},
    {Family::kGemmS8F32, ShapeKind::kGemm, gemm_s8_f32_case},
    {Family::kGemmSparseS8, ShapeKind::kGemm, gemm_sparse_s8_case},
    {Family::kGemmSparseS8, ShapeKind::kConv, gemm_sparse_s8_case},
    {Family::kGemmF32, ShapeKind::kGemm, gemm_f32_case},
    {Family::kGemmF32, ShapeKind::kConv, gemm_f32_case},
    {Family::kGemmF16, ShapeKind::kGemm, gemm_f16_case},
    {Family::kGemmF16, ShapeKind::kConv, gemm_f16_case},
    {Family::kDwConvS8, ShapeKind::kDepthwise, dwconv_s8_case},
    {Family::kDwConvF32, ShapeKind::kDepthwise, dwconv_f32_case},
    {Family::kDwConvF16, ShapeKind::kDepthwise, dwconv_f16_case},
    {Family::kMaxPoolS8, ShapeKind::kWindow, max_pool_s8_case},
    {Family::kMaxPoolF32, ShapeKind::kWindow, max_pool_f32_case},
    {Family::kAvgPoolS8, ShapeKind::kWindow, avg_pool_s8_case},
    {Family::kAvgPoolF32, ShapeKind::kWindow, avg_pool_f32_case},
    {Family::kMeanS8, ShapeKind::kRows, mean_s8_case},
    {Family::kMeanF32, ShapeKind::kRows, mean_f32_case},
    {Family::kUnaryF32, ShapeKind::kRows, unary_f32_case},
    {Family::kBinaryF32, ShapeKind::kRows, binary_f32_case},
    {Family::kBinaryS8, ShapeKind::kRows, binary_s8_case},
    {Family::kLut8, ShapeKind::kRows, lut8_case},
    {Family::kRegridS8, ShapeKind::kRows, regrid_s8_case},
    {Family::kQuantizeF32, ShapeKind::kRows, quantize_f32_case},
    {Family::kDequantizeF32, ShapeKind::kRows, dequantize_f32_case},
    {Family::kWidenF16, ShapeKind::kRows, widen_f16_case},
    {Family::kNarrowF16, ShapeKind::kRows, narrow_f16_case},
    {Family::kSoftmaxF32, ShapeKind::kRows, softmax_f32_case},
    {Family::kSoftmaxS8, ShapeKind::kRows, softmax_s8_case},
    {Family::kLayerNormF32, ShapeKind::kRows, layer_norm_f32_case},
    {Family::kLayerNormS8, ShapeKind::kRows, layer_norm_s8_case},
    {Family::kAmaxF32, ShapeKind::kRows, amax_f32_case},
    {Family::kGemmPackS8, ShapeKind::kRows, gemm_pack_s8_case},
    {Family::kGemmPackF32, ShapeKind::kRows, gemm_pack_f32_case},
    {Family::kTranspose, ShapeKind::kRows, transpose_case},
    {Family::kCopy, ShapeKind::kRows, copy_case},
    {Family::kGemmTnF32, ShapeKind::kGemm, gemm_tn_f32_case},
    {Family::kWinogradInputF32, ShapeKind::kWindow, winograd_input_f32_case},
    {Family::kWinogradGradientF32, ShapeKind::kWindow, winograd_gradient_f32_case},
    {Family::kWinogradOutputF32, ShapeKind::kWindow, winograd_output_f32_case},
    {Family::kChannelSumsF32, ShapeKind::kRows, channel_sums_f32_case},
    {Family::kNormalizeF32, ShapeKind::kRows, normalize_f32_case},
    {Family::kNormalizeSumsF32, ShapeKind::kRows, normalize_sums_f32_case},
    {Family::kNormalizeGradF32, ShapeKind::kRows, normalize_grad_f32_case},
};

constexpr size_t kBunches = 5;
using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration d) { return std::chrono::duration<double, std::nano>(d).count(); }

}  // namespace

std::vector<ShapeKind> shape_kinds(Family family) {
  std::vector<ShapeKind> out;
  for (const Maker& m : kMakers)
    if (m.family == family) out.push_back(m.kind);
  return out;
}

KernelCase make_case(const kernels::Kernel& kernel, const BenchShape& shape) {
  for (const Maker& m : kMakers)
    if (m.family == kernel.family && m.kind == shape.kind) return m.make(kernel, shape);
  return {};
}

std::vector<BenchShape> shapes_of(Family family) {
  std::vector<BenchShape> out;
  for (const ShapeKind kind : shape_kinds(family)) {
    for (BenchShape s : listed_shapes(kind)) {
      if (family != Family::kGemmSparseS8) {
        out.push_back(s);
        continue;
      }
      for (const uint32_t zeros : {50u, 75u}) {
        s.zeros = zeros;
        out.push_back(s);
      }
    }
  }
  return out;
}

std::vector<KernelCase> listed_cases(const kernels::Kernel& kernel) {
  std::vector<KernelCase> out;
  for (const BenchShape& s : shapes_of(kernel.family)) out.push_back(make_case(kernel, s));
  return out;
}

bool is_selected(const kernels::Kernel& kernel, const BenchShape& shape, kernels::IsaSet isa) {
  if (kernel.family == Family::kGemmS8 && is_stored_sparse(shape)) return false;
  if (kernel.family == Family::kGemmSparseS8 && !is_stored_sparse(shape)) return false;
  const kernels::Kernel* chosen = kernels::select(kernel.family, storage_for(isa), isa);
  if (chosen == nullptr) chosen = kernels::select(kernel.family, kernels::Storage::kS8, isa);
  return chosen == &kernel;
}

Timing time_case(const KernelCase& c, double milliseconds) {
  const double budget = milliseconds * 1e6;
  const auto start = Clock::now();
  size_t warm = 0;
  double warm_ns = 0;
  do {
    c.run();
    ++warm;
    warm_ns = nanoseconds(Clock::now() - start);
  } while (warm_ns < budget / 10);
  const auto runs = static_cast<size_t>(std::max(1.0, static_cast<double>(warm) * budget / warm_ns / kBunches));
  std::vector<double> ns;
  for (size_t i = 0; i < kBunches; ++i) {
    const auto begin = Clock::now();
    for (size_t r = 0; r < runs; ++r) c.run();
    ns.push_back(nanoseconds(Clock::now() - begin) / static_cast<double>(runs));
  }
  std::sort(ns.begin(), ns.end());
  return {ns[kBunches / 2], ns.front(), ns.back()};
}

double share_of_peak(const KernelCase& c, double ns) {
  const double peak = c.ops > 0 ? peak_gops(c.kernel->needs, c.peak) : read_gb_per_s(static_cast<uint64_t>(c.bytes));
  return peak > 0 ? (c.ops > 0 ? c.ops : c.bytes) / ns / peak : 0;
}

}  // namespace lathe::bench
