// Ops of shape subgraphs: Shape, Gather, Cast, Reshape. They carry the contents of small integer tensors.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_shape(const InferInput& in) {
  const std::vector<Dim>& x = in.in[0].type->dims;
  return result({DType::kS64, {in.dims.constant(static_cast<int64_t>(x.size()))}}, false, x);
}

// One element per index, from a vector with known contents. Error: an index that is known to be outside.
Result<std::optional<std::vector<Dim>>> gather_contents(const InferInput& in) {
  const OperandView &data = in.in[0], &indices = in.in[1];
  std::optional<std::vector<Dim>> none;
  if (!data.contents || !indices.contents || data.type->dims.size() != 1) return none;
  std::vector<Dim> out;
  for (const Dim d : *indices.contents) {
    const auto index = in.dims.value(d);
    if (!index) return none;
    out.push_back(
        (*data.contents)[static_cast<size_t>(*index < 0 ? *index + static_cast<int64_t>(data.contents->size()) : *index)]);
  }
  return out;
}

Result<void> check_indices(const InferInput& in, Dim extent) {
  const auto n = in.dims.value(extent);
  if (!in.in[1].contents || !n) return {};
  for (const Dim d : *in.in[1].contents)
    if (const auto i = in.dims.value(d); i && (*i < -*n || *i >= *n))
      return fail(Code::kInvalidArgument, "index " + std::to_string(*i) + " is outside an axis of " + std::to_string(*n));
  return {};
}

// data's dims with `axis` replaced by the dims of the indices. Negative indices count from the end.
Types infer_gather(const InferInput& in) {
  const OperandView &data = in.in[0], &indices = in.in[1];
  const auto axis = static_cast<size_t>(std::get<AxisAttrs>(in.attrs).axis);
  LATHE_CHECK_OK(want_axis(std::get<AxisAttrs>(in.attrs).axis, data.type->dims.size()));
  if (!is_index(indices.type->dtype) || is_quantized(indices))
    return fail(Code::kInvalidArgument, std::string("indices are ") + dtype_name(indices.type->dtype) + ", must be s32 or s64");
  LATHE_CHECK_OK(check_indices(in, data.type->dims[axis]));
  LATHE_TRY(auto contents, gather_contents(in));
  std::vector<Dim> out = data.type->dims;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), indices.type->dims.begin(), indices.type->dims.end());
  return result({data.type->dtype, std::move(out)}, is_quantized(data), std::move(contents));
}

Types infer_cast(const InferInput& in) {
  const OperandView& x = in.in[0];
  const int32_t number = std::get<CastAttrs>(in.attrs).to;
  const auto to = static_cast<DType>(number);
  if (number < 0 || number > 255 || dtype_bytes(to) == 0)
    return fail(Code::kInvalidArgument, "type number " + std::to_string(number) + " is unknown");
  std::optional<std::vector<Dim>> contents;
  if (x.contents && is_index(to)) contents = *x.contents;
  return result({to, x.type->dims}, false, std::move(contents));
}

// The target's -1 becomes what the others leave of `count` elements.
Result<std::vector<Dim>> solve_target(DimTable& dims, Dim count, std::vector<Dim> target) {
  size_t open = target.size();
  Dim known = dims.constant(1);
  for (size_t i = 0; i < target.size(); ++i) {
    if (!dims.is(target[i], -1)) {
      if (const auto v = dims.upper_bound(target[i]); v && *v < 0)
        return fail(Code::kInvalidArgument, "target dimension is " + dims.text(target[i]));
      known = dims.mul(known, target[i]);
      continue;
    }
    if (open != target.size()) return fail(Code::kInvalidArgument, "target has more than one -1");
    open = i;
  }
  if (open == target.size()) return target;
  if (dims.is(known, 0)) return fail(Code::kInvalidArgument, "target has -1 beside 0");
  target[open] = dims.floordiv(count, known);
  return target;
}

Types infer_reshape(const InferInput& in) {
  const OperandView &x = in.in[0], &shape = in.in[1];
  if (!is_index(shape.type->dtype) || shape.type->dims.size() != 1)
    return fail(Code::kInvalidArgument, "target must be a vector of s32 or s64");
  if (!shape.contents) return fail(Code::kUnsupported, "target shape is not known");
  const Dim count = product(in.dims, x.type->dims);
  LATHE_TRY(std::vector<Dim> out, solve_target(in.dims, count, *shape.contents));
  const Dim new_count = product(in.dims, out);
  if (!count.valid() || !new_count.valid()) return fail(Code::kInvalidArgument, "number of elements overflows");
  if (in.dims.never_equal(count, new_count))
    return fail(Code::kInvalidArgument, "target has " + in.dims.text(new_count) + " elements, input has " + in.dims.text(count));
  std::optional<std::vector<Dim>> contents;
  if (x.contents) contents = *x.contents;
  return result({x.type->dtype, std::move(out)}, is_quantized(x), std::move(contents));
}

void link_shape(Links& l) {
  for (size_t axis = 0; axis < l.rank(0); ++axis) l.untouched(in_axis(0, axis));
}

// Columns of a table, which are those of the rows taken; the indices' own axes stand where the table's was.
void link_gather(Links& l) {
  const auto taken = static_cast<size_t>(std::get<AxisAttrs>(l.attrs).axis);
  const size_t indices = l.rank(1);
  for (size_t axis = 0; axis < l.rank(0); ++axis)
    if (axis != taken) l.makes(in_axis(0, axis), out_axis(axis < taken ? axis : axis + indices - 1));
  for (size_t axis = 0; axis < indices; ++axis) l.same(in_axis(1, axis), out_axis(taken + axis));
}

// Axes of both sides that run through the same elements, least ones first; axes of extent 1 belong to none.
void link_reshape(Links& l) {
  l.shape_operand(1);
  std::vector<AxisRef> sides[2];
  for (size_t axis = 0; axis < l.rank(0); ++axis)
    if (!l.dims.is(l.dim(in_axis(0, axis)), 1)) sides[0].push_back(in_axis(0, axis));
  for (size_t axis = 0; axis < l.out[0].dims.size(); ++axis)
    if (!l.dims.is(l.dim(out_axis(axis)), 1)) sides[1].push_back(out_axis(axis));
  size_t begin[2] = {0, 0}, end[2] = {0, 0};
  Dim size[2] = {l.dims.constant(1), l.dims.constant(1)};
  const auto take = [&](int side) {
    if (end[side] == sides[side].size()) return false;
    size[side] = l.dims.mul(size[side], l.dim(sides[side][end[side]++]));
    return size[side].valid();
  };
  const auto divides = [&](Dim a, Dim b) { return l.dims.mul(l.dims.floordiv(b, a), a) == b; };
  while (end[0] < sides[0].size() || end[1] < sides[1].size()) {
    if (begin[0] == end[0] && !take(0)) return;
    if (begin[1] == end[1] && !take(1)) return;
    while (size[0] != size[1]) {
      const auto a = l.dims.value(size[0]), b = l.dims.value(size[1]);
      const bool left = a && b ? *a < *b : divides(size[0], size[1]);
      if (!take(left ? 0 : 1)) return;
    }
    const auto taken = [&](size_t side) {
      const auto at = [&](size_t i) { return sides[side].begin() + static_cast<std::ptrdiff_t>(i); };
      return std::vector<AxisRef>(at(begin[side]), at(end[side]));
    };
    if (end[0] == begin[0] + 1 && end[1] == begin[1] + 1) l.same(sides[0][begin[0]], sides[1][begin[1]]);
    else l.merge(taken(0), taken(1));
    for (const int side : {0, 1}) begin[side] = end[side], size[side] = l.dims.constant(1);
  }
}

bool takes_first_axis(const Attrs& attrs) { return std::get<AxisAttrs>(attrs).axis == 0; }

constexpr QuantRule kSameAsInput = {QuantRole::kSameAs, -1, 0};

}  // namespace

// x of any type; the result's contents are x's dims. Nothing is read of x, so it may be quantized or not.
constinit const OpDef kShape = {
    .op = Op::kShape,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_shape,
    .quant_in = {{QuantRole::kInteger}},
    .quant_out = {QuantRole::kInteger},
    .has_s8 = true,
    .links = link_shape,
};

constinit const OpDef kGather = {
    .op = Op::kGather,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_gather,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kInteger}},
    .quant_out = kSameAsInput,
    .has_s8 = true,
    .half = HalfForm::kNative,
    .takes_rows = takes_first_axis,
    .links = link_gather,
};

constinit const OpDef kCast = {
    .op = Op::kCast,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_cast,
    .half = HalfForm::kNative,
    .layout_free = true,
    .links = link_elementwise,
};

// x and the target dims: constants or expressions, one of them -1 at most. A 0 is an empty dim (ONNX's copying 0 is the
// importer's business).
constinit const OpDef kReshape = {
    .op = Op::kReshape,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_reshape,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kInteger}},
    .quant_out = kSameAsInput,
    .has_s8 = true,
    .half = HalfForm::kNative,
    .links = link_reshape,
};

}  // namespace lathe::ops
