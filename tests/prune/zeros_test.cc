// Structures that are zero already: found in the weights, not mistaken for channels that happen to be quiet.
#include "prune/zeros.h"

#include <doctest/doctest.h>

#include "graph/graph_run.h"

namespace lathe::prune {
namespace {

std::string floats(const std::string& name, const std::string& dims, const std::string& values) {
  return "  constant %" + name + " : f32[" + dims + "] = [" + values + "]\n";
}

// x -> a convolution to 4 channels, a normalization, a clamp, and a layer of 2 that reads them.
std::string network(const std::string& weight, const std::string& gamma, const std::string& beta, const std::string& next) {
  return "  input %x : f32[2,3,3,1]\n" + floats("w", "4,1,1,1", weight) + floats("gamma", "4", gamma) +
         floats("beta", "4", beta) + floats("mean", "4", "0.1, 0.2, 0.3, 0.4") + floats("var", "4", "1, 1, 1, 1") +
         floats("next", "2,1,1,4", next) +
         "  %c = Conv2d (%x, %w, _)\n"
         "  %n = BatchNorm (%c, %gamma, %beta, %mean, %var) {axis=3, epsilon=0}\n"
         "  %r = Clamp (%n) {lo=0}\n"
         "  %y = Conv2d (%r, %next, _)\n"
         "  output %y\n";
}
const std::string kOnes = "1, 1, 1, 1", kNext = "1, 2, 3, 4, 5, 6, 7, 8";

struct Found {
  Graph graph;
  std::vector<Group> groups;
  Zeros zeros;
};
Found find(const std::string& body) {
  Found f{test::parsed(body), {}, {}};
  auto groups = find_groups(f.graph);
  REQUIRE(groups);
  f.groups = std::move(*groups);
  auto zeros = find_zeros(f.graph, f.groups);
  REQUIRE_MESSAGE(zeros, zeros.error().message);
  f.zeros = std::move(*zeros);
  return f;
}

void check_only_cut(const Found& f, const std::vector<uint32_t>& channels) {
  if (channels.empty()) {
    CHECK(f.zeros.cuts.empty());
    return;
  }
  REQUIRE(f.zeros.cuts.size() == 1);
  CHECK(f.zeros.cuts[0].channels == channels);
  const auto masked = mask(f.graph, f.groups, f.zeros.cuts);
  const auto smaller = cut(f.graph, f.groups, f.zeros.cuts);
  REQUIRE(masked);
  REQUIRE(smaller);
  for (const Graph* reference : {&*masked, &f.graph}) {
    const auto proof = prove(*reference, smaller->graph);
    REQUIRE(proof);
    CHECK(proof->passed);
  }
}

TEST_CASE("a channel whose normalization has scale and shift zero goes, whatever its filter") {
  check_only_cut(find(network("1, 2, 3, 4", "1, 0, 1, 0", "0.5, 0, 0.5, 0", kNext)), {1, 3});
}

TEST_CASE("a channel with a shift stays: it is constant, not zero") {
  check_only_cut(find(network("1, 2, 3, 4", "1, 0, 1, 1", "0.5, 0.5, 0.5, 0.5", kNext)), {});
}

TEST_CASE("a filter of zeros behind a mean stays as long as the normalization makes something of it") {
  check_only_cut(find(network("1, 0, 3, 4", kOnes, "0, 0, 0, 0", kNext)),
                 {});  // emits act(-0.2): nothing, but only thanks to the clamp
}

TEST_CASE("a channel that a clamp silences on these inputs stays") {
  check_only_cut(find(network("0.001, 1, 1, 1", kOnes, "-50, 0, 0, 0", kNext)), {});
}

TEST_CASE("a channel that the next layer weighs with zeros goes") {
  check_only_cut(find(network("1, 2, 3, 4", kOnes, "0, 0, 0, 0", "1, 0, 3, 4, 5, 0, 7, 8")), {1});
  check_only_cut(find(network("1, 2, 3, 4", kOnes, "0, 0, 0, 0", "1, 0, 3, 4, 5, 6, 7, 8")), {});
}

TEST_CASE("of a group of nothing but zeros one channel stays, and a note says so") {
  const Found f = find(network("1, 2, 3, 4", "0, 0, 0, 0", "0, 0, 0, 0", kNext));
  REQUIRE(f.zeros.cuts.size() == 1);
  CHECK(f.zeros.cuts[0].channels.size() == 3);
  CHECK(f.zeros.notes.size() == 1);
}

// A residual block on 4 channels whose branch ends in `gamma` and `beta`.
std::string block(const std::string& gamma, const std::string& beta) {
  return "  input %x : f32[2,3,3,2]\n" + test::random_f32("stem", {4, 1, 1, 2}, 1) + test::random_f32("a", {4, 3, 3, 4}, 2) +
         test::random_f32("b", {4, 3, 3, 4}, 3) + floats("gamma", "4", gamma) + floats("beta", "4", beta) +
         floats("mean", "4", "0, 0, 0, 0") + floats("var", "4", kOnes) + test::random_f32("head", {2, 1, 1, 4}, 4) +
         "  %s = Conv2d (%x, %stem, _)\n"
         "  %t = Conv2d (%s, %a, _) {pad=[1,1,1,1]}\n"
         "  %u = Clamp (%t) {lo=0}\n"
         "  %v = Conv2d (%u, %b, _) {pad=[1,1,1,1]}\n"
         "  %n = BatchNorm (%v, %gamma, %beta, %mean, %var) {axis=3}\n"
         "  %sum = Add (%n, %s)\n"
         "  %y = Conv2d (%sum, %head, _)\n"
         "  output %y\n";
}

TEST_CASE("a residual branch that adds zero goes whole, one that adds something stays") {
  const Found dead = find(block("0, 0, 0, 0", "0, 0, 0, 0"));
  REQUIRE(dead.zeros.branches.size() == 1);
  const auto smaller = remove_branches(dead.graph, dead.zeros.branches);
  REQUIRE(smaller);
  CHECK(smaller->order().size() == 2);
  const auto proof = prove(dead.graph, *smaller);
  REQUIRE(proof);
  CHECK(proof->passed);
  CHECK(find(block("0, 0, 0, 0", "0, 0, 0.1, 0")).zeros.branches.empty());
}

TEST_CASE("zeros without a structure are counted, and two of four are told apart") {
  const std::string zeros = "0, 1, 0, 2,  0, 0, 3, 4";  // two of four
  const Found f = find(network("1, 2, 3, 4", kOnes, "0, 0, 0, 0", zeros));
  const Sparsity s = weight_sparsity(f.graph, f.groups);
  CHECK(s.weights == 8);
  CHECK(s.zeros == 4);
  CHECK(s.layers == 1);
  CHECK(s.two_of_four == 1);
  const Found g = find(network("1, 2, 3, 4", kOnes, "0, 0, 0, 0", "0, 1, 2, 3,  0, 0, 3, 4"));
  CHECK(weight_sparsity(g.graph, g.groups).two_of_four == 0);
}

}  // namespace
}  // namespace lathe::prune
