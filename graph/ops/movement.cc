// Ops that move elements: Transpose, Concat, Slice, Pad. Results keep their input's quantization parameters, but for Concat,
// whose inputs are regridded to the result's.
#include <algorithm>

#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_transpose(const InferInput& in) {
  const Ints& perm = std::get<PermAttrs>(in.attrs).perm;
  const OperandView& x = in.in[0];
  if (static_cast<size_t>(perm.count) != x.type->dims.size())
    return fail(Code::kInvalidArgument,
                "permutation has " + std::to_string(perm.count) + " axes, input has rank " + std::to_string(x.type->dims.size()));
  bool seen[kMaxRank] = {};
  std::vector<Dim> out;
  for (int32_t i = 0; i < perm.count; ++i) {
    LATHE_CHECK_OK(want_axis(perm[i], x.type->dims.size()));
    if (seen[perm[i]]) return fail(Code::kInvalidArgument, "permutation has axis " + std::to_string(perm[i]) + " twice");
    seen[perm[i]] = true;
    out.push_back(x.type->dims[static_cast<size_t>(perm[i])]);
  }
  std::optional<std::vector<Dim>> contents;
  if (x.contents && out.size() <= 1) contents = *x.contents;
  return result({x.type->dtype, std::move(out)}, is_quantized(x), std::move(contents));
}

// Contents of vectors, one after another.
std::optional<std::vector<Dim>> concat_contents(const InferInput& in, const std::vector<Dim>& out_dims) {
  if (out_dims.size() != 1 || !small_count(in.dims, out_dims)) return std::nullopt;
  std::vector<Dim> out;
  for (const OperandView& v : in.in) {
    if (!v.contents) return std::nullopt;
    out.insert(out.end(), v.contents->begin(), v.contents->end());
  }
  return out;
}

Types infer_concat(const InferInput& in) {
  const int32_t axis = std::get<AxisAttrs>(in.attrs).axis;
  const OperandView& first = in.in[0];
  LATHE_CHECK_OK(want_axis(axis, first.type->dims.size()));
  std::vector<Dim> out = first.type->dims;
  for (size_t i = 1; i < in.in.size(); ++i) {
    const std::string what = "input " + std::to_string(i);
    LATHE_CHECK_OK(want_same_kind(first, in.in[i], what.c_str()));
    LATHE_CHECK_OK(want_rank(in.in[i], out.size(), what.c_str()));
    for (size_t d = 0; d < out.size(); ++d) {
      const Dim other = in.in[i].type->dims[d];
      if (d == static_cast<size_t>(axis)) {
        out[d] = in.dims.add(out[d], other);
      } else {
        LATHE_TRY(out[d], agree(in.dims, out[d], other, what + " dimension " + std::to_string(d)));
      }
    }
  }
  auto contents = concat_contents(in, out);
  return result({first.type->dtype, std::move(out)}, is_quantized(first), std::move(contents));
}

// Where slice begins and how many elements it takes of an axis of `extent`: Python's rule, with limits clamped to the axis.
struct Range {
  Dim start, count;
};
Range slice_range(DimTable& dims, Dim extent, int32_t begin, int32_t end, int32_t step) {
  const Dim zero = dims.constant(0), one = dims.constant(1), minus_one = dims.constant(-1);
  // The lowest and highest places a limit can have: a slice that walks backwards starts on an element and ends before the first.
  const Dim low = step > 0 ? zero : minus_one;
  const Dim high = step > 0 ? extent : dims.sub(extent, one);
  const auto place = [&](int32_t limit) {
    const Dim at = limit < 0 ? dims.add(extent, dims.constant(limit)) : dims.constant(limit);
    return dims.min(dims.max(at, low), high);
  };
  const Dim from = place(begin), to = place(end);
  const Dim span = step > 0 ? dims.sub(to, from) : dims.sub(from, to);
  return {from, dims.max(zero, dims.ceildiv(span, dims.constant(step > 0 ? step : -int64_t{step})))};
}

std::optional<std::vector<Dim>> slice_contents(const InferInput& in, const Range& r, int32_t step) {
  const OperandView& x = in.in[0];
  const auto start = in.dims.value(r.start), count = in.dims.value(r.count);
  if (!x.contents || x.type->dims.size() != 1 || !start || !count) return std::nullopt;
  std::vector<Dim> out;
  for (int64_t i = 0; i < *count; ++i) out.push_back((*x.contents)[static_cast<size_t>(*start + i * step)]);
  return out;
}

Types infer_slice(const InferInput& in) {
  const auto& a = std::get<SliceAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  if (a.begins.count != a.axes.count || a.ends.count != a.axes.count || a.steps.count != a.axes.count)
    return fail(Code::kInvalidArgument, "slice has " + std::to_string(a.axes.count) + " axes, " + std::to_string(a.begins.count) +
                                            " begins, " + std::to_string(a.ends.count) + " ends and " +
                                            std::to_string(a.steps.count) + " steps");
  std::vector<Dim> out = x.type->dims;
  std::optional<std::vector<Dim>> contents;
  if (x.contents && a.axes.count == 0) contents = *x.contents;
  bool seen[kMaxRank] = {};
  for (int32_t i = 0; i < a.axes.count; ++i) {
    LATHE_CHECK_OK(want_axis(a.axes[i], out.size()));
    if (seen[a.axes[i]]) return fail(Code::kInvalidArgument, "axis " + std::to_string(a.axes[i]) + " is sliced twice");
    seen[a.axes[i]] = true;
    if (a.steps[i] == 0) return fail(Code::kInvalidArgument, "step is 0");
    const auto axis = static_cast<size_t>(a.axes[i]);
    const Range r = slice_range(in.dims, out[axis], a.begins[i], a.ends[i], a.steps[i]);
    if (!r.count.valid()) return fail(Code::kInvalidArgument, "result dimension overflows");
    contents = slice_contents(in, r, a.steps[i]);
    out[axis] = r.count;
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x), std::move(contents));
}

Ints permute_slice(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<SliceAttrs>(attrs);
  for (int32_t i = 0; i < a.axes.count; ++i) a.axes.values[i] = perm[a.axes[i]];
  return perm;
}

Types infer_pad(const InferInput& in) {
  const auto& a = std::get<PadAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  const size_t rank = x.type->dims.size();
  if (static_cast<size_t>(a.before.count) != rank || static_cast<size_t>(a.after.count) != rank)
    return fail(Code::kInvalidArgument, "pads have " + std::to_string(a.before.count) + " and " + std::to_string(a.after.count) +
                                            " entries, input has rank " + std::to_string(rank));
  std::vector<Dim> out = x.type->dims;
  for (size_t i = 0; i < rank; ++i) {
    out[i] = in.dims.add(out[i], in.dims.constant(int64_t{a.before.values[i]} + a.after.values[i]));
    if (const auto high = in.dims.upper_bound(out[i]); high && *high < 0)
      return fail(Code::kInvalidArgument,
                  "pads take " + std::to_string(-*high) + " more than dimension " + std::to_string(i) + " has");
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Ints permute_pad(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<PadAttrs>(attrs);
  const PadAttrs old = a;
  for (int32_t i = 0; i < perm.count; ++i) {
    a.before.values[perm[i]] = old.before[i];
    a.after.values[perm[i]] = old.after[i];
  }
  return perm;
}

Ints permute_axis(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<AxisAttrs>(attrs);
  a.axis = perm[a.axis];
  return perm;
}

void link_transpose(Links& l) {
  const Ints& perm = std::get<PermAttrs>(l.attrs).perm;
  for (int32_t i = 0; i < perm.count; ++i) l.same(in_axis(0, static_cast<size_t>(perm[i])), out_axis(static_cast<size_t>(i)));
}

void link_concat(Links& l) {
  const auto axis = static_cast<size_t>(std::get<AxisAttrs>(l.attrs).axis);
  int64_t begin = 0;
  for (size_t i = 0; i < l.in.size(); ++i) {
    for (size_t d = 0; d < l.rank(i); ++d)
      if (d != axis) l.same(in_axis(i, d), out_axis(d));
    const auto count = l.extent(in_axis(i, axis));
    if (!l.extent(out_axis(axis)) || !count) continue;
    l.same({.a = in_axis(i, axis), .b = out_axis(axis), .count = *count, .b_begin = begin});
    begin += *count;
  }
}

// Where a slice with a step of 1 begins and ends on an axis of known extent.
struct Span {
  int64_t begin, end;
};
Span slice_span(int64_t extent, int32_t begin, int32_t end) {
  const auto place = [&](int64_t limit) { return std::clamp<int64_t>(limit < 0 ? limit + extent : limit, 0, extent); };
  const int64_t from = place(begin);
  return {from, std::max(from, place(end))};
}

void link_slice(Links& l) {
  const auto& a = std::get<SliceAttrs>(l.attrs);
  for (size_t axis = 0; axis < l.rank(0); ++axis) {
    const int32_t* found = std::find(a.axes.values, a.axes.values + a.axes.count, static_cast<int32_t>(axis));
    const auto i = static_cast<int32_t>(found - a.axes.values);
    const AxisRef x = in_axis(0, axis), y = out_axis(axis);
    if (i == a.axes.count) {
      l.same(x, y);
    } else if (const auto extent = l.extent(x); extent && a.steps[i] == 1) {
      const Span span = slice_span(*extent, a.begins[i], a.ends[i]);
      l.same({.a = x, .b = y, .count = span.end - span.begin, .a_begin = span.begin});
    }
  }
}

void narrow_slice(Attrs& attrs, const Narrowed& gone) {
  auto& a = std::get<SliceAttrs>(attrs);
  for (int32_t i = 0; i < a.axes.count; ++i) {
    const AxisRef x = in_axis(0, static_cast<size_t>(a.axes[i]));
    if (!gone.touched(x)) continue;
    const Span span = slice_span(gone.extent(x), a.begins[i], a.ends[i]);
    a.begins.values[i] = static_cast<int32_t>(gone.kept(x, 0, span.begin));
    a.ends.values[i] = static_cast<int32_t>(gone.kept(x, 0, span.end));
  }
}

void link_pad(Links& l) {
  const auto& a = std::get<PadAttrs>(l.attrs);
  for (int32_t i = 0; i < a.before.count; ++i) {
    const AxisRef x = in_axis(0, static_cast<size_t>(i)), y = out_axis(static_cast<size_t>(i));
    const int32_t before = a.before[i], after = a.after[i];
    const auto extent = l.extent(x);
    if (before == 0 && after == 0) {
      l.same(x, y);
    } else if (const int64_t cut = std::max<int64_t>(0, -before); extent) {
      const int64_t count = *extent - cut - std::max<int64_t>(0, -after);
      l.same({.a = x, .b = y, .count = std::max<int64_t>(0, count), .a_begin = cut, .b_begin = std::max(0, before)});
    }
  }
}

// Pads are positions of the result, cropped ones of the operand.
void narrow_pad(Attrs& attrs, const Narrowed& gone) {
  auto& a = std::get<PadAttrs>(attrs);
  for (int32_t i = 0; i < a.before.count; ++i) {
    const AxisRef x = in_axis(0, static_cast<size_t>(i)), y = out_axis(static_cast<size_t>(i));
    int32_t &before = a.before.values[i], &after = a.after.values[i];
    if (before > 0 && gone.touched(y)) before = static_cast<int32_t>(gone.kept(y, 0, before));
    if (before < 0 && gone.touched(x)) before = -static_cast<int32_t>(gone.kept(x, 0, -before));
    if (after > 0 && gone.touched(y)) after = static_cast<int32_t>(gone.kept(y, gone.extent(y) - after, gone.extent(y)));
    if (after < 0 && gone.touched(x)) after = -static_cast<int32_t>(gone.kept(x, gone.extent(x) + after, gone.extent(x)));
  }
}

struct Linking {
  void (*links)(Links&);
  void (*narrow)(Attrs&, const Narrowed&) = nullptr;
};

constexpr OpDef one_input(Op op, Types (*infer)(const InferInput&), Ints (*permute)(Attrs&, const Ints&), Linking linking) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer,
          .quant_in = {{QuantRole::kActivation}},
          .quant_out = {QuantRole::kSameAs, -1, 0},
          .has_s8 = true,
          .half = HalfForm::kNative,
          .layout_free = permute != nullptr,
          .permute = permute,
          .links = linking.links,
          .narrow = linking.narrow};
}

}  // namespace

constinit const OpDef kTranspose = one_input(Op::kTranspose, infer_transpose, nullptr, {link_transpose});
constinit const OpDef kSlice = one_input(Op::kSlice, infer_slice, permute_slice, {link_slice, narrow_slice});
constinit const OpDef kPad = one_input(Op::kPad, infer_pad, permute_pad, {link_pad, narrow_pad});

constinit const OpDef kConcat = {
    .op = Op::kConcat,
    .min_inputs = 1,
    .max_inputs = kAnyInputs,
    .outputs = 1,
    .infer = infer_concat,
    .quant_in = {{QuantRole::kSameAs, -1, -1}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .layout_free = true,
    .permute = permute_axis,
    .links = link_concat,
};

}  // namespace lathe::ops
