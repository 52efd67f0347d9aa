// Quantized models: which integer operators the nodes of a file become, and what they compute against ONNX Runtime
// (tests/oracle/make_quantized.py).
#include <cmath>

#include "tests/graph/import/expected_run.h"
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// In the order of make_quantized.py, with the ops after the import passes.
const std::pair<const char*, const char*> kCases[] = {
    {"QLinearConv per channel", "Quantize Transpose Conv2d Transpose Dequantize"},
    {"QLinearConv s8", "Quantize Transpose Conv2d Transpose Dequantize"},
    {"QLinearConv u8 weights", "Quantize Transpose Conv2d Transpose Dequantize"},
    {"QLinearConv weights with a zero point", "Quantize Transpose Conv2d Transpose Dequantize"},
    {"QDQ Conv", "Quantize Transpose Conv2d Transpose Dequantize"},
    {"moved integers", "Quantize Transpose Reshape Dequantize"},
    {"QDQ MaxPool", "Quantize Transpose MaxPool2d Transpose Dequantize"},
    {"QLinearMatMul", "Quantize FullyConnected Dequantize"},
    {"QLinearMatMul of activations", "Quantize MatMul Dequantize"},
    {"QLinearAdd", "Quantize Quantize Add Dequantize"},
    {"QLinearMul", "Quantize Quantize Mul Dequantize"},
    {"QLinearConcat", "Quantize Quantize Concat Dequantize"},
    {"QLinearSigmoid", "Quantize Sigmoid Dequantize"},
    {"QLinearSigmoid s8", "Quantize Sigmoid Dequantize"},
    {"QLinearLeakyRelu", "Quantize LeakyRelu Dequantize"},
    {"QLinearGlobalAveragePool", "Quantize Mean Dequantize"},
    {"QLinearAveragePool", "Quantize Transpose AvgPool2d Transpose Dequantize"},
    {"QLinearSoftmax", "Quantize Softmax Dequantize"},
    {"QLinearSoftmax on another grid", "Quantize Dequantize Softmax Quantize Dequantize"},
    {"QGemm", "Quantize FullyConnected Dequantize"},
    {"QGemm to float", "Quantize Dequantize FullyConnected"},
    {"DynamicQuantizeMatMul", "DynamicFullyConnected"},
    {"MatMulIntegerToFloat", "Quantize ToInteger MatMulInteger Cast Mul Add"},
    {"dynamic chain", "DynamicFullyConnected"},
    {"ConvInteger", "DynamicQuantizeLinear Transpose ConvInteger Cast Mul Mul Transpose"},
    {"FusedConv", "Transpose Conv2d Transpose Add Clamp"},
    {"FusedConv HardSigmoid", "Transpose Conv2d HardSigmoid Transpose"},
    {"Gelu", "Gelu"},
    {"BiasGelu", "Add Gelu"},
    {"FastGelu", "Add Gelu"},
    {"QuickGelu", "Mul Sigmoid Mul"},
    {"SkipLayerNormalization", "Add Add LayerNorm"},
    {"SkipSimplifiedLayerNormalization", "Add Mul Mean Add Sqrt Div Mul"},
    {"SimplifiedLayerNormalization", "Mul Mean Add Sqrt Div Mul"},
    {"FusedMatMul", "FullyConnected Mul"},
};

TestModel quantize_node(int64_t opset, std::vector<std::string> attributes, const std::string& zero) {
  TestModel m{.opset = opset};
  m.input("x", {2, 3}).output("y", zero.empty() ? ElemType::kUint8 : ElemType::kInt8);
  std::vector<std::string> inputs = {"x", "s"};
  if (!zero.empty()) inputs.push_back("z");
  m.node({.op = "QuantizeLinear", .inputs = inputs, .outputs = {"y"}, .attributes = std::move(attributes), .name = "n"});
  m.weight(f32_tensor("s", {}, {0.5f}));
  if (!zero.empty()) m.weight(zero);
  return m;
}

}  // namespace

TEST_CASE("quantized operators become integer operators and compute what ONNX Runtime computes") {
  const auto arrays = expected_arrays("quantized");
  REQUIRE(arrays.size() == 4 * std::size(kCases));
  size_t elems = 0, equal = 0;
  for (size_t i = 0; i < std::size(kCases); ++i) {
    const std::string number = std::to_string(i);
    CAPTURE(std::string(kCases[i].first));
    const auto owner = std::make_shared<HostTensor>(array(arrays, "model_" + number));
    const Graph g = must(import_onnx(OnnxSource{owner, std::as_bytes(owner->as<uint8_t>()), {}}, {}));
    CHECK(op_names(g) == kCases[i].second);
    const HostTensor& expected = array(arrays, "y_" + number);
    const auto want = expected.as<float>();
    const float step = array(arrays, "step_" + number).as<float>()[0];
    const std::vector<float> got = run_one(g, array(arrays, "x_" + number), expected, *machine_isa());
    float worst = 0, largest = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      worst = std::fmax(worst, std::fabs(got[k] - want[k]));
      largest = std::fmax(largest, std::fabs(want[k]));
      if (step > 0) equal += std::fabs(got[k] - want[k]) < step / 2 ? 1 : 0;
    }
    elems += step > 0 ? got.size() : 0;
    // Dynamic products have a grid per row, where the model has one for all rows.
    const bool dynamic = op_names(g) == "DynamicFullyConnected";
    CHECK(worst <= (step > 0 ? 1.01f * step : (dynamic ? 1e-2f : 1e-6f) * largest));
  }
  CHECK(static_cast<double>(equal) >= 0.995 * static_cast<double>(elems));
}

TEST_CASE("integers that a model hands over or asks for are plain, in every type") {
  const std::string s8 = raw_tensor<int8_t>("z", ElemType::kInt8, {}, {3});
  CHECK(op_names(must(quantize_node(10, {}, "").import())) == "Quantize ToInteger");
  const Graph g = must(quantize_node(13, {}, s8).import());
  CHECK(op_names(g) == "Quantize ToInteger");
  CHECK(g.value(find_node(g, Op::kQuantize).outputs[0]).quant == Quant{{0.5f}, {3}, -1, -128, 127});
  CHECK(g.value(g.outputs()[0]).type.dtype == DType::kS8);
  TestModel wide = quantize_node(21, {int_attr("output_dtype", 5)}, "");
  wide.outputs.clear();
  wide.output("y", ElemType::kInt16);
  CHECK(op_names(must(wide.import())) == "QuantizeLinear");
  TestModel computed = quantize_node(13, {}, s8);
  computed.initializers.clear();
  computed.input("s", {3}).input("z", {3}, ElemType::kInt8);
  CHECK(op_names(must(computed.import())) == "QuantizeLinear");
  TestModel back{.opset = 13};
  back.input("x", {4}, ElemType::kUint8).output("y");
  back.node({.op = "DequantizeLinear", .inputs = {"x", "s", "z"}, .outputs = {"y"}, .name = "n"});
  back.weight(f32_tensor("s", {}, {0.5f})).weight(raw_tensor<uint8_t>("z", ElemType::kUint8, {}, {200}));
  const Graph b = must(back.import());
  CHECK(op_names(b) == "FromInteger Dequantize");
  CHECK(b.value(find_node(b, Op::kDequantize).inputs[0]).quant == Quant{{0.5f}, {72}, -1, -128, 127});
}

TEST_CASE("weights that the model quantizes when it runs are integers after import") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 2}).output("y");
  m.node({.op = "QuantizeLinear", .inputs = {"w", "s", "z"}, .outputs = {"q"}, .attributes = {int_attr("axis", 1)}});
  m.node({.op = "DequantizeLinear", .inputs = {"q", "s", "z"}, .outputs = {"d"}, .attributes = {int_attr("axis", 1)}});
  m.node({.op = "MatMul", .inputs = {"x", "d"}, .outputs = {"y"}, .name = "n"});
  m.weight(f32_tensor("w", {2, 3}, {1, 2, 3, -1, -100, 0.25f})).weight(f32_tensor("s", {3}, {0.5f, 0.25f, 1}));
  m.weight(raw_tensor<int8_t>("z", ElemType::kInt8, {3}, {0, 0, 1}));
  const Graph g = must(m.import());
  CHECK(op_names(g) == "Dequantize FullyConnected");
  const Value& w = g.value(find_node(g, Op::kDequantize).inputs[0]);
  CHECK(w.quant == Quant{{0.5f, 0.25f, 1}, {0, 0, 1}, 0, -128, 127});
  const auto steps = w.constant.as<int8_t>();
  CHECK(std::vector<int8_t>(steps.begin(), steps.end()) == std::vector<int8_t>{2, -2, 8, -128, 4, 1});
}

TEST_CASE("what quantization does not support is named") {
  CHECK(contains(error_of(quantize_node(23, {int_attr("precision", 10)}, "").import()), "'precision' 10"));
  CHECK(contains(error_of(quantize_node(13, {}, raw_tensor<int8_t>("z", ElemType::kInt8, {2}, {3, 4})).import()),
                 "the zero point has 2 elements"));
  TestModel narrow = quantize_node(21, {int_attr("output_dtype", 22)}, "");
  CHECK(contains(error_of(narrow.import()), "element type int4 is not supported"));
  TestModel bias{.opset = 13};
  bias.input("x", {1, 1, 2, 2}, ElemType::kUint8).input("b", {1}, ElemType::kInt32).output("y", ElemType::kUint8);
  bias.node({.op = "QLinearConv", .inputs = {"x", "s", "z", "w", "s", "z", "s", "z", "b"}, .outputs = {"y"}, .name = "n"});
  bias.weight(f32_tensor("s", {}, {0.5f})).weight(raw_tensor<uint8_t>("z", ElemType::kUint8, {}, {128}));
  bias.weight(raw_tensor<uint8_t>("w", ElemType::kUint8, {1, 1, 1, 1}, {129}));
  CHECK(contains(error_of(bias.import()), "bias 'b' or its scale is not constant; --const can fix it"));
}

TEST_CASE("weights of bytes can be fixed in place of an input") {
  TestModel m{.opset = 13};
  m.input("x", {1, 1, 2, 2}, ElemType::kUint8).input("w", {1, 1, 1, 1}, ElemType::kUint8).output("y", ElemType::kInt32);
  m.node({.op = "ConvInteger", .inputs = {"x", "w"}, .outputs = {"y"}, .name = "n"});
  CHECK(contains(error_of(m.import()), "weight 'w' is not constant; --const can fix it"));
  CHECK(op_names(must(m.import({.constants = {{"w", {200}}}}))) == "Transpose ConvInteger Transpose");
  CHECK(contains(error_of(m.import({.constants = {{"w", {300}}}})), "300.000000 is not an integer of 0 to 255"));
}

TEST_CASE("operators that stay in float between integers are listed with the reason") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 4}).output("y");
  m.node({.op = "QuantizeLinear", .inputs = {"x", "s", "z"}, .outputs = {"q"}});
  m.node({.op = "DequantizeLinear", .inputs = {"q", "s", "z"}, .outputs = {"d"}});
  m.node({.op = "Exp", .inputs = {"d"}, .outputs = {"y"}, .name = "exponential"});
  m.weight(f32_tensor("s", {}, {0.5f})).weight(raw_tensor<uint8_t>("z", ElemType::kUint8, {}, {7}));
  ImportReport report;
  must(m.import({}, &report, true));
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "node 'exponential' (Exp) runs on floats between integers: its result is an output of the model");
}
