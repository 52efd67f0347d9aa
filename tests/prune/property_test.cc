// Networks composed at random, cut at random: the cut network computes what the masked one does.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "prune/networks.h"

namespace lathe::test {
namespace {

struct Tensor {
  std::string name;
  int64_t channels;
};

// Images [N,4,4,c]; each step reads tensors made before.
class RandomNet {
 public:
  explicit RandomNet(uint32_t seed) : random_(seed) {
    live_.push_back({net_.input("x", "f32[N,4,4,4]"), 4});
    live_.push_back({net_.block("stem", "x", 4, 8), 8});
  }

  Graph build(int steps) {
    for (int i = 0; i < steps; ++i) step();
    std::vector<std::string> all;
    int64_t channels = 0;
    for (size_t i = live_.size() - std::min<size_t>(live_.size() - 1, 3); i < live_.size(); ++i) {
      all.push_back(live_[i].name);
      channels += live_[i].channels;
    }
    net_.head(net_.node("all", "Concat", all, "axis=3"), channels);
    return net_.graph();
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  const Tensor& pick() { return live_[1 + below(live_.size() - 1)]; }
  std::string fresh() { return "n" + std::to_string(++count_); }
  void made(std::string name, int64_t channels) { live_.push_back({std::move(name), channels}); }

  void step() {
    const Tensor t = pick();
    const std::string name = fresh();
    switch (below(12)) {
      case 0:
        return block(t, name);
      case 1:
        return convolution(t, name);
      case 2:
        return made(net_.batch_norm(name, t.name, t.channels), t.channels);
      case 3:
        return made(net_.relu(name, t.name), t.channels);
      case 4:
      case 5:
        return pair(t, name, below(2) == 0 ? "Add" : "Mul");
      case 6:
        return concat(t, name);
      case 7:
        return slice(t, name);
      case 8:
        return pad(t, name);
      case 9:
        return shuffle(t, name);
      case 10:
        return gate(t, name);
      default:
        return made(net_.layer_norm(name, t.name, t.channels, 3), t.channels);
    }
  }

  void block(const Tensor& t, const std::string& name) {
    const int64_t out = 4 + 2 * static_cast<int64_t>(below(4));
    made(net_.block(name, t.name, t.channels, out), out);
  }

  void convolution(const Tensor& t, const std::string& name) {
    const int64_t even = t.channels % 2 == 0 ? 2 : 1;
    const int64_t groups = below(2) == 0 ? even : t.channels;
    const int64_t out = groups * (1 + static_cast<int64_t>(below(3)));
    made(net_.conv(name, t.name, t.channels, out, {.groups = groups, .bias = below(2) == 0}), out);
  }

  void pair(const Tensor& t, const std::string& name, const std::string& op) {
    for (size_t i = live_.size(); i-- > 1;)
      if (live_[i].channels == t.channels && live_[i].name != t.name && below(2) == 0)
        return made(net_.node(name, op, {t.name, live_[i].name}), t.channels);
    made(net_.node(name, op, {t.name, net_.constant(name + "_c", {1, 1, t.channels})}), t.channels);
  }

  void concat(const Tensor& t, const std::string& name) {
    const Tensor u = pick();
    if (t.channels + u.channels > 24) return made(net_.relu(name, t.name), t.channels);
    made(net_.node(name, "Concat", {t.name, u.name}, "axis=3"), t.channels + u.channels);
  }

  void slice(const Tensor& t, const std::string& name) {
    if (t.channels < 4) return made(net_.relu(name, t.name), t.channels);
    const auto begin = static_cast<int64_t>(below(static_cast<size_t>(t.channels) / 2)), size = t.channels / 2;
    made(net_.slice(name, t.name, 3, begin, begin + size), size);
  }

  void pad(const Tensor& t, const std::string& name) {
    const auto before = static_cast<int64_t>(below(3)), after = static_cast<int64_t>(below(3));
    made(net_.node(name, "Pad", {t.name},
                   "before=[0,0,0," + std::to_string(before) + "], after=[0,0,0," + std::to_string(after) + "]"),
         t.channels + before + after);
  }

  // Channels as two axes, exchanged, and one axis again.
  void shuffle(const Tensor& t, const std::string& name) {
    if (t.channels % 2 != 0) return made(net_.relu(name, t.name), t.channels);
    const std::string apart =
        net_.transpose(name + "_t", net_.reshape(name + "_r", t.name, {-1, 4, 4, 2, t.channels / 2}), "0,1,2,4,3");
    made(net_.reshape(name, apart, {-1, 4, 4, t.channels}), t.channels);
  }

  void gate(const Tensor& t, const std::string& name) {
    const std::string mean = net_.node(name + "_m", "Mean", {t.name}, "axes=[1,2], keep_dims=1");
    const std::string up =
        net_.conv(name + "_up", net_.relu(name + "_r", net_.conv(name + "_down", mean, t.channels, 4, {.kernel = 1})), 4,
                  t.channels, {.kernel = 1, .bias = true});
    made(net_.node(name, "Mul", {t.name, net_.node(name + "_s", "Sigmoid", {up})}), t.channels);
  }

  Net net_;
  std::mt19937 random_;
  std::vector<Tensor> live_;
  int count_ = 0;
};

TEST_CASE("random networks cut at random compute what their masked forms do") {
  size_t cuts_made = 0, frozen = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = RandomNet(seed).build(14);
    const auto groups = groups_of(graph);
    for (const prune::Group& g : groups) frozen += !g.frozen.empty();
    const auto cuts = random_cuts(groups, 0.2 + 0.01 * seed, seed);
    cuts_made += cuts.size();
    // Products of many layers grow; differences are relative to the outputs.
    proved(graph, groups, cuts, 1e-3);
  }
  MESSAGE(cuts_made, " cuts, ", frozen, " frozen groups");
  CHECK(cuts_made > 150);
}

}  // namespace
}  // namespace lathe::test
