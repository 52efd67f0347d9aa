// Heads that go stepwise: steps, steps back, the last head of a block, and what one cut does.
#include "tools/head_pruning.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "prune/head_networks.h"

namespace lathe::tools {
namespace {

// Two layers of four heads; in the first, head 3 is head 1 again, in the second, head 0 is head 2.
Graph two_layers() {
  return test::with_equal_heads(test::with_equal_heads(test::attention_network(2), "a0", 1, 3), "a1", 2, 0);
}

HeadCallbacks costing(std::function<double(const Graph&)> drop) {
  HeadCallbacks callbacks;
  callbacks.heads = test::random_source(32);
  callbacks.drop = [drop](const Graph& g) -> Result<double> { return drop(g); };
  return callbacks;
}
HeadCallbacks free_of_cost() {
  return costing([](const Graph&) { return 0.0; });
}

HeadsOutcome must(const Graph& graph, const HeadOptions& options, const HeadCallbacks& callbacks) {
  auto out = prune_heads("net", graph, options, callbacks);
  REQUIRE_MESSAGE(out, out.error().message);
  return std::move(*out);
}

// Heads of a block that are left, from the rows of its query weight.
size_t left(const Graph& graph, const std::string& block) {
  return graph.value(graph.find_value(block + "_q_w")).constant.as<float>().size() / 64;
}

std::vector<std::pair<std::string, uint32_t>> gone(const HeadsOutcome& out) {
  std::vector<std::pair<std::string, uint32_t>> heads;
  for (const HeadRow& row : out.rows)
    if (row.step > 0) heads.push_back({row.block, row.head});
  return heads;
}

TEST_CASE("heads that others repeat go first, and the network stays what it was") {
  const Graph graph = two_layers();
  for (const uint32_t steps : {0u, 1u}) {
    const HeadsOutcome out = must(graph, {.ratio = 0.25, .steps = steps}, free_of_cost());
    CHECK(out.reached());
    CHECK(out.gone == 2);
    CHECK(out.steps.size() == (steps == 0 ? 2 : 1));
    const auto heads = gone(out);
    REQUIRE(heads.size() == 2);
    CHECK((heads[0] == std::pair<std::string, uint32_t>{"a0_q", 1} || heads[0] == std::pair<std::string, uint32_t>{"a0_q", 3}));
    CHECK((heads[1] == std::pair<std::string, uint32_t>{"a1_q", 0} || heads[1] == std::pair<std::string, uint32_t>{"a1_q", 2}));
    CHECK(out.proof.passed);
    const auto same = prune::prove(graph, out.graph);
    REQUIRE(same);
    CHECK(same->relative < 5e-3);
    CHECK(out.after.parameters < out.before.parameters);
    CHECK(heads_text(out, {}).find("coverage") != std::string::npos);
  }
}

TEST_CASE("without the fold a repeated head is missed") {
  const HeadsOutcome out = must(two_layers(), {.ratio = 0.25, .fold = false}, free_of_cost());
  CHECK(out.gone == 2);
  const auto changed = prune::prove(two_layers(), out.graph);
  REQUIRE(changed);
  CHECK(changed->relative > 0.01);
}

TEST_CASE("a step that costs too much is taken back, tried with half the heads, then head by head") {
  // Losing a head of the second layer costs 10, of the first nothing.
  const auto callbacks = costing([](const Graph& g) { return left(g, "a1") < 4 ? 10.0 : 0.0; });
  const HeadOptions options{.ratio = 0.5, .steps = 1, .per_layer = 4, .candidates = 1};
  const HeadsOutcome out = must(two_layers(), options, callbacks);
  CHECK(!out.reached());
  CHECK(!out.steps[0].kept);
  CHECK(out.steps[0].heads.size() == 4);
  CHECK(out.steps[1].heads.size() == 2);
  CHECK(std::any_of(out.steps.begin(), out.steps.end(), [](const HeadStep& s) { return s.kept; }));
  CHECK(left(out.graph, "a1") == 4);
  CHECK(left(out.graph, "a0") < 4);
  for (const auto& [block, head] : gone(out)) CHECK(block == "a0_q");
  REQUIRE(!out.notes.empty());
  CHECK(heads_text(out, options).find("taken back") != std::string::npos);
}

TEST_CASE("if every head costs too much, the network that was given is the result") {
  const Graph graph = two_layers();
  const HeadsOutcome out = must(graph, {.ratio = 0.5}, costing([](const Graph&) { return 2.0; }));
  CHECK(out.gone == 0);
  CHECK(out.after.parameters == out.before.parameters);
}

TEST_CASE("the metric chooses among candidates") {
  // Only a network that lost a head of the second layer is good.
  const auto callbacks = costing([](const Graph& g) { return left(g, "a1") < 4 ? 0.0 : 0.5; });
  const HeadsOutcome out = must(two_layers(), {.ratio = 0.125, .candidates = 8}, callbacks);
  REQUIRE(out.gone == 1);
  CHECK(gone(out)[0].first == "a1_q");
}

TEST_CASE("a head that went comes back if another in its place is better") {
  // The first candidate alone looks good; with two heads gone only those of the second layer do.
  const auto callbacks = costing([](const Graph& g) {
    const size_t first = 4 - left(g, "a0"), second = 4 - left(g, "a1");
    return first + second == 1 ? (first == 1 ? 0.0 : 0.5) : (first == 0 ? 0.1 : 0.4);
  });
  HeadOptions options{.ratio = 0.25, .candidates = 8};
  CHECK(left(must(two_layers(), options, callbacks).graph, "a0") < 4);
  options.swaps = 3;
  const HeadsOutcome out = must(two_layers(), options, callbacks);
  CHECK(out.gone == 2);
  CHECK(left(out.graph, "a0") == 4);
  CHECK(left(out.graph, "a1") == 2);
  REQUIRE(out.steps.size() > 2);
  CHECK(out.steps.back().back.size() == 1);
  CHECK(out.steps.back().drop == doctest::Approx(0.1));
  CHECK(gone(out).size() == 2);
  CHECK(heads_text(out, options).find(" for a0_q:") != std::string::npos);
}

TEST_CASE("the last head of each block stays, whatever the ratio and criterion") {
  for (const bool coverage : {true, false}) {
    const HeadOptions options{.ratio = 0.99, .candidates = 1, .coverage = coverage, .max_drop = {}};
    const HeadsOutcome out = must(test::attention_network(2), options, free_of_cost());
    CHECK(out.wanted == 6);
    CHECK(left(out.graph, "a0") >= 1);
    CHECK(left(out.graph, "a1") >= 1);
    if (!coverage) CHECK(out.gone == 6);
  }
}

TEST_CASE("magnitude and chance are baselines") {
  const Graph weak = test::changed(test::attention_network(2), "a1_v_w",
                                   [](size_t row, size_t, float v) { return row / 4 == 1 ? 0.001f * v : v; });
  const HeadOptions magnitude{.ratio = 0.125, .coverage = false, .criterion = prune::Criterion::kL2};
  const auto heads = gone(must(weak, magnitude, free_of_cost()));
  REQUIRE(heads.size() == 1);
  CHECK(heads[0] == std::pair<std::string, uint32_t>{"a1_q", 1});
  HeadOptions chance{.ratio = 0.5, .coverage = false, .criterion = prune::Criterion::kRandom};
  const auto first = gone(must(weak, chance, free_of_cost()));
  CHECK(first == gone(must(weak, chance, free_of_cost())));
  chance.seed = 2;
  CHECK(first != gone(must(weak, chance, free_of_cost())));
}

TEST_CASE("grouped-query heads go by key and value head") {
  const HeadsOutcome out = must(test::attention_network(2, {.kv_heads = 2}), {.ratio = 0.25, .max_drop = {}}, free_of_cost());
  CHECK(out.heads == 4);
  CHECK(out.gone == 1);
  CHECK(left(out.graph, "a0") + left(out.graph, "a1") == 6);
}

TEST_CASE("a network without heads is an error, and groups that are kept say so") {
  test::Net n;
  n.output(n.linear("classes", n.linear("in", n.input("x", "f32[N,6]"), 6, 8), 8, 3));
  const auto none = prune_heads("net", n.graph(), {}, free_of_cost());
  REQUIRE(!none);
  CHECK(none.error().message == "net: no attention heads can go: the network has none");
  HeadOptions kept{.ratio = 0.25};
  kept.keep = {"a0_q"};
  const HeadsOutcome out = must(two_layers(), kept, free_of_cost());
  CHECK(left(out.graph, "a0") == 4);
  REQUIRE(!out.notes.empty());
  CHECK(out.notes[0] == "heads of 'a0_q' stay: kept");
}

}  // namespace
}  // namespace lathe::tools
