// Elementwise operators, reductions and losses as they are imported: which nodes they become, of which types, what is refused.
// That the nodes compute the right numbers is what the conformance cases show.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

namespace lathe::test {
namespace {

struct ImportCase {
  const char* op;
  int64_t opset;
  std::vector<ElemType> inputs;  // each of dims [2,3]
  std::vector<std::string> attributes;
  ElemType output;
  const char* ops;  // what it becomes
};
constexpr ElemType kF = ElemType::kFloat, kH = ElemType::kFloat16, kI = ElemType::kInt32, kL = ElemType::kInt64;
constexpr ElemType kB = ElemType::kBool;
constexpr ElemType kU8 = ElemType::kUint8, kU64 = ElemType::kUint64, kBf = ElemType::kBfloat16, kI8 = ElemType::kInt8;

const ImportCase kCases[] = {
    {"Greater", 13, {kF, kF}, {}, kB, "Less"},
    {"GreaterOrEqual", 16, {kU64, kU64}, {}, kB, "LessEqual"},
    {"And", 7, {kB, kB}, {}, kB, "BitAnd"},
    {"Not", 1 + 6, {kB}, {}, kB, "BitXor"},
    {"BitwiseNot", 18, {kU8}, {}, kU8, "Sub BitXor"},
    {"BitShift", 11, {kU8, kU8}, {string_attr("direction", "RIGHT")}, kU8, "BitShift"},
    {"IsNaN", 13, {kF}, {}, kB, "Equal BitXor"},
    {"IsInf", 20, {kF}, {}, kB, "Abs Less"},
    {"IsInf", 20, {kF}, {int_attr("detect_negative", 0)}, kB, "Less"},
    {"Where", 16, {kB, kL, kL}, {}, kL, "Where"},
    {"Max", 13, {kI8, kI8, kI8}, {}, kI8, "Max Max"},
    {"Min", 13, {kF}, {}, kF, "Cast"},  // the output's own name
    {"Mean", 13, {kF, kF}, {}, kF, "Add Mul"},
    {"Mod", 13, {kI, kI}, {}, kI, "Mod"},
    {"Abs", 13, {kI}, {}, kI, "Sub Max"},
    {"Sign", 13, {kI}, {}, kI, "Less Cast Less Cast Sub"},
    {"Neg", 13, {kI8}, {}, kI8, "Mul"},
    {"Pow", 15, {kI, kF}, {}, kI, "Cast Pow Cast"},
    {"Pow", 15, {kF, kL}, {}, kF, "Cast Pow"},
    {"Relu", 14, {kI8}, {}, kI8, "Max"},
    {"Clip", 13, {kI8}, {}, kI8, "Cast"},
    {"PRelu", 16, {kF, kF}, {}, kF, "Clamp Clamp Mul Add"},
    {"PRelu", 16, {kI, kI}, {}, kI, "Mul Less Where"},
    {"Elu", 6 + 1, {kF}, {}, kF, "Elu"},
    {"ThresholdedRelu", 10, {kF}, {}, kF, "Less Where"},
    {"Shrink", 9, {kF}, {}, kF, "Less Less Sub Where Add Where"},
    {"Softsign", 7, {kF}, {}, kF, "Abs Add Div"},
    {"Swish", 24, {kF}, {}, kF, "Silu"},
    {"Swish", 24, {kF}, {float_attr("alpha", 0.5f)}, kF, "Mul Sigmoid Mul"},
    {"SwiGLU", 28, {kF, kF}, {}, kF, "Silu Mul"},
    {"ReduceL1", 13, {kI}, {}, kI, "Sub Max ReduceSum"},
    {"ReduceL2", 13, {kI}, {}, kI, "Cast Mul ReduceSum Sqrt Cast"},
    {"ReduceLogSumExp", 13, {kF}, {int_attr("keepdims", 1)}, kF, "ReduceMax Clamp Sub Exp ReduceSum Log Add Cast"},
    {"ReduceMean", 13, {kI}, {}, kI, "ReduceSum Div"},
    {"LogSoftmax", 13, {kF}, {}, kF, "ReduceMax Sub Exp ReduceSum Log Sub Cast"},
    {"Hardmax", 13, {kF}, {}, kF, "ArgMax Equal Cast Cast"},
    {"LpNormalization", 22, {kF}, {}, kF, "Mul ReduceSum Sqrt Equal Where Div Cast"},
    {"LRN", 13, {kF}, {int_attr("size", 3)}, kF, "Mul Reshape AvgPool2d Reshape Mul Add Pow Div"},
    {"CastLike", 15, {kI, kF}, {}, kF, "Cast"},
    {"CastLike", 15, {kF, kH}, {}, kH, "Cast Cast"},
    {"CastLike", 15, {kH, kF}, {}, kF, "Cast"},  // the output's own name
    {"Cast", 13, {kF}, {int_attr("to", 16)}, kBf, "Cast Cast"},
    {"Cast", 13, {kBf}, {int_attr("to", 16)}, kBf, "Cast"},
    {"BitCast", 26, {kF}, {int_attr("to", 6)}, kI, "BitCast"},
    {"Trilu", 14, {kL}, {}, kL, "Trilu"},
    {"ArgMax", 13, {kU8}, {}, kL, "ArgMax"},
};

TestModel model_of(const ImportCase& c) {
  TestModel m{.opset = c.opset};
  std::vector<std::string> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back("x" + std::to_string(i));
    m.input(inputs.back(), {2, 3}, c.inputs[i]);
  }
  m.output("y", c.output).node({.op = c.op, .inputs = inputs, .outputs = {"y"}, .attributes = c.attributes, .name = "n"});
  return m;
}

}  // namespace

TEST_CASE("operators become the nodes that the op table has, in their own type") {
  for (const ImportCase& c : kCases) {
    const Graph g = must(model_of(c).import());
    INFO(c.op);
    CHECK(op_names(g) == c.ops);
    CHECK(g.value(g.outputs()[0]).name == "y");
  }
}

TEST_CASE("operands that must be known are named where they are not") {
  const auto with_input = [](int64_t opset, const char* op, const char* name, const TestDims& dims) {
    TestModel m = one_node(opset, op, {2, 3}, {}, {name});
    m.input(name, dims, ElemType::kInt64);
    return error_of(m.import());
  };
  CHECK(contains(with_input(18, "ReduceSum", "a", {1}), "axes 'a' are not constant; --const can fix them"));
  CHECK(contains(with_input(14, "CumSum", "a", {}), "axis 'a' are not constant"));
  CHECK(contains(with_input(11, "TopK", "k", {1}), "k 'k' are not constant"));
  CHECK(contains(with_input(14, "Trilu", "k", {}), "k 'k' are not constant"));
  CHECK(contains(error_of(one_node(13, "Hardmax", {2, "N"}).import()), "the size of the axis is not known; --shape can fix it"));
  TestModel dropout = one_node(13, "Dropout", {2}, {}, {"", "t"});
  dropout.input("t", {}, ElemType::kBool);
  CHECK(contains(error_of(dropout.import()), "training_mode 't' is not constant"));
}

TEST_CASE("operands that are computed from constants are known") {
  TestModel m = one_node(13, "Clip", {2, 3}, {}, {"", "hi"});
  m.weight(f32_tensor("a", {}, {1.5f})).weight(f32_tensor("b", {}, {-4}));
  m.nodes.insert(m.nodes.begin(), {.op = "Mul", .inputs = {"a", "b"}, .outputs = {"c"}});
  m.nodes.insert(m.nodes.begin() + 1, {.op = "Abs", .inputs = {"c"}, .outputs = {"hi"}});
  CHECK(attrs_of<ClampAttrs>(must(m.import()), Op::kClamp).hi == 6.0f);
  // Rows of x, halved as a float: the target of a reshape.
  TestModel halved = one_node(13, "Reshape", {6, 4}, {}, {"t"});
  halved.weight(i64_tensor("first", {0})).weight(f32_tensor("half", {}, {0.5f})).weight(i64_tensor("rest", {-1}));
  const std::vector<TestNode> before = {
      {.op = "Shape", .inputs = {"x"}, .outputs = {"s"}},
      {.op = "Gather", .inputs = {"s", "first"}, .outputs = {"rows"}},
      {.op = "Cast", .inputs = {"rows"}, .outputs = {"f"}, .attributes = {int_attr("to", number(kF))}},
      {.op = "Mul", .inputs = {"f", "half"}, .outputs = {"h"}},
      {.op = "Cast", .inputs = {"h"}, .outputs = {"i"}, .attributes = {int_attr("to", number(kL))}},
      {.op = "Concat", .inputs = {"i", "rest"}, .outputs = {"t"}, .attributes = {int_attr("axis", 0)}}};
  halved.nodes.insert(halved.nodes.begin(), before.begin(), before.end());
  CHECK(output_dims(must(halved.import())) == "[3,8]");
  halved.inputs = {value_info("x", kF, TestDims{"N", 4})};
  CHECK(output_dims(must(halved.import())) != "[3,8]");
}

TEST_CASE("values that an attribute cannot have are refused") {
  const auto error = [](int64_t opset, const char* op, std::string attribute) {
    return error_of(one_node(opset, op, {2, 3}, {std::move(attribute)}, {"x"}).import());
  };
  CHECK(contains(error(11, "BitShift", string_attr("direction", "UP")), "must be LEFT or RIGHT"));
  CHECK(contains(error(13, "NegativeLogLikelihoodLoss", string_attr("reduction", "max")), "must be none, sum or mean"));
  CHECK(contains(error_of(one_node(22, "LpNormalization", {2}, {int_attr("p", 3)}).import()), "must be 1 or 2"));
  CHECK(contains(error_of(one_node(12, "Celu", {2}, {float_attr("alpha", -1)}).import()), "only positive ones are supported"));
  CHECK(contains(error_of(one_node(13, "LRN", {2, 3}, {int_attr("size", 0)}).import()), "must be 1 to 1024"));
  CHECK(contains(error_of(one_node(26, "BitCast", {2}, {int_attr("to", 7)}).import()), "floats are computed as float32"));
  TestModel halves = model_of({"BitCast", 26, {kH}, {int_attr("to", 5)}, ElemType::kInt16, ""});
  CHECK(contains(error_of(halves.import()), "the bits of float16 as int16 are not supported"));
}

TEST_CASE("top-k has two results, dropout a mask that keeps everything, a loss its log probabilities") {
  TestModel top = one_node(11, "TopK", {2, 5}, {int_attr("largest", 0)}, {"k"});
  top.weight(i64_tensor("k", {3})).output("i", ElemType::kInt64);
  top.nodes[0].outputs = {"y", "i"};
  const Graph g = must(top.import());
  CHECK(op_names(g) == "TopK");
  CHECK(attrs_of<TopKAttrs>(g, Op::kTopK) == TopKAttrs{1, 3, 0});
  CHECK(output_dims(g, 1) == "[2,3]");
  TestModel dropout = one_node(13, "Dropout", {"N", 5});
  dropout.output("mask", ElemType::kBool);
  dropout.nodes[0].outputs = {"y", "mask"};
  CHECK(op_names(must(dropout.import())) == "Equal BitOr Cast");
  TestModel loss = one_node(13, "SoftmaxCrossEntropyLoss", {2, 5, 4}, {string_attr("reduction", "none")}, {"t"});
  loss.input("t", {2, 4}, ElemType::kInt64).output("p");
  loss.nodes[0].outputs = {"y", "p"};
  const Graph l = must(loss.import());
  CHECK(output_dims(l) == "[2,4]");
  CHECK(output_dims(l, 1) == "[2,5,4]");
}

TEST_CASE("tensors of 32- and 64-bit unsigned integers are read from raw bytes and from lists") {
  TestModel m{.opset = 13};
  m.weight(raw_tensor("a", ElemType::kUint32, {1}, std::vector<uint32_t>{0xfffffffeu}));
  std::string list;
  pbf_writer w(list);
  const std::vector<int64_t> dims = {1};
  w.add_packed_int64(field::tensor::kDims, dims.begin(), dims.end());
  w.add_int32(field::tensor::kDataType, number(ElemType::kUint32));
  w.add_string(field::tensor::kName, "b");
  const std::vector<uint64_t> values = {0xfffffffdu};
  w.add_packed_uint64(field::tensor::kUint64Data, values.begin(), values.end());
  m.weight(list).output("y", ElemType::kUint32);
  m.node({.op = "Add", .inputs = {"a", "b"}, .outputs = {"y"}});
  const Graph g = must(m.import());
  const Node add = find_node(g, Op::kAdd);
  CHECK(g.value(add.inputs[0]).constant.as<uint32_t>()[0] == 0xfffffffeu);
  CHECK(g.value(add.inputs[1]).constant.as<uint32_t>()[0] == 0xfffffffdu);
  CHECK(g.value(add.outputs[0]).type.dtype == DType::kU32);
}

}  // namespace lathe::test
