#include "runtime/exec/conv_params.h"

namespace lathe {

// A fully connected layer is the matrix form of a convolution: all leading dims of x are rows.
Status prepare_FullyConnected(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<FullyConnectedAttrs>(*in.step);
  const Shape &x = in.shape(kConvX), &w = in.shape(kConvW), &y = in.shape(in.out());
  if (w.rank != 2 || w[0] < 1 || w[1] < 1) return {Code::kCorrupt, 0, 2, w.rank};
  if (x.rank < 1 || y.rank != x.rank) return {Code::kCorrupt, 0, x.rank, y.rank};
  if (x[x.rank - 1] != w[1]) return {Code::kCorrupt, 0, static_cast<uint32_t>(w[1]), static_cast<uint32_t>(x[x.rank - 1])};
  if (y[y.rank - 1] != w[0]) return {Code::kCorrupt, 0, static_cast<uint32_t>(w[0]), static_cast<uint32_t>(y[y.rank - 1])};
  for (uint32_t i = 0; i + 1 < x.rank; ++i) {
    if (x[i] != y[i]) return {Code::kCorrupt, 0, static_cast<uint32_t>(x[i]), static_cast<uint32_t>(y[i])};
  }
  auto& p = out->make<ConvParams>();
  if (in.tensor(kConvX).dtype == DType::kS16) {
    const ConvAxis one = conv_axis(1, 1, 1, 1, 1, 0);
    return prepare_wide_conv(in, {x.elems(0, x.rank - 1), 1, one, one, attrs.lo, attrs.hi}, &p, out);
  }
  const ConvPacking packing = fully_connected_packing(static_cast<uint32_t>(w[0]), static_cast<uint32_t>(w[1]));
  Status s = prepare_conv_operands(in, packing, attrs.lo, attrs.hi, &p);
  if (!s.ok()) return s;
  p.mode = ConvMode::kMatrix;
  p.images = x.elems(0, x.rank - 1);
  p.border = ConvBorder::kNone;
  p.h = p.w = conv_axis(1, 1, 1, 1, 1, 0);
  p.ic = static_cast<uint32_t>(w[1]);
  p.multiplier = 1;
  set_pixels(in, &p, out);
  s = cut_conv_tasks(in, packing, &p, out);
  if (!s.ok()) return s;
  const kernels::Storage storage = p.quantized != 0 ? in.storage : kernels::Storage::kS8;
  if (!out->use(kernels::select(conv_family(p, false), storage, in.isa))) return {Code::kUnsupported, 0, 0, 0};
  return {};
}

void run_FullyConnected(const RunContext& ctx, const BoundStep& step) { run_conv(ctx, step); }

}  // namespace lathe
