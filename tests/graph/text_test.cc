#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "graph/attrs_text.h"
#include "graph/ir.h"
#include "graph/op_def.h"

namespace lathe {
namespace {

// Everything that the text form can say.
const char* const kEverything = R"(graph {
  meta "opset" = "13"
  meta "quo\"te" = "line\x0abreak"
  input %x : f32[N,28,28,1]
  input %"odd name" : s8[4,"batch size"+1] quant(scale=0.1, zero_point=-3)
  constant %w : f32[8,3,3,1] = x"@W"
  constant %b : f32[8] = [0, -0, 1.5, 1e-45, 3.4028235e+38, inf, -inf, 0.1]
  constant %nan : f32[2] = x"0000c07f0100c07f"
  constant %half : f16[2] = x"003c0080"
  constant %double : f64[2] = [0.1, -1e+300]
  constant %long : s64[3] = [-1, -9223372036854775808, 9223372036854775807]
  constant %flags : bool[2] = [0, 1]
  constant %wq : s8[2,3,3,8] quant(axis=0, scales=[0.5, 0.25], zero_points=[0, 0], qmin=-127) = splat -7
  constant %target : s64[2] = [-1, 1]
  constant %empty : f32[0] = []
  variable %state : f32[1,4] = [1, 2, 3, 4]
  %/block.0/conv:0 : f32[N,13,13,8] = Conv2d "conv \"1\"" (%x, %w, %b) {stride=[2,2], lo=0, hi=6}
  %q : s8[N,13,13,8] quant(scale=0.02, zero_point=-128) = Quantize (%/block.0/conv:0)
  %c : s8[N,11,11,2] quant(scale=0.5, zero_point=1, qmin=-100, qmax=100) = Conv2d "second" (%q, %wq, _, _)
  %slice : f32[N,13,4,8] = Slice (%/block.0/conv:0) {axes=[2], begins=[-5], ends=[-1], steps=[1]}
  %flat : f32[N*416,1] = Reshape (%slice, %target)
  output %flat
  output %c
}
)";

std::string everything() {
  std::string text = kEverything, hex;
  for (int i = 0; i < 72; ++i) hex += i % 2 ? "0000803f" : "cdcccc3d";
  return text.replace(text.find("@W"), 2, hex);
}

TEST_CASE("a full text reads back to the same text, bit for bit") {
  const auto g = parse_graph(everything());
  REQUIRE_MESSAGE(g, g.error().message);
  const std::string full = print(*g, true);
  CHECK(full == everything());
  const auto again = parse_graph(full);
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK(print(*again, true) == full);
}

TEST_CASE("reading gives values, attributes and parameters as they were written") {
  const auto g = parse_graph(everything());
  REQUIRE_MESSAGE(g, g.error().message);
  CHECK(g->metadata.at("quo\"te") == "line\nbreak");
  CHECK(g->inputs().size() == 2);
  const Value& odd = g->value(g->find_value("odd name"));
  CHECK(odd.quant->zero_points == std::vector<int32_t>{-3});
  CHECK(odd.quant->scales == std::vector<float>{0.1f});
  const Value& b = g->value(g->find_value("b"));
  CHECK(b.constant.as<float>()[3] == std::numeric_limits<float>::denorm_min());
  CHECK(b.constant.as<float>()[4] == std::numeric_limits<float>::max());
  CHECK(g->value(g->find_value("long")).contents->size() == 3);
  CHECK(!b.contents);
  const Value& wq = g->value(g->find_value("wq"));
  CHECK(wq.quant->axis == 0);
  CHECK(wq.quant->qmin == -127);
  CHECK(wq.constant.bytes.size() == 144);
  CHECK(wq.constant.as<int8_t>()[143] == -7);
  const Node* conv = g->producer(g->find_value("/block.0/conv:0"));
  REQUIRE(conv != nullptr);
  CHECK(conv->name == "conv \"1\"");
  CHECK(std::get<Conv2dAttrs>(conv->attrs).stride[1] == 2);
  CHECK(std::get<Conv2dAttrs>(conv->attrs).hi == 6.0f);
  CHECK(g->producer(g->find_value("c"))->inputs == std::vector<ValueId>{g->find_value("q"), g->find_value("wq"), kNoId, kNoId});
  CHECK(g->value(g->find_value("state")).kind == ValueKind::kVariable);
}

TEST_CASE("a short text elides large constants, and says so when it is read") {
  const auto g = parse_graph(everything());
  REQUIRE_MESSAGE(g, g.error().message);
  const std::string text = print(*g);
  CHECK(text.find("constant %w : f32[8,3,3,1] = ...") != std::string::npos);
  CHECK(text.find("constant %b : f32[8] = [0, -0, 1.5") != std::string::npos);
  const auto again = parse_graph(text);
  REQUIRE(!again);
  CHECK(again.error().message == "line 6: elements of this constant were elided: print the graph in full");
}

TEST_CASE("regions print and parse with the symbols of their graph") {
  // No op takes regions yet; the text form and verify() treat them alike on any node.
  const char* text = R"(graph {
  input %x : f32[N,4]
  %y : f32[N,4] = Exp (%x) region graph {
    input %a : f32[N,4]
    %b : f32[N,4] = Sqrt (%a)
    output %b
  }
  output %y
}
)";
  const auto g = parse_graph(text);
  REQUIRE_MESSAGE(g, g.error().message);
  CHECK(print(*g, true) == text);
  CHECK(g->node(g->order()[0]).regions[0]->dim_table() == g->dim_table());
}

TEST_CASE("attributes of every op print, parse and compare from their lists") {
  struct Line {
    Op op;
    bool has_struct;  // default_attrs() gives the one that ops.def names
  };
  const Line lines[] = {
#define LATHE_OP(name, number, attrs_type) {Op::k##name, std::holds_alternative<attrs_type>(default_attrs(Op::k##name))},
#include "runtime/ops.def"
#undef LATHE_OP
  };
  for (const Line& line : lines) {
    CAPTURE(op_name(line.op));
    CHECK(line.has_struct);
    const Attrs standard = default_attrs(line.op);
    CHECK(print_attrs(standard).empty());
    TextCursor in("");
    const auto parsed = parse_attrs(line.op, in);
    REQUIRE(parsed);
    CHECK(equal_attrs(*parsed, standard));
  }
  const auto round_trip = [](Op op, const char* text) {
    TextCursor in(text);
    const auto attrs = parse_attrs(op, in);
    return attrs ? print_attrs(*attrs) : "error: " + attrs.error().message;
  };
  CHECK(round_trip(Op::kConv2d, "{stride=[2,1], lo=-1.5, hi=0x1.8p1}") == "{stride=[2,1], lo=-1.5, hi=3}");
  CHECK(round_trip(Op::kClamp, "{lo=nan, hi=-inf}") == "{lo=nan, hi=-inf}");
  CHECK(round_trip(Op::kSlice, "{steps=[-1,2], axes=[0,1]}") == "{axes=[0,1], steps=[-1,2]}");
  CHECK(round_trip(Op::kMean, "{axes=[], keep_dims=0}") == "{keep_dims=0}");
  CHECK(round_trip(Op::kConv2d, "{stride=[2]}") == "error: line 1: list has 1 entries, must have 2");
  CHECK(round_trip(Op::kMean, "{axes=[1,2,3,4,5,6,7,8,9]}") == "error: line 1: list is longer than 8");
  CHECK(round_trip(Op::kMean, "{keep_dims=4294967296}") == "error: line 1: integer is too large");
  CHECK(round_trip(Op::kMean, "{axis=1}") == "error: line 1: unknown attribute 'axis'");
  CHECK(round_trip(Op::kClamp, "{lo=1e99}") == "error: line 1: number is out of range");
}

TEST_CASE("attributes differ by any member, and NaN equals itself") {
  CHECK(equal_attrs(ClampAttrs{0.0f, 1.0f}, ClampAttrs{0.0f, 1.0f}));
  CHECK(!equal_attrs(ClampAttrs{0.0f, 1.0f}, ClampAttrs{0.0f, 2.0f}));
  CHECK(!equal_attrs(ClampAttrs{0.0f, 1.0f}, ClampAttrs{-0.0f, 1.0f}));
  CHECK(!equal_attrs(ClampAttrs{0.0f, 1.0f}, BinaryAttrs{0.0f, 1.0f}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(equal_attrs(ClampAttrs{nan, 1.0f}, ClampAttrs{nan, 1.0f}));
  SliceAttrs a, b;
  b.ends.count = 1;
  CHECK(!equal_attrs(a, b));
}

TEST_CASE("errors in a text name the line and the thing") {
  const auto message = [](const std::string& body) {
    const auto g = parse_graph("graph {\n" + body + "\n}");
    return g ? "no error" : g.error().message;
  };
  CHECK(message("input %x : f32[2]\ninput %x : f32[2]") == "line 3: value 'x' is defined twice");
  CHECK(message("%y = Exp (%x)") == "line 2: value 'x' is not defined");
  CHECK(message("%y = Fold (%x)") == "line 2: unknown op 'Fold'");
  CHECK(message("input %x : q32[2]") == "line 2: unknown element type 'q32'");
  CHECK(message("input %x : f32[1,1,1,1,1,1,1,1,1]") == "line 2: rank is 9, at most 8 are supported");
  CHECK(message("input %x : f32[2]\n%y : f32[3] = Exp (%x)\noutput %y") == "line 3: result 'y' is f32[3], inferred f32[2]");
  CHECK(message("input %x : f32[2]\n%y, %z = Exp (%x)\noutput %y") == "line 3: node 'y' has 1 results, the text names 2");
  CHECK(message("constant %c : s8[1] = [128]\noutput %c") == "line 2: integer does not fit its type");
  CHECK(message("constant %c : f16[1] = [1]\noutput %c") == "line 2: elements of type f16 are written as hex bytes");
  CHECK(message("constant %c : f32[2] = [1]\noutput %c") == "value 'c': has 4 bytes, its type has 8");
  CHECK(message("constant %c : f32[N] = splat 1\noutput %c") == "line 2: constant has symbolic dimension N");
  CHECK(message("constant %c : f32[2000000000,2000000000,2000000000] = splat 1\noutput %c") == "line 2: splat is too large");
  CHECK(message("constant %c : f32[1] = x\"000\"\noutput %c") == "line 2: odd number of hex digits");
  CHECK(message("input %x : f32[2]") == "graph has no outputs");
  CHECK(message("input %x : f32[2]\noutput %x") == "no error");
  CHECK(parse_graph("graph { input %x : f32[2] output %x } more").error().message == "line 1: text follows the graph");
}

TEST_CASE("truncated and mutated texts end in a graph or an error, never in a crash") {
  const std::string text = everything();
  for (size_t n = 0; n < text.size() - 3; ++n) CHECK(!parse_graph(std::string_view(text).substr(0, n)));
  const unsigned seed = 7;
  MESSAGE("seed ", seed);
  std::mt19937 rng(seed);
  int parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string mutated = text;
    for (unsigned k = 0; k < 1 + rng() % 3; ++k) {
      const size_t at = rng() % mutated.size();
      switch (rng() % 4) {
        case 0: mutated[at] = static_cast<char>(rng()); break;
        case 1: mutated[at] = static_cast<char>(mutated[at] ^ (1 << rng() % 8)); break;
        case 2: mutated.erase(at, 1 + rng() % 20); break;
        default: mutated.insert(at, mutated.substr(rng() % mutated.size(), rng() % 20)); break;
      }
    }
    const auto g = parse_graph(mutated);
    if (!g) continue;
    ++parsed;
    const std::string full = print(*g, true);
    const auto again = parse_graph(full);
    REQUIRE_MESSAGE(again, again.error().message);
    CHECK(print(*again, true) == full);
  }
  CHECK(parsed > 50);
}

TEST_CASE("a text that nests without end is an error") {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "graph { input %x : f32[1] %y = Exp (%x) region ";
  CHECK(!parse_graph(text));
}

}  // namespace
}  // namespace lathe
