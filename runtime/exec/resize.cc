// Resize and ResizeNearest, one axis at a time: output element j is a weighted sum of a few neighbours of its place in the input.
//
// Places and weights follow ONNX's Resize: coordinates in double, the output's real width is scale * n. Both ops make a table in
// scratch, per output element the first neighbour and the weights, and then walk the data once.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

// x is [outer][in_n][inner], y is [outer][out_n][inner].
struct ResizeParams {
  ResizeAttrs a;
  uint32_t in_n, out_n, inner, taps, elem_bytes;
  float scale;
  Split split;  // outer: outer, inner: out_n
};

constexpr uint32_t kMaxTableBytes = 1u << 28;
constexpr int32_t kOutside = INT32_MIN;  // place of an element that is extrapolated

double floor_of(double v) {
  const auto whole = static_cast<int64_t>(v);
  return static_cast<double>(whole) > v ? static_cast<double>(whole - 1) : static_cast<double>(whole);
}

double shrink(const ResizeParams& p) { return p.scale < 1 ? static_cast<double>(p.scale) : 1.0; }

// First neighbour relative to the one left of the place: the kernel's support, widened by antialiasing.
int32_t first_tap(const ResizeParams& p) {
  const double support = p.a.mode == static_cast<int32_t>(ResizeMode::kCubic) ? 2 : 1;
  if (p.a.antialias == 0) return support == 2 ? -1 : 0;
  return static_cast<int32_t>(floor_of(-support / shrink(p))) + 1;
}

// Where output element j lies in the input; false if outside of what crop-and-resize may read.
bool place_of(const ResizeParams& p, uint32_t j, double* place) {
  const double n = p.in_n, scale = static_cast<double>(p.scale), width = scale * n, x = j;
  double at = 0;
  switch (static_cast<ResizeCoordinates>(p.a.coordinates)) {
    case ResizeCoordinates::kAlignCorners: at = width == 1 ? 0 : x * (n - 1) / (width - 1); break;
    case ResizeCoordinates::kAsymmetric: at = x / scale; break;
    case ResizeCoordinates::kPytorchHalfPixel: at = width == 1 ? -0.5 : (x + 0.5) / scale - 0.5; break;
    case ResizeCoordinates::kTfHalfPixelForNearest: at = (x + 0.5) / scale; break;
    case ResizeCoordinates::kHalfPixelSymmetric:
      at = n / 2 * (1 - p.out_n / width) + (x + 0.5) / scale - 0.5;
      break;
    case ResizeCoordinates::kCropAndResize: {
      const double start = static_cast<double>(p.a.start), extent = static_cast<double>(p.a.end) - start;
      at = start * (n - 1) + (width == 1 ? extent * (n - 1) / 2 : x * extent * (n - 1) / (width - 1));
      *place = at;
      return at >= 0 && at <= n - 1;
    }
    default: at = (x + 0.5) / scale - 0.5; break;
  }
  // Far outside is as good as just outside, and fits 31 bits.
  *place = at < -4 ? -4 : at > n + 4 ? n + 4 : at;
  return true;
}

int32_t nearest_of(const ResizeParams& p, double place) {
  const double left = floor_of(place), ratio = place - left;
  bool up = false;
  switch (static_cast<ResizeNearest>(p.a.nearest)) {
    case ResizeNearest::kFloor: break;
    case ResizeNearest::kCeil: up = ratio > 0; break;
    case ResizeNearest::kRoundPreferCeil: up = ratio >= 0.5; break;
    default: up = ratio > 0.5; break;
  }
  return static_cast<int32_t>(left) + (up ? 1 : 0);
}

// The kernel at distance `d` >= 0: a tent, or Keys' cubic with parameter a.
double kernel_at(const ResizeParams& p, double d) {
  if (p.a.mode == static_cast<int32_t>(ResizeMode::kLinear)) return d < 1 ? 1 - d : 0;
  const double a = static_cast<double>(p.a.cubic_a);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Weights of the neighbours first, first + 1, ... of a place `ratio` right of neighbour 0; they add up to 1.
void fill_weights(const ResizeParams& p, int32_t left, double ratio, float* weights) {
  const int32_t first = first_tap(p);
  const double scale = p.a.antialias != 0 ? shrink(p) : 1.0;
  const auto n = static_cast<int32_t>(p.in_n);
  const auto weight = [&](uint32_t t) {
    const int32_t tap = first + static_cast<int32_t>(t);
    if (p.a.exclude_outside != 0 && (left + tap < 0 || left + tap >= n)) return 0.0;
    const double d = (tap - ratio) * scale;
    return kernel_at(p, d < 0 ? -d : d);
  };
  double sum = 0;
  for (uint32_t t = 0; t < p.taps; ++t) sum += weight(t);
  for (uint32_t t = 0; t < p.taps; ++t) weights[t] = static_cast<float>(sum != 0 ? weight(t) / sum : 0);
}

uint32_t clamped(int32_t at, uint32_t n) {
  return at < 0 ? 0 : static_cast<uint32_t>(at) >= n ? n - 1 : static_cast<uint32_t>(at);
}

// Of an axis of n elements: those of the result.
int64_t resized(const ResizeAttrs& a, int64_t n) {
  if (a.size != 0) return a.size;
  return a.scale_down < 1 ? 0 : n * a.scale_up / a.scale_down;
}

Status prepare_axis(const PrepareInput& in, Prepared* out, ResizeParams** params) {
  const ResizeAttrs a = in.program->attrs<ResizeAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (axis >= x.rank || x.rank != y.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  for (uint32_t i = 0; i < x.rank; ++i) {
    const int64_t want = i == axis ? resized(a, x.dims[i]) : x.dims[i];
    if (want != y.dims[i]) return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(want), static_cast<uint32_t>(y.dims[i]));
  }
  if (elems(in, 0) == 0) return refuse(in, Code::kUnsupported, 1, 0);
  ResizeParams& p = out->make<ResizeParams>();
  p.a = a;
  p.in_n = static_cast<uint32_t>(x.dims[axis]);
  p.out_n = static_cast<uint32_t>(y.dims[axis]);
  p.inner = x.elems(axis + 1, x.rank);
  p.elem_bytes = elem_bytes(in, 0);
  p.scale = a.scale > 0 && a.scale < kInfinity ? a.scale
                                              : static_cast<float>(static_cast<double>(p.out_n) / static_cast<double>(p.in_n));
  p.split = split_work(x.elems(0, axis), p.out_n, elems(in, in.out()), in.threads, 1);
  out->exact_input_mask = 1;
  *params = &p;
  return {};
}

}  // namespace

Status prepare_ResizeNearest(const PrepareInput& in, Prepared* out) {
  ResizeParams* p = nullptr;
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  if (const Status s = prepare_axis(in, out, &p); !s.ok()) return s;
  const bool crops = p->a.coordinates == static_cast<int32_t>(ResizeCoordinates::kCropAndResize);
  if (crops && !is_f32(in, 0)) return unsupported_operand(in, 0);
  if (p->out_n > kMaxTableBytes / 4) return refuse(in, Code::kUnsupported, kMaxTableBytes / 4, p->out_n);
  out->scratch_bytes = p->out_n * 4;
  return {};
}

void run_ResizeNearest(const RunContext& ctx, const BoundStep& step) {
  const ResizeParams& p = ctx.params<ResizeParams>(step);
  auto* table = reinterpret_cast<int32_t*>(ctx.scratch(step));
  for (uint32_t j = 0; j < p.out_n; ++j) {
    double place = 0;
    table[j] = place_of(p, j, &place) ? static_cast<int32_t>(clamped(nearest_of(p, place), p.in_n)) : kOutside;
  }
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint32_t row_bytes = p.inner * p.elem_bytes;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    for (uint32_t o = r.outer_begin; o < r.outer_end; ++o)
      for (uint32_t j = r.inner_begin; j < r.inner_end; ++j) {
        uint8_t* to = y + (o * p.out_n + j) * row_bytes;
        if (table[j] == kOutside) {
          for (uint32_t i = 0; i < p.inner; ++i) reinterpret_cast<float*>(to)[i] = p.a.extrapolation;
        } else {
          __builtin_memcpy(to, x + (o * p.in_n + static_cast<uint32_t>(table[j])) * row_bytes, row_bytes);
        }
      }
  });
}

Status prepare_Resize(const PrepareInput& in, Prepared* out) {
  ResizeParams* p = nullptr;
  if (!is_f32(in, 0) || !is_f32(in, in.out())) return unsupported_operand(in, 0);
  if (const Status s = prepare_axis(in, out, &p); !s.ok()) return s;
  const int32_t mode = p->a.mode;
  if (mode != static_cast<int32_t>(ResizeMode::kLinear) && mode != static_cast<int32_t>(ResizeMode::kCubic))
    return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(mode));
  if (!(p->scale * kMaxTableBytes > 16)) return refuse(in, Code::kUnsupported, p->in_n, p->out_n);
  p->taps = static_cast<uint32_t>(2 - 2 * first_tap(*p));
  if (uint64_t{p->out_n} * (p->taps + 1) * 4 > kMaxTableBytes) return refuse(in, Code::kUnsupported, kMaxTableBytes, p->taps);
  out->scratch_bytes = p->out_n * (p->taps + 1) * 4;
  return {};
}

void run_Resize(const RunContext& ctx, const BoundStep& step) {
  const ResizeParams& p = ctx.params<ResizeParams>(step);
  auto* firsts = reinterpret_cast<int32_t*>(ctx.scratch(step));
  auto* weights = reinterpret_cast<float*>(firsts + p.out_n);
  for (uint32_t j = 0; j < p.out_n; ++j) {
    double place = 0;
    firsts[j] = kOutside;
    if (!place_of(p, j, &place)) continue;
    const double left = floor_of(place);
    firsts[j] = static_cast<int32_t>(left) + first_tap(p);
    fill_weights(p, static_cast<int32_t>(left), place - left, weights + j * p.taps);
  }
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    for (uint32_t o = r.outer_begin; o < r.outer_end; ++o)
      for (uint32_t j = r.inner_begin; j < r.inner_end; ++j) {
        float* to = y + (o * p.out_n + j) * p.inner;
        const bool outside = firsts[j] == kOutside;
        for (uint32_t i = 0; i < p.inner; ++i) to[i] = outside ? p.a.extrapolation : 0;
        for (uint32_t t = 0; !outside && t < p.taps; ++t) {
          const float w = weights[j * p.taps + t];
          const float* from = x + (o * p.in_n + clamped(firsts[j] + static_cast<int32_t>(t), p.in_n)) * p.inner;
          if (w != 0)
            for (uint32_t i = 0; i < p.inner; ++i) to[i] += w * from[i];
        }
      }
  });
}

}  // namespace lathe
