// ArgMax, ArgMin and TopK along one axis, on numbers of any type and on 8-bit values as they lie.
#include "runtime/element_types.h"
#include "runtime/exec/lines.h"

namespace lathe {
namespace {

struct SearchParams {
  uint32_t dtype;  // of the elements as they lie in memory
  Lines lines;
  uint32_t last;      // Arg: the last of equal values
  uint32_t k;         // TopK
  uint32_t smallest;  // TopK
};

// NaN is the largest of all for ArgMax and the smallest for ArgMin, as in NumPy.
struct Above {
  template <class T> bool operator()(T a, T b) const { return a > b || (a != a && b == b); }
};
struct Below {
  template <class T> bool operator()(T a, T b) const { return a < b || (a != a && b == b); }
};

// Type of operand 0 as it lies in memory.
Status check_operand(const PrepareInput& in, Op op, uint32_t* dtype) {
  const bool quantized = is_q8_in_storage(in, 0);
  if (!is_plain(in, 0) || !(quantized || (!has_quant(in, 0) && has_type(op_types(op), in.tensor(0).dtype))))
    return unsupported_operand(in, 0);
  const DType stored = in.storage == kernels::Storage::kU8 ? DType::kU8 : DType::kS8;
  *dtype = static_cast<uint32_t>(quantized ? stored : in.tensor(0).dtype);
  return {};
}

Status prepare_arg(const PrepareInput& in, Op op, Prepared* out) {
  const ArgAttrs a = in.program->attrs<ArgAttrs>(*in.step);
  SearchParams& p = out->make<SearchParams>();
  if (const Status s = check_operand(in, op, &p.dtype); !s.ok()) return s;
  if (in.tensor(in.out()).dtype != DType::kS64) return unsupported_operand(in, in.out());
  if (!make_lines(in, a.axis, &p.lines))
    return refuse(in, Code::kInvalidArgument, in.shape(0).rank, static_cast<uint32_t>(a.axis));
  if (p.lines.n == 0) return refuse(in, Code::kInvalidArgument, 1, 0);
  const uint32_t lines = elems(in, 0) / p.lines.n;
  if (lines != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, lines, elems(in, in.out()));
  p.last = a.last != 0 ? 1 : 0;
  out->exact_input_mask = 1;
  return {};
}

template <Op kOp, class Better> void run_arg(const RunContext& ctx, const BoundStep& step) {
  const SearchParams& p = ctx.params<SearchParams>(step);
  int64_t* y = ctx.out<int64_t>(step, 0);
  with_type<op_types(kOp)>(static_cast<DType>(p.dtype), [&](auto element) {
    using E = decltype(element);
    const auto* x = ctx.in<typename E::Stored>(step, 0);
    ctx.parallel(p.lines.split.tasks(), [&](uint32_t task, uint32_t) {
      for_each_line(p.lines, task, [&](uint32_t first, uint32_t outer, uint32_t inner) {
        uint32_t best = 0;
        auto value = E::load(x[first]);
        for (uint32_t i = 1; i < p.lines.n; ++i) {
          const auto v = E::load(x[first + i * p.lines.inner]);
          const bool better = p.last != 0 ? !Better{}(value, v) : Better{}(v, value);
          best = better ? i : best;
          value = better ? v : value;
        }
        y[outer * p.lines.inner + inner] = best;
      });
    });
  });
}

// The k best of a line as a heap of positions whose root is the worst, then sorted in place. Of equal values the one that comes
// first is better, so that the result is unique. `position` has room for k.
template <class T, class Before>
void find_best(const T* line, uint32_t stride, uint32_t n, uint32_t k, uint32_t* position, const Before& before) {
  const auto worse = [&](uint32_t a, uint32_t b) {
    const T va = line[a * stride], vb = line[b * stride];
    return before(vb, va) || (!before(va, vb) && a > b);
  };
  const auto sink = [&](uint32_t at, uint32_t size) {
    const uint32_t moved = position[at];
    for (uint32_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && worse(position[child + 1], position[child])) ++child;
      if (!worse(position[child], moved)) break;
      position[at] = position[child];
      at = child;
    }
    position[at] = moved;
  };
  for (uint32_t i = 0; i < k; ++i) position[i] = i;
  for (uint32_t i = k / 2; i-- > 0;) sink(i, k);
  for (uint32_t i = k; i < n; ++i) {
    if (!worse(position[0], i)) continue;
    position[0] = i;
    sink(0, k);
  }
  for (uint32_t size = k; size > 1;) {
    --size;
    const uint32_t worst = position[0];
    position[0] = position[size];
    position[size] = worst;
    sink(0, size);
  }
}

template <class T, class Before> void run_top_k_typed(const RunContext& ctx, const BoundStep& step, const SearchParams& p) {
  const T* x = ctx.in<T>(step, 0);
  T* values = ctx.out<T>(step, 0);
  int64_t* indices = ctx.out<int64_t>(step, 1);
  ctx.parallel(p.lines.split.tasks(), [&](uint32_t task, uint32_t slot) {
    uint32_t* position = reinterpret_cast<uint32_t*>(ctx.scratch(step)) + slot * p.k;
    for_each_line(p.lines, task, [&](uint32_t first, uint32_t outer, uint32_t inner) {
      find_best(x + first, p.lines.inner, p.lines.n, p.k, position, Before{});
      for (uint32_t j = 0; j < p.k; ++j) {
        const uint32_t at = (outer * p.k + j) * p.lines.inner + inner;
        values[at] = x[first + position[j] * p.lines.inner];
        indices[at] = position[j];
      }
    });
  });
}

}  // namespace

Status prepare_ArgMax(const PrepareInput& in, Prepared* out) { return prepare_arg(in, Op::kArgMax, out); }
Status prepare_ArgMin(const PrepareInput& in, Prepared* out) { return prepare_arg(in, Op::kArgMin, out); }
void run_ArgMax(const RunContext& ctx, const BoundStep& step) { run_arg<Op::kArgMax, Above>(ctx, step); }
void run_ArgMin(const RunContext& ctx, const BoundStep& step) { run_arg<Op::kArgMin, Below>(ctx, step); }

Status prepare_TopK(const PrepareInput& in, Prepared* out) {
  const TopKAttrs a = in.program->attrs<TopKAttrs>(*in.step);
  SearchParams& p = out->make<SearchParams>();
  if (!same_bytes(in, 0) || has_quant(in, 0) || !has_type(op_types(Op::kTopK), in.tensor(0).dtype))
    return unsupported_operand(in, 0);
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  if (in.tensor(in.out(1)).dtype != DType::kS64) return unsupported_operand(in, in.out(1));
  if (!make_lines(in, a.axis, &p.lines))
    return refuse(in, Code::kInvalidArgument, in.shape(0).rank, static_cast<uint32_t>(a.axis));
  if (a.k < 0 || static_cast<uint32_t>(a.k) > p.lines.n)
    return refuse(in, Code::kInvalidArgument, p.lines.n, static_cast<uint32_t>(a.k));
  Shape y = in.shape(0);
  y.dims[a.axis] = a.k;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!(in.shape(in.out(i)) == y)) return refuse(in, Code::kInvalidArgument, y.elems(), elems(in, in.out(i)));
  }
  p.k = static_cast<uint32_t>(a.k);
  p.smallest = a.largest == 0 ? 1 : 0;
  const uint64_t scratch = uint64_t{4} * p.k * in.threads;
  if (scratch > 0x7fffffffu) return refuse(in, Code::kUnsupported, 0x7fffffffu, p.k);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  out->exact_input_mask = 1;
  return {};
}

void run_TopK(const RunContext& ctx, const BoundStep& step) {
  const SearchParams& p = ctx.params<SearchParams>(step);
  if (p.k == 0) return;
  with_type<op_types(Op::kTopK)>(static_cast<DType>(p.dtype), [&](auto element) {
    using T = typename decltype(element)::Stored;
    if (p.smallest != 0) run_top_k_typed<T, Below>(ctx, step, p);
    else run_top_k_typed<T, Above>(ctx, step, p);
  });
}

}  // namespace lathe
