// Elementwise operators on one element type at a time, with broadcasting: one loop, made from a functor for every type that the
// op takes (runtime/element_types.h).
//
//   struct Larger { template <class T> T operator()(T a, T b) const { return a > b ? a : b; } };
//   Status prepare_Max(const PrepareInput& in, Prepared* out) { return prepare_elementwise<Op::kMax, 2>(in, Larger{}, out); }
//   void run_Max(const RunContext& ctx, const BoundStep& step) { run_elementwise<Op::kMax, 2, Larger>(ctx, step); }
//
// The functor's result is bool for a comparison, else T. Its members, 32-bit only, are part of the step's parameters. Portable
// code for operators outside the hot path; Add, Sub, Mul, Div and functions of one input on floats have kernels of their own.
#pragma once
#include <stdint.h>

#include "runtime/element_types.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {

inline constexpr uint32_t kMaxElementwiseOperands = 3;

// The result as rows of n elements: dims[0 .. rank) count rows, innermost last. Dims that broadcast alike are merged and dims of
// 1 dropped. Strides are in elements, 0 where an operand is broadcast; steps lie within a row and are 1 or 0.
struct ElementwiseShape {
  uint32_t rank;
  uint32_t dims[kMaxRank];
  uint32_t strides[kMaxElementwiseOperands][kMaxRank];
  uint32_t steps[kMaxElementwiseOperands];
  uint32_t n;
  Split split;  // outer: rows, inner: elements of a row
};

// False if one of the first `operands` inputs does not broadcast to output 0.
bool make_elementwise_shape(const PrepareInput& in, uint32_t operands, ElementwiseShape* out);

// Where row `row` of each operand begins.
void elementwise_row(const ElementwiseShape& s, uint32_t row, uint32_t (&at)[kMaxElementwiseOperands]);

// Inputs whose memory output 0 may take: as many elements of as many bytes, so that each is read before it is overwritten.
uint32_t elementwise_shares(const PrepareInput& in, uint32_t operands);

template <class F> struct ElementwiseParams {
  uint32_t dtype;
  ElementwiseShape shape;
  F f;
};

// All operands of one type of op_types(op), without quantization parameters; the result of the same type, or bool of a
// comparison.
Status check_elementwise(const PrepareInput& in, Op op, uint32_t operands);

template <class F, uint32_t kOperands, class T> auto apply_elementwise(const F& f, T a, T b) {
  if constexpr (kOperands == 1) return f(a);
  else return f(a, b);
}

template <Op kOp, uint32_t kOperands, class F> Status prepare_elementwise(const PrepareInput& in, const F& f, Prepared* out) {
  if (const Status s = check_elementwise(in, kOp, kOperands); !s.ok()) return s;
  ElementwiseParams<F>& p = out->make<ElementwiseParams<F>>();
  if (!make_elementwise_shape(in, kOperands, &p.shape))
    return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, kOperands - 1));
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.f = f;
  out->exact_input_mask = (1u << kOperands) - 1;
  out->share_input_mask = elementwise_shares(in, kOperands);
  return {};
}

template <Op kOp, uint32_t kOperands, class F> void run_elementwise(const RunContext& ctx, const BoundStep& step) {
  const ElementwiseParams<F>& p = ctx.params<ElementwiseParams<F>>(step);
  const ElementwiseShape& s = p.shape;
  with_type<op_types(kOp)>(static_cast<DType>(p.dtype), [&](auto element) {
    using E = decltype(element);
    using T = typename E::Value;
    using R = Element<decltype(apply_elementwise<F, kOperands>(p.f, T{}, T{}))>;
    const auto* a = ctx.in<typename E::Stored>(step, 0);
    const auto* b = ctx.in<typename E::Stored>(step, kOperands - 1);
    auto* y = ctx.out<typename R::Stored>(step, 0);
    ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
      const TaskRange t = task_range(s.split, task);
      for (uint32_t row = t.outer_begin; row < t.outer_end; ++row) {
        uint32_t at[kMaxElementwiseOperands];
        elementwise_row(s, row, at);
        const auto* ar = a + at[0];
        const auto* br = b + at[kOperands - 1];
        auto* yr = y + row * s.n;
        for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
          yr[i] = R::store(
              apply_elementwise<F, kOperands>(p.f, E::load(ar[i * s.steps[0]]), E::load(br[i * s.steps[kOperands - 1]])));
        }
      }
    });
  });
}

}  // namespace lathe
