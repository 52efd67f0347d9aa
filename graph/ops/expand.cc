// Ops that repeat elements: Expand (NumPy broadcasting to a target), Tile and Border.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// x and the target dims, which x's broadcast with: the result may be larger than the target.
Types infer_expand(const InferInput& in) {
  const OperandView &x = in.in[0], &shape = in.in[1];
  if (!is_index(shape.type->dtype) || shape.type->dims.size() != 1)
    return fail(Code::kInvalidArgument, "target must be a vector of s32 or s64");
  if (!shape.contents) return fail(Code::kUnsupported, "target shape is not known");
  for (const Dim d : *shape.contents)
    if (const auto v = in.dims.upper_bound(d); v && *v < 0)
      return fail(Code::kInvalidArgument, "target dimension is " + in.dims.text(d));
  LATHE_TRY(std::vector<Dim> out, broadcast(in.dims, x.type->dims, *shape.contents));
  std::optional<std::vector<Dim>> contents;
  if (const auto n = small_count(in.dims, out); x.contents && x.contents->size() == 1 && n && out.size() <= 1)
    contents = std::vector<Dim>(*n, (*x.contents)[0]);
  return result({x.type->dtype, std::move(out)}, is_quantized(x), std::move(contents));
}

Types infer_tile(const InferInput& in) {
  const OperandView& x = in.in[0];
  const Ints& repeats = std::get<TileAttrs>(in.attrs).repeats;
  if (static_cast<size_t>(repeats.count) != x.type->dims.size())
    return fail(Code::kInvalidArgument, "repeats have " + std::to_string(repeats.count) + " entries, input has rank " +
                                            std::to_string(x.type->dims.size()));
  std::vector<Dim> out = x.type->dims;
  for (int32_t i = 0; i < repeats.count; ++i) {
    if (repeats[i] < 1) return fail(Code::kInvalidArgument, "axis " + std::to_string(i) + " is repeated " +
                                                                std::to_string(repeats[i]) + " times");
    Dim& extent = out[static_cast<size_t>(i)];
    extent = in.dims.mul(extent, in.dims.constant(repeats[i]));
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Ints permute_tile(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<TileAttrs>(attrs);
  const TileAttrs old = a;
  for (int32_t i = 0; i < perm.count; ++i) a.repeats.values[perm[i]] = old.repeats[i];
  return perm;
}

Types infer_border(const InferInput& in) {
  const auto& a = std::get<BorderAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  const size_t rank = x.type->dims.size();
  if (static_cast<size_t>(a.before.count) != rank || static_cast<size_t>(a.after.count) != rank || rank == 0)
    return fail(Code::kInvalidArgument, "pads have " + std::to_string(a.before.count) + " and " + std::to_string(a.after.count) +
                                            " entries, input has rank " + std::to_string(rank));
  if (a.mode < 0 || a.mode > static_cast<int32_t>(BorderMode::kWrap))
    return fail(Code::kInvalidArgument, "mode number " + std::to_string(a.mode) + " is unknown");
  std::vector<Dim> out = x.type->dims;
  for (int32_t i = 0; i < a.before.count; ++i) {
    if (a.before[i] < 0 || a.after[i] < 0)
      return fail(Code::kInvalidArgument, "pads " + std::to_string(a.before[i]) + " and " + std::to_string(a.after[i]) +
                                              " must be at least 0");
    Dim& extent = out[static_cast<size_t>(i)];
    extent = in.dims.add(extent, in.dims.constant(int64_t{a.before[i]} + a.after[i]));
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Ints permute_border(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<BorderAttrs>(attrs);
  const BorderAttrs old = a;
  for (int32_t i = 0; i < perm.count; ++i) {
    a.before.values[perm[i]] = old.before[i];
    a.after.values[perm[i]] = old.after[i];
  }
  return perm;
}

// Repeated positions are as many as the target says, which is rewritten.
void link_expand(Links& l) {
  l.shape_operand(1);
  const size_t rank = l.out[0].dims.size(), missing = rank - l.rank(0);
  for (size_t axis = 0; axis < rank; ++axis) {
    const AxisRef y = out_axis(axis), x = in_axis(0, axis - missing);
    if (axis < missing) l.untouched(y);
    else if (l.dim(x) == l.dim(y) || !l.dims.is(l.dim(x), 1)) l.same(x, y);
    else for (const AxisRef at : {x, y}) l.untouched(at);
  }
}

void link_tile(Links& l) {
  const Ints& repeats = std::get<TileAttrs>(l.attrs).repeats;
  for (size_t axis = 0; axis < l.rank(0); ++axis) {
    const AxisRef x = in_axis(0, axis), y = out_axis(axis);
    const int32_t times = repeats[static_cast<int32_t>(axis)];
    const auto extent = l.extent(x);
    if (times == 1) l.same(x, y);
    else if (extent == 1) for (const AxisRef at : {x, y}) l.untouched(at);
    else if (extent)
      for (int32_t i = 0; i < times; ++i) l.same({.a = x, .b = y, .count = *extent, .b_begin = *extent * i});
  }
}

// One position repeated is as many as stay of them.
void narrow_tile(Attrs& attrs, const Narrowed& gone) {
  auto& a = std::get<TileAttrs>(attrs);
  for (int32_t i = 0; i < a.repeats.count; ++i) {
    const AxisRef x = in_axis(0, static_cast<size_t>(i)), y = out_axis(static_cast<size_t>(i));
    if (gone.touched(y) && !gone.touched(x)) a.repeats.values[i] = static_cast<int32_t>(gone.kept(y));
  }
}

void link_border(Links& l) {
  const auto& a = std::get<BorderAttrs>(l.attrs);
  for (int32_t i = 0; i < a.before.count; ++i)
    if (a.before[i] == 0 && a.after[i] == 0) l.same(in_axis(0, static_cast<size_t>(i)), out_axis(static_cast<size_t>(i)));
}

}  // namespace

constinit const OpDef kExpand = {
    .op = Op::kExpand,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_expand,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kInteger}},
    .quant_out = {QuantRole::kSameAs, -1, 0},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .links = link_expand,
};

namespace {

constexpr OpDef one_input(Op op, Types (*infer)(const InferInput&), Ints (*permute)(Attrs&, const Ints&), void (*links)(Links&)) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer,
          .quant_in = {{QuantRole::kActivation}},
          .quant_out = {QuantRole::kSameAs, -1, 0},
          .has_s8 = true,
          .half = HalfForm::kNative,
          .layout_free = true,
          .permute = permute,
          .links = links};
}

constexpr OpDef tile() {
  OpDef def = one_input(Op::kTile, infer_tile, permute_tile, link_tile);
  def.narrow = narrow_tile;
  return def;
}

}  // namespace

constinit const OpDef kTile = tile();
constinit const OpDef kBorder = one_input(Op::kBorder, infer_border, permute_border, link_border);

}  // namespace lathe::ops
