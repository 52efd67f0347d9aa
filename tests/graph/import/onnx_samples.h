// ONNX models of several nodes for tests and for the fuzzer, which starts from them.
#pragma once
#include <string>
#include <vector>

#include "tests/graph/import/onnx_writer.h"

namespace lathe::test {

// A little of everything: convolution, normalization, pool, shape subgraph, matrix product, constants in all encodings.
inline TestModel small_model() {
  TestModel m{.opset = 11};
  m.input("x", {"N", 2, 6, 6}).output("y").output("z");
  m.weight(ramp_tensor("w", {3, 2, 3, 3}))
      .weight(ramp_tensor("bn", {3}))
      .weight(ramp_tensor("fc", {27, 4}))
      .weight(i64_tensor("rest", {-1}));
  m.weight(raw_tensor("zero", ElemType::kInt64, {}, std::vector<int64_t>{0}));
  m.node({.op = "Conv",
          .inputs = {"x", "w"},
          .outputs = {"c"},
          .attributes = {ints_attr("pads", {1, 1, 1, 1}), string_attr("auto_pad", "NOTSET")},
          .name = "conv"});
  m.node({.op = "BatchNormalization",
          .inputs = {"c", "bn", "bn", "bn", "bn"},
          .outputs = {"b"},
          .attributes = {float_attr("epsilon", 0.001f)}});
  m.node({.op = "Relu", .inputs = {"b"}, .outputs = {"r"}});
  m.node({.op = "MaxPool",
          .inputs = {"r"},
          .outputs = {"p"},
          .attributes = {ints_attr("kernel_shape", {2, 2}), ints_attr("strides", {2, 2})}});
  m.node({.op = "Shape", .inputs = {"p"}, .outputs = {"s"}}).node({.op = "Gather", .inputs = {"s", "zero"}, .outputs = {"n"}});
  m.node({.op = "Unsqueeze", .inputs = {"n"}, .outputs = {"n1"}, .attributes = {ints_attr("axes", {0})}});
  m.node({.op = "Concat", .inputs = {"n1", "rest"}, .outputs = {"t"}, .attributes = {int_attr("axis", 0)}});
  m.node({.op = "Reshape", .inputs = {"p", "t"}, .outputs = {"f"}});
  m.node({.op = "Gemm", .inputs = {"f", "fc"}, .outputs = {"g"}, .attributes = {float_attr("alpha", 0.5f)}});
  m.node({.op = "Softmax", .inputs = {"g"}, .outputs = {"y"}});
  m.node(
      {.op = "Split", .inputs = {"g"}, .outputs = {"z", "z2"}, .attributes = {int_attr("axis", 1), ints_attr("split", {1, 3})}});
  return m;
}

inline std::string bool_tensor(const std::string& name, bool value) {
  return raw_tensor<uint8_t>(name, ElemType::kBool, {}, {static_cast<uint8_t>(value)});
}
inline std::string count_tensor(const std::string& name, int64_t value) {
  return raw_tensor<int64_t>(name, ElemType::kInt64, {}, {value});
}

// A branch that gives op(x), with x from outside.
inline std::string branch(const std::string& op) {
  TestModel m;
  m.node({.op = op, .inputs = {"x"}, .outputs = {"inner"}});
  m.output("inner");
  return m.graph_bytes();
}

inline TestModel if_model(bool condition) {
  TestModel m;
  m.input("x", {2}).output("y").weight(bool_tensor("c", condition));
  m.node({.op = "If",
          .inputs = {"c"},
          .outputs = {"y"},
          .attributes = {graph_attr("then_branch", branch("Exp")), graph_attr("else_branch", branch("Tanh"))}});
  return m;
}

// carried = carried + x; scan output carried * 2. `more`: what the body says about going on.
inline std::string loop_body(const std::string& more) {
  TestModel m;
  m.input("i", {}, ElemType::kInt64).input("go", {}, ElemType::kBool).input("carried", {2});
  m.weight(f32_tensor("two", {}, {2}));
  m.node({.op = "Identity", .inputs = {more}, .outputs = {"more"}});
  m.node({.op = "Add", .inputs = {"carried", "x"}, .outputs = {"next"}});
  m.node({.op = "Mul", .inputs = {"next", "two"}, .outputs = {"row"}});
  m.output("more", ElemType::kBool).output("next").output("row");
  return m.graph_bytes();
}

inline TestModel loop_model(int64_t count, const std::string& body) {
  TestModel m;
  m.input("x", {2}).output("last").output("rows");
  m.weight(count_tensor("count", count)).weight(bool_tensor("true", true));
  m.node({.op = "Loop",
          .inputs = {"count", "true", "x"},
          .outputs = {"last", "rows"},
          .attributes = {graph_attr("body", body)},
          .name = "loop"});
  return m;
}

// y = x * factor, by a function with an attribute for the constant.
inline TestModel call_model(std::vector<std::string> attributes, std::vector<std::string> defaults = {}) {
  TestModel m;
  m.input("x", {2}).output("y");
  m.functions.push_back({.name = "Leak",
                         .domain = "own",
                         .inputs = {"a", "unused"},
                         .outputs = {"b"},
                         .nodes = {{.op = "LeakyRelu",
                                    .inputs = {"a"},
                                    .outputs = {"t"},
                                    .attributes = {reference_attr("alpha", AttributeType::kFloat, "slope")}},
                                   {.op = "Neg", .inputs = {"t"}, .outputs = {"b"}}},
                         .defaults = std::move(defaults)});
  m.node({.op = "Leak", .inputs = {"x"}, .outputs = {"y"}, .attributes = std::move(attributes), .name = "call", .domain = "own"});
  return m;
}

}  // namespace lathe::test
