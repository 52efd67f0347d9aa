// Resize (linear and cubic) and ResizeNearest, one axis at a time.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

bool in_range(int32_t v, int32_t last) { return v >= 0 && v <= last; }

Types infer_resize(const InferInput& in) {
  const auto& a = std::get<ResizeAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_axis(a.axis, x.type->dims.size()));
  if (!in_range(a.mode, static_cast<int32_t>(ResizeMode::kCubic)) ||
      !in_range(a.nearest, static_cast<int32_t>(ResizeNearest::kCeil)) ||
      !in_range(a.coordinates, static_cast<int32_t>(ResizeCoordinates::kCropAndResize)))
    return fail(Code::kInvalidArgument, "mode " + std::to_string(a.mode) + ", nearest " + std::to_string(a.nearest) +
                                            " or coordinates " + std::to_string(a.coordinates) + " are unknown");
  if (a.size < 0 || a.scale_up < 1 || a.scale_down < 1 || a.scale < 0)
    return fail(Code::kInvalidArgument, "size " + std::to_string(a.size) + " and scale " + std::to_string(a.scale_up) + "/" +
                                            std::to_string(a.scale_down) + " must be positive");
  std::vector<Dim> out = x.type->dims;
  Dim& extent = out[static_cast<size_t>(a.axis)];
  if (a.size != 0) extent = in.dims.constant(a.size);
  else extent = in.dims.floordiv(in.dims.mul(extent, in.dims.constant(a.scale_up)), in.dims.constant(a.scale_down));
  if (in.dims.is(extent, 0)) return fail(Code::kInvalidArgument, "axis " + std::to_string(a.axis) + " is resized to nothing");
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Types infer_interpolation(const InferInput& in) {
  LATHE_CHECK_OK(want_real(in.in[0], "input"));
  if (std::get<ResizeAttrs>(in.attrs).mode == static_cast<int32_t>(ResizeMode::kNearest))
    return fail(Code::kInvalidArgument, "mode is 0, must be linear (1) or cubic (2)");
  return infer_resize(in);
}

Ints permute_resize(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<ResizeAttrs>(attrs);
  a.axis = perm[a.axis];
  return perm;
}

void link_resize(Links& l) {
  const auto resized = static_cast<size_t>(std::get<ResizeAttrs>(l.attrs).axis);
  for (size_t axis = 0; axis < l.rank(0); ++axis)
    if (axis != resized) l.same(in_axis(0, axis), out_axis(axis));
}

}  // namespace

constinit const OpDef kResizeNearest = {
    .op = Op::kResizeNearest,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_resize,
    .quant_in = {{QuantRole::kActivation}},
    .quant_out = {QuantRole::kSameAs, -1, 0},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .layout_free = true,
    .permute = permute_resize,
    .links = link_resize,
};

constinit const OpDef kResize = {
    .op = Op::kResize,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_interpolation,
    .half = HalfForm::kWidened,
    .layout_free = true,
    .permute = permute_resize,
    .links = link_resize,
};

}  // namespace lathe::ops
