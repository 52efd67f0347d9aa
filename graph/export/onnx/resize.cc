// Resize of one axis.
#include <cmath>

#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

Result<std::vector<std::string>> attributes_of(NodeExport& e, const ResizeAttrs& a) {
  static constexpr const char *kModes[] = {"nearest", "linear", "cubic"},
                              *kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  static constexpr const char* kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                                 "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  const auto coordinates = static_cast<ResizeCoordinates>(a.coordinates);
  if (coordinates == ResizeCoordinates::kTfHalfPixelForNearest)
    return fail(Code::kUnsupported, "coordinates tf_half_pixel_for_nn, which ONNX had up to opset 12");
  if (coordinates == ResizeCoordinates::kHalfPixelSymmetric) e.need_opset(19);
  std::vector<std::string> out = {text_attribute("mode", kModes[a.mode]),
                                  text_attribute("coordinate_transformation_mode", kCoordinates[a.coordinates])};
  const auto mode = static_cast<ResizeMode>(a.mode);
  if (mode == ResizeMode::kNearest) out.push_back(text_attribute("nearest_mode", kNearest[a.nearest]));
  if (mode == ResizeMode::kCubic) out.push_back(float_attribute("cubic_coeff_a", a.cubic_a));
  if (a.exclude_outside != 0) out.push_back(int_attribute("exclude_outside", 1));
  if (a.extrapolation != 0) out.push_back(float_attribute("extrapolation_value", a.extrapolation));
  if (a.antialias != 0) {
    e.need_opset(18);
    out.push_back(int_attribute("antialias", 1));
  }
  return out;
}

std::string reals(NodeExport& e, const char* tag, const std::vector<float>& values) {
  return e.out().constant(e.node().name + ":" + tag, DType::kF32, {static_cast<int64_t>(values.size())}, values);
}

}  // namespace

Result<void> export_resize(NodeExport& e) {
  const auto& a = e.attrs<ResizeAttrs>();
  const size_t rank = e.type(0).dims.size(), axis = static_cast<size_t>(a.axis);
  LATHE_TRY(auto attributes, attributes_of(e, a));
  std::vector<std::string> inputs = {e.input(0), ""};
  if (static_cast<ResizeCoordinates>(a.coordinates) == ResizeCoordinates::kCropAndResize) {
    std::vector<float> region(rank, 0.0f);
    region.resize(2 * rank, 1.0f);
    region[axis] = a.start;
    region[rank + axis] = a.end;
    inputs[1] = reals(e, "region", region);
  }
  // A multiple of a dim that is not known; of a part, the scale would be another one where it does not divide.
  const bool multiple = a.scale == 0 && a.size == 0 && a.scale_down == 1;
  const float scale = multiple ? static_cast<float>(a.scale_up) : a.scale;
  if (scale != 0) {
    // The file's size is what the scale makes of the input's.
    const Dim from = e.type(0).dims[static_cast<size_t>(std::get<ResizeAttrs>(e.node().attrs).axis)];
    const auto n = e.graph().dims().value(from);
    if (a.size != 0 && (!n || std::floor(static_cast<double>(scale) * static_cast<double>(*n)) != a.size))
      return fail(Code::kUnsupported, "a size of " + std::to_string(a.size) + " with a scale of " + std::to_string(scale));
    std::vector<float> scales(rank, 1.0f);
    scales[axis] = scale;
    inputs.push_back(reals(e, "scales", scales));
  } else {
    if (a.size == 0) return fail(Code::kUnsupported, "a size in proportion without a scale");
    e.need_opset(18);
    attributes.push_back(ints_attribute("axes", {a.axis}));
    inputs.push_back("");
    inputs.push_back(e.integers("sizes", {a.size}));
  }
  return e.result("Resize", inputs, attributes);
}

}  // namespace lathe::onnx
