// What the s8 forms of functions of one input share: operand 1 is a table of 256 results.
#pragma once
#include "kernels/eltwise/eltwise.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/rows.h"

namespace lathe {

// Operand 0 and output 0 are 8-bit, the table is a constant of 256 entries of s8.
inline Status check_lookup(const PrepareInput& in) {
  if (!is_q8_in_storage(in, 0)) return unsupported_operand(in, 0);
  if (!is_q8(in, in.out())) return unsupported_operand(in, in.out());
  if (in.step->n_in < 2) return refuse(in, Code::kCorrupt, 2, in.step->n_in);
  if (in.tensor(1).kind != TensorKind::kConstant || in.tensor(1).dtype != DType::kS8 || elems(in, 1) != 256)
    return refuse(in, Code::kCorrupt, 256, elems(in, 1));
  return {};
}

// The step's first kernel is the lookup.
inline void run_lookup(const RunContext& ctx, const BoundStep& step, const Rows& rows) {
  const auto kernel = ctx.kernel<kernels::Lut8Fn>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const int8_t* table = ctx.in<int8_t>(step, 1);
  ctx.parallel(rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { kernel({x + xi, y + yi, n, table}); });
  });
}

}  // namespace lathe
