// Convolutions, transposed ones and fully connected layers of 16-bit activations and 8-bit weights: both have zero point 0,
// sums are 64-bit and exact, and become float once. Portable loops only; weights, bias and multipliers lie as the graph has
// them.
#include "lathe/arith.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/conv_params.h"

namespace lathe {
namespace {

constexpr uint32_t kBias = 2, kScale = 4;

bool is_q16(const PrepareInput& in, uint32_t i) {
  return in.tensor(i).dtype == DType::kS16 && has_quant(in, i) && is_plain(in, i) && in.tensor(i).quant.zero_point == 0;
}

bool is_constant(const PrepareInput& in, uint32_t i, DType dtype, uint64_t elems) {
  if (!in.has(i)) return false;
  const ProgramTensor& t = in.tensor(i);
  return t.kind == TensorKind::kConstant && t.dtype == dtype && is_plain(in, i) && t.stored_bytes == elems * dtype_bytes(dtype);
}

// The input element that tap `tap` of result `o` reads along one axis, or -1.
int32_t input_at(const ConvAxis& a, uint32_t o, uint32_t tap, bool transposed) {
  const int64_t reach = static_cast<int64_t>(tap) * a.dilation;
  int64_t at = static_cast<int64_t>(o) * a.stride + reach - a.pad;
  if (transposed) {
    const int64_t from = static_cast<int64_t>(o) + a.pad - reach;
    if (from < 0 || from % a.stride != 0) return -1;
    at = from / a.stride;
  }
  return at >= 0 && at < static_cast<int64_t>(a.in) ? static_cast<int32_t>(at) : -1;
}

struct Operands {
  const int16_t* x;
  const int8_t* w;
  const int64_t* bias;
  const float* m;
  int16_t* y;
};

// Sum of channel c at a result, without its bias. Additions wrap: a damaged file may hold any bias.
int64_t sum_at(const ConvParams& p, const Operands& op, uint32_t image, uint32_t row, uint32_t col, uint32_t c,
               bool transposed) {
  const uint32_t depth = p.seg_k, group = c / p.n;
  uint64_t sum = static_cast<uint64_t>(op.bias[c]);
  for (uint32_t r = 0; r < p.h.kernel; ++r) {
    const int32_t y = input_at(p.h, row, r, transposed);
    if (y < 0) continue;
    for (uint32_t s = 0; s < p.w.kernel; ++s) {
      const int32_t x = input_at(p.w, col, s, transposed);
      if (x < 0) continue;
      const size_t pixel = (static_cast<size_t>(image) * p.h.in + static_cast<uint32_t>(y)) * p.w.in + static_cast<uint32_t>(x);
      const int16_t* a = op.x + pixel * p.ic + group * depth;
      const int8_t* b = op.w + ((static_cast<size_t>(c) * p.h.kernel + r) * p.w.kernel + s) * depth;
      int64_t products = 0;
      for (uint32_t k = 0; k < depth; ++k) products += int32_t{a[k]} * b[k];
      sum += static_cast<uint64_t>(products);
    }
  }
  return static_cast<int64_t>(sum);
}

}  // namespace

Status prepare_wide_conv(const PrepareInput& in, const WideConv& conv, ConvParams* p, Prepared* out) {
  const Shape &x = in.shape(kConvX), &w = in.shape(kConvW), &y = in.shape(in.out());
  if (!is_q16(in, kConvX)) return unsupported_operand(in, kConvX);
  if (!is_q16(in, in.out())) return unsupported_operand(in, in.out());
  const uint32_t channels = static_cast<uint32_t>(w[0]), depth = static_cast<uint32_t>(w[w.rank - 1]);
  const uint64_t elems = static_cast<uint64_t>(channels) * conv.h.kernel * conv.w.kernel * depth;
  if (in.has(3) || in.has(conv_residual(true))) return refuse(in, Code::kUnsupported, 3, 0);
  if (!is_constant(in, kConvW, DType::kS8, elems)) return refuse(in, Code::kCorrupt, static_cast<uint32_t>(elems), kConvW);
  if (!is_constant(in, kBias, DType::kS64, channels)) return refuse(in, Code::kCorrupt, channels, kBias);
  if (!is_constant(in, kScale, DType::kF32, channels)) return refuse(in, Code::kCorrupt, channels, kScale);
  const QuantParams q = in.tensor(in.out()).quant;
  if (!quantized_limits(q, conv.lo, conv.hi, &p->lo_q, &p->hi_q)) return refuse(in, Code::kInvalidArgument);
  p->mode = ConvMode::kWide;
  p->images = conv.images;
  p->ic = static_cast<uint32_t>(x[x.rank - 1]);
  p->oc = channels;
  p->groups = conv.groups;
  p->n = channels / conv.groups;
  p->seg_k = depth;
  p->h = conv.h;
  p->w = conv.w;
  out->exact_input_mask = 1;
  return y.elems() == static_cast<uint64_t>(conv.images) * conv.h.out * conv.w.out * channels ? Status{}
                                                                                              : refuse(in, Code::kCorrupt);
}

void run_wide_conv(const RunContext& ctx, const BoundStep& step, const ConvParams& p, bool transposed) {
  const Operands op{ctx.in<int16_t>(step, kConvX), ctx.in<int8_t>(step, kConvW), ctx.in<int64_t>(step, kBias),
                    ctx.in<float>(step, kScale), ctx.out<int16_t>(step, 0)};
  ctx.parallel(p.images * p.h.out, [&](uint32_t task, uint32_t) {
    const uint32_t image = task / p.h.out, row = task % p.h.out;
    int16_t* y = op.y + static_cast<size_t>(task) * p.w.out * p.oc;
    for (uint32_t col = 0; col < p.w.out; ++col) {
      for (uint32_t c = 0; c < p.oc; ++c, ++y) {
        const float sum = static_cast<float>(sum_at(p, op, image, row, col, c, transposed));
        *y = static_cast<int16_t>(round_clamp(sum * op.m[c], 0, p.lo_q, p.hi_q));
      }
    }
  });
}

}  // namespace lathe
