// TFLite import: what becomes of layers, types and parameters; damaged, hostile and unsupported files. The values that
// operators compute are compared with LiteRT's in tflite_ops_test.cc.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/tflite_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::vector<uint8_t> ramp(size_t n) {
  std::vector<uint8_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(i * 37 + 11);
  return out;
}

fbs::OptionsUnion conv_options(fbs::Padding padding, int32_t stride, fbs::Activation activation = fbs::Activation_NONE) {
  fbs::ConvOptionsT o;
  o.padding = padding;
  o.stride_h = o.stride_w = stride;
  o.dilation_h = o.dilation_w = 1;
  o.activation = activation;
  return options_of(fbs::Options_Conv, o);
}

// An 8-bit convolution of 3 x 3, per channel, and a reshape to a vector.
TfliteModel small_model(fbs::TensorType type = fbs::TensorType_INT8) {
  const bool is_unsigned = type == fbs::TensorType_UINT8;
  TfliteModel m;
  m.inputs = {m.add({.name = "x", .type = type, .dims = {1, 5, 6, 2}, .data = {}, .scales = {0.5f}, .zero_points = {3}})};
  const int32_t w = m.add({.name = "w",
                           .type = type,
                           .dims = {3, 3, 3, 2},
                           .data = ramp(54),
                           .scales = {0.25f, 0.5f, 1.0f},
                           .zero_points = is_unsigned ? std::vector<int64_t>{128, 128, 128} : std::vector<int64_t>{0, 0, 0}});
  const int32_t b =
      m.add({.name = "b", .type = fbs::TensorType_INT32, .dims = {3}, .data = ramp(12), .scales = {0.1f}, .zero_points = {0}});
  const int32_t y = m.add({.name = "y", .type = type, .dims = {1, 3, 3, 3}, .data = {}, .scales = {2.0f}, .zero_points = {-1}});
  const int32_t shape =
      m.add({.name = "shape", .type = fbs::TensorType_INT32, .dims = {2}, .data = TfliteModel::bytes_of<int32_t>({1, -1})});
  const int32_t z = m.add({.name = "z", .type = type, .dims = {1, 27}, .data = {}, .scales = {2.0f}, .zero_points = {-1}});
  m.operators.push_back({kTflConv, {0, w, b}, {y}, conv_options(fbs::Padding_SAME, 2, fbs::Activation_RELU6), {}});
  m.operators.push_back({kTflReshape, {y, shape}, {z}, {}, {}});
  m.outputs = {z};
  return m;
}

}  // namespace

TEST_CASE("an int8 layer keeps its integers: parameters, clamp, uneven padding, names") {
  ImportReport report;
  const Graph g = must(small_model().import({}, &report));
  CHECK(op_names(g) == "Conv2d Reshape");
  CHECK(report.format == "tflite version 3");
  CHECK(report.file_ops == std::map<std::string, int>{{"CONV_2D", 1}, {"RESHAPE", 1}});
  const auto a = attrs_of<Conv2dAttrs>(g, Op::kConv2d);
  CHECK(std::vector<int32_t>(a.pad, a.pad + 4) == std::vector<int32_t>{1, 0, 1, 1});  // height 5 and width 6 at stride 2
  CHECK(a.lo == 0.0f);
  CHECK(a.hi == 6.0f);
  const Node conv = find_node(g, Op::kConv2d);
  const Value &x = g.value(conv.inputs[0]), &w = g.value(conv.inputs[1]), &b = g.value(conv.inputs[2]),
              &y = g.value(conv.outputs[0]);
  CHECK(x.name == "x");
  CHECK(x.quant->zero_points == std::vector<int32_t>{3});
  CHECK(w.quant->scales == std::vector<float>{0.25f, 0.5f, 1.0f});
  CHECK(w.quant->axis == 0);
  CHECK(b.type.dtype == DType::kS32);
  CHECK(!b.quant);
  CHECK(y.quant->scales == std::vector<float>{2.0f});
  CHECK(output_dims(g) == "[1,27]");
  CHECK(g.value(g.outputs()[0]).name == "z");
  CHECK(report.notes.empty());
}

TEST_CASE("uint8 values become s8, 128 lower with their zero points, and the report says so") {
  TfliteModel m = small_model(fbs::TensorType_UINT8);
  m.tensors[3].zero_points = m.tensors[5].zero_points = {0};
  ImportReport report;
  const Graph g = must(m.import({}, &report));
  const Node conv = find_node(g, Op::kConv2d);
  const Value &x = g.value(conv.inputs[0]), &w = g.value(conv.inputs[1]), &y = g.value(conv.outputs[0]);
  CHECK(x.type.dtype == DType::kS8);
  CHECK(x.quant->zero_points == std::vector<int32_t>{3 - 128});
  CHECK(w.quant->zero_points == std::vector<int32_t>{0, 0, 0});
  CHECK(w.constant.as<int8_t>()[0] == 11 - 128);
  CHECK(y.quant->zero_points == std::vector<int32_t>{-128});
  CHECK(report.notes == std::vector<std::string>{"input 'x' is uint8 in the file and s8 here: 128 less",
                                                 "output 'z' is uint8 in the file and s8 here: 128 less"});
}

TEST_CASE("a depthwise weight is permuted, with its channel axis") {
  TfliteModel m;
  m.inputs = {m.add(
      {.name = "x", .type = fbs::TensorType_INT8, .dims = {1, 4, 4, 2}, .data = {}, .scales = {1.0f}, .zero_points = {0}})};
  m.add({.name = "w",
         .type = fbs::TensorType_INT8,
         .dims = {1, 1, 2, 4},
         .data = {1, 2, 3, 4, 5, 6, 7, 8},
         .scales = {1, 2, 3, 4},
         .zero_points = {0, 0, 0, 0},
         .axis = 3});
  m.outputs = {m.add(
      {.name = "y", .type = fbs::TensorType_INT8, .dims = {1, 4, 3, 4}, .data = {}, .scales = {1.0f}, .zero_points = {0}})};
  fbs::DepthwiseConvOptionsT o;
  o.padding = fbs::Padding_VALID;
  o.stride_h = o.stride_w = o.dilation_h = o.dilation_w = 1;
  o.depth_multiplier = 2;
  m.operators.push_back({kTflDepthwise, {0, 1}, {2}, {}, {}});
  m.operators[0].options = options_of(fbs::Options_DepthwiseConv, o);
  const Graph g = must(m.import());
  const Node conv = find_node(g, Op::kConv2d);
  const Value& w = g.value(conv.inputs[1]);
  CHECK(attrs_of<Conv2dAttrs>(g, Op::kConv2d).groups == 2);
  CHECK(dims_of(g, conv.inputs[1]) == "[4,1,2,1]");
  CHECK(w.quant->axis == 0);
  const auto data = w.constant.as<int8_t>();
  CHECK(std::vector<int8_t>(data.begin(), data.end()) == std::vector<int8_t>{1, 5, 2, 6, 3, 7, 4, 8});
}

TEST_CASE("weights of half precision become float, INT8 weights stay where the input is quantized on the way") {
  TfliteModel m;
  m.inputs = {m.add({.name = "x", .dims = {2, 2}})};
  m.add(
      {.name = "h", .type = fbs::TensorType_FLOAT16, .dims = {2, 2}, .data = {0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, 0x00, 0x00}});
  m.add({.name = "hf", .dims = {2, 2}});
  m.add({.name = "a", .dims = {2, 2}});
  m.add({.name = "q",
         .type = fbs::TensorType_INT8,
         .dims = {2, 2},
         .data = {1, 2, 253, 4},
         .scales = {0.5f},
         .zero_points = {0}});
  m.outputs = {m.add({.name = "y", .dims = {2, 2}})};
  fbs::FullyConnectedOptionsT o;
  m.operators.push_back({6, {1}, {2}, {}, {}});
  for (const auto& [inputs, output] : {std::pair(std::vector<int32_t>{0, 2}, 3), std::pair(std::vector<int32_t>{3, 4}, 5)}) {
    m.operators.push_back({kTflFullyConnected, inputs, {output}, {}, {}});
    m.operators.back().options = options_of(fbs::Options_FullyConnected, o);
  }
  Graph g = must(m.import());
  CHECK(op_names(g) == "FullyConnected DynamicFullyConnected");
  CHECK(floats_of(g, g.node(g.order()[0]).inputs[1]) == std::vector<float>{1.0f, -2.0f, 0.5f, 0.0f});
  o.asymmetric_inputs = true;
  m.operators.back().options = options_of(fbs::Options_FullyConnected, o);
  g = must(m.import());
  CHECK(op_names(g) == "FullyConnected FullyConnected");
  CHECK(floats_of(g, g.node(g.order()[1]).inputs[1]) == std::vector<float>{0.5f, 1.0f, -1.5f, 2.0f});
}

TEST_CASE("a shape may change what the signature leaves open, and nothing else") {
  TfliteModel m = small_model();
  m.tensors[0].signature = {-1, 5, 6, 2};
  m.tensors[4].data = TfliteModel::bytes_of<int32_t>({-1, 27});
  CHECK(output_dims(must(m.import({.shapes = {{"x", {4, -1, -1, -1}}}}))) == "[4,27]");
  CHECK(output_dims(must(m.import())) == "[1,27]");
  CHECK(contains(error_of(m.import({.shapes = {{"x", {1, 7, 6, 2}}}})), "input 'x': dim 1 is 5 in the file, 7 was asked for"));
  CHECK(contains(error_of(m.import({.shapes = {{"y", {1}}}})), "a shape was given for 'y', which is no input"));
  CHECK(contains(error_of(m.import({.constants = {{"w", {1}}}})), "a constant was given for 'w', which is no input"));
}

TEST_CASE("everything that is not supported is listed, one line each") {
  TfliteModel m;
  m.inputs = {m.add({.name = "x", .dims = {2, 2}})};
  for (const char* name : {"a", "b", "c", "d"}) m.add({.name = name, .dims = {2, 2}});
  m.operators.push_back({kTflCustom, {0}, {1}, {}, "Fold"});
  m.operators.push_back({999, {0}, {2}, {}, {}});
  m.operators.push_back({kTflTanh, {1}, {3}, {}, {}});  // behind the first: not listed
  m.operators.push_back({kTflFullyConnected, {0, 0}, {4}, {}, {}});
  fbs::FullyConnectedOptionsT o;
  o.weights_format = 1;
  m.operators.back().options = options_of(fbs::Options_FullyConnected, o);
  m.outputs = {3, 4};
  CHECK(error_of(m.import()) ==
        "3 things are not supported:\n"
        "  custom operator Fold 0 ('a', version 1): the operator is not supported\n"
        "  operator number 999 1 ('b', version 1): the operator is not supported\n"
        "  FULLY_CONNECTED 3 ('d', version 1): weights format 1 is not supported");
}

TEST_CASE("files that contradict themselves are refused with a reason") {
  const struct {
    const char* expected;
    void (*damage)(TfliteModel& m);
  } cases[] = {
      {"format version 4 is not supported", [](TfliteModel& m) { m.version = 4; }},
      {"subgraph 0: operator 0: an input is tensor 99, there are 6", [](TfliteModel& m) { m.operators[0].inputs[1] = 99; }},
      {"an output is tensor -1", [](TfliteModel& m) { m.operators[0].outputs[0] = -1; }},
      {"an input of the graph is tensor -2", [](TfliteModel& m) { m.inputs[0] = -2; }},
      {"an output of the graph is tensor 6", [](TfliteModel& m) { m.outputs[0] = 6; }},
      {"operator code 7, the file has 2", [](TfliteModel& m) { m.missing_code = 7; }},
      {"tensor 1: buffer 70, the file has 4", [](TfliteModel& m) { m.tensors[1].buffer = 70; }},
      {"tensor 1: it has 53 bytes, its type and dims say 54", [](TfliteModel& m) { m.tensors[1].data.pop_back(); }},
      {"tensor 0: a dim is -5", [](TfliteModel& m) { m.tensors[0].dims[1] = -5; }},
      {"tensor 1: it has more than 2^31 - 1 bytes",
       [](TfliteModel& m) {
         m.tensors[1].dims = {1 << 20, 1 << 20, 1 << 20, 4};
       }},
      {"rank is 9, at most 8", [](TfliteModel& m) { m.tensors[3].dims.assign(9, 1); }},
      {"3 scales and 2 zero points", [](TfliteModel& m) { m.tensors[1].zero_points.pop_back(); }},
      {"tensor 'w': 3 scales and 3 zero points, must be 2", [](TfliteModel& m) { m.tensors[1].axis = 3; }},
      {"quantization axis is 4, rank is 4", [](TfliteModel& m) { m.tensors[1].axis = 4; }},
      {"input 'x': scale 0 is", [](TfliteModel& m) { m.tensors[0].scales = {0.0f}; }},
      {"zero point 300 is outside", [](TfliteModel& m) { m.tensors[0].zero_points = {300}; }},
      {"zero point 5000000000", [](TfliteModel& m) { m.tensors[0].zero_points = {5000000000}; }},
      {"its signature has rank 1", [](TfliteModel& m) { m.tensors[0].signature = {-1}; }},
      {"input 'y' is read before anything makes it", [](TfliteModel& m) { std::swap(m.operators[0], m.operators[1]); }},
      {"output 'x' is made twice", [](TfliteModel& m) { m.operators[0].outputs[0] = 0; }},
      {"output 'w' is made twice", [](TfliteModel& m) { m.operators[0].outputs[0] = 1; }},
      {"it is an input twice",
       [](TfliteModel& m) {
         m.inputs = {0, 0};
       }},
      {"stride 0, dilation 1", [](TfliteModel& m) { m.operators[0].options = conv_options(fbs::Padding_SAME, 0); }},
      {"its options are missing", [](TfliteModel& m) { m.operators[0].options.Reset(); }},
      {"fused activation 4 is not supported",
       [](TfliteModel& m) { m.operators[0].options = conv_options(fbs::Padding_SAME, 2, fbs::Activation_TANH); }},
      {"it has 1 inputs, 2 to 3 are expected", [](TfliteModel& m) { m.operators[0].inputs = {0}; }},
      {"the weight has 3 input channels, the input 2",
       [](TfliteModel& m) {
         m.tensors[1].dims = {3, 3, 2, 3};
       }},
      {"element type string is not supported", [](TfliteModel& m) { m.tensors[0].type = fbs::TensorType_STRING; }},
      {"the graph has no output", [](TfliteModel& m) { m.outputs.clear(); }},
  };
  for (const auto& c : cases) {
    TfliteModel m = small_model();
    c.damage(m);
    const std::string error = error_of(m.import());
    CAPTURE(error);
    CHECK_MESSAGE(contains(error, c.expected), c.expected);
  }
}

namespace {

Result<Graph> import_bytes(const test::Bytes& bytes) {
  const auto owner = std::make_shared<test::Bytes>(bytes);
  return import_tflite(owner, *owner, {}, nullptr);
}

}  // namespace

TEST_CASE("every truncation of a tflite file is an error") {
  const test::Bytes whole = bytes_of(small_model().bytes());
  REQUIRE(import_bytes(whole).has_value());
  truncate_everywhere(whole, [](const test::Bytes& bytes) {
    // The last buffer is what a file may lose without a table noticing: never its header.
    check_damaged(bytes, import_bytes);
    if (bytes.size() < 64) CHECK(!import_bytes(bytes).has_value());
  });
}

TEST_CASE("flipped bits of a tflite file end in an error or in another valid graph") {
  check_flipped_bits(bytes_of(small_model().bytes()), import_bytes);
}

TEST_CASE("a buffer that every operator converts anew does not fill memory") {
  TfliteModel m;
  m.inputs = {m.add({.name = "x", .dims = {1, 1, 1, 1 << 18}})};
  m.add({.name = "w", .dims = {1, 1, 1, 1 << 18}, .data = std::vector<uint8_t>(1u << 20)});
  fbs::DepthwiseConvOptionsT o;
  o.padding = fbs::Padding_VALID;
  o.stride_h = o.stride_w = o.dilation_h = o.dilation_w = o.depth_multiplier = 1;
  for (int32_t i = 0; i < 300; ++i) {
    m.outputs = {m.add({.name = "y" + std::to_string(i), .dims = {1, 1, 1, 1 << 18}})};
    m.operators.push_back({kTflDepthwise, {i == 0 ? 0 : i + 1, 1}, {i + 2}, {}, {}});
    m.operators.back().options = options_of(fbs::Options_DepthwiseConv, o);
  }
  CHECK(contains(error_of(m.import()), "take more memory than a file of this size may ask for"));
}
