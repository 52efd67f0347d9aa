// Transposed convolutions: what import makes of their attributes, and what they compute against ONNX Runtime
// (tests/oracle/make_operators.py).
#include <cmath>

#include "tests/graph/import/expected_run.h"
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

TestModel conv_transpose(std::vector<std::string> attributes, const std::vector<int64_t>& weight = {2, 4, 3, 3},
                         const TestDims& x = {"N", 2, 9, 8}) {
  TestModel m = one_node(13, "ConvTranspose", x, std::move(attributes), {"w"});
  m.weight(ramp_tensor("w", weight));
  return m;
}

std::vector<int32_t> pads_of(const Graph& g) {
  const auto& p = attrs_of<ConvTranspose2dAttrs>(g, Op::kConvTranspose2d).pad;
  return {p, p + 4};
}

// max|y - expected| / max|expected| of a graph whose one input is x.
double difference(const Graph& graph, const HostTensor& x, const HostTensor& expected, kernels::IsaSet isa) {
  const std::vector<float> y = run_one(graph, x, expected, isa);
  const auto want = expected.as<float>();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(y[i]) - static_cast<double>(want[i])));
    largest = std::fmax(largest, std::fabs(static_cast<double>(want[i])));
  }
  return worst / largest;
}

}  // namespace

TEST_CASE("a transposed convolution is wrapped in transposes, and its weight becomes OHWI") {
  const Graph g = must(conv_transpose({ints_attr("pads", {1, 2, 0, 1}), ints_attr("strides", {2, 3}),
                                       ints_attr("dilations", {1, 2}), ints_attr("output_padding", {1, 2}), int_attr("group", 2)},
                                      {2, 3, 1, 2})
                            .import());
  CHECK(op_names(g) == "Transpose ConvTranspose2d Transpose");
  const auto a = attrs_of<ConvTranspose2dAttrs>(g, Op::kConvTranspose2d);
  CHECK(pads_of(g) == std::vector<int32_t>{1, 2, 0, 1});
  CHECK(a.stride[1] == 3);
  CHECK(a.dilation[1] == 2);
  CHECK(a.output_pad[1] == 2);
  CHECK(a.groups == 2);
  CHECK(output_dims(g) == "[N,6,17,23]");
  // IOHW values 0.1 .. 1.2: group g, output o, column w is 0.1 * (g * 6 + o * 2 + w + 1).
  const ValueId w = find_node(g, Op::kConvTranspose2d).inputs[1];
  CHECK(dims_of(g, w) == "[6,1,2,1]");
  CHECK(floats_of(g, w)[5] == doctest::Approx(0.6f));
  const Graph dense = must(conv_transpose({}, {2, 3, 1, 2}).import());
  // Without groups: element o, w, i is 0.1 * (i * 6 + o * 2 + w + 1).
  const ValueId v = find_node(dense, Op::kConvTranspose2d).inputs[1];
  CHECK(dims_of(dense, v) == "[3,1,2,2]");
  CHECK(floats_of(dense, v)[1] == doctest::Approx(0.7f));
}

TEST_CASE("sizes of a transposed convolution's result become pads") {
  const auto pads = [](std::vector<std::string> attributes) {
    return pads_of(must(conv_transpose(std::move(attributes)).import()));
  };
  const std::string strides = ints_attr("strides", {2, 2});
  CHECK(pads({strides, string_attr("auto_pad", "SAME_UPPER")}) == std::vector<int32_t>{0, 0, 1, 1});
  CHECK(pads({strides, string_attr("auto_pad", "SAME_LOWER")}) == std::vector<int32_t>{1, 1, 0, 0});
  CHECK(pads({strides, string_attr("auto_pad", "VALID")}) == std::vector<int32_t>{0, 0, 0, 0});
  CHECK(pads({strides, ints_attr("output_shape", {16, 16})}) == std::vector<int32_t>{2, 1, 1, 0});
}

TEST_CASE("what a transposed convolution does not support is named") {
  const auto error = [](const TestModel& m) { return error_of(m.import()); };
  CHECK(contains(error(conv_transpose({ints_attr("output_shape", {40, 16})})), "an output of 40 elements"));
  CHECK(contains(error(conv_transpose({ints_attr("output_shape", {16, 16})}, {2, 4, 3, 3}, {1, 2, "H", "W"})),
                 "output_shape needs the input's height and width"));
  CHECK(contains(error(conv_transpose({ints_attr("output_shape", {16})})), "output_shape has 1 entries"));
  CHECK(contains(error(conv_transpose({ints_attr("output_padding", {2, 0})})), "output_pad is 2"));
  CHECK(contains(error(conv_transpose({}, {2, 4, 3, 3, 3}, {1, 2, 9, 9, 9})), "only 1-d and 2-d convolution"));
  CHECK(contains(error(conv_transpose({int_attr("group", 3)})), "group is 3 for 2 input channels"));
  CHECK(contains(error(conv_transpose({ints_attr("kernel_shape", {2, 3})})), "kernel_shape is [2,3]"));
}

TEST_CASE("transposed convolutions compute what ONNX Runtime computes") {
  const auto arrays = expected_arrays("conv_transpose");
  const size_t cases = arrays.size() / 3;
  CHECK(cases == 16);
  for (size_t i = 0; i < cases; ++i) {
    CAPTURE(i);
    const std::string number = std::to_string(i);
    const auto owner = std::make_shared<HostTensor>(array(arrays, "model_" + number));
    const Graph g = must(import_onnx(OnnxSource{owner, std::as_bytes(owner->as<uint8_t>()), {}}, {}));
    for (const kernels::IsaSet isa : {kernels::kIsaScalar, *machine_isa()})
      CHECK(difference(g, array(arrays, "x_" + number), array(arrays, "y_" + number), isa) < 1e-5);
  }
}
