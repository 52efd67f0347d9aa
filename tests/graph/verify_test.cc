// One graph that is right, and every way to break it: each rule of verify() must see its own fault, and nothing may crash.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>

#include "graph/ir.h"
#include "graph/op_def.h"

namespace lathe {

struct GraphSurgeon {
  Graph& g;
  Value& value(const char* name) { return g.values_[g.find_value(name)]; }
  Node& node(const char* result) { return g.nodes_[value(result).producer]; }
  std::vector<Value>& values() { return g.values_; }
  std::vector<Node>& nodes() { return g.nodes_; }
  std::vector<NodeId>& order() { return g.order_; }
  std::vector<ValueId>& inputs() { return g.inputs_; }
  std::vector<ValueId>& outputs() { return g.outputs_; }
};

namespace {

const char* const kGood = R"(graph {
  input %x : f32[N,4]
  constant %w : s8[3,4] quant(axis=0, scales=[1, 2, 3], qmin=-127) = splat 1
  constant %b : s32[3] = [1, 2, 3]
  constant %target : s64[1] = [-1]
  variable %state : f32[2] = [0, 0]
  %next : f32[2] = Tanh "step" (%state)
  Assign "keep" (%state, %next)
  %q : s8[N,4] quant(scale=0.5, zero_point=3) = Quantize (%x)
  %y : s8[N,3] quant(scale=0.25, zero_point=0) = FullyConnected (%q, %w, %b)
  %z : s8[N*3] quant(scale=0.25, zero_point=0) = Reshape (%y, %target)
  %s : s8[N,3] quant(scale=0.00390625, zero_point=-128) = Softmax (%y) {axis=1} region graph {
    input %a : f32[N,4]
    output %a
  }
  output %z
  output %s
}
)";

Graph good() {
  auto g = parse_graph(kGood);
  REQUIRE_MESSAGE(g, g.error().message);
  return std::move(*g);
}

struct Fault {
  const char* expected;
  std::function<void(GraphSurgeon)> plant;
};

std::vector<Fault> faults() {
  return {
      // Values.
      {"value 'x': name is used twice", [](GraphSurgeon s) { s.value("y").name = "x"; }},
      {"has no name", [](GraphSurgeon s) { s.value("y").name.clear(); }},
      {"value 'x': element type 99 is unknown", [](GraphSurgeon s) { s.value("x").type.dtype = static_cast<DType>(99); }},
      {"value 'x': rank is 9, at most 8 are supported",
       [](GraphSurgeon s) { s.value("x").type.dims.resize(9, s.g.dims().constant(1)); }},
      {"value 'x': dimension overflows", [](GraphSurgeon s) { s.value("x").type.dims[0] = Dim{}; }},
      {"value 'x': dimension -1 is out of range", [](GraphSurgeon s) { s.value("x").type.dims[0] = s.g.dims().constant(-1); }},
      {"value 'x': dimension 2147483648 is out of range",
       [](GraphSurgeon s) { s.value("x").type.dims[0] = s.g.dims().constant(int64_t{1} << 31); }},
      {"value 'b': has 12 bytes, its type has 16", [](GraphSurgeon s) { s.value("b").type.dims[0] = s.g.dims().constant(4); }},
      {"value 'b': has no bytes", [](GraphSurgeon s) { s.value("b").constant = {}; }},
      {"value 'state': has no bytes", [](GraphSurgeon s) { s.value("state").constant = {}; }},
      {"value 'b': is a constant with symbolic dimension N",
       [](GraphSurgeon s) { s.value("b").type.dims[0] = s.g.dims().symbol("N"); }},
      {"value 'b': size overflows",
       [](GraphSurgeon s) { s.value("b").type.dims.assign(3, s.g.dims().constant(std::numeric_limits<int32_t>::max())); }},
      {"value 'b': is not a temporary, but has a producer", [](GraphSurgeon s) { s.value("b").producer = 0; }},
      {"value 'y': has no producer", [](GraphSurgeon s) { s.value("y").producer = kNoId; }},
      {"value 'x': is an input, but not once in the list", [](GraphSurgeon s) { s.inputs().clear(); }},
      {"value 'x': is an input, but not once in the list", [](GraphSurgeon s) { s.inputs().push_back(s.inputs()[0]); }},
      {"list of inputs names a value that is no input", [](GraphSurgeon s) { s.inputs().push_back(12345); }},
      {"list of inputs names a value that is no input", [](GraphSurgeon s) { s.inputs().push_back(s.g.find_value("b")); }},
      // Quantization parameters.
      {"value 'q': scale 0 is nan",
       [](GraphSurgeon s) { s.value("q").quant->scales[0] = std::numeric_limits<float>::quiet_NaN(); }},
      {"value 'q': scale 0 is 0.0", [](GraphSurgeon s) { s.value("q").quant->scales[0] = 0; }},
      {"value 'q': zero point 300 is outside", [](GraphSurgeon s) { s.value("q").quant->zero_points[0] = 300; }},
      {"value 'w': 2 scales and 3 zero points, must be 3", [](GraphSurgeon s) { s.value("w").quant->scales.pop_back(); }},
      {"value 'w': quantization axis is 2, rank is 2", [](GraphSurgeon s) { s.value("w").quant->axis = 2; }},
      {"value 'x': quantization parameters on a value of type f32",
       [](GraphSurgeon s) {
         s.value("x").quant = Quant{{1.0f}, {0}};
       }},
      {"value 'q': quantized range [-129, 127] does not fit s8", [](GraphSurgeon s) { s.value("q").quant->qmin = -129; }},
      {"weight 'w' is quantized along axis 1, must be 0",
       [](GraphSurgeon s) {
         *s.value("w").quant = {{1, 1, 1, 1}, {0, 0, 0, 0}, 1, -127, 127};
       }},
      {"quantization parameters of a result must be per tensor",
       [](GraphSurgeon s) {
         *s.value("q").quant = {{1, 1, 1, 1}, {0, 0, 0, 0}, 1, -128, 127};
       }},
      {"result 'z' has other quantization parameters", [](GraphSurgeon s) { s.value("z").quant->scales[0] = 0.5f; }},
      {"result 's' has other quantization parameters", [](GraphSurgeon s) { s.value("s").quant->zero_points[0] = 0; }},
      // Nodes.
      {"quantized result has no quantization parameters", [](GraphSurgeon s) { s.value("y").quant.reset(); }},
      {"result 'next' is f64[2], inferred f32[2]", [](GraphSurgeon s) { s.value("next").type.dtype = DType::kF64; }},
      {"result 'y' is s8[N,2], inferred s8[N,3]", [](GraphSurgeon s) { s.value("y").type.dims[1] = s.g.dims().constant(2); }},
      {"result 'y' has other contents", [](GraphSurgeon s) { s.value("y").contents.emplace(); }},
      {"reads 'q' before it is made", [](GraphSurgeon s) { std::swap(s.order()[2], s.order()[3]); }},
      {"reads 'z' before it is made", [](GraphSurgeon s) { s.node("y").inputs[0] = s.g.find_value("z"); }},
      {"reads 'y' before it is made", [](GraphSurgeon s) { s.node("y").inputs[0] = s.g.find_value("y"); }},
      {"node 'y': stands twice in the order", [](GraphSurgeon s) { s.order().insert(s.order().begin() + 4, s.order()[3]); }},
      {"node 's': is not in the order", [](GraphSurgeon s) { s.order().pop_back(); }},
      {"order names a node that does not exist", [](GraphSurgeon s) { s.order().push_back(12345); }},
      {"order names a node that does not exist", [](GraphSurgeon s) { s.node("s").dead = true; }},
      {"node 'q': name is used twice", [](GraphSurgeon s) { s.node("y").name = "q"; }},
      {"has no name", [](GraphSurgeon s) { s.node("y").name.clear(); }},
      {"op number 4711 is unknown", [](GraphSurgeon s) { s.node("y").op = static_cast<Op>(4711); }},
      {"attributes are those of another op", [](GraphSurgeon s) { s.node("y").attrs = PadAttrs{}; }},
      {"axes has 99 entries, at most 8 fit",
       [](GraphSurgeon s) {
         Ints axes;
         axes.count = 99;
         s.node("s").op = Op::kMean;
         s.node("s").attrs = ReduceAttrs{axes};
       }},
      {"axes has -1 entries",
       [](GraphSurgeon s) {
         Ints axes;
         axes.count = -1;
         s.node("s").op = Op::kMean;
         s.node("s").attrs = ReduceAttrs{axes};
       }},
      {"1 operands, must be 2 to 4", [](GraphSurgeon s) { s.node("y").inputs.resize(1); }},
      {"5 operands, must be 2 to 4", [](GraphSurgeon s) { s.node("y").inputs.resize(5, kNoId); }},
      {"operand 1 is missing", [](GraphSurgeon s) { s.node("y").inputs[1] = kNoId; }},
      {"operand does not exist", [](GraphSurgeon s) { s.node("y").inputs[1] = 12345; }},
      {"operand does not exist", [](GraphSurgeon s) { s.value("w").dead = true; }},
      {"result does not exist", [](GraphSurgeon s) { s.node("y").outputs[0] = 12345; }},
      {"node 's': result 'y' has another producer", [](GraphSurgeon s) { s.node("s").outputs.push_back(s.g.find_value("y")); }},
      {"result 'y' is made twice", [](GraphSurgeon s) { s.node("y").outputs.push_back(s.g.find_value("y")); }},
      {"has 0 results, must have 1",
       [](GraphSurgeon s) {
         s.values()[s.node("s").outputs[0]].dead = true;
         s.node("s").outputs.clear();
         s.outputs().pop_back();
       }},
      {"value 'other': is made by no node",
       [](GraphSurgeon s) {
         s.values().push_back(Value(s.value("y")));
         s.values().back().name = "other";
       }},
      {"assigns to a value that is no variable",
       [](GraphSurgeon s) {
         s.nodes()[1].inputs = {s.g.find_value("next"), s.g.find_value("next")};
       }},
      {"operand 'y' is quantized, the op takes float only",
       [](GraphSurgeon s) {
         s.nodes()[0].inputs[0] = s.g.find_value("state");
         s.node("s").op = Op::kDiv;
         s.node("s").attrs = BinaryAttrs{};
         s.node("s").inputs.resize(2, s.g.find_value("y"));
       }},
      // Outputs and regions.
      {"graph has no outputs", [](GraphSurgeon s) { s.outputs().clear(); }},
      {"graph output does not exist", [](GraphSurgeon s) { s.outputs()[0] = 12345; }},
      {"value 'z': is an output twice", [](GraphSurgeon s) { s.outputs().push_back(s.outputs()[0]); }},
      {"node 's': region is missing", [](GraphSurgeon s) { s.node("s").regions[0].reset(); }},
      {"node 's': region: graph has no outputs",
       [](GraphSurgeon s) { s.node("s").regions[0] = std::make_shared<const Graph>(s.g.dim_table()); }},
      {"node 's': region has dimension symbols of its own",
       [](GraphSurgeon s) { s.node("s").regions[0] = std::make_shared<const Graph>(); }},
      {"node 's': region has 2 inputs, the node passes 1",
       [](GraphSurgeon s) {
         auto region = std::make_shared<Graph>(s.g.dim_table());
         for (const char* name : {"a", "b"}) region->add_output(region->add_input(name, s.value("x").type));
         s.node("s").regions[0] = region;
       }},
      {"regions are nested deeper than 16",
       [](GraphSurgeon s) {
         for (int i = 0; i < 20; ++i) s.node("s").regions[0] = std::make_shared<const Graph>(s.g);
       }},
  };
}

TEST_CASE("a graph has at most 32768 nodes") {
  Graph g;
  ValueId v = g.add_input("x", {DType::kF32, {g.dims().constant(2)}});
  for (int i = 0; i <= 32768; ++i) v = g.node(*g.add_node(Op::kExp, NoAttrs{}, {v}, "n" + std::to_string(i))).outputs[0];
  g.add_output(v);
  const auto ok = verify(g);
  REQUIRE(!ok);
  CHECK(ok.error().message == "the graph has 32769 nodes, inputs or outputs, at most 32768 are supported");
}

TEST_CASE("a graph with every feature verifies") {
  const Graph g = good();
  CHECK(verify(g));
}

TEST_CASE("every fault that a graph can have is found and named") {
  for (const Fault& fault : faults()) {
    Graph g = good();
    fault.plant({g});
    const auto ok = verify(g);
    CAPTURE(std::string(fault.expected));
    REQUIRE(!ok);
    CHECK_MESSAGE(ok.error().message.find(fault.expected) != std::string::npos, ok.error().message);
    CHECK(!print(g, true).empty());  // a broken graph can still be printed
  }
}

TEST_CASE("random damage to ids, types and attributes never crashes the verifier or the printer") {
  const unsigned seed = 3;
  MESSAGE("seed ", seed);
  std::mt19937 rng(seed);
  int broken = 0;
  for (int i = 0; i < 5000; ++i) {
    Graph g = good();
    GraphSurgeon s{g};
    for (unsigned k = 0; k < 1 + rng() % 3; ++k) {
      Node& n = s.nodes()[rng() % s.nodes().size()];
      Value& v = s.values()[rng() % s.values().size()];
      const auto id = static_cast<uint32_t>(rng() % (s.values().size() + 2));
      switch (rng() % 9) {
        case 0: n.inputs.assign(rng() % 5, id); break;
        case 1: n.outputs.assign(rng() % 3, id); break;
        case 2: n.op = static_cast<Op>(rng() % 33); break;
        case 3: n.op = static_cast<Op>(1 + rng() % 30); n.attrs = default_attrs(n.op); break;
        case 4: v.type.dtype = static_cast<DType>(rng() % 13); break;
        case 5: v.type.dims.resize(rng() % 10); break;
        case 6: v.kind = static_cast<ValueKind>(rng() % 4); break;
        case 7:
          v.quant =
              Quant{std::vector<float>(rng() % 3, 0.5f), std::vector<int32_t>(rng() % 3, 1), static_cast<int32_t>(rng() % 4) - 1};
          break;
        default: std::swap(s.order()[rng() % s.order().size()], s.order()[rng() % s.order().size()]); break;
      }
    }
    broken += verify(g) ? 0 : 1;
    CHECK(!print(g, true).empty());
  }
  CHECK(broken > 3000);
}

}  // namespace
}  // namespace lathe
