// Einsum of at most two operands, as it is written: for every element of the result, the sum over all labels that it lacks. What
// is a product of matrices becomes MatMul when it is imported.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr int32_t kLabels = 16;
constexpr uint64_t kMostProducts = uint64_t{1} << 36;  // a file of a few bytes must not keep a machine busy for hours

// Loops over labels: those of the result, outermost first, then those summed over. Strides are in elements.
struct EinsumParams {
  uint32_t outer, inner;  // how many labels of each
  uint32_t sizes[kLabels];
  uint32_t a_strides[kLabels], b_strides[kLabels];
  uint32_t sums;  // products that are added to one element
  uint32_t has_b;
  Split split;
};

// Notes the operand's axes in the tables by label. A label of size 1 stands for any size in another operand.
bool note_axes(const Ints& labels, const Shape& shape, uint32_t (&sizes)[kLabels], uint32_t (&strides)[kLabels]) {
  if (labels.count != static_cast<int32_t>(shape.rank)) return false;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    const int32_t label = labels[static_cast<int32_t>(i)];
    const uint32_t n = static_cast<uint32_t>(shape.dims[i]);
    if (label < 0 || label >= kLabels) return false;
    if (sizes[label] > 1 && n != 1 && n != sizes[label]) return false;
    if (sizes[label] <= 1) sizes[label] = n;
    if (n != 1) strides[label] += shape.elems(i + 1, shape.rank);
  }
  return true;
}

// A diagonal of an operand must be square: note_axes() lets 1 pass, which only stands for a size of another operand.
bool is_square(const Ints& labels, const Shape& shape) {
  for (int32_t i = 0; i < labels.count; ++i)
    for (int32_t j = 0; j < i; ++j)
      if (labels[i] == labels[j] && shape.dims[i] != shape.dims[j]) return false;
  return true;
}

}  // namespace

Status prepare_Einsum(const PrepareInput& in, Prepared* out) {
  const EinsumAttrs e = in.program->attrs<EinsumAttrs>(*in.step);
  const Shape& y = in.shape(in.out());
  const bool has_b = in.has(1);
  for (uint32_t i = 0; i <= in.out(); ++i)
    if (!is_f32(in, i)) return unsupported_operand(in, i);
  uint32_t sizes[kLabels] = {}, a[kLabels] = {}, b[kLabels] = {};
  if (!note_axes(e.a, in.shape(0), sizes, a) || !is_square(e.a, in.shape(0))) return refuse(in, Code::kInvalidArgument, 0, 0);
  if (has_b && (!note_axes(e.b, in.shape(1), sizes, b) || !is_square(e.b, in.shape(1))))
    return refuse(in, Code::kInvalidArgument, 1, 1);
  if (e.y.count != static_cast<int32_t>(y.rank)) return refuse(in, Code::kInvalidArgument, y.rank);
  EinsumParams& p = out->make<EinsumParams>();
  p.sums = 1;
  p.has_b = has_b ? 1 : 0;
  uint32_t taken = 0;
  const auto add = [&](int32_t label) {
    const uint32_t at = p.outer + p.inner;
    p.sizes[at] = sizes[label];
    p.a_strides[at] = a[label];
    p.b_strides[at] = b[label];
    taken |= 1u << label;
  };
  for (int32_t i = 0; i < e.y.count; ++i) {
    const int32_t label = e.y[i];
    if (label < 0 || label >= kLabels || (taken >> label & 1) != 0 || sizes[label] != static_cast<uint32_t>(y.dims[i]))
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(y.dims[i]), static_cast<uint32_t>(label));
    add(label);
    ++p.outer;
  }
  uint64_t sums = 1;
  for (int32_t label = 0; label < kLabels; ++label) {
    if ((taken >> label & 1) != 0 || sizes[label] == 0) continue;
    add(label);
    ++p.inner;
    sums *= sizes[label];
    if (sums > 0x7fffffffu) return refuse(in, Code::kUnsupported, 0x7fffffffu, 0xffffffffu);
  }
  if (sums * elems(in, in.out()) > kMostProducts) return refuse(in, Code::kUnsupported, 0xffffffffu, 0xffffffffu);
  if (elems(in, 0) == 0 || (has_b && elems(in, 1) == 0)) return refuse(in, Code::kUnsupported, 1, 0);
  p.sums = static_cast<uint32_t>(sums);
  p.split = split_work(1, elems(in, in.out()), elems(in, in.out()), in.threads, 1);
  out->exact_input_mask = 3;
  return {};
}

void run_Einsum(const RunContext& ctx, const BoundStep& step) {
  const EinsumParams& p = ctx.params<EinsumParams>(step);
  const float *a = ctx.in<float>(step, 0), *b = p.has_b != 0 ? ctx.in<float>(step, 1) : nullptr;
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    for (uint32_t i = r.inner_begin; i < r.inner_end; ++i) {
      uint32_t a_at = 0, b_at = 0, rest = i;
      for (uint32_t l = p.outer; l-- > 0; rest /= p.sizes[l]) {
        a_at += rest % p.sizes[l] * p.a_strides[l];
        b_at += rest % p.sizes[l] * p.b_strides[l];
      }
      float sum = 0;
      uint32_t at[kLabels] = {};
      for (uint32_t k = 0; k < p.sums; ++k) {
        sum += b == nullptr ? a[a_at] : a[a_at] * b[b_at];
        // The next place: an odometer over the labels that are summed over, which ends where it began.
        for (uint32_t l = p.outer + p.inner; l-- > p.outer;) {
          a_at += p.a_strides[l];
          b_at += p.b_strides[l];
          if (++at[l] < p.sizes[l]) break;
          a_at -= p.sizes[l] * p.a_strides[l];
          b_at -= p.sizes[l] * p.b_strides[l];
          at[l] = 0;
        }
      }
      y[i] = sum;
    }
  });
}

}  // namespace lathe
