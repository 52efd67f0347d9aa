// Unique: different slices along an axis. Slices are sorted by their elements (row-major, NaN last and equal to itself), equal
// ones by position, so that each group starts with the slice that comes first.
#include "runtime/exec/checks.h"
#include "runtime/exec/typed.h"

namespace lathe {
namespace {

// x is [outer][n][inner]. Scratch: n positions in order, then the first position of every group, then the group of every slice.
struct UniqueParams {
  uint32_t outer, n, inner, dtype, sorted;
};

template <class T> int compare_numbers(T a, T b) {
  if (a < b) return -1;
  if (b < a) return 1;
  return (a != a) - (b != b);
}

template <class T> int compare_slices(const T* x, const UniqueParams& p, uint32_t i, uint32_t j) {
  for (uint32_t o = 0; o < p.outer; ++o) {
    const T *a = x + (o * p.n + i) * p.inner, *b = x + (o * p.n + j) * p.inner;
    for (uint32_t k = 0; k < p.inner; ++k)
      if (const int c = compare_numbers(a[k], b[k]); c != 0) return c;
  }
  return 0;
}

// Heap sort: in place, and never worse than n log n.
template <class Less> void sort_indices(uint32_t* v, uint32_t n, const Less& less) {
  const auto sift = [&](uint32_t root, uint32_t end) {
    for (uint32_t child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && less(v[child], v[child + 1])) ++child;
      if (!less(v[root], v[child])) return;
      const uint32_t t = v[root];
      v[root] = v[child];
      v[child] = t;
    }
  };
  for (uint32_t i = n / 2; i-- > 0;) sift(i, n);
  for (uint32_t end = n; end-- > 1;) {
    const uint32_t t = v[0];
    v[0] = v[end];
    v[end] = t;
    sift(0, end);
  }
}

// Fills the first positions of all groups and the group of each slice; groups are numbered in the order of the result.
template <class T> uint32_t find_groups(const T* x, const UniqueParams& p, uint32_t* order, uint32_t* firsts, uint32_t* groups) {
  for (uint32_t i = 0; i < p.n; ++i) order[i] = i;
  sort_indices(order, p.n, [&](uint32_t i, uint32_t j) {
    const int c = compare_slices(x, p, i, j);
    return c != 0 ? c < 0 : i < j;
  });
  uint32_t count = 0;
  for (uint32_t i = 0; i < p.n; ++i) {
    if (i == 0 || compare_slices(x, p, order[i - 1], order[i]) != 0) firsts[count++] = order[i];
    groups[order[i]] = count - 1;
  }
  if (p.sorted != 0) return count;
  // In order of appearance: order[g] becomes the place of group g.
  for (uint32_t g = 0; g < count; ++g) order[g] = firsts[g];
  sort_indices(firsts, count, [](uint32_t i, uint32_t j) { return i < j; });
  for (uint32_t place = 0; place < count; ++place) {
    const uint32_t g = groups[firsts[place]];
    order[g] = place;
  }
  for (uint32_t i = 0; i < p.n; ++i) groups[i] = order[groups[i]];
  return count;
}

Status check_vector(const PrepareInput& in, uint32_t i, uint32_t n) {
  if (in.tensor(i).dtype != DType::kS64 || has_quant(in, i)) return unsupported_operand(in, i);
  if (in.shape(i).rank != 1 || elems(in, i) != n) return refuse(in, Code::kInvalidArgument, n, elems(in, i));
  return {};
}

}  // namespace

Status prepare_Unique(const PrepareInput& in, Prepared* out) {
  const UniqueAttrs a = in.program->attrs<UniqueAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (!same_bytes(in, 0) || has_quant(in, 0) || !with_number(in.tensor(0).dtype, [](auto) {})) return unsupported_operand(in, 0);
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  const uint32_t n = static_cast<uint32_t>(x.dims[axis]);
  for (uint32_t k = 1; k < 4; ++k)
    if (const Status s = check_vector(in, in.out(k), n); !s.ok()) return s;
  if (const Status s = check_vector(in, in.out(4), 1); !s.ok()) return s;
  if (n > 0x7fffffffu / 12) return refuse(in, Code::kUnsupported, 0x7fffffffu / 12, n);
  out->make<UniqueParams>() = {x.elems(0, axis), n, x.elems(axis + 1, x.rank), static_cast<uint32_t>(in.tensor(0).dtype),
                               a.sorted != 0 ? 1u : 0u};
  out->scratch_bytes = 3 * n * 4;
  out->exact_input_mask = 1;
  return {};
}

void run_Unique(const RunContext& ctx, const BoundStep& step) {
  const UniqueParams& p = ctx.params<UniqueParams>(step);
  uint32_t* order = reinterpret_cast<uint32_t*>(ctx.scratch(step));
  uint32_t *firsts = order + p.n, *groups = firsts + p.n;
  int64_t *first = ctx.out<int64_t>(step, 1), *inverse = ctx.out<int64_t>(step, 2), *counts = ctx.out<int64_t>(step, 3);
  uint32_t count = 0;
  with_number(static_cast<DType>(p.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T* x = ctx.in<T>(step, 0);
    T* y = ctx.out<T>(step, 0);
    count = find_groups(x, p, order, firsts, groups);
    for (uint32_t o = 0; o < p.outer; ++o)
      for (uint32_t g = 0; g < p.n; ++g)
        for (uint32_t k = 0; k < p.inner; ++k)
          y[(o * p.n + g) * p.inner + k] = g < count ? x[(o * p.n + firsts[g]) * p.inner + k] : T{0};
  });
  for (uint32_t i = 0; i < p.n; ++i) {
    first[i] = i < count ? firsts[i] : 0;
    counts[i] = 0;
    inverse[i] = groups[i];
  }
  for (uint32_t i = 0; i < p.n; ++i) ++counts[groups[i]];
  *ctx.out<int64_t>(step, 4) = count;
}

}  // namespace lathe
