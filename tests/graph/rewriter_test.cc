#include <doctest/doctest.h>

#include "graph/op_def.h"
#include "graph/rewriter.h"

namespace lathe {
namespace {

const char* const kChain = R"(graph {
  input %x : f32[N,8]
  constant %c : f32[8] = [1, 1, 1, 1, 1, 1, 1, 1]
  %a : f32[N,8] = Exp (%x)
  %b : f32[N,8] = Add (%a, %c)
  %y : f32[N,8] = Sqrt (%b)
  output %y
}
)";

Graph parsed(const char* text) {
  auto g = parse_graph(text);
  REQUIRE_MESSAGE(g, g.error().message);
  return std::move(*g);
}

void check_sound(Rewriter& r) {
  const auto ok = r.ok();
  CHECK_MESSAGE(ok, ok.error().message);
  const auto verified = verify(r.graph());
  CHECK_MESSAGE(verified, verified.error().message);
}

TEST_CASE("a constant gets other bytes under its name, as many as it had") {
  Graph g = parsed(kChain);
  const Graph before = g;
  Rewriter r(g);
  const ValueId c = g.find_value("c");
  r.set_constant(c, Constant::of(std::vector<float>(8, 2.0f)));
  check_sound(r);
  CHECK(g.value(c).constant.as<float>()[7] == 2.0f);
  CHECK(before.value(c).constant.as<float>()[7] == 1.0f);
  CHECK(r.edits() == 1);
  r.set_constant(c, Constant::of(std::vector<float>(7, 2.0f)));
  CHECK(r.ok().error().message == "'c' cannot become other 28 bytes");
  Rewriter other(g);
  other.set_constant(g.find_value("x"), Constant::of(std::vector<float>(8, 2.0f)));
  CHECK_FALSE(other.ok());
}

TEST_CASE("a value is wrapped by inserting a node and replacing its readers") {
  Graph g = parsed(kChain);
  Rewriter r(g);
  const ValueId a = g.find_value("a");
  const ValueId clamped = r.insert(g.consumers(a)[0], Op::kClamp, ClampAttrs{0, 6}, {a}, "clamp");
  r.replace(a, clamped);
  check_sound(r);
  CHECK(r.edits() == 2);
  CHECK(print(g) == R"(graph {
  input %x : f32[N,8]
  constant %c : f32[8] = [1, 1, 1, 1, 1, 1, 1, 1]
  %a : f32[N,8] = Exp (%x)
  %clamp : f32[N,8] = Clamp (%a) {lo=0, hi=6}
  %b : f32[N,8] = Add (%clamp, %c)
  %y : f32[N,8] = Sqrt (%b)
  output %y
}
)");
}

TEST_CASE("a replaced graph output hands its name to a temporary") {
  Graph g = parsed(kChain);
  Rewriter r(g);
  r.replace(g.find_value("y"), g.find_value("b"));
  CHECK(r.sweep() == 1);
  check_sound(r);
  CHECK(g.outputs()[0] == g.find_value("y"));
  CHECK(op_name(g.producer(g.find_value("y"))->op) == std::string("Add"));
  CHECK(g.order().size() == 2);
}

TEST_CASE("an output stays where an input or another output would take its place") {
  Graph g = parsed(kChain);
  Rewriter r(g);
  const ValueId y = g.find_value("y");
  r.replace(y, g.find_value("x"));
  check_sound(r);
  CHECK(g.outputs() == std::vector<ValueId>{y});
  CHECK(r.sweep() == 0);
}

TEST_CASE("a changed operand changes the types of everything after it") {
  Graph g = parsed(R"(graph {
  input %x : f32[N,8]
  input %u : f32[N,1,8]
  %a : f32[N,8] = Exp (%x)
  %s : s64[2] = Shape (%a)
  %b : f32[N,8] = Sqrt (%a)
  output %b
  output %s
}
)");
  Rewriter r(g);
  r.set_input(g.order()[0], 0, g.find_value("u"));
  check_sound(r);
  CHECK(print_type(g.dims(), g.value(g.find_value("b")).type) == "f32[N,1,8]");
  CHECK(g.value(g.find_value("s")).contents->size() == 3);
}

TEST_CASE("new quantization parameters of an operand follow to results that share them") {
  Graph g = parsed(R"(graph {
  input %x : f32[N,8]
  constant %t : s64[1] = [-1]
  %q : s8[N,8] quant(scale=0.5, zero_point=0) = Quantize (%x)
  %q2 : s8[N,8] quant(scale=0.25, zero_point=7) = Quantize (%x)
  %r : s8[N*8] quant(scale=0.5, zero_point=0) = Reshape (%q, %t)
  output %r
}
)");
  Rewriter r(g);
  r.replace(g.find_value("q"), g.find_value("q2"));
  CHECK(r.sweep() == 1);
  check_sound(r);
  CHECK(g.value(g.find_value("r")).quant->zero_points[0] == 7);
}

TEST_CASE("set_attrs infers again and set_inputs changes several operands at once") {
  Graph g = parsed(R"(graph {
  input %x : f32[N,8,8,4]
  constant %w : f32[4,3,3,4] = splat 1
  constant %w1 : f32[16,1,1,4] = splat 1
  constant %b1 : f32[16] = splat 1
  %y : f32[N,6,6,4] = Conv2d (%x, %w)
  output %y
}
)");
  Rewriter r(g);
  const NodeId conv = g.order()[0];
  Conv2dAttrs a;
  a.stride[0] = 2;
  r.set_attrs(conv, a);
  CHECK(print_type(g.dims(), g.value(g.find_value("y")).type) == "f32[N,3,6,4]");
  r.set_inputs(conv, {g.find_value("x"), g.find_value("w1"), g.find_value("b1")});
  check_sound(r);
  CHECK(print_type(g.dims(), g.value(g.find_value("y")).type) == "f32[N,4,8,16]");
  CHECK(r.sweep() == 0);
  CHECK(g.find_value("w") == kNoId);
  check_sound(r);
}

TEST_CASE("set_input appends missing operands") {
  Graph g = parsed(R"(graph {
  input %x : f32[N,4]
  constant %w : f32[4,4] = splat 1
  %y : f32[N,4] = FullyConnected (%x, %w)
  output %y
}
)");
  Rewriter r(g);
  r.set_input(g.order()[0], 3, g.find_value("x"));
  check_sound(r);
  CHECK(g.node(g.order()[0]).inputs == std::vector<ValueId>{g.find_value("x"), g.find_value("w"), kNoId, g.find_value("x")});
}

TEST_CASE("an edit that breaks the graph is refused, named, and stops all later ones") {
  const auto error_of = [](auto&& edit) {
    Graph g = parsed(kChain);
    Rewriter r(g);
    edit(r, g);
    const int edits = r.edits();
    r.erase(g.order().back());
    r.set_attrs(g.order()[1], BinaryAttrs{0, 1});
    CHECK(r.constant("late", {DType::kF32, {}}, Constant::of(std::vector<float>{1})) == kNoId);
    CHECK(r.edits() == edits);
    CHECK(r.sweep() == 0);
    return r.ok() ? std::string("no error") : r.ok().error().message;
  };
  CHECK(error_of([](Rewriter& r, Graph& g) { r.erase(g.order()[0]); }) == "erase 'a': its result 'a' is still read");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.erase(g.order()[2]); }) == "erase 'y': its result 'y' is still read");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.set_input(g.order()[0], 0, g.find_value("b")); }) ==
        "node 'a': an operand is not defined before it");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.set_input(g.order()[0], 0, 999); }) ==
        "node 'a': an operand is not defined before it");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.set_input(g.order()[0], 1, g.find_value("x")); }) ==
        "node 'a': 2 operands, must be 1 to 1");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.set_attrs(g.order()[0], PadAttrs{}); }) ==
        "node 'a': attributes are those of another op");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.replace(g.find_value("a"), g.find_value("y")); }) ==
        "replace 'a': reader 'b' stands before 'y'");
  CHECK(error_of([](Rewriter& r, Graph& g) { r.insert(g.order()[0], Op::kExp, NoAttrs{}, {g.find_value("b")}, "e"); }) ==
        "insert 'e': an operand is not defined before it");
  CHECK(error_of([](Rewriter& r, Graph&) { r.insert(kNoId, Op::kExp, NoAttrs{}, {}, "e"); }) ==
        "Exp 'e': 0 operands, must be 1 to 1");
  CHECK(error_of([](Rewriter& r, Graph& g) {
          const ValueId c = r.constant("c3", {DType::kF32, {g.dims().constant(3)}}, Constant::of(std::vector<float>(3)));
          r.replace(g.find_value("c"), c);
        }) == "node 'b': dimensions 8 and 3 do not broadcast");
}

TEST_CASE("sweep removes chains that nobody reads, keeps Assign and what it reads") {
  Graph g = parsed(R"(graph {
  input %x : f32[2]
  constant %unread : f32[2] = splat 1
  variable %state : f32[2] = [0, 0]
  %next : f32[2] = Tanh (%state)
  Assign "keep" (%state, %next)
  %dead1 : f32[2] = Exp (%x)
  %dead2 : f32[2] = Exp (%dead1)
  output %x
}
)");
  Rewriter r(g);
  CHECK(r.sweep() == 2);
  check_sound(r);
  CHECK(g.order().size() == 2);
  CHECK(g.find_value("dead1") == kNoId);
  CHECK(g.find_value("unread") == kNoId);
  CHECK(g.find_value("state") != kNoId);
  CHECK(r.sweep() == 0);
}

TEST_CASE("inserted names are made unique") {
  Graph g = parsed(kChain);
  Rewriter r(g);
  const ValueId v = r.insert(kNoId, Op::kExp, NoAttrs{}, {g.find_value("y")}, "a");
  CHECK(g.value(v).name == "a.1");
  check_sound(r);
}

TEST_CASE("a graph is copied without its edits") {
  Graph g = parsed(kChain);
  const Graph before = g;
  Rewriter r(g);
  r.replace(g.find_value("y"), g.find_value("b"));
  r.sweep();
  CHECK(print(before) == kChain);
  CHECK(before.value(before.find_value("c")).constant.bytes.data() == g.value(g.find_value("c")).constant.bytes.data());
}

TEST_CASE("constants are copied into memory aligned to 64 bytes") {
  const std::vector<int8_t> bytes = {1, 2, 3};
  const Constant c = Constant::of(bytes);
  CHECK(reinterpret_cast<uintptr_t>(c.bytes.data()) % 64 == 0);
  CHECK(c.as<int8_t>()[2] == 3);
  CHECK(Constant::copy({}).valid());
}

}  // namespace
}  // namespace lathe
