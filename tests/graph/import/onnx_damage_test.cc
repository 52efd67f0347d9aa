// Damaged and contradictory files: a clear error, never a crash. The sanitizer build runs the same cases.
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_samples.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Result<Graph> import_bytes(const test::Bytes& bytes) {
  // Exactly as large as the message, so that the sanitizer sees a read past its end.
  const auto owner = std::make_shared<test::Bytes>(bytes);
  return import_onnx(OnnxSource{owner, *owner, {}});
}
Result<Graph> import_text(std::string_view bytes) { return import_bytes(bytes_of(bytes)); }

}  // namespace

TEST_CASE("the model that is damaged below imports whole") { CHECK(import_text(small_model().bytes()).has_value()); }

TEST_CASE("every truncation of a model is an error") {
  truncate_everywhere(bytes_of(small_model().bytes()), [](const test::Bytes& bytes) {
    const auto g = import_bytes(bytes);
    // The opset stands last, so no prefix is a model.
    if (g) FAIL("a prefix of " << bytes.size() << " bytes was imported");
    CHECK(!g.error().message.empty());
  });
}

TEST_CASE("flipped bits end in an error or in another valid graph") {
  check_flipped_bits(bytes_of(small_model().bytes()), import_bytes);
}

TEST_CASE("bytes that are no protobuf message are an error") {
  CHECK(contains(error_of(import_text("")), "not an onnx model"));
  CHECK(contains(error_of(import_text(std::string(64, '\xff'))), "not an onnx model"));
  CHECK(contains(error_of(import_text("GIF89a, certainly not a network")), "onnx model"));
  // A varint of eleven bytes, and a field whose wire type is another one than the format says.
  CHECK(contains(error_of(import_text("\x08" + std::string(10, '\xff') + "\x01")), "varint"));
  CHECK(contains(error_of(import_text(std::string("\x0a\x01\x07", 3))), "not an onnx model"));
}

TEST_CASE("deep nesting costs no stack") {
  std::string graph = one_node(13, "Relu", {4}).graph_bytes();
  for (int depth = 0; depth < 3000; ++depth) {
    std::string attribute = graph_attr("then_branch", graph), node, outer;
    pbf_writer w(node);
    w.add_string(field::node::kInput, "c");
    w.add_string(field::node::kOutput, "y");
    w.add_string(field::node::kOpType, "If");
    w.add_message(field::node::kAttribute, attribute);
    pbf_writer(outer).add_message(field::graph::kNode, node);
    graph = std::move(outer);
  }
  TestModel m;
  m.input("x", {4}).input("c", {}, ElemType::kBool).output("y");
  m.node({.op = "If", .inputs = {"c"}, .outputs = {"y"}, .attributes = {graph_attr("then_branch", graph)}});
  CHECK(contains(error_of(m.import()), "graphs or functions are nested deeper than 16"));
}

TEST_CASE("a cycle is an error that names a node, and unsorted nodes are sorted") {
  TestModel m{.opset = 13};
  m.input("x", {4}).output("y");
  m.node({.op = "Relu", .inputs = {"t"}, .outputs = {"y"}, .name = "late"})
      .node({.op = "Relu", .inputs = {"x"}, .outputs = {"t"}, .name = "early"});
  const Graph g = must(m.import());
  CHECK(g.node(0).name == "early");
  m.nodes[1].inputs = {"y"};
  CHECK(contains(error_of(m.import()), "the graph has a cycle: node 'late' waits for its own result"));
}

TEST_CASE("names that are missing, doubled or empty are errors") {
  TestModel missing = one_node(13, "Add", {4}, {}, {"w"});
  CHECK(contains(error_of(missing.import()), "node 'n' reads 'w', which nothing makes"));
  TestModel output = one_node(13, "Relu", {4});
  output.output("other");
  CHECK(contains(error_of(output.import()), "output 'other' is made by no node"));
  TestModel twice = one_node(13, "Relu", {4});
  twice.node(twice.nodes[0]);
  CHECK(contains(error_of(twice.import()), "value 'y' is made twice"));
  TestModel shadow = one_node(13, "Relu", {4});
  shadow.nodes[0].outputs = {"x"};
  CHECK(contains(error_of(shadow.import()), "value 'x' is an input or initializer"));
  TestModel weights = one_node(13, "Relu", {4});
  weights.weight(ramp_tensor("w", {1})).weight(ramp_tensor("w", {1}));
  CHECK(contains(error_of(weights.import()), "two initializers are called 'w'"));
  TestModel inputs = one_node(13, "Relu", {4});
  inputs.input("x", {4});
  CHECK(contains(error_of(inputs.import()), "two inputs are called 'x'"));
  TestModel outputs = one_node(13, "Relu", {4});
  outputs.output("y");
  CHECK(contains(error_of(outputs.import()), "two outputs are called 'y'"));
  TestModel none = one_node(13, "Relu", {4});
  none.outputs.clear();
  CHECK(contains(error_of(none.import()), "the graph has no output"));
  TestModel absent = one_node(13, "Relu", {4});
  absent.nodes[0].inputs = {""};
  CHECK(contains(error_of(absent.import()), "input 0 is missing"));
}

TEST_CASE("every operator with few and with many operands is imported or refused") {
  CHECK(contains(error_of(one_node(11, "TopK", {4}).import()), "input 1 is missing"));
  constexpr size_t kVariadic = 4;
  const struct {
    const char* op;
    size_t least, most;
  } operators[] = {
#define ONNX_OP(name, since, least, most, function) {#name, least, most},
#include "graph/import/onnx/ops.inc"
#undef ONNX_OP
  };
  for (const auto& o : operators)
    for (const int64_t opset : {7, 10, 13, 19, 28})
      for (size_t n = o.least; n <= o.most; ++n) {
        const TestModel m = one_node(opset, o.op, {2, 3}, {}, std::vector<std::string>(n > 0 ? n - 1 : 0, "x"));
        CAPTURE(std::string(o.op));
        if (const auto g = m.import()) CHECK(verify(*g).has_value());
        else CHECK(!g.error().message.empty());
      }
}

TEST_CASE("ill-typed graphs are errors that name the node") {
  TestModel types{.opset = 13};
  types.input("x", {4})
      .input("i", {4}, ElemType::kInt64)
      .output("y")
      .node({.op = "Add", .inputs = {"x", "i"}, .outputs = {"y"}, .name = "n"});
  CHECK(contains(error_of(types.import()), "node 'n' (Add, opset 13)"));
  TestModel dims = one_node(13, "Add", {4}, {}, {"w"});
  dims.weight(ramp_tensor("w", {3}));
  CHECK(contains(error_of(dims.import()), "node 'n' (Add, opset 13)"));
  CHECK(contains(error_of(one_node(13, "Softmax", {4}, {float_attr("axis", 1)}).import()),
                 "attribute 'axis' is a float, not an integer"));
  CHECK(contains(error_of(one_node(13, "Relu", {4}, {}, {"x"}).import()), "it has 2 inputs, 1 are expected"));
}

TEST_CASE("an output of another type than the file declares is an error; other dims are a note") {
  TestModel m{.opset = 13};
  m.input("x", {4}).output("y", ElemType::kInt64).node({.op = "Relu", .inputs = {"x"}, .outputs = {"y"}});
  CHECK(contains(error_of(m.import()), "output 'y' is int64 in the file and computed as f32"));
  m.outputs.clear();
  m.output("y", ElemType::kFloat, TestDims{5});
  ImportReport report;
  must(m.import({}, &report));
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "output 'y' has other dims in the file than those computed, f32[4]");
}

TEST_CASE("opsets outside the range are refused by number") {
  CHECK(contains(error_of(one_node(5, "Relu", {4}).import()), "opset 5 is not supported, only 6 to 28"));
  CHECK(contains(error_of(one_node(29, "Relu", {4}).import()), "opset 29 is not supported, only 6 to 28"));
  CHECK(must(one_node(28, "Relu", {4}).import()).outputs().size() == 1);
}
