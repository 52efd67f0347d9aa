// ArgMaxPool2d and Col2Im: windows whose places are kept or undone, over tensors with channels second.
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

// Largest extent of a padded axis, so that all window arithmetic fits 31 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 28;

struct PoolAxis {
  int32_t in, out, kernel, stride, dilation, before;
};
struct ArgMaxPoolParams {
  uint32_t images, column_major;
  PoolAxis h, w;
};

struct Col2ImAxis {
  int32_t image, block, columns, stride, dilation, before;
};
struct Col2ImParams {
  uint32_t channels, blocks, columns, image_elems;  // images: n * c of them
  uint32_t images, rank;
  Col2ImAxis axes[kMaxRank];
};

// The number of windows that fit: floor, or ceil if the last one begins inside; -1 for attributes that make no sense.
int64_t window_count(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t after, bool ceil_mode) {
  const int64_t all[] = {in, kernel, stride, dilation, before, after};
  for (const int64_t v : all)
    if (v < 0 || v > kMaxExtent) return -1;
  if (kernel < 1 || stride < 1 || dilation < 1) return -1;
  const int64_t window = dilation * (kernel - 1) + 1, padded = in + before + after;
  if (padded > kMaxExtent || window > padded) return -1;
  const int64_t whole = (padded - window) / stride + 1;
  const bool more = ceil_mode && (padded - window) % stride != 0 && whole * stride < in + before;
  return whole + (more ? 1 : 0);
}

}  // namespace

Status prepare_ArgMaxPool2d(const PrepareInput& in, Prepared* out) {
  const ArgMaxPoolAttrs a = in.program->attrs<ArgMaxPoolAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (!is_f32(in, 0) || !is_f32(in, in.out())) return unsupported_operand(in, 0);
  if (in.tensor(in.out(1)).dtype != DType::kS64 || has_quant(in, in.out(1))) return unsupported_operand(in, in.out(1));
  if (x.rank != 4 || y.rank != 4 || !(y == in.shape(in.out(1)))) return refuse(in, Code::kInvalidArgument, 4, x.rank);
  ArgMaxPoolParams& p = out->make<ArgMaxPoolParams>();
  PoolAxis* axes[] = {&p.h, &p.w};
  for (uint32_t i = 0; i < 2; ++i) {
    const int64_t extent = int64_t{a.dilation[i]} * (int64_t{a.kernel[i]} - 1) + 1;
    const int64_t n =
        window_count(x.dims[2 + i], a.kernel[i], a.stride[i], a.dilation[i], a.pad[i], a.pad[2 + i], a.ceil_mode != 0);
    // A window inside the padding alone has no maximum.
    if (n < 0 || a.pad[i] >= extent || a.pad[2 + i] >= extent || n != y.dims[2 + i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(n), static_cast<uint32_t>(y.dims[2 + i]));
    *axes[i] = {x.dims[2 + i], y.dims[2 + i], a.kernel[i], a.stride[i], a.dilation[i], a.pad[i]};
  }
  if (x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1]) return refuse(in, Code::kInvalidArgument, elems(in, 0));
  p.images = x.elems(0, 2);
  p.column_major = a.column_major != 0 ? 1 : 0;
  out->exact_input_mask = 1;
  return {};
}

void run_ArgMaxPool2d(const RunContext& ctx, const BoundStep& step) {
  const ArgMaxPoolParams& p = ctx.params<ArgMaxPoolParams>(step);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  int64_t* at = ctx.out<int64_t>(step, 1);
  for (uint32_t image = 0; image < p.images; ++image, x += p.h.in * p.w.in) {
    const int64_t first = static_cast<int64_t>(image) * p.h.in * p.w.in;
    for (int32_t oh = 0; oh < p.h.out; ++oh)
      for (int32_t ow = 0; ow < p.w.out; ++ow) {
        float best = -kInfinity;
        int64_t place = -1;
        for (int32_t kh = 0; kh < p.h.kernel; ++kh)
          for (int32_t kw = 0; kw < p.w.kernel; ++kw) {
            const int32_t h = oh * p.h.stride - p.h.before + kh * p.h.dilation;
            const int32_t w = ow * p.w.stride - p.w.before + kw * p.w.dilation;
            if (h < 0 || h >= p.h.in || w < 0 || w >= p.w.in) continue;
            const float v = x[h * p.w.in + w];
            if (place >= 0 && !(v > best)) continue;
            best = v;
            place = first + (p.column_major != 0 ? int64_t{w} * p.h.in + h : int64_t{h} * p.w.in + w);
          }
        *y++ = best;
        *at++ = place;
      }
  }
}

Status prepare_Col2Im(const PrepareInput& in, Prepared* out) {
  const Col2ImAttrs a = in.program->attrs<Col2ImAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (!is_f32(in, 0) || !is_f32(in, in.out())) return unsupported_operand(in, 0);
  const int32_t rank = a.image.count;
  const Ints* lists[] = {&a.block, &a.stride, &a.dilation, &a.before, &a.after};
  for (const Ints* list : lists)
    if (list->count != rank) return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(rank));
  if (x.rank != 3 || rank < 1 || y.rank != static_cast<uint32_t>(rank) + 2) return refuse(in, Code::kInvalidArgument, 3, x.rank);
  Col2ImParams& p = out->make<Col2ImParams>();
  int64_t columns = 1, blocks = 1;
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t n = window_count(a.image[i], a.block[i], a.stride[i], a.dilation[i], a.before[i], a.after[i], false);
    if (n < 1 || y.dims[2 + i] != a.image[i]) return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(y.dims[2 + i]));
    p.axes[i] = {a.image[i], a.block[i], static_cast<int32_t>(n), a.stride[i], a.dilation[i], a.before[i]};
    columns *= n;
    blocks *= a.block[i];
    if (columns > kMaxExtent || blocks > kMaxExtent) return refuse(in, Code::kInvalidArgument, 0, 0);
  }
  if (x.dims[0] != y.dims[0] || columns != x.dims[2] || int64_t{y.dims[1]} * blocks != x.dims[1])
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(columns), static_cast<uint32_t>(x.dims[2]));
  p.images = y.elems(0, 2);
  p.image_elems = y.elems(2, y.rank);
  p.blocks = static_cast<uint32_t>(blocks);
  p.columns = static_cast<uint32_t>(columns);
  p.rank = static_cast<uint32_t>(rank);
  out->exact_input_mask = 1;
  return {};
}

// Element (block k, column l) of x is added to the pixel that it was taken from, if that is inside the image.
void run_Col2Im(const RunContext& ctx, const BoundStep& step) {
  const Col2ImParams& p = ctx.params<Col2ImParams>(step);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  for (uint32_t i = 0; i < p.images * p.image_elems; ++i) y[i] = 0;
  for (uint32_t image = 0; image < p.images; ++image, y += p.image_elems)
    for (uint32_t k = 0; k < p.blocks; ++k)
      for (uint32_t l = 0; l < p.columns; ++l, ++x) {
        uint32_t pixel = 0, stride = 1, block = k, column = l;
        bool inside = true;
        for (uint32_t i = p.rank; i-- > 0;) {
          const Col2ImAxis& axis = p.axes[i];
          const auto b = static_cast<int32_t>(block % static_cast<uint32_t>(axis.block));
          const auto c = static_cast<int32_t>(column % static_cast<uint32_t>(axis.columns));
          block /= static_cast<uint32_t>(axis.block);
          column /= static_cast<uint32_t>(axis.columns);
          const int32_t at = c * axis.stride - axis.before + b * axis.dilation;
          inside = inside && at >= 0 && at < axis.image;
          if (inside) pixel += static_cast<uint32_t>(at) * stride;
          stride *= static_cast<uint32_t>(axis.image);
        }
        if (inside) y[pixel] += *x;
      }
}

}  // namespace lathe
