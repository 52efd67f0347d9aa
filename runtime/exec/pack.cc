// Pack: weights and biases of layers whose weights are variables, packed each time they are read.
#include "runtime/exec/checks.h"
#include "kernels/winograd/winograd.h"
#include "runtime/exec/conv_geometry.h"

namespace lathe {
namespace {

struct PackParams {
  uint32_t vector, winograd;
  uint32_t depthwise, groups, n, segs, seg_k, kh, kw;
};

ConvPacking packing_of(const PackParams& p) {
  return {.depthwise = p.depthwise != 0, .groups = p.groups, .n = p.n, .segs = p.segs, .seg_k = p.seg_k, .kh = p.kh, .kw = p.kw};
}

// Whether all counts are positive and all sizes made of them, padding included, fit 31 bits.
bool fits(const PackAttrs& a) {
  const bool tiles = a.winograd == 0 || ((a.winograd == 1 || a.winograd == 2) && a.kernel[0] == 3 && a.kernel[1] == 3 &&
                                         a.depthwise == 0 && a.vector == 0 && a.groups == 1 && a.segs % 3 == 0);
  if (!tiles) return false;
  constexpr uint64_t kMost = 0x7fffffff / 4;
  const int32_t counts[] = {a.groups, a.n, a.segs, a.seg_k, a.kernel[0], a.kernel[1]};
  for (const int32_t v : counts)
    if (v < 1 || v > (1 << 28)) return false;
  const auto u = [](int32_t v) { return static_cast<uint64_t>(v); };
  uint64_t product = (u(a.n) + 15) / 16 * 16;
  const bool depthwise = a.depthwise != 0;
  const uint64_t taps[] = {u(a.groups), depthwise ? u(a.kernel[0]) + 3 : u(a.segs), depthwise ? u(a.kernel[1]) : u(a.seg_k)};
  for (const uint64_t v : taps)
    if ((product *= v) > (a.winograd != 0 ? kMost / 4 : kMost)) return false;
  return true;
}

}  // namespace

Status prepare_Pack(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<PackAttrs>(*in.step);
  const ProgramTensor& y = in.tensor(in.out());
  if (!fits(a)) return refuse(in, Code::kInvalidArgument);
  if (!is_f32(in, 0)) return unsupported_operand(in, 0);
  if (y.dtype != DType::kF32 || !is_packed_temporary(y)) return unsupported_operand(in, in.out());
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  auto& p = out->make<PackParams>();
  p = {u(a.vector), u(a.winograd), a.depthwise != 0, u(a.groups), u(a.n), u(a.segs), u(a.seg_k), u(a.kernel[0]), u(a.kernel[1])};
  const ConvPacking packing = packing_of(p);
  const Layout layout = p.vector != 0      ? Layout::kPadded16
                        : p.winograd != 0  ? Layout::kWinogradF32
                        : p.depthwise != 0 ? Layout::kDwConvF32
                                           : Layout::kGemmF32;
  const uint32_t canonical = p.vector != 0 ? p.groups * p.n : packing.weight_elems();
  if (p.winograd != 0 && packing.weight_elems() / p.n % 9 != 0) return refuse(in, Code::kInvalidArgument, 9, p.seg_k);
  const uint32_t packed = p.vector != 0     ? packing.vector_elems()
                          : p.winograd != 0 ? kernels::winograd_packed_elems(p.n, packing.weight_elems() / p.n / 9)
                                            : packing.packed_f32_elems();
  if (elems(in, 0) != canonical) return refuse(in, Code::kCorrupt, canonical, elems(in, 0));
  if (y.layout != layout) return refuse(in, Code::kCorrupt, static_cast<uint32_t>(layout), static_cast<uint32_t>(y.layout));
  if (y.stored_bytes != packed * 4) return refuse(in, Code::kCorrupt, packed * 4, y.stored_bytes);
  out->exact_input_mask = 1;
  return {};
}

void run_Pack(const RunContext& ctx, const BoundStep& step) {
  const PackParams& p = ctx.params<PackParams>(step);
  const float* w = ctx.in<float>(step, 0);
  float* packed = ctx.out<float>(step, 0);
  if (p.vector != 0) packing_of(p).pad_vector(w, packed);
  else if (p.winograd != 0) kernels::winograd_pack_f32(w, p.n, p.segs * p.seg_k / 9, p.winograd == 2, packed);
  else packing_of(p).pack_f32(w, packed);
}

}  // namespace lathe
