#include "runtime/exec/broadcast.h"

namespace lathe {
namespace {

// Dim i from the right of a shape padded with ones on the left.
int32_t dim_from_right(const Shape& s, uint32_t i) { return i < s.rank ? s.dims[s.rank - 1 - i] : 1; }

constexpr uint32_t kUnit = 64;

struct Axis {
  uint32_t size;
  bool a, b;  // varies along this axis
};

}  // namespace

bool make_broadcast(const Shape& a, const Shape& b, const Shape& y, uint32_t threads, Broadcast* out) {
  Axis axes[kMaxRank];  // innermost first, merged
  uint32_t count = 0;
  if (a.rank > y.rank || b.rank > y.rank) return false;
  for (uint32_t i = 0; i < y.rank; ++i) {
    const int32_t da = dim_from_right(a, i), db = dim_from_right(b, i), d = dim_from_right(y, i);
    if ((da != d && da != 1) || (db != d && db != 1) || (da != d && db != d)) return false;
    if (d == 1) continue;
    const Axis axis{static_cast<uint32_t>(d), da == d, db == d};
    if (count > 0 && axes[count - 1].a == axis.a && axes[count - 1].b == axis.b) {
      axes[count - 1].size *= axis.size;
    } else {
      axes[count++] = axis;
    }
  }
  *out = {};
  out->n = count == 0 ? 1 : axes[0].size;
  out->a_step = count == 0 || axes[0].a ? 1 : 0;
  out->b_step = count == 0 || axes[0].b ? 1 : 0;
  uint32_t a_elems = out->a_step != 0 ? out->n : 1, b_elems = out->b_step != 0 ? out->n : 1, rows = 1;
  out->rank = count == 0 ? 0 : count - 1;
  for (uint32_t i = 1; i < count; ++i) {
    const uint32_t at = out->rank - i;
    out->dims[at] = axes[i].size;
    out->a_strides[at] = axes[i].a ? a_elems : 0;
    out->b_strides[at] = axes[i].b ? b_elems : 0;
    if (axes[i].a) a_elems *= axes[i].size;
    if (axes[i].b) b_elems *= axes[i].size;
    rows *= axes[i].size;
  }
  out->y_row = out->n;
  out->split = split_work(rows, out->n, rows * out->n, threads, kUnit);
  return true;
}

Broadcast make_pixel_broadcast(uint32_t pixels, uint32_t c, const uint32_t (&strides)[3], uint32_t a_step, uint32_t b_step,
                               uint32_t threads) {
  Broadcast s{};
  s.rank = 1;
  s.dims[0] = pixels;
  s.a_strides[0] = strides[0];
  s.b_strides[0] = strides[1];
  s.y_row = strides[2];
  s.n = c;
  s.a_step = a_step;
  s.b_step = b_step;
  s.split = split_work(pixels, c, pixels * c, threads, kUnit);
  return s;
}

BroadcastRun broadcast_run(const Broadcast& s, uint32_t row, uint32_t end) {
  BroadcastRun r{0, 0, row * s.y_row, 1};
  uint32_t rest = row;
  for (uint32_t i = s.rank; i-- > 0;) {
    const uint32_t at = rest % s.dims[i];
    rest /= s.dims[i];
    r.a += at * s.a_strides[i];
    r.b += at * s.b_strides[i];
    if (i == s.rank - 1) {
      const uint32_t left = s.dims[i] - at;
      r.rows = left < end - row ? left : end - row;
    }
  }
  return r;
}

}  // namespace lathe
