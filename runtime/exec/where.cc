// Where: one of two operands, element by element, with broadcasting of all three. It moves bytes, so any type of one size is
// handled alike, quantized ones too if all have the result's grid.
#include "runtime/exec/elementwise.h"

namespace lathe {
namespace {

struct WhereParams {
  uint32_t elem_bytes;
  ElementwiseShape shape;
};

template <class T> void run_sized(const RunContext& ctx, const BoundStep& step, const ElementwiseShape& s) {
  const auto* condition = ctx.in<uint8_t>(step, 0);
  const T *a = ctx.in<T>(step, 1), *b = ctx.in<T>(step, 2);
  T* y = ctx.out<T>(step, 0);
  ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(s.split, task);
    for (uint32_t row = t.outer_begin; row < t.outer_end; ++row) {
      uint32_t at[kMaxElementwiseOperands];
      elementwise_row(s, row, at);
      for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
        const bool first = condition[at[0] + i * s.steps[0]] != 0;
        y[row * s.n + i] = first ? a[at[1] + i * s.steps[1]] : b[at[2] + i * s.steps[2]];
      }
    }
  });
}

}  // namespace

Status prepare_Where(const PrepareInput& in, Prepared* out) {
  if (in.tensor(0).dtype != DType::kBool || !is_plain(in, 0)) return unsupported_operand(in, 0);
  for (uint32_t i = 1; i <= 2; ++i) {
    if (!same_bytes(in, i) || stored_flip(in, i) != 0) return unsupported_operand(in, i);
  }
  WhereParams& p = out->make<WhereParams>();
  if (!make_elementwise_shape(in, 3, &p.shape)) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, 0));
  p.elem_bytes = elem_bytes(in, in.out());
  out->exact_input_mask = 7;
  out->share_input_mask = elementwise_shares(in, 3);
  return {};
}

void run_Where(const RunContext& ctx, const BoundStep& step) {
  const WhereParams& p = ctx.params<WhereParams>(step);
  switch (p.elem_bytes) {
    case 1: return run_sized<uint8_t>(ctx, step, p.shape);
    case 2: return run_sized<uint16_t>(ctx, step, p.shape);
    case 4: return run_sized<uint32_t>(ctx, step, p.shape);
    default: return run_sized<uint64_t>(ctx, step, p.shape);
  }
}

}  // namespace lathe
