// FromInteger and ToInteger: plain integers become values with parameters and back. Only the top bit may differ: u8 holds s8 +
// 128, and so does an s8 value of a plan whose storage is u8.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct FlipParams {
  Split split;  // inner: bytes
  uint32_t flip;
};

bool is_plain_byte(const PrepareInput& in, uint32_t i) {
  return (in.tensor(i).dtype == DType::kS8 || in.tensor(i).dtype == DType::kU8) && is_plain(in, i) && !has_quant(in, i);
}

// `steps`: the operand that is a value with parameters; `integers`: the other.
Status prepare_border(const PrepareInput& in, uint32_t steps, uint32_t integers, Prepared* out) {
  if (!is_q8(in, steps)) return unsupported_operand(in, steps);
  if (!is_plain_byte(in, integers)) return unsupported_operand(in, integers);
  const uint32_t n = elems(in, 0);
  if (n != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), n);
  FlipParams& p = out->make<FlipParams>();
  const bool stored_u8 = in.storage == kernels::Storage::kU8 && stored_flip(in, steps) == 0;
  p.flip = stored_u8 == (in.tensor(integers).dtype == DType::kU8) ? 0 : 0x80;
  p.split = split_work(1, n, n, in.threads, 64);
  out->exact_input_mask = out->share_input_mask = 1;
  out->alias_input0 = p.flip == 0;
  return {};
}

void run_border(const RunContext& ctx, const BoundStep& step) {
  const FlipParams& p = ctx.params<FlipParams>(step);
  const auto* x = ctx.in<uint8_t>(step, 0);
  auto* y = ctx.out<uint8_t>(step, 0);
  if (p.flip == 0 && x == y) return;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) y[i] = static_cast<uint8_t>(x[i] ^ p.flip);
  });
}

}  // namespace

Status prepare_FromInteger(const PrepareInput& in, Prepared* out) { return prepare_border(in, in.out(), 0, out); }
Status prepare_ToInteger(const PrepareInput& in, Prepared* out) { return prepare_border(in, 0, in.out(), out); }
void run_FromInteger(const RunContext& ctx, const BoundStep& step) { run_border(ctx, step); }
void run_ToInteger(const RunContext& ctx, const BoundStep& step) { run_border(ctx, step); }

}  // namespace lathe
