// Ops that read and write by index, search along an axis, or look at windows.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

std::vector<int64_t> list(const Ints& ints) { return {ints.values, ints.values + ints.count}; }

std::vector<std::string> operands(NodeExport& e) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i) inputs.push_back(e.has(i) ? e.input(i) : "");
  return inputs;
}

// Smallest and largest came with opset 18.
std::vector<std::string> reduction(NodeExport& e) {
  static constexpr const char* kNames[] = {"none", "add", "mul", "min", "max"};
  const int32_t number = e.attrs<ScatterAttrs>().reduction;
  if (number >= static_cast<int32_t>(ScatterReduction::kMin)) e.need_opset(18);
  return {text_attribute("reduction", kNames[number])};
}

}  // namespace

Result<void> export_gather_nd(NodeExport& e) {
  return e.result("GatherND", operands(e), {int_attribute("batch_dims", e.attrs<GatherNdAttrs>().batch_dims)});
}

Result<void> export_scatter_elements(NodeExport& e) {
  std::vector<std::string> attributes = reduction(e);
  attributes.push_back(int_attribute("axis", e.attrs<ScatterAttrs>().axis));
  return e.result("ScatterElements", operands(e), attributes);
}

Result<void> export_scatter_nd(NodeExport& e) {
  const std::vector<std::string> attributes = reduction(e);
  return e.result("ScatterND", operands(e), attributes);
}

Result<void> export_tensor_scatter(NodeExport& e) {
  const auto& a = e.attrs<TensorScatterAttrs>();
  e.need_opset(24);
  return e.result("TensorScatter", operands(e),
                  {int_attribute("axis", a.axis), text_attribute("mode", a.circular != 0 ? "circular" : "linear")});
}

Result<void> export_one_hot(NodeExport& e) {
  const auto& a = e.attrs<OneHotAttrs>();
  return e.result("OneHot", {e.input(0), e.integers("depth", {a.depth}), e.input(1)}, {int_attribute("axis", a.axis)});
}

Result<void> export_reverse_sequence(NodeExport& e) {
  const auto& a = e.attrs<ReverseSequenceAttrs>();
  return e.result("ReverseSequence", operands(e),
                  {int_attribute("batch_axis", a.batch_axis), int_attribute("time_axis", a.time_axis)});
}

// ArgMax and ArgMin.
Result<void> export_arg(NodeExport& e) {
  const auto& a = e.attrs<ArgAttrs>();
  return e.result(op_name(e.node().op), {e.input(0)},
                  {int_attribute("axis", a.axis), int_attribute("keepdims", a.keep_dims),
                   int_attribute("select_last_index", a.last)});
}

Result<void> export_top_k(NodeExport& e) {
  const auto& a = e.attrs<TopKAttrs>();
  return e.results("TopK", {e.input(0), e.integers("k", {a.k})},
                   {int_attribute("axis", a.axis), int_attribute("largest", a.largest)});
}

// CumSum, and CumProd of opset 26.
Result<void> export_cumulate(NodeExport& e) {
  const auto& a = e.attrs<CumulateAttrs>();
  if (e.node().op == Op::kCumProd) e.need_opset(26);
  return e.result(op_name(e.node().op), {e.input(0), e.integer("axis", a.axis)},
                  {int_attribute("exclusive", a.exclusive), int_attribute("reverse", a.reverse)});
}

Result<void> export_trilu(NodeExport& e) {
  const auto& a = e.attrs<TriluAttrs>();
  return e.result("Trilu", {e.input(0), e.integer("k", a.k)}, {int_attribute("upper", a.upper)});
}

Result<void> export_einsum(NodeExport& e) {
  const auto& a = e.attrs<EinsumAttrs>();
  std::string equation;
  const auto term = [&equation](const Ints& labels) {
    for (int32_t i = 0; i < labels.count; ++i) equation += static_cast<char>('a' + labels[i]);
  };
  term(a.a);
  if (e.has(1)) equation += ',', term(a.b);
  equation += "->";
  term(a.y);
  return e.result("Einsum", operands(e), {text_attribute("equation", equation)});
}

Result<void> export_arg_max_pool(NodeExport& e) {
  const auto& a = e.attrs<ArgMaxPoolAttrs>();
  const auto pair = [](const char* name, const auto& v) { return ints_attribute(name, {std::begin(v), std::end(v)}); };
  return e.results("MaxPool", {e.input(0)},
                   {pair("kernel_shape", a.kernel), pair("strides", a.stride), pair("pads", a.pad), pair("dilations", a.dilation),
                    int_attribute("ceil_mode", a.ceil_mode), int_attribute("storage_order", a.column_major)});
}

Result<void> export_col2im(NodeExport& e) {
  const auto& a = e.attrs<Col2ImAttrs>();
  e.need_opset(18);
  std::vector<int64_t> pads = list(a.before);
  pads.insert(pads.end(), a.after.values, a.after.values + a.after.count);
  return e.result("Col2Im", {e.input(0), e.integers("image", list(a.image)), e.integers("block", list(a.block))},
                  {ints_attribute("strides", list(a.stride)), ints_attribute("dilations", list(a.dilation)),
                   ints_attribute("pads", pads)});
}

// ONNX takes image indices as s64 only.
Result<void> export_roi_align(NodeExport& e) {
  const auto& a = e.attrs<RoiAlignAttrs>();
  if (e.type(2).dtype != DType::kS64)
    return fail(Code::kUnsupported, std::string("image indices are ") + dtype_name(e.type(2).dtype) + ", ONNX has s64");
  return e.result("RoiAlign", operands(e),
                  {int_attribute("output_height", a.height), int_attribute("output_width", a.width),
                   int_attribute("sampling_ratio", a.sampling), float_attribute("spatial_scale", a.spatial_scale),
                   text_attribute("coordinate_transformation_mode", a.half_pixel != 0 ? "half_pixel" : "output_half_pixel"),
                   text_attribute("mode", a.use_max != 0 ? "max" : "avg")});
}

}  // namespace lathe::onnx
