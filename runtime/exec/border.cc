// Border: padding with elements of the input itself, mirrored, repeated or wrapped around.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct BorderAxis {
  int32_t in, out, before;
};

// Rows of the last axis, which is 1 for rank 0 (no axis at all).
struct BorderParams {
  uint32_t rank, mode, elem_bytes, rows;
  BorderAxis axes[kMaxRank];
  Split split;  // outer: rows
};

// Where output position `at` of an axis comes from. Requires: in >= 1.
uint32_t source_of(const BorderAxis& axis, uint32_t mode, uint32_t at) {
  const int32_t n = axis.in, i = static_cast<int32_t>(at) - axis.before;
  if (i >= 0 && i < n) return static_cast<uint32_t>(i);
  switch (static_cast<BorderMode>(mode)) {
    case BorderMode::kEdge: return static_cast<uint32_t>(i < 0 ? 0 : n - 1);
    case BorderMode::kWrap: return static_cast<uint32_t>((i % n + n) % n);
    default: {
      // A mirror at either end: the pattern repeats after 2 (n - 1) elements.
      const int32_t period = n > 1 ? 2 * (n - 1) : 1, k = (i % period + period) % period;
      return static_cast<uint32_t>(k < n ? k : period - k);
    }
  }
}

}  // namespace

Status prepare_Border(const PrepareInput& in, Prepared* out) {
  const BorderAttrs a = in.program->attrs<BorderAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  const int32_t rank = static_cast<int32_t>(x.rank);
  if (x.rank != y.rank || rank < 1 || a.before.count != rank || a.after.count != rank)
    return refuse(in, Code::kInvalidArgument, x.rank, y.rank);
  if (a.mode < 0 || a.mode > static_cast<int32_t>(BorderMode::kWrap)) return refuse(in, Code::kInvalidArgument, 2, static_cast<uint32_t>(a.mode));
  BorderParams& p = out->make<BorderParams>();
  for (int32_t i = 0; i < rank; ++i) {
    constexpr int32_t kMostPad = 1 << 29;  // so that positions and periods fit 31 bits
    const int64_t want = int64_t{x.dims[i]} + a.before[i] + a.after[i];
    if (a.before[i] < 0 || a.after[i] < 0 || x.dims[i] < 1 || x.dims[i] > kMostPad || want > kMostPad || want != y.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(y.dims[i]));
    p.axes[i] = {x.dims[i], y.dims[i], a.before[i]};
  }
  p.rank = x.rank;
  p.mode = static_cast<uint32_t>(a.mode);
  p.elem_bytes = elem_bytes(in, 0);
  p.rows = y.elems(0, y.rank - 1);
  p.split = split_work(p.rows, 1, elems(in, in.out()), in.threads, 1);
  out->exact_input_mask = 1;
  return {};
}

void run_Border(const RunContext& ctx, const BoundStep& step) {
  const BorderParams& p = ctx.params<BorderParams>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const BorderAxis& last = p.axes[p.rank - 1];
  const uint32_t bytes = p.elem_bytes, in_n = static_cast<uint32_t>(last.in), out_n = static_cast<uint32_t>(last.out);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    for (uint32_t row = r.outer_begin; row < r.outer_end; ++row) {
      uint32_t from = 0, stride = in_n, rest = row;
      for (uint32_t i = p.rank - 1; i-- > 0;) {
        const auto n = static_cast<uint32_t>(p.axes[i].out);
        from += source_of(p.axes[i], p.mode, rest % n) * stride;
        stride *= static_cast<uint32_t>(p.axes[i].in);
        rest /= n;
      }
      const uint8_t* source = x + from * bytes;
      uint8_t* to = y + row * out_n * bytes;
      const auto before = static_cast<uint32_t>(last.before);
      __builtin_memcpy(to + before * bytes, source, in_n * bytes);
      for (uint32_t j = 0; j < before; ++j) __builtin_memcpy(to + j * bytes, source + source_of(last, p.mode, j) * bytes, bytes);
      for (uint32_t j = before + in_n; j < out_n; ++j)
        __builtin_memcpy(to + j * bytes, source + source_of(last, p.mode, j) * bytes, bytes);
    }
  });
}

}  // namespace lathe
