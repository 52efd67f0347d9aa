// Elementwise operators, matrix products, reductions and operators on shapes and data, in every opset form.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("operators with one input and no attributes are read as they are") {
  const std::pair<const char*, const char*> ops[] = {
      {"Relu", "Clamp"}, {"Sigmoid", "Sigmoid"}, {"Tanh", "Tanh"}, {"Exp", "Exp"}, {"Sqrt", "Sqrt"}};
  for (const auto& [onnx_name, name] : ops)
    for (int64_t opset : {7, 13, 28}) CHECK(op_names(must(one_node(opset, onnx_name, {"N", 4}).import())) == name);
  CHECK(op_names(must(one_node(9, "Erf", {"N", 4}).import())) == "Erf");
  const auto gelu = [](const char* form) { return one_node(20, "Gelu", {"N", 4}, {string_attr("approximate", form)}); };
  CHECK(attrs_of<GeluAttrs>(must(one_node(20, "Gelu", {"N", 4}).import()), Op::kGelu).approximate == 0);
  CHECK(attrs_of<GeluAttrs>(must(gelu("none").import()), Op::kGelu).approximate == 0);
  CHECK(attrs_of<GeluAttrs>(must(gelu("tanh").import()), Op::kGelu).approximate == 1);
  CHECK(contains(error_of(gelu("sigmoid").import()), "'approximate' is 'sigmoid'"));
  CHECK(op_names(must(one_node(14, "HardSwish", {"N", 4}).import())) == "HardSwish");
  CHECK(contains(error_of(one_node(13, "HardSwish", {"N", 4}).import()), "the form before opset 14 is not supported"));
  const auto relu = attrs_of<ClampAttrs>(must(one_node(13, "Relu", {4}).import()), Op::kClamp);
  CHECK(relu.lo == 0.0f);
  CHECK(relu.hi == kInfinity);
}

TEST_CASE("operators without a kernel of their own are written with others") {
  CHECK(op_names(must(one_node(13, "Neg", {4}).import())) == "Mul");
  CHECK(op_names(must(one_node(13, "Reciprocal", {4}).import())) == "Div");
  const Graph g = must(one_node(13, "HardSigmoid", {4}, {float_attr("alpha", 0.25f)}).import());
  const auto hard = attrs_of<HardSigmoidAttrs>(g, Op::kHardSigmoid);
  CHECK(hard.alpha == 0.25f);
  CHECK(hard.beta == 0.5f);
  TestModel sum = one_node(13, "Sum", {2, 3}, {}, {"b", "c"});
  sum.input("b", {3}).input("c", {2, 1});
  const Graph s = must(sum.import());
  CHECK(op_names(s) == "Add Add");
  CHECK(output_dims(s) == "[2,3]");
  CHECK(output_dims(must(one_node(13, "Sum", {2, 3}).import())) == "[2,3]");
}

TEST_CASE("powers are products and roots where the exponent allows it") {
  const auto power = [](float exponent) {
    TestModel m = one_node(13, "Pow", {"N", 4}, {}, {"e"});
    m.weight(f32_tensor("e", {}, {exponent}));
    return m;
  };
  CHECK(op_names(must(power(2).import())) == "Mul");
  CHECK(op_names(must(power(0.5f).import())) == "Sqrt");
  CHECK(op_names(must(power(3).import())) == "Mul Mul");
  CHECK(op_names(must(power(-1).import())) == "Pow");
  TestModel computed = one_node(13, "Pow", {"N", 4}, {}, {"e"});
  computed.input("e", {4});
  CHECK(op_names(must(computed.import())) == "Pow");
}

TEST_CASE("clip has its bounds as attributes before opset 11 and as inputs from then on") {
  const auto old =
      attrs_of<ClampAttrs>(must(one_node(10, "Clip", {4}, {float_attr("min", 0), float_attr("max", 6)}).import()), Op::kClamp);
  CHECK(old.lo == 0.0f);
  CHECK(old.hi == 6.0f);
  CHECK(attrs_of<ClampAttrs>(must(one_node(10, "Clip", {4}, {float_attr("max", 6)}).import()), Op::kClamp).lo == -kInfinity);
  TestModel m = one_node(11, "Clip", {4}, {}, {"", "hi"});
  m.weight(f32_tensor("hi", {}, {6}));
  CHECK(attrs_of<ClampAttrs>(must(m.import()), Op::kClamp).hi == 6.0f);
  CHECK(attrs_of<ClampAttrs>(must(m.import()), Op::kClamp).lo == -kInfinity);
  CHECK(contains(error_of(one_node(11, "Clip", {4}, {float_attr("max", 6)}).import()), "attribute 'max' is not supported"));
  TestModel computed = one_node(11, "Clip", {4}, {}, {"lo"});
  computed.input("lo", {});
  CHECK(op_names(must(computed.import())) == "Max");
  const auto crossed =
      attrs_of<ClampAttrs>(must(one_node(10, "Clip", {4}, {float_attr("min", 7), float_attr("max", 6)}).import()), Op::kClamp);
  CHECK(crossed.lo == 6.0f);
  CHECK(crossed.hi == 6.0f);
}

TEST_CASE("elementwise operators of two inputs broadcast, before opset 7 from an axis on") {
  const std::pair<const char*, Op> ops[] = {{"Add", Op::kAdd}, {"Sub", Op::kSub}, {"Mul", Op::kMul}, {"Div", Op::kDiv}};
  for (const auto& [name, op] : ops) {
    TestModel m = one_node(13, name, {"N", 3, 4}, {}, {"b"});
    m.weight(ramp_tensor("b", {3, 1}));
    const Graph g = must(m.import());
    CHECK(find_node(g, op).inputs.size() == 2);
    CHECK(output_dims(g) == "[N,3,4]");
    TestModel old = one_node(6, name, {"N", 3, 4}, {int_attr("broadcast", 1), int_attr("axis", 1)}, {"b"});
    old.weight(ramp_tensor("b", {3}));
    const Graph aligned = must(old.import());
    CHECK(dims_of(aligned, find_node(aligned, op).inputs[1]) == "[3,1]");
    TestModel computed = one_node(6, name, {"N", 3, 4}, {int_attr("broadcast", 1), int_attr("axis", -2)}, {"b"});
    computed.input("b", {3});
    CHECK(op_names(must(computed.import())) == "Reshape " + std::string(name));
    TestModel last = one_node(6, name, {"N", 3, 4}, {int_attr("broadcast", 1)}, {"b"});
    last.weight(ramp_tensor("b", {4}));
    CHECK(op_names(must(last.import())) == name);
    old.nodes[0].attributes[1] = int_attr("axis", 3);
    CHECK(contains(error_of(old.import()), "attribute 'axis' is 3 for operands of rank 3 and 1"));
  }
}

TEST_CASE("opset 6 says whether it is training, which is left out") {
  TestModel norm = one_node(6, "BatchNormalization", {1, 3, 4, 4}, {int_attr("is_test", 1)}, {"s", "b", "m", "v"});
  for (const char* name : {"s", "b", "m", "v"}) norm.weight(ramp_tensor(name, {3}));
  CHECK(op_names(must(norm.import())) == "BatchNorm");
  CHECK(must(one_node(6, "Dropout", {4}, {int_attr("is_test", 1), float_attr("ratio", 0.5f)}).import()).outputs().size() == 1);
}

TEST_CASE("gemm becomes a fully connected layer whatever its transposes, alpha, beta and C") {
  const auto model = [](std::vector<std::string> attributes, std::vector<int64_t> b, std::vector<int64_t> c,
                        TestDims x = {"N", 3}) {
    TestModel m = one_node(13, "Gemm", x, std::move(attributes), {"b", "c"});
    m.weight(ramp_tensor("b", b)).weight(ramp_tensor("c", c));
    return m;
  };
  const Graph plain = must(model({}, {3, 2}, {2}).import());
  CHECK(op_names(plain) == "FullyConnected");
  // [k, n] values 0.1 .. 0.6 become [n, k].
  CHECK(floats_of(plain, find_node(plain, Op::kFullyConnected).inputs[1]) ==
        std::vector<float>{0.1f * 1, 0.1f * 3, 0.1f * 5, 0.1f * 2, 0.1f * 4, 0.1f * 6});
  const Graph trans =
      must(model({int_attr("transB", 1), float_attr("alpha", 2), float_attr("beta", 10)}, {2, 3}, {1, 2}).import());
  CHECK(floats_of(trans, find_node(trans, Op::kFullyConnected).inputs[1])[5] == 0.1f * 6 * 2);
  CHECK(floats_of(trans, find_node(trans, Op::kFullyConnected).inputs[2])[1] == 0.1f * 2 * 10);
  CHECK(op_names(must(model({int_attr("transA", 1)}, {3, 2}, {2}, {3, "N"}).import())) == "Transpose FullyConnected");
  // C that is not one vector per row is added afterwards.
  for (const std::vector<int64_t>& c : {std::vector<int64_t>{}, {1}, {5, 1}, {5, 2}}) {
    const Graph g = must(model({float_attr("beta", 0.5f)}, {3, 2}, c, {5, 3}).import());
    CHECK(op_names(g) == "FullyConnected Mul Add");
    CHECK(output_dims(g) == "[5,2]");
  }
  CHECK(must(model({float_attr("beta", 0)}, {3, 2}, {2}).import()).node(0).inputs.size() == 2);
  TestModel without_c = one_node(11, "Gemm", {"N", 3}, {}, {"b"});
  without_c.weight(ramp_tensor("b", {3, 2}));
  CHECK(op_names(must(without_c.import())) == "FullyConnected");
  CHECK(contains(error_of(model({}, {4, 2}, {2}).import()), "4"));
}

TEST_CASE("a product with a constant matrix becomes a fully connected layer, any other a product of activations") {
  TestModel m = one_node(13, "MatMul", {"N", 7, 3}, {}, {"b"});
  m.weight(ramp_tensor("b", {3, 2}));
  CHECK(op_names(must(m.import())) == "FullyConnected");
  CHECK(output_dims(must(m.import())) == "[N,7,2]");
  TestModel computed = one_node(13, "MatMul", {"N", 7, 3}, {}, {"b"});
  computed.input("b", {"N", 3, 2});
  CHECK(op_names(must(computed.import())) == "MatMul");
  CHECK(output_dims(must(computed.import())) == "[N,7,2]");
  TestModel batch = one_node(13, "MatMul", {"N", 1, 5, 3}, {}, {"b"});
  batch.weight(ramp_tensor("b", {4, 3, 2}));
  CHECK(op_names(must(batch.import())) == "MatMul");
  CHECK(output_dims(must(batch.import())) == "[N,4,5,2]");
}

TEST_CASE("vectors in products are rows and columns that go again") {
  const auto dims = [](const TestDims& a, const TestDims& b) {
    TestModel m = one_node(13, "MatMul", a, {}, {"b"});
    m.input("b", b);
    return output_dims(must(m.import()));
  };
  CHECK(dims({3}, {"N", 3, 2}) == "[N,2]");
  CHECK(dims({"N", 5, 3}, {3}) == "[N,5]");
  CHECK(dims({3}, {3}) == "[]");
}

TEST_CASE("a Gemm of two activations is a product with permutations and a scale") {
  TestModel m =
      one_node(13, "Gemm", {3, "N"},
               {int_attr("transA", 1), int_attr("transB", 1), float_attr("alpha", 0.5f), float_attr("beta", 2)}, {"b", "c"});
  m.input("b", {2, 3}).weight(ramp_tensor("c", {2}));
  const Graph g = must(m.import());
  CHECK(op_names(g) == "Transpose MatMul Mul Add");
  CHECK(output_dims(g) == "[N,2]");
  const auto attrs = attrs_of<MatMulAttrs>(g, Op::kMatMul);
  CHECK(attrs.scale == 0.5f);
  CHECK(attrs.b_perm == Ints{2, {1, 0}});
  TestModel negative = one_node(13, "Gemm", {3, 4}, {float_attr("alpha", -0.5f)}, {"b"});
  negative.input("b", {4, 3});
  CHECK(contains(error_of(negative.import()), "scale is -0.5"));
}

TEST_CASE("a weight that is reshaped or transposed in the file is folded on the way") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 6}).output("y").weight(ramp_tensor("w", {5, 2, 3})).weight(i64_tensor("shape", {0, -1}));
  m.node({.op = "Reshape", .inputs = {"w", "shape"}, .outputs = {"w2"}});
  m.node({.op = "Transpose", .inputs = {"w2"}, .outputs = {"w3"}});
  m.node({.op = "MatMul", .inputs = {"x", "w3"}, .outputs = {"y"}});
  const Graph g = must(m.import());
  CHECK(op_names(g) == "FullyConnected");
  CHECK(dims_of(g, g.node(0).inputs[1]) == "[5,6]");
  CHECK(floats_of(g, g.node(0).inputs[1])[7] == 0.1f * 8);
}

TEST_CASE("reduce_mean has its axes as an attribute before opset 18 and as an input from then on") {
  const auto axes = [](const Graph& g) { return list_of(attrs_of<ReduceAttrs>(g, Op::kMean).axes); };
  const Graph old = must(one_node(13, "ReduceMean", {2, 3, 4}, {ints_attr("axes", {-1, 1}), int_attr("keepdims", 0)}).import());
  CHECK(axes(old) == std::vector<int32_t>{1, 2});
  CHECK(output_dims(old) == "[2]");
  CHECK(output_dims(must(one_node(13, "ReduceMean", {2, 3, 4}).import())) == "[1,1,1]");
  TestModel m = one_node(18, "ReduceMean", {2, 3, 4}, {}, {"a"});
  m.weight(i64_tensor("a", {1}));
  CHECK(output_dims(must(m.import())) == "[2,1,4]");
  CHECK(output_dims(must(one_node(18, "ReduceMean", {2, 3, 4}).import())) == "[1,1,1]");
  CHECK(output_dims(must(one_node(18, "ReduceMean", {2, 3, 4}, {int_attr("noop_with_empty_axes", 1)}).import())) == "[2,3,4]");
  CHECK(contains(error_of(one_node(18, "ReduceMean", {2, 3, 4}, {ints_attr("axes", {1})}).import()),
                 "'axes' is an input from opset 18 on"));
  CHECK(contains(error_of(one_node(13, "ReduceMean", {2, 3}, {ints_attr("axes", {2})}).import()),
                 "axis 2 is outside a tensor of rank 2"));
  CHECK(contains(error_of(one_node(13, "ReduceMean", {2, 3}, {ints_attr("axes", {1, -1})}).import()), "axis -1 is given twice"));
}

TEST_CASE("softmax below opset 13 flattens the axes it covers") {
  CHECK(op_names(must(one_node(13, "Softmax", {"N", 3, 4}).import())) == "Softmax");
  CHECK(attrs_of<AxisAttrs>(must(one_node(13, "Softmax", {"N", 3, 4}).import()), Op::kSoftmax).axis == 2);
  CHECK(attrs_of<AxisAttrs>(must(one_node(13, "Softmax", {"N", 3, 4}, {int_attr("axis", 1)}).import()), Op::kSoftmax).axis == 1);
  CHECK(op_names(must(one_node(11, "Softmax", {"N", 3}).import())) == "Softmax");
  CHECK(op_names(must(one_node(11, "Softmax", {"N", 3, 1, 1}).import())) == "Softmax");
  const Graph g = must(one_node(11, "Softmax", {"N", 3, 4}).import());
  CHECK(op_names(g) == "Reshape Softmax Reshape");
  CHECK(dims_of(g, g.node(0).outputs[0]) == "[N,12]");
  CHECK(output_dims(g) == "[N,3,4]");
  CHECK(contains(error_of(one_node(11, "Softmax", {"N", 3, "W"}).import()), "needs their sizes"));
}

TEST_CASE("reshape reads 0 and -1, constant and computed targets") {
  const auto model = [](int64_t opset, TestDims x, std::vector<int64_t> target, std::vector<std::string> attributes = {}) {
    TestModel m = one_node(opset, "Reshape", x, std::move(attributes), {"t"});
    m.weight(i64_tensor("t", target));
    return m;
  };
  CHECK(output_dims(must(model(13, {"N", 3, 4}, {0, -1}).import())) == "[N,12]");
  CHECK(output_dims(must(model(13, {"N", 3, 4}, {-1, 6, 2}).import())) == "[N,6,2]");
  CHECK(output_dims(must(model(13, {"N", "H", 4}, {0, 0, 2, 2}).import())) == "[N,H,2,2]");
  CHECK(output_dims(must(model(14, {"N", 4}, {-1, 2, 2}, {int_attr("allowzero", 1)}).import())) == "[N,2,2]");
  CHECK(output_dims(must(model(14, {0, 4}, {2, 0, 2}, {int_attr("allowzero", 1)}).import())) == "[2,0,2]");
  CHECK(contains(error_of(model(14, {"N", 4}, {0, 2, 2}, {int_attr("allowzero", 1)}).import()), "target has 0 elements"));
  CHECK(contains(error_of(model(13, {"N", 4}, {0, 2, 0}).import()), "target dim 2 is 0, the input has rank 2"));
  CHECK(contains(error_of(model(13, {2, 4}, {3, 3}).import()), "9"));
  CHECK(contains(error_of(model(13, {2, 4}, {-1, -1}).import()), "more than one -1"));
  TestModel computed = one_node(13, "Reshape", {2, 4}, {}, {"t"});
  computed.input("t", {2}, ElemType::kInt64);
  CHECK(contains(error_of(computed.import()), "the target dims 't' are not constant; --const can fix them"));
  CHECK(output_dims(must(computed.import({.constants = {{"t", {4, 2}}}}))) == "[4,2]");
}

TEST_CASE("a shape subgraph under a symbolic batch folds to a constant target") {
  TestModel m{.opset = 11};
  m.input("x", {"N", 3, 4, 5})
      .output("y")
      .weight(raw_tensor("zero", ElemType::kInt64, {}, std::vector<int64_t>{0}))
      .weight(i64_tensor("rest", {-1}));
  m.node({.op = "Shape", .inputs = {"x"}, .outputs = {"s"}});
  m.node({.op = "Gather", .inputs = {"s", "zero"}, .outputs = {"n"}});
  m.node({.op = "Unsqueeze", .inputs = {"n"}, .outputs = {"n1"}, .attributes = {ints_attr("axes", {0})}});
  m.node({.op = "Concat", .inputs = {"n1", "rest"}, .outputs = {"t"}, .attributes = {int_attr("axis", 0)}});
  m.node({.op = "Reshape", .inputs = {"x", "t"}, .outputs = {"y"}});
  const Graph g = must(m.import({}, nullptr, true));
  CHECK(op_names(g) == "Reshape");
  CHECK(output_dims(g) == "[N,60]");
}

TEST_CASE("flatten, squeeze and unsqueeze become reshapes") {
  const auto flatten = [](int64_t axis) {
    return output_dims(must(one_node(13, "Flatten", {"N", 3, 4, 5}, {int_attr("axis", axis)}).import()));
  };
  CHECK(flatten(1) == "[N,60]");
  CHECK(flatten(2) == "[N*3,20]");
  CHECK(flatten(-1) == "[N*12,5]");
  CHECK(flatten(0) == "[1,N*60]");
  CHECK(flatten(4) == "[N*60,1]");
  CHECK(contains(error_of(one_node(13, "Flatten", {"N", 3}, {int_attr("axis", 3)}).import()), "axis 3 is outside"));

  CHECK(output_dims(must(one_node(11, "Squeeze", {"N", 3, 1, 1}, {ints_attr("axes", {2, -1})}).import())) == "[N,3]");
  CHECK(output_dims(must(one_node(11, "Squeeze", {2, 3, 1, 1}).import())) == "[2,3]");
  CHECK(contains(error_of(one_node(11, "Squeeze", {"N", 3, 1}).import()), "squeeze without axes needs all dims"));
  CHECK(contains(error_of(one_node(11, "Squeeze", {"N", 3, 1}, {ints_attr("axes", {1})}).import()),
                 "axis 1 has 3 elements, not 1"));
  CHECK(contains(error_of(one_node(13, "Squeeze", {"N", 3, 1}, {ints_attr("axes", {2})}).import()),
                 "'axes' is an input from opset 13 on"));
  CHECK(contains(error_of(one_node(11, "Squeeze", {"N", 3, 1}, {}, {"x"}).import()), "'axes' is an attribute before opset 13"));
  TestModel squeeze = one_node(13, "Squeeze", {"N", 3, 1, "W"}, {}, {"a"});
  squeeze.weight(i64_tensor("a", {2}));
  CHECK(output_dims(must(squeeze.import())) == "[N,3,W]");

  CHECK(output_dims(must(one_node(11, "Unsqueeze", {"N", 3}, {ints_attr("axes", {0, 3})}).import())) == "[1,N,3,1]");
  TestModel unsqueeze = one_node(13, "Unsqueeze", {"N", "W"}, {}, {"a"});
  unsqueeze.weight(i64_tensor("a", {-1}));
  CHECK(output_dims(must(unsqueeze.import())) == "[N,W,1]");
}

TEST_CASE("shape takes start and end from opset 15 on") {
  const auto model = [](int64_t opset, TestDims x, std::vector<std::string> attributes) {
    TestModel m{.opset = opset};
    m.input("x", x)
        .output("y", ElemType::kInt64)
        .node({.op = "Shape", .inputs = {"x"}, .outputs = {"y"}, .attributes = std::move(attributes)});
    return m;
  };
  const auto contents = [](const Graph& g) {
    std::string s;
    for (Dim d : *g.value(g.outputs()[0]).contents) s += g.dims().text(d) + " ";
    return s;
  };
  CHECK(contents(must(model(13, {"N", 3, 4}, {}).import())) == "N 3 4 ");
  CHECK(contents(must(model(15, {"N", 3, 4}, {int_attr("start", 1)}).import())) == "3 4 ");
  CHECK(contents(must(model(15, {"N", 3, "W"}, {int_attr("start", -3), int_attr("end", -1)}).import())) == "N 3 ");
  CHECK(contains(error_of(model(13, {"N", 3}, {int_attr("start", 1)}).import()), "attribute 'start' is not supported"));
}

TEST_CASE("transpose reverses without a perm and checks the one it has") {
  CHECK(output_dims(must(one_node(13, "Transpose", {"N", 3, 4}).import())) == "[4,3,N]");
  CHECK(output_dims(must(one_node(13, "Transpose", {"N", 3, 4}, {ints_attr("perm", {0, 2, 1})}).import())) == "[N,4,3]");
  CHECK(contains(error_of(one_node(13, "Transpose", {"N", 3}, {ints_attr("perm", {0, 0})}).import()), "axis 0 is given twice"));
  CHECK(contains(error_of(one_node(13, "Transpose", {"N", 3}, {ints_attr("perm", {0})}).import()), "perm has 1 entries, not 2"));
}

TEST_CASE("concat takes any number of inputs and a negative axis") {
  TestModel m = one_node(13, "Concat", {"N", 3}, {int_attr("axis", -1)}, {"b", "x"});
  m.input("b", {"N", 4});
  CHECK(output_dims(must(m.import())) == "[N,10]");
  CHECK(output_dims(must(one_node(13, "Concat", {"N", 3}, {int_attr("axis", 1)}).import())) == "[N,3]");
  CHECK(contains(error_of(one_node(13, "Concat", {"N", 3}).import()), "attribute 'axis' is missing"));
}

TEST_CASE("slice has attributes before opset 10 and inputs from then on") {
  CHECK(output_dims(must(one_node(9, "Slice", {"N", 8, 9},
                                  {ints_attr("starts", {1, -3}), ints_attr("ends", {INT64_MAX, -1}), ints_attr("axes", {1, 2})})
                             .import())) == "[N,7,2]");
  CHECK(output_dims(must(one_node(9, "Slice", {6, 8}, {ints_attr("starts", {1, 2}), ints_attr("ends", {3, 4})}).import())) ==
        "[2,2]");
  TestModel m = one_node(13, "Slice", {"N", 8}, {}, {"s", "e", "a", "t"});
  m.weight(i64_tensor("s", {INT64_MAX}))
      .weight(i64_tensor("e", {INT64_MIN}))
      .weight(i64_tensor("a", {-1}))
      .weight(i64_tensor("t", {-2}));
  CHECK(output_dims(must(m.import())) == "[N,4]");
  CHECK(contains(error_of(one_node(9, "Slice", {8}, {ints_attr("starts", {1})}).import()), "starts or ends are missing"));
  CHECK(contains(error_of(one_node(9, "Slice", {8}, {ints_attr("starts", {1}), ints_attr("ends", {3, 4})}).import()),
                 "ends has 2 entries, not 1"));
}

TEST_CASE("split makes one slice per result in all its forms") {
  const auto model = [](int64_t opset, int64_t axis_size, size_t results, std::vector<std::string> attributes,
                        std::vector<int64_t> sizes = {}) {
    TestModel m = one_node(opset, "Split", {"N", axis_size}, std::move(attributes));
    m.nodes[0].attributes.push_back(int_attr("axis", -1));
    m.nodes[0].outputs.clear();
    m.outputs.clear();
    for (size_t i = 0; i < results; ++i) {
      m.nodes[0].outputs.push_back("y" + std::to_string(i));
      m.output("y" + std::to_string(i));
    }
    if (!sizes.empty()) {
      m.nodes[0].inputs.push_back("sizes");
      m.weight(i64_tensor("sizes", sizes));
    }
    return m;
  };
  const Graph old = must(model(11, 6, 2, {ints_attr("split", {2, 4})}).import());
  CHECK(op_names(old) == "Slice Slice");
  CHECK(output_dims(old, 1) == "[N,4]");
  CHECK(list_of(attrs_of<SliceAttrs>(old, Op::kSlice).ends) == std::vector<int32_t>{2});
  CHECK(output_dims(must(model(11, 6, 3, {}).import()), 2) == "[N,2]");
  CHECK(output_dims(must(model(13, 6, 2, {}, {1, 5}).import()), 1) == "[N,5]");
  CHECK(output_dims(must(model(18, 7, 3, {int_attr("num_outputs", 3)}).import()), 2) == "[N,1]");
  CHECK(contains(error_of(model(13, 7, 3, {}).import()), "7 elements cannot be split into 3 parts"));
  CHECK(contains(error_of(model(13, 7, 2, {}, {1, 5}).import()), "the sizes add up to 6, the axis has 7"));
  TestModel unused = model(13, 6, 2, {});
  unused.nodes[0].outputs[0] = "";
  unused.outputs.erase(unused.outputs.begin());
  CHECK(op_names(must(unused.import())) == "Slice");
}

TEST_CASE("pad has attributes before opset 11, inputs from then on and axes from 18 on") {
  const auto after = [](const Graph& g) { return list_of(attrs_of<PadAttrs>(g, Op::kPad).after); };
  const Graph old =
      must(one_node(10, "Pad", {"N", 3, 4}, {ints_attr("pads", {0, 0, 1, 0, 0, -2}), float_attr("value", 2)}).import());
  CHECK(after(old) == std::vector<int32_t>{0, 0, -2});
  CHECK(attrs_of<PadAttrs>(old, Op::kPad).value == 2.0f);
  CHECK(output_dims(old) == "[N,3,3]");
  TestModel m = one_node(13, "Pad", {"N", 3}, {string_attr("mode", "constant")}, {"p", "v"});
  m.weight(i64_tensor("p", {0, 1, 0, 2})).weight(f32_tensor("v", {}, {-1}));
  CHECK(attrs_of<PadAttrs>(must(m.import()), Op::kPad).value == -1.0f);
  CHECK(output_dims(must(m.import())) == "[N,6]");
  TestModel axes = one_node(18, "Pad", {"N", 3}, {}, {"p", "", "a"});
  axes.weight(i64_tensor("p", {1, 2})).weight(i64_tensor("a", {-1}));
  CHECK(output_dims(must(axes.import())) == "[N,6]");
  const auto other = [](const char* mode, std::vector<int64_t> pads) {
    return one_node(10, "Pad", {"N", 3}, {string_attr("mode", mode), ints_attr("pads", pads)}).import();
  };
  CHECK(attrs_of<BorderAttrs>(must(other("reflect", {0, 1, 0, 1})), Op::kBorder).mode == 0);
  CHECK(attrs_of<BorderAttrs>(must(other("edge", {0, 1, 0, 1})), Op::kBorder).mode == 1);
  const Graph cut = must(other("edge", {0, -1, 0, 2}));
  CHECK(op_names(cut) == "Pad Border");
  CHECK(output_dims(cut) == "[N,4]");
  CHECK(contains(error_of(other("wrap", {0, 1, 0, 1})), "attribute 'mode' is 'wrap'"));
}

TEST_CASE("gather, cast, identity and dropout") {
  TestModel gather{.opset = 13};
  gather.input("x", {"N", 2}, ElemType::kInt64).output("y").weight(ramp_tensor("table", {10, 4}));
  gather.node({.op = "Gather", .inputs = {"table", "x"}, .outputs = {"y"}, .attributes = {int_attr("axis", -2)}});
  CHECK(output_dims(must(gather.import())) == "[N,2,4]");
  TestModel cast{.opset = 13};
  cast.input("x", {"N", 2}).output("y", ElemType::kInt64);
  cast.node({.op = "Cast", .inputs = {"x"}, .outputs = {"y"}, .attributes = {int_attr("to", number(ElemType::kInt64))}});
  CHECK(attrs_of<CastAttrs>(must(cast.import()), Op::kCast).to == static_cast<int32_t>(DType::kS64));
  CHECK(contains(error_of(one_node(13, "Cast", {2}, {int_attr("to", 8)}).import()), "element type string is not supported"));
  // A graph output that is a graph input keeps its name by a cast to its own type.
  for (const char* op : {"Identity", "Dropout"}) {
    const Graph g = must(one_node(13, op, {"N", 2}).import());
    CHECK(op_names(g) == "Cast");
    CHECK(g.value(g.outputs()[0]).name == "y");
  }
  CHECK(op_names(must(one_node(10, "Dropout", {2}, {float_attr("ratio", 0.3f)}).import())) == "Cast");
  TestModel training = one_node(13, "Dropout", {2}, {}, {"", "t"});
  training.weight(raw_tensor("t", ElemType::kBool, {}, std::vector<uint8_t>{1}));
  CHECK(contains(error_of(training.import()), "training_mode true is not supported"));
}

TEST_CASE("constants come in every form that the opsets allow") {
  const auto model = [](std::vector<std::string> attributes, ElemType type = ElemType::kFloat) {
    TestModel m{.opset = 13};
    m.output("y", type).node({.op = "Constant", .inputs = {}, .outputs = {"y"}, .attributes = std::move(attributes)});
    return m;
  };
  const Graph g = must(model({tensor_attr("value", ramp_tensor("", {2, 3}))}).import());
  CHECK(output_dims(g) == "[2,3]");
  CHECK(g.value(g.outputs()[0]).name == "y");
  CHECK(output_dims(must(model({float_attr("value_float", 1)}).import())) == "[]");
  CHECK(output_dims(must(model({floats_attr("value_floats", {1, 2, 3})}).import())) == "[3]");
  CHECK(output_dims(must(model({int_attr("value_int", 1)}, ElemType::kInt64).import())) == "[]");
  CHECK(output_dims(must(model({ints_attr("value_ints", {1, 2})}, ElemType::kInt64).import())) == "[2]");
  CHECK(contains(error_of(model({string_attr("value_string", "a")}).import()), "attribute 'value_string' is not supported"));
  CHECK(contains(error_of(model({}).import()), "the value is missing"));
}

TEST_CASE("constants that are made from dims are made, up to a limit") {
  const auto model = [](std::vector<int64_t> dims) {
    TestModel m = one_node(13, "Add", {2, 3}, {}, {"c"});
    m.weight(i64_tensor("dims", dims));
    m.nodes.insert(m.nodes.begin(), {.op = "ConstantOfShape",
                                     .inputs = {"dims"},
                                     .outputs = {"c"},
                                     .attributes = {tensor_attr("value", f32_tensor("", {1}, {1.5f}))}});
    return m;
  };
  const Graph g = must(model({2, 3}).import());
  CHECK(floats_of(g, g.node(0).inputs[1]) == std::vector<float>(6, 1.5f));
  CHECK(contains(error_of(model({1 << 20, 1 << 20}).import()), "are over the limit of"));
  CHECK(contains(error_of(model({-1}).import()), "negative"));
  TestModel expand{.opset = 13};
  expand.input("x", {2, 3})
      .output("y")
      .weight(f32_tensor("one", {1, 1}, {1}))
      .weight(i64_tensor("t", {2, 3}))
      .weight(i64_tensor("same", {3}));
  expand.node({.op = "Expand", .inputs = {"one", "t"}, .outputs = {"c"}})
      .node({.op = "Expand", .inputs = {"x", "same"}, .outputs = {"x2"}});
  expand.node({.op = "Add", .inputs = {"x2", "c"}, .outputs = {"y"}});
  CHECK(op_names(must(expand.import())) == "Add");
  TestModel computed = one_node(13, "Expand", {1, 3}, {}, {"t"});
  computed.weight(i64_tensor("t", {2, 3}));
  const Graph expanded = must(computed.import());
  CHECK(op_names(expanded) == "Expand");
  CHECK(output_dims(expanded) == "[2,3]");
}
