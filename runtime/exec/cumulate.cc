// CumSum and CumProd along an axis, from either end, with or without the element itself. Floats are gathered in double.
#include "runtime/element_types.h"
#include "runtime/exec/lines.h"

namespace lathe {
namespace {

struct CumulateParams {
  uint32_t dtype;
  Lines lines;
  uint32_t exclusive, reverse;
};

template <Op kOp> Status prepare_cumulate(const PrepareInput& in, Prepared* out) {
  const CumulateAttrs a = in.program->attrs<CumulateAttrs>(*in.step);
  if (has_quant(in, 0) || !same_bytes(in, 0) || !has_type(op_types(kOp), in.tensor(0).dtype)) return unsupported_operand(in, 0);
  CumulateParams& p = out->make<CumulateParams>();
  if (!make_lines(in, a.axis, &p.lines))
    return refuse(in, Code::kInvalidArgument, in.shape(0).rank, static_cast<uint32_t>(a.axis));
  if (!(in.shape(0) == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.exclusive = a.exclusive != 0 ? 1 : 0;
  p.reverse = a.reverse != 0 ? 1 : 0;
  out->exact_input_mask = out->share_input_mask = 1;
  return {};
}

template <Op kOp, bool kProduct> void run_cumulate(const RunContext& ctx, const BoundStep& step) {
  const CumulateParams& p = ctx.params<CumulateParams>(step);
  with_type<op_types(kOp)>(static_cast<DType>(p.dtype), [&](auto element) {
    using T = typename decltype(element)::Value;
    using A = GatheringOf<T>;
    const T* x = ctx.in<T>(step, 0);
    T* y = ctx.out<T>(step, 0);
    ctx.parallel(p.lines.split.tasks(), [&](uint32_t task, uint32_t) {
      for_each_line(p.lines, task, [&](uint32_t first, uint32_t, uint32_t) {
        A all = kProduct ? A{1} : A{0};
        for (uint32_t i = 0; i < p.lines.n; ++i) {
          const uint32_t at = first + (p.reverse != 0 ? p.lines.n - 1 - i : i) * p.lines.inner;
          const A v = static_cast<A>(x[at]), next = kProduct ? all * v : all + v;
          y[at] = static_cast<T>(p.exclusive != 0 ? all : next);
          all = next;
        }
      });
    });
  });
}

}  // namespace

Status prepare_CumSum(const PrepareInput& in, Prepared* out) { return prepare_cumulate<Op::kCumSum>(in, out); }
Status prepare_CumProd(const PrepareInput& in, Prepared* out) { return prepare_cumulate<Op::kCumProd>(in, out); }
void run_CumSum(const RunContext& ctx, const BoundStep& step) { run_cumulate<Op::kCumSum, false>(ctx, step); }
void run_CumProd(const RunContext& ctx, const BoundStep& step) { run_cumulate<Op::kCumProd, true>(ctx, step); }

}  // namespace lathe
