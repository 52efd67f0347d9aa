// RoiAlign: boxes (x1, y1, x2, y2) of images pooled to one size, from bilinear samples (He et al., Mask R-CNN, section 3).
#include "runtime/exec/indexing.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct RoiAlignParams {
  RoiAlignAttrs a;
  uint32_t images, channels, index_bytes;
  int32_t h, w;
  Split split;  // outer: boxes x channels
};

// Most samples along an axis of a bin: a box may be any size.
constexpr float kMostSamples = 256;

// The four pixels around a sample and their weights; none of them for a sample that lies more than a pixel outside.
struct Sample {
  int32_t at[4];
  float weights[4];
};

int32_t floor_to_int(float v) { return static_cast<int32_t>(v); }  // of what is not negative

Sample sample_at(const RoiAlignParams& p, float y, float x) {
  Sample s{};
  const auto h = static_cast<float>(p.h), w = static_cast<float>(p.w);
  if (!(y >= -1 && y <= h && x >= -1 && x <= w)) return s;
  y = y < 0 ? 0 : y;
  x = x < 0 ? 0 : x;
  int32_t y0 = floor_to_int(y), x0 = floor_to_int(x), y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= p.h - 1) {
    y0 = y1 = p.h - 1;
    y = static_cast<float>(y0);
  }
  if (x0 >= p.w - 1) {
    x0 = x1 = p.w - 1;
    x = static_cast<float>(x0);
  }
  const float ly = y - static_cast<float>(y0), lx = x - static_cast<float>(x0), hy = 1 - ly, hx = 1 - lx;
  s = {{y0 * p.w + x0, y0 * p.w + x1, y1 * p.w + x0, y1 * p.w + x1}, {hy * hx, hy * lx, ly * hx, ly * lx}};
  return s;
}

// One axis of a box: where it begins, how large its bins are, and how many samples a bin has.
struct BoxAxis {
  float begin, bin;
  int32_t samples;
};
BoxAxis box_axis(const RoiAlignParams& p, float low, float high, int32_t bins) {
  const float offset = p.a.half_pixel != 0 ? 0.5f : 0.0f;
  const float begin = low * p.a.spatial_scale - offset, end = high * p.a.spatial_scale - offset;
  float extent = end - begin;
  if (p.a.half_pixel == 0 && !(extent >= 1)) extent = 1;
  const float bin = extent / static_cast<float>(bins);
  int32_t samples = p.a.sampling;
  if (samples <= 0) {
    const float wanted = bin > 0 ? (bin < kMostSamples ? bin : kMostSamples) : 0;
    samples = floor_to_int(wanted) + (static_cast<float>(floor_to_int(wanted)) < wanted ? 1 : 0);
  }
  return {begin, bin, samples};
}

float pooled(const RoiAlignParams& p, const float* image, const BoxAxis& ya, const BoxAxis& xa, int32_t by, int32_t bx) {
  float sum = 0, largest = -kInfinity;
  for (int32_t iy = 0; iy < ya.samples; ++iy)
    for (int32_t ix = 0; ix < xa.samples; ++ix) {
      const float y = ya.begin + (static_cast<float>(by) + (static_cast<float>(iy) + 0.5f) / static_cast<float>(ya.samples)) * ya.bin;
      const float x = xa.begin + (static_cast<float>(bx) + (static_cast<float>(ix) + 0.5f) / static_cast<float>(xa.samples)) * xa.bin;
      const Sample s = sample_at(p, y, x);
      for (int k = 0; k < 4; ++k) {
        const float v = s.weights[k] * image[s.at[k]];
        sum += v;
        largest = v > largest ? v : largest;
      }
    }
  const int32_t count = ya.samples * xa.samples;
  if (p.a.use_max != 0) return count > 0 ? largest : 0;
  return sum / static_cast<float>(count > 0 ? count : 1);
}

}  // namespace

Status prepare_RoiAlign(const PrepareInput& in, Prepared* out) {
  const RoiAlignAttrs a = in.program->attrs<RoiAlignAttrs>(*in.step);
  const Shape &x = in.shape(0), &boxes = in.shape(1), &y = in.shape(in.out());
  if (!is_f32(in, 0) || !is_f32(in, in.out())) return unsupported_operand(in, 0);
  if (!is_f32(in, 1)) return unsupported_operand(in, 1);
  if (!is_index_operand(in, 2)) return unsupported_operand(in, 2);
  if (x.rank != 4 || boxes.rank != 2 || boxes.dims[1] != 4 || y.rank != 4) return refuse(in, Code::kInvalidArgument, 4, x.rank);
  if (in.shape(2).rank != 1 || in.shape(2).dims[0] != boxes.dims[0])
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(boxes.dims[0]), elems(in, 2));
  if (y.dims[0] != boxes.dims[0] || y.dims[1] != x.dims[1] || y.dims[2] != a.height || y.dims[3] != a.width || a.height < 1 ||
      a.width < 1 || a.sampling < 0 || a.sampling > static_cast<int32_t>(kMostSamples) || elems(in, 0) == 0)
    return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  RoiAlignParams& p = out->make<RoiAlignParams>();
  p.a = a;
  p.images = static_cast<uint32_t>(x.dims[0]);
  p.channels = static_cast<uint32_t>(x.dims[1]);
  p.index_bytes = elem_bytes(in, 2);
  p.h = x.dims[2];
  p.w = x.dims[3];
  p.split = split_work(y.elems(0, 2), 1, elems(in, in.out()), in.threads, 1);
  out->exact_input_mask = 7;
  return check_constant_indices(in, 2, [&](uint32_t) { return x.dims[0]; });
}

void run_RoiAlign(const RunContext& ctx, const BoundStep& step) {
  const RoiAlignParams& p = ctx.params<RoiAlignParams>(step);
  const float *x = ctx.in<float>(step, 0), *boxes = ctx.in<float>(step, 1);
  const uint8_t* images = ctx.in<uint8_t>(step, 2);
  float* y = ctx.out<float>(step, 0);
  const uint32_t image_elems = static_cast<uint32_t>(p.h) * static_cast<uint32_t>(p.w);
  const uint32_t out_elems = static_cast<uint32_t>(p.a.height) * static_cast<uint32_t>(p.a.width);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    for (uint32_t o = r.outer_begin; o < r.outer_end; ++o) {
      const uint32_t box = o / p.channels, channel = o % p.channels;
      const float* corners = boxes + box * 4;
      const int32_t image = resolve_index(load_index(images, p.index_bytes, box), static_cast<int32_t>(p.images));
      const BoxAxis ya = box_axis(p, corners[1], corners[3], p.a.height), xa = box_axis(p, corners[0], corners[2], p.a.width);
      const float* from = x + (static_cast<uint32_t>(image < 0 ? 0 : image) * p.channels + channel) * image_elems;
      float* to = y + o * out_elems;
      for (int32_t by = 0; by < p.a.height; ++by)
        for (int32_t bx = 0; bx < p.a.width; ++bx) *to++ = image < 0 ? __builtin_nanf("") : pooled(p, from, ya, xa, by, bx);
    }
  });
}

}  // namespace lathe
