// What a cut does beside slicing: constants that channels emit, shared weights, whole branches, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "graph/graph_run.h"
#include "prune/constants.h"
#include "prune/networks.h"

namespace lathe::test {
namespace {

// `graph` with the filters `channels` of a weight set to 0: what a tool that only masks leaves behind.
Graph with_zero_filters(const Graph& graph, const std::string& weight, const std::vector<uint32_t>& channels) {
  Graph out = graph;
  Rewriter rewriter(out);
  const ValueId w = out.find_value(weight);
  REQUIRE(w != kNoId);
  const Value value = out.value(w);
  std::vector<float> values(value.constant.as<float>().begin(), value.constant.as<float>().end());
  const size_t row = values.size() / static_cast<size_t>(*out.dims().value(value.type.dims[0]));
  for (const uint32_t c : channels) std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(c * row), row, 0.0f);
  rewriter.replace(w, rewriter.constant(weight + "0", value.type, Constant::of(values)));
  rewriter.sweep();
  REQUIRE(rewriter.ok());
  return out;
}

// Betas lie between 0.2 and 0.8: each channel without weights emits a constant through its ReLU.
Graph emitting(bool padded) {
  Net n;
  const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
  n.head(n.block("b", x, 8, 6, {.padded = padded}), 6);
  return n.graph();
}

prune::CutResult must_cut(const Graph& graph, const std::vector<prune::Group>& groups, const std::vector<prune::Cut>& cuts,
                          prune::Residue residue) {
  auto made = prune::cut(graph, groups, cuts, {.residue = residue});
  REQUIRE_MESSAGE(made, made.error().message);
  return std::move(*made);
}

prune::Proof must_prove(const Graph& a, const Graph& b) {
  const auto proof = prune::prove(a, b);
  REQUIRE_MESSAGE(proof, proof.error().message);
  return *proof;
}

TEST_CASE("what a channel without weights emits moves into the next bias where no padding is") {
  const std::vector<uint32_t> gone{1, 4, 5};
  const Graph graph = emitting(false), zeroed = with_zero_filters(graph, "a_w", gone);
  const auto groups = groups_of(graph);
  const std::vector<prune::Cut> cuts{{group_named(groups, "a"), gone}};
  const auto absorbed = must_cut(graph, groups, cuts, prune::Residue::kAbsorb);
  CHECK(must_prove(zeroed, absorbed.graph).passed);
  REQUIRE(absorbed.residues.size() == 1);
  CHECK(absorbed.residues[0].absorbed);
  CHECK(absorbed.residues[0].layer == "b");
  CHECK(absorbed.residues[0].channels == 3);
  CHECK(absorbed.residues[0].largest > 0.1);
  // The mask says the same of both ways.
  for (const prune::Residue residue : {prune::Residue::kAbsorb, prune::Residue::kDrop}) {
    const auto masked = prune::mask(graph, groups, cuts, {.residue = residue});
    REQUIRE(masked);
    CHECK(must_prove(*masked, must_cut(graph, groups, cuts, residue).graph).passed);
  }
  const prune::Proof dropped = must_prove(zeroed, must_cut(graph, groups, cuts, prune::Residue::kDrop).graph);
  CHECK(!dropped.passed);
  CHECK(dropped.relative > 0.01);
}

TEST_CASE("padding keeps a constant from moving: it is dropped and named, or moved but for the borders") {
  const std::vector<uint32_t> gone{1, 4, 5};
  const Graph graph = emitting(true), zeroed = with_zero_filters(graph, "a_w", gone);
  const auto groups = groups_of(graph);
  const std::vector<prune::Cut> cuts{{group_named(groups, "a"), gone}};
  const auto exact = must_cut(graph, groups, cuts, prune::Residue::kAbsorb);
  REQUIRE(exact.residues.size() == 1);
  CHECK(!exact.residues[0].absorbed);
  CHECK(exact.residues[0].why == "the layer is padded");
  const auto masked = prune::mask(graph, groups, cuts, {.residue = prune::Residue::kAbsorb});
  REQUIRE(masked);
  CHECK(must_prove(*masked, exact.graph).passed);
  const double lost = must_prove(zeroed, exact.graph).relative;
  const double at_borders = must_prove(zeroed, must_cut(graph, groups, cuts, prune::Residue::kAbsorbPadded).graph).relative;
  CHECK(at_borders > 1e-4);
  CHECK(at_borders < 0.7 * lost);
}

TEST_CASE("a dead channel that stays takes in the constants of those that go, exactly, with padding too") {
  for (const int64_t parts : {1, 2}) {
    Net n;
    const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
    n.head(n.block("b", x, 8, 6, {.groups = parts}), 6);
    // Of each part two go and one of the dead ones stays.
    const Graph graph = n.graph(), zeroed = with_zero_filters(graph, "a_w", {0, 1, 2, 5, 6, 7});
    const auto groups = groups_of(zeroed);
    const std::vector<prune::Cut> cuts{{group_named(groups, "a"), {0, 2, 5, 7}}};
    const auto merged = must_cut(zeroed, groups, cuts, prune::Residue::kMerge);
    CHECK(must_prove(zeroed, merged.graph).passed);
    REQUIRE(merged.residues.size() == 1);
    CHECK(merged.residues[0].absorbed);
    CHECK(merged.residues[0].channels == 4);
    const auto masked = prune::mask(zeroed, groups, cuts, {.residue = prune::Residue::kMerge});
    REQUIRE(masked);
    CHECK(must_prove(*masked, merged.graph).passed);
    // None is dead among those that stay: as without merging.
    const auto open = must_cut(graph, groups_of(graph), cuts, prune::Residue::kMerge);
    CHECK(!open.residues.at(0).absorbed);
  }
}

TEST_CASE("filters that another tool zeroed are found, though what stands behind them still emits") {
  for (const int64_t parts : {1, 2}) {
    for (const bool padded : {true, false}) {
      Net n;
      const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
      const std::string b = n.block("b", x, 8, 6, {.groups = parts, .padded = padded});
      n.head(n.relu("gate", n.node("m", "Mul", {b, n.node("s", "Sigmoid", {n.conv("c", b, 6, 6, {.kernel = 1})})})), 6);
      const Graph graph = with_zero_filters(n.graph(), "a_w", {0, 1, 2, 5, 6, 7});
      const auto groups = groups_of(graph);
      const auto found = prune::find_constants(graph, groups);
      REQUIRE(found);
      REQUIRE(found->size() == 1);
      // Where the next layer is padded, one stays for each of its groups.
      CHECK((*found)[0].channels.size() == (padded ? 6 - static_cast<size_t>(parts) : 6));
      const auto made = must_cut(graph, groups, *found, prune::Residue::kMerge);
      CHECK(must_prove(graph, made.graph).passed);
      CHECK(parameters(made.graph) < parameters(graph));
    }
  }
  // A filter that a gate multiplies emits no constant; one that is not zero is no filter to be found.
  Net n;
  const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
  const std::string gate = n.node("s", "Sigmoid", {n.conv("c", "x", 3, 8, {.kernel = 1})});
  n.head(n.node("m", "Mul", {x, gate}), 8);
  const Graph graph = with_zero_filters(n.graph(), "a_w", {3});
  const auto none = prune::find_constants(graph, groups_of(graph));
  REQUIRE(none);
  CHECK(none->empty());
}

TEST_CASE("constants move into what is added to a product") {
  Net n;
  const std::string h = n.relu("h", n.linear("in", n.input("x", "f32[N,5]"), 5, 8));
  const std::string y =
      n.node("sum", "Add", {n.constant("shift", {6}), n.node("product", "MatMul", {h, n.constant("w", {8, 6})})});
  const std::string t = n.node("turned", "MatMul", {n.relu("r", y), n.constant("v", {4, 6})}, "b_perm=[1,0]");
  n.output(n.linear("classes", n.node("sum2", "Add", {t, n.constant("shift2", {1, 4})}), 4, 3));
  const Graph graph = n.graph();
  const auto groups = groups_of(graph);
  const std::vector<uint32_t> gone_h{0, 1, 2, 3, 5}, gone_y{1, 4};
  Graph zeroed = with_zero_filters(graph, "in_w", gone_h);
  Rewriter rewriter(zeroed);
  const Value w = zeroed.value(zeroed.find_value("w"));
  std::vector<float> values(w.constant.as<float>().begin(), w.constant.as<float>().end());
  for (size_t i = 0; i < values.size(); ++i)
    if (i % 6 == 1 || i % 6 == 4) values[i] = 0;
  rewriter.replace(zeroed.find_value("w"), rewriter.constant("w0", w.type, Constant::of(values)));
  const auto made = must_cut(graph, groups, {{group_named(groups, "in"), gone_h}, {group_named(groups, "product"), gone_y}},
                             prune::Residue::kAbsorb);
  CHECK(must_prove(zeroed, made.graph).passed);
  REQUIRE(!made.residues.empty());
  CHECK(std::all_of(made.residues.begin(), made.residues.end(), [](const prune::ResidueRow& r) { return r.absorbed; }));
}

TEST_CASE("constants move into grouped layers and linear ones, through pooling and gates") {
  Net n;
  const std::string x = n.block("a", n.input("x", "f32[N,8,8,3]"), 3, 8);
  const std::string g = n.relu("g_relu", n.conv("g", x, 8, 12, {.groups = 2, .padded = false, .bias = true}));
  n.head(n.node("gate", "Sigmoid", {n.conv("p", g, 12, 6, {.kernel = 1, .bias = true})}), 6);
  const Graph graph = n.graph();
  const auto groups = groups_of(graph);
  const std::vector<uint32_t> gone_a{1, 6}, gone_g{0, 2, 7, 11}, gone_p{3};
  const Graph zeroed =
      with_zero_filters(with_zero_filters(with_zero_filters(graph, "a_w", gone_a), "g_w", gone_g), "p_w", gone_p);
  const std::vector<prune::Cut> cuts{
      {group_named(groups, "a"), gone_a}, {group_named(groups, "g"), gone_g}, {group_named(groups, "p"), gone_p}};
  const auto made = must_cut(graph, groups, cuts, prune::Residue::kAbsorb);
  CHECK(must_prove(zeroed, made.graph).passed);
  CHECK(std::all_of(made.residues.begin(), made.residues.end(), [](const prune::ResidueRow& r) { return r.absorbed; }));
}

TEST_CASE("a channel that emits no single number is dropped and named") {
  Net n;
  const std::string x = n.block("a", n.input("x", "f32[N,4,4,3]"), 3, 8);
  const std::string y =
      n.node("scaled", "Mul", {x, n.node("m", "Mean", {n.conv("s", "x", 3, 8, {.kernel = 1})}, "axes=[1,2], keep_dims=1")});
  n.head(n.conv("b", y, 8, 6, {.kernel = 1}), 6);
  const Graph graph = n.graph();
  auto groups = groups_of(graph);
  // Only the filters of `a` count as what makes the channels: those of the gate stay.
  const size_t a = group_named(groups, "a");
  for (prune::Member& m : groups[a].members)
    if (graph.value(m.value).name == "s_w") m.role = prune::MemberRole::kVector;
  const auto made = must_cut(graph, groups, {{a, {2}}}, prune::Residue::kAbsorb);
  REQUIRE(made.residues.size() == 1);
  CHECK(!made.residues[0].absorbed);
  CHECK(made.residues[0].why == "what they emit is not one number");
}

TEST_CASE("a weight that two layers share, one of them transposed, is one set") {
  Net n;
  const std::string x = n.linear("in", n.input("x", "f32[N,5]"), 5, 8), w = n.constant("tied", {6, 8});
  const std::string h = n.relu("h", n.node("encode", "FullyConnected", {x, w}));
  const std::string y = n.node("decode", "MatMul", {h, w});
  n.output(n.linear("classes", n.relu("r", y), 8, 3));
  const Graph graph = n.graph();
  const auto groups = groups_of(graph);
  CHECK(described(groups) == "in 8\nencode 6\nclasses 3 frozen: output 'classes' of the graph\n");
  const Graph cut = proved(graph, groups, {{0, {1, 2, 7}}, {1, {0, 3}}});
  CHECK(dims_of(cut, "tied") == "[4,5]");
}

TEST_CASE("an embedding's columns are channels, its rows are not") {
  Net n;
  const std::string e = n.node("embed", "Gather", {n.constant("table", {20, 8}), n.input("tokens", "s64[N,6]")}, "axis=0");
  n.output(n.linear("classes", n.layer_norm("ln", e, 8, 2), 8, 3));
  const Graph graph = n.graph();
  const auto groups = groups_of(graph);
  CHECK(described(groups) == "embed 8 averaged\nclasses 3 frozen: output 'classes' of the graph\n");
  CHECK(dims_of(proved(graph, groups, random_cuts(groups, 0.5)), "table") == "[20,4]");
}

TEST_CASE("what mixes channels freezes them, and the reason says what") {
  const auto frozen_at = [](const std::string& op, const std::string& attrs, int outputs = 1) {
    Net n;
    const std::string y = n.node("mixed", op, {n.linear("in", n.input("x", "f32[N,5]"), 5, 8)}, attrs);
    n.output(n.linear("classes", outputs == 1 ? y : y + ":0", 8, 3));
    const Graph graph = n.graph();
    return groups_of(graph)[0].frozen;
  };
  CHECK(frozen_at("Softmax", "axis=1") == "a softmax runs over it at 'mixed'");
  CHECK(frozen_at("CumSum", "axis=1") == "op CumSum at 'mixed'");
  CHECK(frozen_at("Slice", "axes=[1], begins=[-1], ends=[-100], steps=[-1]") == "op Slice at 'mixed'");
  CHECK(frozen_at("Softmax", "axis=0").empty());
}

TEST_CASE("a quantized graph is refused: prune first") {
  const Graph graph = parsed(
      "input %x : s8[2,4] quant(scale=0.5, zero_point=1)\nconstant %t : s64[2] = [4, 2]\n%y = Reshape (%x, %t)\noutput %y\n");
  const auto groups = prune::find_groups(graph);
  REQUIRE(!groups);
  CHECK(groups.error().message == "the model is quantized already ('x'): prune the float model first, then quantize");
}

TEST_CASE("metadata and outputs' names stay; a channel count of one is reported") {
  Graph graph = emitting(true);
  graph.metadata["preprocessing"] = "as it was";
  const auto groups = groups_of(graph);
  const Graph cut = proved(graph, groups, {{group_named(groups, "a"), {0, 1, 2, 3, 4, 5, 6}}});
  CHECK(cut.metadata == graph.metadata);
  const auto again = groups_of(cut);
  CHECK(again[group_named(again, "a")].frozen == "'a_w' has one channel only");
}

TEST_CASE("residual blocks go whole; a sum of unrelated values, or with an activation of its own, is no branch") {
  Net n;
  const std::string x = n.block("stem", n.input("x", "f32[N,8,8,3]"), 3, 8);
  const std::string a = n.relu("r1", n.node("add1", "Add", {n.conv("c2", n.block("c1", x, 8, 8), 8, 8), x}));
  const std::string b =
      n.relu("r2", n.node("add2", "Add", {n.conv("p", a, 8, 6, {.kernel = 1}), n.conv("c4", n.block("c3", a, 8, 8), 8, 6)}));
  const std::string c = n.node("add3", "Add", {n.conv("c5", b, 6, 6), b}, "lo=0");
  const std::string other = n.conv("unrelated", n.input("x2", "f32[N,8,8,3]"), 3, 6);
  n.head(n.node("add4", "Add", {c, n.conv("c6", other, 6, 6)}), 6);
  const Graph graph = n.graph();
  const auto branches = prune::find_branches(graph);
  REQUIRE(branches.size() == 2);
  CHECK(branches[0].name == "add1");
  CHECK(branches[1].name == "add2");
  CHECK(branches[1].operand == 1);
  const auto removed = prune::remove_branches(graph, branches), masked = prune::mask_branches(graph, branches);
  REQUIRE(removed);
  REQUIRE(masked);
  CHECK(must_prove(*masked, *removed).passed);
  CHECK(removed->find_value("c3_w") == kNoId);
  CHECK(removed->find_value("p_w") != kNoId);
  CHECK(!must_prove(graph, *removed).passed);
}

TEST_CASE("a proof compares by name and fails where networks differ") {
  const Graph graph = emitting(true);
  CHECK(must_prove(graph, graph).sqnr_db == 300);
  const prune::Proof other = must_prove(graph, with_zero_filters(graph, "b_w", {0}));
  CHECK(!other.passed);
  CHECK(other.output == "classes");
  Net n;
  n.head(n.input("x", "f32[N,8,8,4]"), 4);
  const auto unlike = prune::prove(graph, n.graph());
  REQUIRE(!unlike);
  CHECK(unlike.error().message.find("different inputs: x f32[N,8,8,3] and x f32[N,8,8,4]") != std::string::npos);
}

}  // namespace
}  // namespace lathe::test
