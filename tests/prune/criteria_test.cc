// Importance of channels, from constants, callbacks and chance; and what a channel costs.
#include "prune/criteria.h"

#include <doctest/doctest.h>

#include <cmath>

#include "graph/graph_run.h"
#include "prune/costs.h"
#include "prune/slices.h"

namespace lathe::prune {
namespace {

// A convolution of 2 channels, its normalization, and a layer that reads them.
Graph network() {
  return test::parsed(R"(
  input %x : f32[1,2,2,1]
  constant %w : f32[2,1,1,1] = [1, -3]
  constant %gamma : f32[2] = [-0.5, 0.25]
  constant %beta : f32[2] = [0, 0]
  constant %mean : f32[2] = [0, 0]
  constant %var : f32[2] = [1, 1]
  constant %next : f32[1,1,1,2] = [2, 2]
  %c = Conv2d (%x, %w, _)
  %n = BatchNorm (%c, %gamma, %beta, %mean, %var) {axis=3, epsilon=0}
  %y = Conv2d (%n, %next, _)
  output %y)");
}

std::vector<Group> groups_of(const Graph& g) {
  const std::vector<std::vector<int64_t>> each{{0}, {1}};
  Group group;
  group.name = "c";
  group.channels = 2;
  group.members = {{g.find_value("w"), 0, each, MemberRole::kOutput},
                   {g.find_value("gamma"), 0, each, MemberRole::kGamma},
                   {g.find_value("beta"), 0, each, MemberRole::kVector},
                   {g.find_value("next"), 3, each, MemberRole::kInput}};
  group.activations = {{g.find_value("n"), 3, each, MemberRole::kVector}};
  Group frozen = group;
  frozen.frozen = "is an output";
  return {group, frozen};
}

std::vector<Importance> scores(Criterion criterion, ImportanceOptions options = {}) {
  const Graph g = network();
  options.criterion = criterion;
  auto out = importance(g, groups_of(g), options);
  REQUIRE(out);
  REQUIRE(out->size() == 2);
  CHECK((*out)[1].missing == "is an output");
  return *out;
}

void check_values(const Importance& i, double a, double b) {
  REQUIRE(i.values.size() == 2);
  CHECK(i.values[0] == doctest::Approx(a));
  CHECK(i.values[1] == doctest::Approx(b));
}

TEST_CASE("each member counts relative to its own mean, whatever its size") {
  check_values(scores(Criterion::kL1)[0], (0.5 + 1) / 2, (1.5 + 1) / 2);
  check_values(scores(Criterion::kL2)[0], (0.5 + 1) / 2, (1.5 + 1) / 2);
}

TEST_CASE("gamma is the magnitude of the batch normalization's scale, shown as it is") {
  const Importance i = scores(Criterion::kGamma)[0];
  check_values(i, 4.0 / 3, 2.0 / 3);
  CHECK(i.shown == std::vector<double>{0.5, 0.25});
}

TEST_CASE("gamma of a network without batch normalization is an error that names l1 and taylor") {
  const Graph g = network();
  auto groups = groups_of(g);
  std::erase_if(groups[0].members, [](const Member& m) { return m.role == MemberRole::kGamma; });
  ImportanceOptions options;
  options.criterion = Criterion::kGamma;
  const auto out = importance(g, groups, options);
  REQUIRE_FALSE(out);
  CHECK(out.error().message.find("l1 or taylor") != std::string::npos);
}

TEST_CASE("taylor squares the sum over a channel's weights per batch, then averages, batch normalization included") {
  ImportanceOptions options;
  size_t asked = 0;
  options.gradients = [&](const Graph& g, std::span<const ValueId> constants, const GradientSink& sink) -> Result<void> {
    asked = constants.size();
    for (const float sign : {1.0f, -1.0f}) {  // two batches: terms cancel over them, squares do not
      std::vector<std::vector<float>> values;
      for (const ValueId v : constants) {
        values.emplace_back(g.value(v).constant.as<float>().size(), 0.0f);
        if (g.value(v).name == "w") values.back() = {3 * sign, 1 * sign};       // g w: 3, -3
        if (g.value(v).name == "gamma") values.back() = {2 * sign, 12 * sign};  // -1, 3
      }
      sink({values.begin(), values.end()});
    }
    return {};
  };
  // w: 9 and 9; gamma: 1 and 9; next: no gradient, which says nothing.
  check_values(scores(Criterion::kTaylor, options)[0], (1 + 0.2 + 0) / 3, (1 + 1.8 + 0) / 3);
  CHECK(asked == 3);
}

TEST_CASE("activation takes the means that the callback gives, by the group's own indices") {
  ImportanceOptions options;
  options.activations = [](const Graph&, std::span<const Member> activations) -> Result<std::vector<std::vector<double>>> {
    CHECK(activations.size() == 1);
    return std::vector<std::vector<double>>{{1, 3}};
  };
  check_values(scores(Criterion::kActivation, options)[0], 0.5, 1.5);
}

TEST_CASE("random is the same for a seed and differs between seeds") {
  ImportanceOptions one, two;
  two.seed = 2;
  CHECK(scores(Criterion::kRandom, one)[0].values == scores(Criterion::kRandom, one)[0].values);
  CHECK(scores(Criterion::kRandom, one)[0].values != scores(Criterion::kRandom, two)[0].values);
}

TEST_CASE("weights with NaN give no importance, and an unknown criterion lists the known ones") {
  Graph g = network();
  auto groups = groups_of(g);
  const ValueId bad = g.add_constant("bad", {DType::kF32, {g.dims().constant(2)}}, Constant::of(std::vector<float>{NAN, 1}));
  groups[0].members[0] = {bad, 0, {{0}, {1}}, MemberRole::kOutput};
  const auto out = importance(g, groups, {});
  REQUIRE(out);
  CHECK((*out)[0].missing == "holds NaN or infinity");
  CHECK(parse_criterion("taylor").value() == Criterion::kTaylor);
  CHECK(parse_criterion("magic").error().message.find("gamma, l1, l2, taylor, activation, random") != std::string::npos);
}

TEST_CASE("a grouped weight's input channel lies in the rows of its own group") {
  Graph g;
  const auto dim = [&](int64_t n) { return g.dims().constant(n); };
  const ValueId w = g.add_constant("w", {DType::kF32, {dim(4), dim(1), dim(1), dim(2)}}, Constant::of(std::vector<float>(8, 1)));
  const Member m{w, 3, {{0}, {3}}, MemberRole::kInput, 2};
  CHECK(member_elements(g, m, 0) == std::vector<size_t>{0, 2});
  CHECK(member_elements(g, m, 1) == std::vector<size_t>{5, 7});
}

TEST_CASE("a channel costs its share of the nodes that make and read it, and of the parameters") {
  const Graph g = network();
  const auto groups = groups_of(g);
  CHECK(channel_parameters(g, groups)[0] == doctest::Approx(4));  // one each of w, gamma, beta, next
  const auto us = channel_times(g, groups, [](const Node& n) { return n.name == "c" ? 10.0 : n.name == "y" ? 4.0 : 0.0; });
  CHECK(us[0] == doctest::Approx(5 + 2));
  CHECK(channel_times(g, groups, [](const Node&) { return 0.0; })[0] == 1);
}

}  // namespace
}  // namespace lathe::prune
