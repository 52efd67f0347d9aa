// Resizing, indexing and sizes that are computed: the forms of the opsets, and what is refused.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

TestModel resize(int64_t opset, const TestDims& dims, std::vector<std::string> attributes, std::vector<float> scales,
                 std::vector<int64_t> sizes = {}) {
  const bool old = opset < 11;
  TestModel m = one_node(opset, opset < 10 ? "Upsample" : "Resize", dims, std::move(attributes));
  std::vector<std::string>& inputs = m.nodes[0].inputs;
  if (!old) inputs.push_back("");
  inputs.push_back(scales.empty() ? "" : "s");
  if (!scales.empty()) m.weight(f32_tensor("s", {static_cast<int64_t>(scales.size())}, scales));
  if (!sizes.empty()) {
    inputs.push_back("sizes");
    m.weight(i64_tensor("sizes", sizes));
  }
  return m;
}

std::string scalar_tensor(const std::string& name, int64_t v) {
  return raw_tensor(name, ElemType::kInt64, {}, std::vector<int64_t>{v});
}

}  // namespace

TEST_CASE("resize is one node per axis that changes, and keeps symbolic dims") {
  const Graph g = must(resize(13, {"N", 3, "H", "W"}, {}, {1, 1, 2, 1.5f}).import());
  CHECK(op_names(g) == "ResizeNearest ResizeNearest Cast");
  CHECK(output_dims(g) == "[N,3,H*2,W+floordiv(W,2)]");
  CHECK(attrs_of<ResizeAttrs>(g, Op::kResizeNearest).coordinates == static_cast<int32_t>(ResizeCoordinates::kHalfPixel));
  const Graph sizes = must(resize(13, {"N", 3, "H", 8}, {string_attr("mode", "cubic")}, {}, {1, 3, 5, 8}).import());
  CHECK(contains(op_names(sizes), "Resize"));
  CHECK(output_dims(sizes) == "[1,3,5,8]");
  CHECK(contains(error_of(resize(13, {"N", 3, "H", "W"}, {}, {1, 1, 1.3f, 1}).import()), "needs the dim; --shape can fix it"));
  CHECK(contains(error_of(resize(13, {1, 3, 4, 4}, {string_attr("mode", "area")}, {1, 1, 2, 2}).import()), "'mode' is 'area'"));
  CHECK(contains(error_of(resize(13, {1, 3, 4, 4}, {}, {1, 1, 2}).import()), "the scales have 3 entries, not 4"));
  CHECK(contains(error_of(resize(13, {1, 3, 4, 4}, {}, {1, 1, -2, 1}).import()), "a scale is -2"));
  CHECK(contains(error_of(resize(13, {1, 3, 4, 4}, {}, {}).import()), "it has neither scales nor sizes"));
}

TEST_CASE("before opset 11 coordinates are divided by the scale and rounded down") {
  for (int64_t opset : {9, 10}) {
    const auto a = attrs_of<ResizeAttrs>(must(resize(opset, {1, 3, 4, 4}, {}, {1, 1, 2, 1}).import()), Op::kResizeNearest);
    CHECK(a.coordinates == static_cast<int32_t>(ResizeCoordinates::kAsymmetric));
    CHECK(a.nearest == static_cast<int32_t>(ResizeNearest::kFloor));
    CHECK(a.size == 8);
  }
}

TEST_CASE("sizes can keep the proportions") {
  const auto model = [](const char* policy) {
    return resize(18, {1, 3, 2, 4}, {ints_attr("axes", {2, 3}), string_attr("keep_aspect_ratio_policy", policy)}, {}, {6, 8});
  };
  CHECK(output_dims(must(model("not_larger").import())) == "[1,3,4,8]");
  CHECK(output_dims(must(model("not_smaller").import())) == "[1,3,6,12]");
  CHECK(output_dims(must(model("stretch").import())) == "[1,3,6,8]");
}

TEST_CASE("a size that depends on data becomes a dim when it is known") {
  TestModel m = one_node(13, "NonZero", {2, 3});
  m.outputs.clear();
  m.output("y", ElemType::kInt64);
  const Graph g = must(m.import());
  CHECK(op_names(g) == "NonZero Extents Trim");
  CHECK(output_dims(g) == "[2,value(0,0)]");
  TestModel two{.opset = 13};
  two.input("x", {4}).input("c", {4}, ElemType::kBool).output("y").output("z");
  two.node({.op = "Compress", .inputs = {"x", "c"}, .outputs = {"y"}});
  two.node({.op = "Compress", .inputs = {"x", "c"}, .outputs = {"z"}});
  const Graph both = must(two.import());
  CHECK(output_dims(both, 0) == "[value(0,0)]");
  CHECK(output_dims(both, 1) == "[value(1,0)]");
}

TEST_CASE("a reshape's target may be computed") {
  TestModel m = one_node(13, "Reshape", {2, 6}, {}, {"t"});
  m.input("a", {3}, ElemType::kInt64);
  m.nodes.insert(m.nodes.begin(), {.op = "Add", .inputs = {"a", "a"}, .outputs = {"t"}});
  const Graph g = must(m.import());
  CHECK(op_names(g) == "Add TargetDims Extents Reshape");
  CHECK(output_dims(g) == "[value(0,0),value(0,1),value(0,2)]");
  CHECK(op_names(must(m.import({.constants = {{"t", {3, 2, 2}}}}))) == "Reshape");
}

TEST_CASE("ranges are counted when they are imported, when shapes are known, or when they run") {
  const auto model = [](std::vector<std::string> inputs) {
    TestModel m{.opset = 13};
    m.input("x", {"N", 4}).input("n", {}, ElemType::kInt64).output("y", ElemType::kInt64);
    m.initializers = {scalar_tensor("zero", 0), scalar_tensor("ten", 10), scalar_tensor("three", 3)};
    m.node({.op = "Shape", .inputs = {"x"}, .outputs = {"shape"}});
    m.node({.op = "Gather", .inputs = {"shape", "zero"}, .outputs = {"rows"}});
    m.node({.op = "Range", .inputs = std::move(inputs), .outputs = {"y"}});
    return m;
  };
  CHECK(output_dims(must(model({"zero", "ten", "three"}).import())) == "[4]");
  CHECK(output_dims(must(model({"zero", "rows", "three"}).import())) == "[floordiv(N+2,3)]");
  CHECK(output_dims(must(model({"zero", "n", "three"}).import())) == "[value(0,0)]");
}

TEST_CASE("einsum becomes a product of matrices where it is one") {
  const auto model = [](const char* equation, const TestDims& a, const TestDims& b) {
    TestModel m = one_node(13, "Einsum", a, {string_attr("equation", equation)}, {"b"});
    m.input("b", b);
    return m.import();
  };
  CHECK(op_names(must(model("bij, bjk -> bik", {2, 3, 4}, {2, 4, 5}))) == "Transpose Transpose MatMul Transpose");
  CHECK(output_dims(must(model("...ij,...kj->...ki", {2, 7, 3, 4}, {2, 7, 5, 4}))) == "[2,7,5,3]");
  CHECK(op_names(must(model("i,i->", {5}, {5}))) == "Einsum");
  CHECK(output_dims(must(model("ij,kj", {3, 4}, {5, 4}))) == "[3,5]");
  CHECK(contains(error_of(model("ij,jk->iz", {3, 4}, {4, 5})), "the result has label"));
  CHECK(contains(error_of(model("ij,j k;->i", {3, 4}, {4, 5})), "cannot be read at ';'"));
  CHECK(contains(error_of(model("ij->i", {3, 4}, {4, 5})), "has 1 terms for 2 inputs"));
  CHECK(contains(error_of(model("ijk,jk->i", {3, 4}, {4, 5})), "does not fit an operand of rank 2"));
}

TEST_CASE("sizes of a resize may be multiples and parts of the input's dims") {
  TestModel m{.opset = 13};
  m.input("x", {"N", 3, "H", "W"}).output("y").weight(i64_tensor("k", {1, 1, 2, 1})).weight(i64_tensor("d", {1, 1, 1, 2}));
  m.node({.op = "Shape", .inputs = {"x"}, .outputs = {"shape"}});
  m.node({.op = "Mul", .inputs = {"shape", "k"}, .outputs = {"more"}});
  m.node({.op = "Div", .inputs = {"more", "d"}, .outputs = {"sizes"}});
  m.node({.op = "Resize", .inputs = {"x", "", "", "sizes"}, .outputs = {"y"}});
  CHECK(output_dims(must(m.import())) == "[N,3,H*2,floordiv(W,2)]");
}

TEST_CASE("limits of a slice may be computed") {
  const auto model = [](const std::string& ends) {
    TestModel m{.opset = 13};
    m.input("x", {"N", 8}).input("z", {"M", 2}).output("y").weight(i64_tensor("zero", {0})).weight(i64_tensor("minus", {-1}));
    m.node({.op = "Shape", .inputs = {"z"}, .outputs = {"shape"}});
    m.node({.op = "Slice", .inputs = {"shape", "zero", "one"}, .outputs = {"rows"}});
    m.weight(i64_tensor("one", {1}));
    m.node({.op = "Add", .inputs = {"rows", "minus"}, .outputs = {"last"}});
    m.node({.op = "NonZero", .inputs = {"x"}, .outputs = {"places"}});
    m.node({.op = "ReduceMax", .inputs = {"places"}, .outputs = {"any"}, .attributes = {int_attr("keepdims", 0)}});
    m.node({.op = "Unsqueeze", .inputs = {"any", "zero"}, .outputs = {"data"}});
    m.node({.op = "Slice", .inputs = {"x", "zero", ends, "zero"}, .outputs = {"y"}});
    return output_dims(must(m.import()));
  };
  CHECK(model("rows") == "[min(M,N),8]");
  CHECK(contains(model("data"), "value("));
}
