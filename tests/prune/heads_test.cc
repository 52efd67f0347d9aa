// What heads are worth: redundancy and coverage of heads that are made to be alike, and what the fit that replaces them does.
#include "prune/head_scores.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "prune/head_networks.h"

namespace lathe::test {
namespace {

struct Observed {
  Graph graph;
  std::vector<prune::HeadBlock> blocks;
  std::vector<prune::HeadMoments> moments;
  std::vector<prune::HeadScore> scores() const { return prune::score_heads(graph, blocks[0], moments[0]); }
  prune::Coverage cover(const std::vector<uint32_t>& gone, bool fit = true) const {
    return prune::cover_heads(graph, blocks[0], moments[0], gone, fit);
  }
};

Observed observed(Graph graph, const prune::HeadSource& source = random_source(64)) {
  Observed o{std::move(graph), {}, {}};
  o.blocks = prune::find_head_blocks(o.graph, groups_of(o.graph));
  REQUIRE(!o.blocks.empty());
  CHECK(o.blocks[0].refused == "");
  auto moments = prune::observe_heads(o.graph, o.blocks, source);
  REQUIRE_MESSAGE(moments, moments.error().message);
  o.moments = std::move(*moments);
  return o;
}

// Rows of head outputs that a test makes: four heads of four numbers.
prune::HeadSource rows_source(std::vector<std::vector<float>> samples, std::vector<std::vector<uint32_t>> groups = {},
                              std::vector<std::string> names = {}) {
  prune::HeadSource source;
  source.groups = std::move(names);
  source.run = [samples = std::move(samples), groups = std::move(groups)](const Graph&, std::span<const ValueId>,
                                                                          const prune::SampleSink& sink) -> Result<void> {
    for (size_t i = 0; i < samples.size(); ++i)
      sink({samples[i], samples[i]}, groups.empty() ? std::span<const uint32_t>{} : std::span<const uint32_t>(groups[i]));
    return {};
  };
  return source;
}

// The largest difference of the outputs, as a share of the largest.
double difference(const Graph& a, const Graph& b) {
  const auto proof = prune::prove(a, b);
  REQUIRE_MESSAGE(proof, proof.error().message);
  return proof->relative;
}

Graph folded(const Observed& o, const std::vector<uint32_t>& gone) {
  auto out = prune::fold_heads(o.graph, o.blocks[0], o.cover(gone));
  REQUIRE_MESSAGE(out, out.error().message);
  return std::move(*out);
}

TEST_CASE("linear CKA is 1 for heads that say the same and 0 for heads that have nothing in common") {
  // Rows of a Hadamard matrix: columns are orthogonal and have no mean. Head 1 is head 0 turned and scaled.
  std::vector<float> rows;
  for (uint32_t r = 1; r < 17; ++r)
    for (uint32_t c = 0; c < 16; ++c) {
      const uint32_t of = (c < 4 ? c : c < 8 ? 7 - c : c) + 1;
      rows.push_back((std::popcount((r % 16) & (of % 16)) % 2 == 0 ? 1.0f : -1.0f) * (c >= 4 && c < 8 ? 3.0f : 1.0f));
    }
  const auto scores = observed(attention_network(1), rows_source({rows})).scores();
  CHECK(scores[0].redundancy == doctest::Approx(1));
  CHECK(scores[0].nearest == 1);
  CHECK(scores[1].redundancy == doctest::Approx(1));
  CHECK(scores[2].redundancy == doctest::Approx(0));
}

TEST_CASE("a head that is the same as another is covered, and folded into it the output stays") {
  for (const bool bias : {true, false}) {
    const Observed o = observed(with_equal_heads(attention_network(2, {.bias = bias}), "a0", 1, 3));
    const auto scores = o.scores();
    CHECK(scores[3].coverage > 0.99999);
    CHECK(scores[3].redundancy == doctest::Approx(1));
    CHECK(scores[3].nearest == 1);
    CHECK(scores[3].may_go);
    CHECK(scores[0].coverage < 0.99);
    const Graph fit = folded(o, {3});
    CHECK(difference(o.graph, fit) < 2e-3);
    const auto groups = groups_of(fit);
    const Graph cut = proved(fit, groups, {{group_named(groups, "a0_q"), {3}}});
    CHECK(difference(o.graph, cut) < 2e-3);
    // Without the fit it is not the same network.
    const auto plain = groups_of(o.graph);
    CHECK(difference(o.graph, proved(o.graph, plain, {{group_named(plain, "a0_q"), {3}}})) > 0.01);
    CHECK(o.cover({3}, false).r2 < 0.5);
  }
}

TEST_CASE("heads whose numbers are sums of others' are covered together") {
  std::vector<float> rows;
  for (uint32_t r = 0; r < 200; ++r) {
    float x[16];
    for (uint32_t c = 0; c < 8; ++c) x[c] = std::sin(static_cast<float>(r * r * (c + 3)) * 0.37f);
    for (uint32_t c = 8; c < 16; ++c) x[c] = 2 * x[c - 8] - x[(c + 3) % 8] + 0.5f;
    rows.insert(rows.end(), x, x + 16);
  }
  const Observed o = observed(attention_network(1), rows_source({rows}));
  CHECK(o.cover({2, 3}).r2 > 0.9999);
  CHECK(o.cover({2, 3}).lost < 1e-4);
  // The 0.5 is in the bias; where there is none, it cannot be.
  CHECK(!o.cover({2, 3}).bias.empty());
}

TEST_CASE("a head without weight contributes nothing, may go, and nothing is lost") {
  const Graph dead = changed(attention_network(1), "a0_proj_w", [](size_t, size_t column, float v) {
    return column / 4 == 2 ? 0.0f : v;
  });
  const Observed o = observed(dead);
  const auto scores = o.scores();
  CHECK(scores[2].contribution == doctest::Approx(0));
  CHECK(scores[2].correlation == doctest::Approx(0));
  CHECK(scores[2].lost == doctest::Approx(0));
  CHECK(scores[2].may_go);
  CHECK(difference(o.graph, folded(o, {2})) < 1e-6);
}

TEST_CASE("contribution is the mean length of what a head adds") {
  const Observed o = observed(attention_network(1), rows_source({std::vector<float>(32, 1.0f)}));
  const auto w = o.graph.value(o.graph.find_value("a0_proj_w")).constant.as<float>();
  double squares = 0;
  for (size_t out = 0; out < 16; ++out) {
    double sum = 0;
    for (size_t i = 4; i < 8; ++i) sum += static_cast<double>(w[out * 16 + i]);
    squares += sum * sum;
  }
  CHECK(o.scores()[1].contribution == doctest::Approx(std::sqrt(squares)));
}

TEST_CASE("a user group for which a head is not covered keeps it from counting as covered") {
  // In group b the last head's numbers are its own.
  std::vector<std::vector<float>> samples(2);
  for (uint32_t s = 0; s < 2; ++s)
    for (uint32_t r = 0; r < (s == 0 ? 2000u : 40u); ++r) {
      float x[16];
      for (uint32_t c = 0; c < 16; ++c)
        x[c] = std::sin(static_cast<float>((r + 1) * (r + 7) * (c + 3)) * 0.37f + 1.7f * static_cast<float>(s));
      for (uint32_t c = 12; c < 16 && s == 0; ++c) x[c] = 2 * x[c - 12];
      samples[s].insert(samples[s].end(), x, x + 16);
    }
  const auto score = observed(attention_network(1), rows_source(samples, {{0}, {1}}, {"user=a", "user=b"})).scores()[3];
  CHECK(score.coverage > prune::kCovered);
  REQUIRE(score.group_coverage.size() == 2);
  CHECK(score.group_coverage[0] > 0.95);
  CHECK(score.group_coverage[1] < 0.5);
  CHECK(!score.may_go);
}

TEST_CASE("grouped-query heads are judged and go by key and value head") {
  const Observed o = observed(attention_network(1, {.kv_heads = 2}));
  REQUIRE(o.blocks[0].heads() == 2);
  CHECK(o.blocks[0].columns[1] == std::vector<int64_t>{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(o.graph.value(o.blocks[0].sum).name == "a0");
  CHECK(o.scores().size() == 2);
  const Graph fit = folded(o, {0});
  const auto groups = groups_of(fit);
  const Graph cut = proved(fit, groups, {{group_named(groups, "a0_q"), {0}}});
  CHECK(dims_of(cut, "a0_k_w") == "[4,16]");
  CHECK(dims_of(cut, "a0_q_w") == "[8,16]");
}

TEST_CASE("heads that two layers read are refused with the reason, and NaN is an error that names them") {
  Net n;
  const std::string a = attention_block(n, "a", n.input("x", "f32[N,6,16]"));
  n.output(n.node("both", "Add", {a, n.linear("second", "a_joined", 16, 16)}));
  const Graph graph = n.graph();
  const auto blocks = prune::find_head_blocks(graph, groups_of(graph));
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].refused == "2 layers read its heads, not one output projection");

  const Graph plain = attention_network(1);
  const auto bad = prune::observe_heads(plain, prune::find_head_blocks(plain, groups_of(plain)),
                                        rows_source({std::vector<float>(32, std::nanf(""))}));
  REQUIRE(!bad);
  CHECK(bad.error().message == "the head outputs 'a0_joined' hold NaN or infinity on the samples");
  const auto none = prune::observe_heads(plain, prune::find_head_blocks(plain, groups_of(plain)), rows_source({}));
  CHECK(!none);
}

}  // namespace
}  // namespace lathe::test
