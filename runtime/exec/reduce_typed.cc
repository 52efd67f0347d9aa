// ReduceSum, ReduceProd, ReduceMax and ReduceMin over any axes of any number type. Floats are summed and multiplied in double, in
// the order of the reduced axes; integers wrap. Extremes work on 8-bit values as they are: their order is that of the reals.
#include "runtime/element_types.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/extremes.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

// Axes that are all kept or all reduced, neighbours merged, dims of 1 dropped; innermost last. Strides in elements.
struct AxisList {
  uint32_t count;
  uint32_t dims[kMaxRank], strides[kMaxRank];
};

struct ReduceParams {
  uint32_t dtype;  // of the elements as they lie in memory
  AxisList kept, reduced;
  uint32_t k;   // elements that are reduced to one
  Split split;  // inner: results
};

Status read_axes(const PrepareInput& in, bool* is_reduced) {
  const ReduceAttrs a = in.program->attrs<ReduceAttrs>(*in.step);
  const Shape& x = in.shape(0);
  for (int32_t i = 0; i < a.axes.count; ++i) {
    const uint32_t axis = static_cast<uint32_t>(a.axes[i]);
    if (axis >= x.rank || is_reduced[axis]) return refuse(in, Code::kInvalidArgument, x.rank, axis);
    is_reduced[axis] = true;
  }
  return {};
}

// Splits x's axes; gives the number of results.
uint32_t split_axes(const Shape& x, const bool* is_reduced, ReduceParams* p) {
  uint32_t results = 1, stride = 1;
  p->k = 1;
  int32_t last = -1;  // whether the axis before went to `reduced`
  AxisList inside_out[2] = {};
  for (uint32_t i = x.rank; i-- > 0;) {
    const uint32_t size = static_cast<uint32_t>(x.dims[i]);
    (is_reduced[i] ? p->k : results) *= size;
    if (size == 1) continue;
    const int32_t side = is_reduced[i] ? 1 : 0;
    AxisList& list = inside_out[side];
    if (last == side) {
      list.dims[list.count - 1] *= size;
    } else {
      list.dims[list.count] = size;
      list.strides[list.count++] = stride;
    }
    last = side;
    stride *= size;
  }
  AxisList* const sides[2] = {&p->kept, &p->reduced};
  for (uint32_t side = 0; side < 2; ++side) {
    const AxisList& from = inside_out[side];
    sides[side]->count = from.count;
    for (uint32_t i = 0; i < from.count; ++i) {
      sides[side]->dims[i] = from.dims[from.count - 1 - i];
      sides[side]->strides[i] = from.strides[from.count - 1 - i];
    }
  }
  return results;
}

uint32_t offset_of(const AxisList& axes, uint32_t index) {
  uint32_t offset = 0;
  for (uint32_t i = axes.count; i-- > 0;) {
    offset += index % axes.dims[i] * axes.strides[i];
    index /= axes.dims[i];
  }
  return offset;
}

// f(element) for each of the k elements at `x`, the innermost reduced axis in one loop.
template <class T, class F> void for_each_reduced(const ReduceParams& p, const T* x, const F& f) {
  if (p.k == 0) return;
  const uint32_t last = p.reduced.count - 1;
  const uint32_t n = p.reduced.count == 0 ? 1 : p.reduced.dims[last], step = p.reduced.count == 0 ? 1 : p.reduced.strides[last];
  for (uint32_t at = 0; at < p.k; at += n) {
    const T* row = x + offset_of(p.reduced, at);
    for (uint32_t i = 0; i < n; ++i) f(row[i * step]);
  }
}

struct SumOf {
  template <class T> static auto start() { return GatheringOf<T>{0}; }
  template <class A> static A add(A all, A v) { return all + v; }
};
struct ProductOf {
  template <class T> static auto start() { return GatheringOf<T>{1}; }
  template <class A> static A add(A all, A v) { return all * v; }
};

// The lowest value of a type: of floats, -infinity.
template <class T> constexpr T lowest_of() {
  if constexpr (kIsFloat<T>) return -kInfinity;
  else if constexpr (kIsSigned<T>) return static_cast<T>(T{1} << (sizeof(T) * 8 - 2)) * -2;
  else return 0;
}
template <class T> constexpr T highest_of() {
  if constexpr (kIsFloat<T>) return kInfinity;
  else if constexpr (kIsBool<T>) return true;
  else return static_cast<T>(~lowest_of<T>());
}
struct MaxOf {
  template <class T> static T start() { return lowest_of<T>(); }
  template <class T> static T add(T all, T v) { return Larger{}(all, v); }
};
struct MinOf {
  template <class T> static T start() { return highest_of<T>(); }
  template <class T> static T add(T all, T v) { return Smaller{}(all, v); }
};

// How 8-bit quantized values lie in memory.
DType stored_type(const PrepareInput& in) {
  if (!has_quant(in, 0)) return in.tensor(0).dtype;
  return in.storage == kernels::Storage::kU8 ? DType::kU8 : DType::kS8;
}

template <Op kOp> Status prepare_reduce(const PrepareInput& in, bool takes_quantized, Prepared* out) {
  const bool quantized = takes_quantized && is_q8_in_storage(in, 0);
  if (!same_bytes(in, 0) || !(quantized || (!has_quant(in, 0) && has_type(op_types(kOp), in.tensor(0).dtype))))
    return unsupported_operand(in, 0);
  bool is_reduced[kMaxRank] = {};
  if (const Status s = read_axes(in, is_reduced); !s.ok()) return s;
  ReduceParams& p = out->make<ReduceParams>();
  p.dtype = static_cast<uint32_t>(stored_type(in));
  const uint32_t results = split_axes(in.shape(0), is_reduced, &p);
  if (results != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, results, elems(in, in.out()));
  if (quantized && p.k == 0) return refuse(in, Code::kInvalidArgument, 1, 0);
  p.split = split_work(1, results, elems(in, 0), in.threads, 16);
  out->exact_input_mask = 1;
  return {};
}

template <Op kOp, class R> void run_reduce(const RunContext& ctx, const BoundStep& step) {
  const ReduceParams& p = ctx.params<ReduceParams>(step);
  with_type<op_types(kOp)>(static_cast<DType>(p.dtype), [&](auto element) {
    using E = decltype(element);
    using T = typename E::Value;
    using A = decltype(R::template start<T>());
    const auto* x = ctx.in<typename E::Stored>(step, 0);
    auto* y = ctx.out<typename E::Stored>(step, 0);
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      const TaskRange t = task_range(p.split, task);
      for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
        A all = R::template start<T>();
        for_each_reduced(p, x + offset_of(p.kept, i), [&](auto v) { all = R::add(all, static_cast<A>(E::load(v))); });
        y[i] = E::store(static_cast<T>(all));
      }
    });
  });
}

}  // namespace

Status prepare_ReduceSum(const PrepareInput& in, Prepared* out) { return prepare_reduce<Op::kReduceSum>(in, false, out); }
Status prepare_ReduceProd(const PrepareInput& in, Prepared* out) { return prepare_reduce<Op::kReduceProd>(in, false, out); }
Status prepare_ReduceMax(const PrepareInput& in, Prepared* out) { return prepare_reduce<Op::kReduceMax>(in, true, out); }
Status prepare_ReduceMin(const PrepareInput& in, Prepared* out) { return prepare_reduce<Op::kReduceMin>(in, true, out); }
void run_ReduceSum(const RunContext& ctx, const BoundStep& step) { run_reduce<Op::kReduceSum, SumOf>(ctx, step); }
void run_ReduceProd(const RunContext& ctx, const BoundStep& step) { run_reduce<Op::kReduceProd, ProductOf>(ctx, step); }
void run_ReduceMax(const RunContext& ctx, const BoundStep& step) { run_reduce<Op::kReduceMax, MaxOf>(ctx, step); }
void run_ReduceMin(const RunContext& ctx, const BoundStep& step) { run_reduce<Op::kReduceMin, MinOf>(ctx, step); }

}  // namespace lathe
