// What is around the nodes of an ONNX file: weights in every encoding, external data, inputs, options, names, and what is
// refused.
#include <cmath>
#include <fstream>
#include <limits>

#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"
#include "tests/temp_folder.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// x + w of dims [n] with the tensor given.
TestModel with_weight(std::string tensor, int64_t n = 3) {
  TestModel m = one_node(13, "Add", {n}, {}, {"w"});
  m.weight(std::move(tensor));
  return m;
}
std::vector<float> weight_of(const Graph& g) { return floats_of(g, g.node(0).inputs[1]); }

// A tensor whose data is in the typed list that `write` fills.
std::string listed(ElemType type, int64_t n, const std::function<void(pbf_writer&)>& write) {
  std::string out;
  pbf_writer w(out);
  w.add_int64(field::tensor::kDims, n);
  w.add_int32(field::tensor::kDataType, number(type));
  w.add_string(field::tensor::kName, "w");
  write(w);
  return out;
}

std::string external(const std::string& location, const std::string& offset, const std::string& length, int64_t n = 3) {
  return listed(ElemType::kFloat, n, [&](pbf_writer& w) {
    for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
      if (value.empty()) continue;
      std::string entry;
      pbf_writer e(entry);
      e.add_string(field::string_entry::kKey, key);
      e.add_string(field::string_entry::kValue, value);
      w.add_message(field::tensor::kExternalData, entry);
    }
    w.add_int32(field::tensor::kDataLocation, onnx::kLocationExternal);
  });
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("weights are read from raw bytes and from packed and unpacked lists") {
  const std::vector<float> expected = {1.0f, -2.5f, 3.0f};
  const std::vector<double> doubles = {1.0, -2.5, 3.0};
  CHECK(weight_of(must(with_weight(f32_tensor("w", {3}, expected)).import())) == expected);
  CHECK(weight_of(must(with_weight(raw_tensor("w", ElemType::kDouble, {3}, doubles)).import())) == expected);
  // The same numbers as halves and as bfloat16, raw and in int32_data.
  const std::vector<uint16_t> halves = {0x3c00, 0xc100, 0x4200}, brains = {0x3f80, 0xc020, 0x4040};
  CHECK(weight_of(must(with_weight(raw_tensor("w", ElemType::kFloat16, {3}, halves)).import())) == expected);
  CHECK(weight_of(must(with_weight(raw_tensor("w", ElemType::kBfloat16, {3}, brains)).import())) == expected);
  const auto packed = [](ElemType type, const auto& write) { return with_weight(listed(type, 3, write)); };
  CHECK(weight_of(must(packed(ElemType::kFloat16, [&](pbf_writer& w) {
                         w.add_packed_int32(field::tensor::kInt32Data, halves.begin(), halves.end());
                       }).import())) == expected);
  CHECK(weight_of(must(packed(ElemType::kFloat, [&](pbf_writer& w) {
                         w.add_packed_float(field::tensor::kFloatData, expected.begin(), expected.end());
                       }).import())) == expected);
  CHECK(weight_of(must(packed(ElemType::kFloat, [&](pbf_writer& w) {
                         for (float v : expected) w.add_float(field::tensor::kFloatData, v);
                       }).import())) == expected);
  CHECK(weight_of(must(packed(ElemType::kDouble, [&](pbf_writer& w) {
                         w.add_packed_double(field::tensor::kDoubleData, doubles.begin(), doubles.end());
                       }).import())) == expected);
  CHECK(weight_of(must(packed(ElemType::kDouble, [&](pbf_writer& w) {
                         for (double v : doubles) w.add_double(field::tensor::kDoubleData, v);
                       }).import())) == expected);
}

TEST_CASE("halves convert exactly: subnormals, the largest number and signs") {
  const std::vector<uint16_t> halves = {0x0001, 0x83ff, 0x7bff, 0x8000};
  const auto got = weight_of(must(with_weight(raw_tensor("w", ElemType::kFloat16, {4}, halves), 4).import()));
  CHECK(got == std::vector<float>{0x1p-24f, -1023 * 0x1p-24f, 65504.0f, -0.0f});
  CHECK(std::signbit(got[3]));
}

TEST_CASE("integer lists are read packed and unpacked, negative numbers too") {
  for (bool is_packed : {true, false}) {
    const std::vector<int64_t> target = {-1, 2};
    TestModel m = one_node(13, "Reshape", {6}, {}, {"w"});
    m.weight(listed(ElemType::kInt64, 2, [&](pbf_writer& w) {
      if (is_packed) w.add_packed_int64(field::tensor::kInt64Data, target.begin(), target.end());
      else for (int64_t v : target) w.add_int64(field::tensor::kInt64Data, v);
    }));
    CHECK(output_dims(must(m.import())) == "[3,2]");
  }
}

TEST_CASE("a weight whose size does not match its dims is an error with both numbers") {
  CHECK(contains(error_of(with_weight(f32_tensor("w", {3}, {1, 2})).import()),
                 "tensor 'w': dims [3] need 12 bytes, the file has 8"));
  CHECK(contains(
      error_of(
          with_weight(listed(ElemType::kFloat, 3, [](pbf_writer& w) { w.add_float(field::tensor::kFloatData, 1); })).import()),
      "dims [3] need 3 values, the file has 1"));
  CHECK(contains(error_of(with_weight(f32_tensor("w", {-3}, {1})).import()), "dims [-3] have a negative entry"));
  CHECK(contains(error_of(with_weight(f32_tensor("w", {INT64_MAX, INT64_MAX}, {1})).import()), "are over the limit"));
  CHECK(contains(error_of(with_weight(f32_tensor("w", {1 << 30, 1 << 30, 1 << 30}, {1})).import()), "are over the limit"));
}

TEST_CASE("a weight that is no number is an error that names tensor and element; infinities stay") {
  CHECK(contains(error_of(with_weight(f32_tensor("w", {3}, {1, std::nanf(""), 2})).import()), "tensor 'w': element 1 is NaN"));
  CHECK(output_dims(must(with_weight(f32_tensor("w", {3}, {1, 2, -kInfinity})).import())) == "[3]");
  const std::vector<double> large = {1e300, 1, 1};
  CHECK(contains(error_of(with_weight(raw_tensor("w", ElemType::kDouble, {3}, large)).import()), "element 0 is outside the range of float32"));
  CHECK(contains(error_of(one_node(10, "Clip", {3}, {float_attr("min", std::nanf(""))}).import()), "a bound is NaN"));
}

TEST_CASE("external data is read from the model's folder only, and its size is checked") {
  const TempFolder folder;
  const float data[5] = {9, 1, 2, 3, 9};
  write_file(folder.file("weights.bin"), std::string(reinterpret_cast<const char*>(data), sizeof data));
  write_file(folder.file("model.onnx"), with_weight(external("weights.bin", "4", "12")).bytes());
  ImportReport report;
  const Graph g = must(import_onnx(folder.file("model.onnx"), {}, &report));
  CHECK(weight_of(g) == std::vector<float>{1, 2, 3});
  CHECK(report.mapped_bytes == 12);
  CHECK(g.metadata.at("source.file") == "model.onnx");
  CHECK(g.metadata.at("source.hash").size() == 32);
  CHECK(g.metadata.at("onnx.opset") == "13");
  CHECK(g.metadata.at("onnx.producer") == "lathe tests");

  const auto error = [&](const std::string& tensor) {
    write_file(folder.file("model.onnx"), with_weight(tensor).bytes());
    return error_of(import_onnx(folder.file("model.onnx")));
  };
  CHECK(contains(error(external("weights.bin", "12", "12")), "has 20 bytes, offset 12 and length 12 reach past it"));
  CHECK(contains(error(external("weights.bin", "18446744073709551615", "12")), "reach past it"));
  CHECK(contains(error(external("weights.bin", "0", "16")), "dims [3] need 12 bytes, the file has 16"));
  CHECK(contains(error(external("weights.bin", "x", "12")), "offset 'x', which is not a number"));
  CHECK(contains(error(external("../weights.bin", "0", "12")), "lies outside the model's folder"));
  CHECK(contains(error(external("/etc/passwd", "0", "12")), "lies outside the model's folder"));
  CHECK(contains(error(external("", "0", "12")), "no location"));
  CHECK(contains(error(external("missing.bin", "0", "12")), "missing.bin"));
  std::filesystem::create_symlink("/etc/passwd", folder.file("link.bin"));
  CHECK(contains(error(external("link.bin", "0", "12")), "lies outside the model's folder"));
  CHECK(contains(error_of(with_weight(external("weights.bin", "4", "12")).import()), "of a model that is not a file"));
}

TEST_CASE("initializers that are listed as inputs are constants, as in IR version 3") {
  TestModel m = with_weight(ramp_tensor("w", {3}));
  m.ir_version = 3;
  m.input("w", {3});
  const Graph g = must(m.import());
  CHECK(g.inputs().size() == 1);
  CHECK(g.value(g.node(0).inputs[1]).kind == ValueKind::kConstant);
  m.ir_version = 2;
  CHECK(contains(error_of(m.import()), "IR version 2 is not supported"));
}

TEST_CASE("dims of inputs may be numbers, symbols or unknown, and shapes can be given") {
  TestModel m = one_node(13, "Relu", {"batch size", "", 4});
  CHECK(output_dims(must(m.import())) == "[batch_size,x_d1,4]");
  CHECK(output_dims(must(m.import({.shapes = {{"x", {2, -1, 4}}}}))) == "[2,x_d1,4]");
  CHECK(contains(error_of(m.import({.shapes = {{"x", {2, 3, 5}}}})), "input 'x': dim 2 is 4 in the file, 5 was asked for"));
  CHECK(contains(error_of(m.import({.shapes = {{"x", {2, 3}}}})), "has rank 3, a shape of rank 2 was asked for"));
  CHECK(contains(error_of(m.import({.shapes = {{"z", {2}}}})), "a shape was given for 'z', which is no input"));
  CHECK(contains(error_of(one_node(13, "Relu", {-3}).import()), "input 'x': dim 0 is -3"));
  CHECK(contains(error_of(one_node(13, "Relu", {int64_t{1} << 40}).import()), "input 'x': dim 0 is 1099511627776"));
  CHECK(contains(error_of(one_node(13, "Relu", {int64_t{1} << 20, int64_t{1} << 20}).import()), "are over the limit"));
}

TEST_CASE("several inputs and outputs keep their order and names") {
  TestModel m{.opset = 13};
  m.input("b", {"N", 2}).input("a", {"N", 2}).output("sum").output("a2").output("difference").output("a3");
  m.node({.op = "Sub", .inputs = {"a", "b"}, .outputs = {"difference"}})
      .node({.op = "Add", .inputs = {"a", "b"}, .outputs = {"sum"}});
  m.node({.op = "Identity", .inputs = {"a"}, .outputs = {"a2"}}).node({.op = "Identity", .inputs = {"a2"}, .outputs = {"a3"}});
  for (bool passes : {false, true}) {
    const Graph g = must(m.import({}, nullptr, passes));
    CHECK(g.value(g.inputs()[0]).name == "b");
    CHECK(g.value(g.inputs()[1]).name == "a");
    REQUIRE(g.outputs().size() == 4);
    const char* names[] = {"sum", "a2", "difference", "a3"};
    for (size_t i = 0; i < 4; ++i) CHECK(g.value(g.outputs()[i]).name == names[i]);
  }
}

TEST_CASE("one value under two output names stays two outputs after the passes") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 2}).output("y1").output("y2");
  m.node({.op = "Exp", .inputs = {"x"}, .outputs = {"t"}})
      .node({.op = "Identity", .inputs = {"t"}, .outputs = {"y1"}})
      .node({.op = "Identity", .inputs = {"t"}, .outputs = {"y2"}});
  const Graph g = must(m.import({}, nullptr, true));
  REQUIRE(g.outputs().size() == 2);
  CHECK(g.value(g.outputs()[0]).name == "y1");
  CHECK(g.value(g.outputs()[1]).name == "y2");
}

TEST_CASE("names of nodes are kept and made unique") {
  TestModel m{.opset = 13};
  m.input("x", {2}).output("y");
  m.node({.op = "Relu", .inputs = {"x"}, .outputs = {"t"}, .name = "same"})
      .node({.op = "Relu", .inputs = {"t"}, .outputs = {"u"}, .name = "same"});
  m.node({.op = "Relu", .inputs = {"u"}, .outputs = {"y"}});
  const Graph g = must(m.import());
  CHECK(g.node(0).name == "same");
  CHECK(g.node(1).name == "same:2");
  CHECK(g.node(2).name == "y");
}

TEST_CASE("half and double models are computed in f32, and the report says so") {
  TestModel m{.opset = 13};
  m.input("x", {2}, ElemType::kFloat16).output("y", ElemType::kFloat16).node({.op = "Relu", .inputs = {"x"}, .outputs = {"y"}});
  ImportReport report;
  const Graph g = must(m.import({}, &report));
  CHECK(g.value(g.inputs()[0]).type.dtype == DType::kF32);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "input 'x' is float16 in the file and f32 here");
}

TEST_CASE("the report says whether batch normalization was folded before export") {
  TestModel m = one_node(13, "Conv", {1, 2, 5, 5}, {}, {"w"});
  m.weight(ramp_tensor("w", {4, 2, 3, 3}));
  ImportReport report;
  must(m.import({}, &report));
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] ==
        "the model has 1 convolutions and no BatchNormalization: batch normalization was folded before export");
  CHECK(report.file_ops.at("Conv") == 1);
  CHECK(report.graph_ops.at("Transpose") == 2);
  m.nodes[0].outputs = {"t"};
  m.node({.op = "BatchNormalization", .inputs = {"t", "b", "b", "b", "b"}, .outputs = {"y"}});
  m.weight(ramp_tensor("b", {4}));
  must(m.import({}, &report));
  CHECK(report.notes.empty());
}

TEST_CASE("everything that is not supported is listed in one error, behind an unsupported node too") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 4}).output("y");
  m.node({.op = "GridSample", .inputs = {"x"}, .outputs = {"a"}, .name = "first"});
  m.node({.op = "MaxPool", .inputs = {"a"}, .outputs = {"b"}, .attributes = {ints_attr("kernel_shape", {1, 1, 1})}, .name = "second"});
  m.node({.op = "Relu", .inputs = {"b"}, .outputs = {"c"}});
  m.node({.op = "Gelu", .inputs = {"c"}, .outputs = {"d"}, .name = "third", .domain = "org.example"});
  m.node({.op = "Relu", .inputs = {"x"}, .outputs = {"e"}, .attributes = {int_attr("odd", 1)}, .name = "fourth"});
  m.node({.op = "Add", .inputs = {"d", "e"}, .outputs = {"y"}});
  const auto result = m.import();
  REQUIRE(!result);
  CHECK(result.error().code == Code::kUnsupported);
  CHECK(result.error().message ==
        "4 things are not supported:\n"
        "  node 'first' (GridSample, opset 13): operator GridSample is not supported: sampling at computed positions is not supported\n"
        "  node 'second' (MaxPool, opset 13): 3-d windows are not supported, only 1-d and 2-d\n"
        "  node 'third' (org.example.Gelu, opset 13): operators of domain 'org.example' are not supported\n"
        "  node 'fourth' (Relu, opset 13): attribute 'odd' is not supported");
}

TEST_CASE("conditions that are none and sparse tensors are refused in one line each") {
  TestModel branch = one_node(13, "If", {4}, {graph_attr("then_branch", one_node(13, "Relu", {4}).graph_bytes())});
  CHECK(contains(error_of(branch.import()), "node 'n' (If, opset 13): the condition is f32 of rank 1, not one bool"));
  TestModel sparse = one_node(13, "Relu", {4});
  sparse.has_sparse = true;
  CHECK(contains(error_of(sparse.import()), "1 sparse initializers are not supported"));
  TestModel bytes{.opset = 13};
  bytes.input("x", {4}, ElemType::kUint8)
      .output("y", ElemType::kUint8)
      .node({.op = "Sigmoid", .inputs = {"x"}, .outputs = {"y"}, .name = "n"});
  CHECK(contains(error_of(bytes.import()), "1 thing is not supported:\n  node 'n' (Sigmoid, opset 13)"));
}

TEST_CASE("a value can be fixed in place of a node that is not supported") {
  TestModel m = one_node(13, "Reshape", {6}, {}, {"t"});
  m.nodes.insert(m.nodes.begin(), {.op = "GridSample", .inputs = {"x"}, .outputs = {"t"}});
  CHECK(contains(error_of(m.import()), "GridSample"));
  CHECK(output_dims(must(m.import({.constants = {{"t", {2, 3}}}}))) == "[2,3]");
  CHECK(
      contains(error_of(m.import({.constants = {{"q", {1}}}})), "a constant was given for 'q', which is no value of the model"));
  CHECK(contains(error_of(m.import({.constants = {{"t", {1.5}}}})), "is not an integer"));
}
