// Graphs inside nodes and functions of a model: what import makes of If, Loop and calls, and where it stops.
#include <cmath>

#include "tests/graph/graph_run.h"
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/onnx_samples.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> v(bytes.size() / sizeof(float));
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

}  // namespace

TEST_CASE("the branch that a known condition takes stands for its If") {
  CHECK(contains(op_names(must(if_model(true).import())), "Exp"));
  CHECK(!contains(op_names(must(if_model(true).import())), "Tanh"));
  CHECK(contains(op_names(must(if_model(false).import())), "Tanh"));
}

TEST_CASE("both branches run where the condition depends on data, and the right one is chosen") {
  TestModel m = if_model(true);
  m.initializers.clear();
  m.output("double").weight(f32_tensor("zero", {1}, {0}));
  m.node({.op = "ReduceSum", .inputs = {"x"}, .outputs = {"sum"}});
  m.node({.op = "Less", .inputs = {"sum", "zero"}, .outputs = {"c"}});
  m.node({.op = "Add", .inputs = {"x", "x"}, .outputs = {"double"}});
  const Graph g = must(m.import());
  size_t negative = 0;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const auto results = run_graph(g, {.seed = seed});
    const auto y = floats(results[0]), twice = floats(results[1]);
    const bool below = twice[0] + twice[1] < 0;
    negative += below;
    for (size_t i = 0; i < 2; ++i) CHECK(y[i] == doctest::Approx(below ? std::exp(twice[i] / 2) : std::tanh(twice[i] / 2)));
  }
  CHECK(negative > 0);
  CHECK(negative < 8);
}

TEST_CASE("a condition that is not known is unsupported where the branches' shapes differ, and can be fixed") {
  TestModel small;
  small.weight(f32_tensor("one", {1}, {1}));
  small.node({.op = "Exp", .inputs = {"one"}, .outputs = {"inner"}});
  small.output("inner");
  TestModel m;
  m.input("x", {2}).input("c", {}, ElemType::kBool).output("y");
  m.node({.op = "If",
          .inputs = {"c"},
          .outputs = {"y"},
          .attributes = {graph_attr("then_branch", branch("Exp")), graph_attr("else_branch", small.graph_bytes())}});
  CHECK(contains(error_of(m.import()), "different shapes for output 0 and the condition 'c' is not constant; --const can fix it"));
  CHECK(contains(op_names(must(m.import({.constants = {{"c", {1}}}}))), "Exp"));
}

TEST_CASE("a loop that runs a known number of times is written out") {
  const Graph g = must(loop_model(3, loop_body("go")).import());
  CHECK(dims_of(g, g.outputs()[1]) == "[3,2]");
  const auto results = run_graph(g);
  const auto last = floats(results[0]), rows = floats(results[1]);
  // From x and x added once per run: 4 x in the end, and twice 2 x, 3 x, 4 x on the way.
  for (size_t i = 0; i < 2; ++i) {
    const float x = last[i] / 4;
    for (size_t run = 0; run < 3; ++run) CHECK(rows[run * 2 + i] == doctest::Approx(2 * x * static_cast<float>(run + 2)));
  }
}

TEST_CASE("a loop ends when its condition is known to be false") {
  TestModel body;
  body.input("i", {}, ElemType::kInt64).input("go", {}, ElemType::kBool).input("carried", {2});
  body.weight(bool_tensor("no", false));
  body.node({.op = "Identity", .inputs = {"no"}, .outputs = {"more"}});
  body.node({.op = "Exp", .inputs = {"carried"}, .outputs = {"next"}});
  body.output("more", ElemType::kBool).output("next").output("next2");
  body.node({.op = "Exp", .inputs = {"next"}, .outputs = {"next2"}});
  const Graph g = must(loop_model(5, body.graph_bytes()).import());
  CHECK(dims_of(g, g.outputs()[1]) == "[1,2]");
}

TEST_CASE("loops that cannot be written out say why") {
  TestModel m = loop_model(3, loop_body("go"));
  m.initializers.erase(m.initializers.begin());
  m.input("count", {}, ElemType::kInt64);
  CHECK(contains(error_of(m.import()), "the number of runs 'count' is not constant; --const can fix it"));
  CHECK(contains(error_of(loop_model(0, loop_body("go")).import()), "a loop that never runs gives empty tensors"));
  CHECK(contains(error_of(loop_model(5000, loop_body("go")).import()), "the loop runs more than 4096 times"));
  CHECK(contains(error_of(loop_model(3, branch("Exp")).import()), "the nested graph has 0 inputs, 3 are expected"));
}

TEST_CASE("what a nested graph cannot do is listed once, by its own node") {
  TestModel body;
  body.input("i", {}, ElemType::kInt64).input("go", {}, ElemType::kBool).input("carried", {2});
  body.node({.op = "Martian", .inputs = {"carried"}, .outputs = {"next"}, .name = "inner"});
  body.node({.op = "Identity", .inputs = {"go"}, .outputs = {"more"}});
  body.output("more", ElemType::kBool).output("next").output("next");
  const std::string error = error_of(loop_model(3, body.graph_bytes()).import());
  CHECK(contains(error, "1 thing is not supported"));
  CHECK(contains(error, "node 'inner' (Martian, opset 13): operator Martian is not supported"));
}

TEST_CASE("a call of the model's own function is its nodes, with the call's attributes") {
  Graph g = must(call_model({float_attr("slope", 0.5f)}).import());
  CHECK(contains(op_names(g), "LeakyRelu"));
  CHECK(attrs_of<LeakyReluAttrs>(g, Op::kLeakyRelu).alpha == 0.5f);
  g = must(call_model({}, {float_attr("slope", 0.25f)}).import());
  CHECK(attrs_of<LeakyReluAttrs>(g, Op::kLeakyRelu).alpha == 0.25f);
  g = must(call_model({}).import());
  CHECK(attrs_of<LeakyReluAttrs>(g, Op::kLeakyRelu).alpha == 0.01f);
}

TEST_CASE("functions that call themselves, or deeper than 16 levels, are refused") {
  TestModel m = call_model({});
  m.functions[0].nodes[1] = {.op = "Leak", .inputs = {"t"}, .outputs = {"b"}, .domain = "own"};
  CHECK(contains(error_of(m.import()), "nested deeper than 16"));
}

TEST_CASE("a small file cannot ask for a graph without bounds") {
  // Each of 16 levels calls the next one eight times.
  TestModel m;
  m.input("x", {2}).output("y");
  for (int level = 0; level < 15; ++level) {
    TestFunction f{.name = "F" + std::to_string(level), .domain = "own", .inputs = {"a"}, .outputs = {"t8"}, .nodes = {}};
    for (int i = 0; i < 8; ++i) {
      const std::string from = i == 0 ? "a" : "t" + std::to_string(i);
      const bool last = level == 14;
      f.nodes.push_back({.op = last ? "Neg" : "F" + std::to_string(level + 1),
                         .inputs = {from},
                         .outputs = {"t" + std::to_string(i + 1)},
                         .domain = last ? "" : "own"});
    }
    m.functions.push_back(f);
  }
  m.node({.op = "F0", .inputs = {"x"}, .outputs = {"y"}, .domain = "own"});
  CHECK(contains(error_of(m.import()), "come to more than 100000 nodes"));
}
