// Convolution, pooling and normalization, in every opset form.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

TestModel conv(std::vector<std::string> attributes, const std::vector<int64_t>& weight = {4, 2, 3, 3},
               const TestDims& x = {"N", 2, 9, 8}) {
  TestModel m = one_node(13, "Conv", x, std::move(attributes), {"w"});
  m.weight(ramp_tensor("w", weight));
  return m;
}

std::vector<int32_t> pads_of(const Graph& g) {
  const auto& p = attrs_of<Conv2dAttrs>(g, Op::kConv2d).pad;
  return {p, p + 4};
}

}  // namespace

TEST_CASE("a convolution is wrapped in transposes and keeps its name and its output's name") {
  const Graph g =
      must(conv({ints_attr("pads", {1, 2, 3, 4}), ints_attr("strides", {2, 1}), ints_attr("dilations", {1, 2})}).import());
  CHECK(op_names(g) == "Transpose Conv2d Transpose");
  CHECK(find_node(g, Op::kConv2d).name == "n");
  CHECK(g.value(g.outputs()[0]).name == "y");
  CHECK(pads_of(g) == std::vector<int32_t>{1, 2, 3, 4});
  const auto& a = attrs_of<Conv2dAttrs>(g, Op::kConv2d);
  CHECK(a.stride[0] == 2);
  CHECK(a.stride[1] == 1);
  CHECK(a.dilation[1] == 2);
  CHECK(output_dims(g) == "[N,4,6,10]");
}

TEST_CASE("a convolution's weight becomes OHWI") {
  const Graph g = must(conv({}, {2, 2, 1, 3}).import());
  const ValueId w = find_node(g, Op::kConv2d).inputs[1];
  CHECK(dims_of(g, w) == "[2,1,3,2]");
  // OIHW values 0.1 .. 1.2: element o, h, w, i is 0.1 * (o * 6 + i * 3 + w + 1).
  std::vector<float> expected;
  for (int o = 0; o < 2; ++o)
    for (int x = 0; x < 3; ++x)
      for (int i = 0; i < 2; ++i) expected.push_back(0.1f * static_cast<float>(o * 6 + i * 3 + x + 1));
  CHECK(floats_of(g, w) == expected);
}

TEST_CASE("1x1 and depthwise weights keep their bytes where the file is aligned") {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{4, 2, 1, 1}, std::vector<int64_t>{2, 1, 3, 3}}) {
    const int64_t groups = dims[1] == 1 ? 2 : 1;
    size_t in_place = 0;
    // The offset of the weight in the file moves with the length of a name; about one offset in four is aligned.
    for (int pad = 0; pad < 8; ++pad) {
      TestModel m = one_node(13, "Conv", {1, 2, 5, 5}, {int_attr("group", groups)}, {"w"});
      m.nodes[0].name = std::string(static_cast<size_t>(pad) + 1, 'n');
      m.weight(ramp_tensor("w", dims));
      ImportReport report;
      const Graph g = must(m.import({}, &report));
      const ValueId w = find_node(g, Op::kConv2d).inputs[1];
      if (report.mapped_bytes != 0) ++in_place;
      CHECK(reinterpret_cast<uintptr_t>(g.value(w).constant.bytes.data()) % alignof(float) == 0);
      CHECK(floats_of(g, w)[1] == 0.2f);
    }
    CHECK(in_place >= 1);
    CHECK(in_place <= 4);
  }
}

TEST_CASE("a convolution takes a bias, groups and a kernel_shape that agrees with its weight") {
  TestModel m = conv({int_attr("group", 2), ints_attr("kernel_shape", {3, 3})}, {4, 1, 3, 3});
  m.nodes[0].inputs.push_back("b");
  m.weight(ramp_tensor("b", {4}));
  const Graph g = must(m.import());
  CHECK(find_node(g, Op::kConv2d).inputs.size() == 3);
  CHECK(attrs_of<Conv2dAttrs>(g, Op::kConv2d).groups == 2);
  CHECK(contains(error_of(conv({ints_attr("kernel_shape", {5, 3})}).import()),
                 "kernel_shape is [5,3], the weight's dims are [4,2,3,3]"));
}

TEST_CASE("auto_pad gives the padding that its rule says") {
  // Stride 1: kernel - 1 in all, whatever the size. Even kernels are uneven: the larger half last for UPPER, first for LOWER.
  CHECK(pads_of(must(conv({string_attr("auto_pad", "SAME_UPPER")}, {4, 2, 4, 3}).import())) == std::vector<int32_t>{1, 1, 2, 1});
  CHECK(pads_of(must(conv({string_attr("auto_pad", "SAME_LOWER")}, {4, 2, 4, 3}).import())) == std::vector<int32_t>{2, 1, 1, 1});
  CHECK(pads_of(must(conv({string_attr("auto_pad", "VALID"), ints_attr("pads", {0, 0, 0, 0})}).import())) ==
        std::vector<int32_t>{0, 0, 0, 0});
  // 9 x 8 at stride 2 with 3 x 3: 5 x 4 results need 11 x 9 elements.
  CHECK(pads_of(must(conv({string_attr("auto_pad", "SAME_UPPER"), ints_attr("strides", {2, 2})}).import())) ==
        std::vector<int32_t>{1, 0, 1, 1});
  const TestDims symbolic = {1, 2, "H", 8};
  CHECK(contains(
      error_of(conv({string_attr("auto_pad", "SAME_UPPER"), ints_attr("strides", {2, 2})}, {4, 2, 3, 3}, symbolic).import()),
      "auto_pad SAME with stride 2 needs the input's height and width"));
  CHECK(output_dims(must(conv({string_attr("auto_pad", "SAME_UPPER")}, {4, 2, 3, 3}, symbolic).import())) == "[1,4,H,8]");
}

TEST_CASE("one spatial axis is an image of height 1") {
  const Graph g = must(conv({ints_attr("pads", {1, 2}), ints_attr("strides", {2}), ints_attr("kernel_shape", {3})}, {4, 2, 3},
                            {"N", 2, 9}).import());
  CHECK(op_names(g) == "Reshape Transpose Conv2d Transpose Reshape");
  CHECK(pads_of(g) == std::vector<int32_t>{0, 1, 0, 2});
  CHECK(attrs_of<Conv2dAttrs>(g, Op::kConv2d).stride[1] == 2);
  CHECK(output_dims(g) == "[N,4,5]");
  CHECK(output_dims(must(one_node(12, "MaxPool", {"N", 3, 8}, {ints_attr("kernel_shape", {3})}).import())) == "[N,3,6]");
  CHECK(output_dims(must(one_node(13, "GlobalMaxPool", {"N", 3, 7}).import())) == "[N,3,1]");
  CHECK(contains(error_of(conv({ints_attr("pads", {1, 1, 1, 1})}, {4, 2, 3}, {1, 2, 9}).import()), "pads has 4 entries, not 2"));
  CHECK(contains(error_of(conv({}, {4, 2, 3}).import()), "the weight has rank 3, the input has 4"));
}

TEST_CASE("convolutions over three axes, or with a computed weight, are refused") {
  CHECK(contains(error_of(conv({}, {4, 2, 3, 3, 3}, {1, 2, 9, 9, 9}).import()), "a weight of rank 5 is not supported"));
  CHECK(contains(error_of(conv({ints_attr("strides", {1, 1, 1})}).import()), "3-d windows are not supported"));
  CHECK(contains(error_of(conv({ints_attr("strides", {1})}).import()), "strides has 1 entries, not 2"));
  CHECK(contains(error_of(conv({ints_attr("pads", {1, 1})}).import()), "pads has 2 entries, not 4"));
  CHECK(contains(error_of(conv({ints_attr("strides", {0, 1})}).import()), "strides has the entry 0"));
  CHECK(contains(error_of(conv({string_attr("auto_pad", "SOME")}).import()), "auto_pad 'SOME' is not supported"));
  TestModel m = one_node(13, "Conv", {1, 2, 9, 8}, {}, {"w"});
  m.input("w", {4, 2, 3, 3});
  CHECK(contains(error_of(m.import()), "weight 'w' is not constant"));
}

TEST_CASE("the wrong number of input channels is an error with both numbers") {
  const std::string e = error_of(conv({}, {4, 3, 3, 3}).import());
  CHECK(contains(e, "node 'n' (Conv, opset 13)"));
  CHECK(contains(e, "3"));
  CHECK(contains(e, "2"));
}

TEST_CASE("pools read ceil_mode, dilations and count_include_pad") {
  const Graph max = must(one_node(12, "MaxPool", {1, 3, 8, 8},
                                  {ints_attr("kernel_shape", {3, 3}), ints_attr("strides", {2, 2}), int_attr("ceil_mode", 1),
                                   ints_attr("dilations", {1, 2}), int_attr("storage_order", 0)})
                             .import());
  CHECK(op_names(max) == "Transpose MaxPool2d Transpose");
  const auto& m = attrs_of<Pool2dAttrs>(max, Op::kMaxPool2d);
  CHECK(m.ceil_mode == 1);
  CHECK(m.dilation[1] == 2);
  CHECK(output_dims(max) == "[1,3,4,3]");
  const Graph average = must(one_node(19, "AveragePool", {1, 3, 8, 8},
                                      {ints_attr("kernel_shape", {2, 2}), ints_attr("pads", {1, 1, 1, 1}),
                                       int_attr("count_include_pad", 1), ints_attr("dilations", {2, 2})})
                                 .import());
  const auto& a = attrs_of<Pool2dAttrs>(average, Op::kAvgPool2d);
  CHECK(a.count_pad == 1);
  CHECK(a.dilation[0] == 2);
  CHECK(output_dims(average) == "[1,3,8,8]");
}

TEST_CASE("a max pool with indices keeps its channels second") {
  TestModel m = one_node(12, "MaxPool", {1, 3, 8, 8}, {ints_attr("kernel_shape", {2, 2}), int_attr("storage_order", 1)});
  m.nodes[0].outputs.push_back("indices");
  m.output("indices", ElemType::kInt64);
  const Graph g = must(m.import());
  CHECK(find_node(g, Op::kArgMaxPool2d).inputs[0] == g.inputs()[0]);
  CHECK(attrs_of<ArgMaxPoolAttrs>(g, Op::kArgMaxPool2d).column_major == 1);
  CHECK(output_dims(g, 1) == "[1,3,7,7]");
}

TEST_CASE("global pools become a mean and a max pool over the whole image") {
  const Graph mean = must(one_node(13, "GlobalAveragePool", {"N", 3, "H", 8}).import());
  CHECK(list_of(attrs_of<ReduceAttrs>(mean, Op::kMean).axes) == std::vector<int32_t>{2, 3});
  CHECK(output_dims(mean) == "[N,3,1,1]");
  const Graph max = must(one_node(13, "GlobalMaxPool", {"N", 3, 7, 8}).import());
  CHECK(attrs_of<Pool2dAttrs>(max, Op::kMaxPool2d).kernel[1] == 8);
  CHECK(output_dims(max) == "[N,3,1,1]");
  CHECK(contains(error_of(one_node(13, "GlobalMaxPool", {"N", 3, "H", 8}).import()), "height and width must be known"));
}

TEST_CASE("batch normalization is read in the forms of opsets 7, 9, 14 and 15") {
  const auto model = [](int64_t opset, std::vector<std::string> attributes) {
    attributes.push_back(float_attr("epsilon", 0.01f));
    attributes.push_back(float_attr("momentum", 0.9f));
    TestModel m = one_node(opset, "BatchNormalization", {1, 3, 4, 4}, attributes, {"s", "b", "m", "v"});
    for (const char* name : {"s", "b", "m", "v"}) m.weight(ramp_tensor(name, {3}));
    return m;
  };
  for (int64_t opset : {7, 9, 14, 15}) {
    const Graph g = must(model(opset, {}).import());
    CHECK(attrs_of<BatchNormAttrs>(g, Op::kBatchNorm).epsilon == 0.01f);
    CHECK(attrs_of<BatchNormAttrs>(g, Op::kBatchNorm).axis == 1);
  }
  CHECK(op_names(must(model(7, {int_attr("spatial", 1)}).import())) == "BatchNorm");
  CHECK(contains(error_of(model(7, {int_attr("spatial", 0)}).import()), "attribute 'spatial' 0 is not supported"));
  CHECK(contains(error_of(model(9, {int_attr("spatial", 1)}).import()), "attribute 'spatial' is not supported"));
  CHECK(op_names(must(model(14, {int_attr("training_mode", 1)}).import())) == "Mean Sub Mul Mean Add Sqrt Div Mul Add");
}

TEST_CASE("layer normalization keeps its axis and epsilon") {
  const auto model = [](std::vector<std::string> attributes, std::vector<int64_t> dims) {
    TestModel m = one_node(17, "LayerNormalization", {"N", 3, 4}, attributes, {"s", "b"});
    for (const char* name : {"s", "b"}) m.weight(ramp_tensor(name, dims));
    return m;
  };
  const auto last = attrs_of<LayerNormAttrs>(must(model({}, {4}).import()), Op::kLayerNorm);
  CHECK(last.axis == 2);
  CHECK(last.epsilon == 1e-5f);
  const Graph over_two = must(model({int_attr("axis", -2), float_attr("epsilon", 0.5f)}, {3, 4}).import());
  const auto two = attrs_of<LayerNormAttrs>(over_two, Op::kLayerNorm);
  CHECK(two.axis == 1);
  CHECK(two.epsilon == 0.5f);
  CHECK(contains(error_of(model({int_attr("stash_type", 10)}, {4}).import()), "'stash_type' 10 is not supported"));
  CHECK(contains(error_of(model({int_attr("axis", 1)}, {4}).import()), "scale has rank 1, must have 2"));
}
