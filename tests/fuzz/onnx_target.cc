// ONNX files: import, and everything behind it.
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph/import/onnx_writer.h"

namespace lathe::fuzz {

using namespace lathe::test;

void run_onnx(Bytes bytes) {
  // A block of its own size, so that a sanitizer sees a read past its end.
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  if (auto graph = import_onnx(OnnxSource{owner, *owner, {}})) {
    CHECKED(verify(*graph).has_value());
    exercise(*graph);
  }
}

namespace {

std::string conv_net() {
  TestModel m{.opset = 11};
  m.input("x", {"N", 2, 6, 6}).output("y").output("z");
  m.weight(ramp_tensor("w", {3, 2, 3, 3})).weight(ramp_tensor("bn", {3})).weight(ramp_tensor("fc", {27, 4}));
  m.weight(i64_tensor("rest", {-1})).weight(raw_tensor("zero", ElemType::kInt64, {}, std::vector<int64_t>{0}));
  m.node({.op = "Conv", .inputs = {"x", "w"}, .outputs = {"c"}, .attributes = {ints_attr("pads", {1, 1, 1, 1})}, .name = "conv"});
  m.node({.op = "BatchNormalization", .inputs = {"c", "bn", "bn", "bn", "bn"}, .outputs = {"b"},
          .attributes = {float_attr("epsilon", 0.001f)}});
  m.node({.op = "Relu", .inputs = {"b"}, .outputs = {"r"}});
  m.node({.op = "MaxPool", .inputs = {"r"}, .outputs = {"p"},
          .attributes = {ints_attr("kernel_shape", {2, 2}), ints_attr("strides", {2, 2})}});
  m.node({.op = "Shape", .inputs = {"p"}, .outputs = {"s"}}).node({.op = "Gather", .inputs = {"s", "zero"}, .outputs = {"n"}});
  m.node({.op = "Unsqueeze", .inputs = {"n"}, .outputs = {"n1"}, .attributes = {ints_attr("axes", {0})}});
  m.node({.op = "Concat", .inputs = {"n1", "rest"}, .outputs = {"t"}, .attributes = {int_attr("axis", 0)}});
  m.node({.op = "Reshape", .inputs = {"p", "t"}, .outputs = {"f"}});
  m.node({.op = "Gemm", .inputs = {"f", "fc"}, .outputs = {"g"}, .attributes = {float_attr("alpha", 0.5f)}});
  m.node({.op = "Softmax", .inputs = {"g"}, .outputs = {"y"}});
  m.node({.op = "Split", .inputs = {"g"}, .outputs = {"z", "z2"}, .attributes = {int_attr("axis", 1), ints_attr("split", {1, 3})}});
  return m.bytes();
}

std::string transformer() {
  TestModel m{.opset = 17};
  m.input("ids", {1, 4}, ElemType::kInt64).output("y");
  m.weight(ramp_tensor("table", {5, 8})).weight(ramp_tensor("g", {8})).weight(ramp_tensor("w", {8, 8}));
  m.weight(i64_tensor("heads", {1, 4, 2, 4})).weight(i64_tensor("flat", {1, 4, 8}));
  m.node({.op = "Gather", .inputs = {"table", "ids"}, .outputs = {"e"}, .attributes = {int_attr("axis", 0)}});
  m.node({.op = "LayerNormalization", .inputs = {"e", "g", "g"}, .outputs = {"n"}, .attributes = {int_attr("axis", -1)}});
  m.node({.op = "MatMul", .inputs = {"n", "w"}, .outputs = {"q"}}).node({.op = "Reshape", .inputs = {"q", "heads"}, .outputs = {"h"}});
  m.node({.op = "Transpose", .inputs = {"h"}, .outputs = {"ht"}, .attributes = {ints_attr("perm", {0, 2, 1, 3})}});
  m.node({.op = "Transpose", .inputs = {"h"}, .outputs = {"hk"}, .attributes = {ints_attr("perm", {0, 2, 3, 1})}});
  m.node({.op = "MatMul", .inputs = {"ht", "hk"}, .outputs = {"a"}}).node({.op = "Softmax", .inputs = {"a"}, .outputs = {"p"}});
  m.node({.op = "MatMul", .inputs = {"p", "ht"}, .outputs = {"v"}});
  m.node({.op = "Transpose", .inputs = {"v"}, .outputs = {"vt"}, .attributes = {ints_attr("perm", {0, 2, 1, 3})}});
  m.node({.op = "Reshape", .inputs = {"vt", "flat"}, .outputs = {"o"}}).node({.op = "Gelu", .inputs = {"o"}, .outputs = {"u"}});
  m.opset = 20;
  m.node({.op = "Add", .inputs = {"u", "e"}, .outputs = {"y"}});
  return m.bytes();
}

// Movement and shapes with operands, where most of the arithmetic on untrusted numbers is.
std::string movement() {
  TestModel m{.opset = 13};
  m.input("x", {"N", 3, 4}).output("y").output("k");
  m.weight(i64_tensor("b", {0, 1})).weight(i64_tensor("e", {2, 1000})).weight(i64_tensor("axes", {1, 2}));
  m.weight(i64_tensor("steps", {1, 2})).weight(i64_tensor("pads", {0, 1, 0, 0, 0, 2})).weight(f32_tensor("half", {}, {0.5f}));
  m.weight(i64_tensor("last", {-1})).weight(i64_tensor("wide", {2, 1, 3, 4}));
  m.node({.op = "Slice", .inputs = {"x", "b", "e", "axes", "steps"}, .outputs = {"s"}});
  m.node({.op = "Pad", .inputs = {"s", "pads", "half"}, .outputs = {"p"}});
  m.node({.op = "Unsqueeze", .inputs = {"p", "last"}, .outputs = {"u"}}).node({.op = "Squeeze", .inputs = {"u", "last"}, .outputs = {"q"}});
  m.node({.op = "ReduceMean", .inputs = {"q"}, .outputs = {"m"}, .attributes = {ints_attr("axes", {1}), int_attr("keepdims", 0)}});
  m.node({.op = "Clip", .inputs = {"m", "half"}, .outputs = {"y"}});
  m.node({.op = "Expand", .inputs = {"x", "wide"}, .outputs = {"w"}});
  m.node({.op = "Cast", .inputs = {"w"}, .outputs = {"i"}, .attributes = {int_attr("to", 7)}});
  m.node({.op = "Mul", .inputs = {"i", "i"}, .outputs = {"k"}});
  return m.bytes();
}

}  // namespace

std::vector<std::string> seeds_onnx() { return {conv_net(), transformer(), movement()}; }

}  // namespace lathe::fuzz
