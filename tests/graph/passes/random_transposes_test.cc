// Random graphs of transposes and layout-free ops: the pass ends, keeps every number, and never leaves more transposes than there
// were.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

using Dims = std::vector<int64_t>;

std::string list(const Dims& v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s + "]";
}

// A random network as text, with the dims of every value.
class RandomNet {
 public:
  explicit RandomNet(uint32_t seed) : random_(seed) {
    body_ = "input %v0 : f32[2,3,4,5]\n";
    dims_.push_back({2, 3, 4, 5});
    for (int i = 0; i < 14; ++i) add_node();
    body_ += "output %v" + std::to_string(dims_.size() - 1) + "\n";
    const size_t extra = 1 + below(dims_.size() - 2);
    body_ += "output %v" + std::to_string(extra) + "\n";
  }
  const std::string& body() const { return body_; }

 private:
  size_t below(size_t n) { return random_() % n; }
  // Recent values are likelier, so that chains form.
  size_t pick() { return dims_.size() - 1 - std::min(below(dims_.size()), below(dims_.size())); }

  void emit(const std::string& op, const std::string& operands, const std::string& attrs, Dims dims) {
    body_ += "%v" + std::to_string(dims_.size()) + " = " + op + " (" + operands + ")" + attrs + "\n";
    dims_.push_back(std::move(dims));
  }

  void add_node() {
    const size_t v = pick();
    const std::string name = "%v" + std::to_string(v);
    const Dims d = dims_[v];
    const size_t axis = below(4);
    switch (below(10)) {
      case 0: case 1: case 2: return transpose(v);
      case 3: return emit("Tanh", name, "", d);
      case 4: return emit("Softmax", name, " {axis=" + std::to_string(axis) + "}", d);
      case 5: return add_same(v);
      case 6: return add_constant(v);
      case 7: return mean(v, axis);
      case 8: return pad(v, axis);
      default: {
        Dims twice = d;
        twice[axis] *= 2;
        if (twice[axis] > 20) return emit("Tanh", name, "", d);
        return emit("Concat", name + ", " + name, " {axis=" + std::to_string(axis) + "}", twice);
      }
    }
  }

  void transpose(size_t v) {
    static constexpr int64_t kPerms[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}, {3, 2, 1, 0}};
    const auto& p = kPerms[below(6)];
    Dims perm(p, p + 4), out;
    for (const int64_t i : perm) out.push_back(dims_[v][static_cast<size_t>(i)]);
    emit("Transpose", "%v" + std::to_string(v), " {perm=" + list(perm) + "}", out);
  }

  void add_same(size_t v) {
    size_t other = v;
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (dims_[i] == dims_[v] && i != v) other = i;
    }
    emit("Add", "%v" + std::to_string(v) + ", %v" + std::to_string(other), " {lo=-3, hi=3}", dims_[v]);
  }

  void add_constant(size_t v) {
    Dims d = dims_[v];
    for (int64_t& n : d) n = below(2) == 0 ? 1 : n;
    d.erase(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(below(4)));
    const std::string name = "k" + std::to_string(dims_.size());
    body_ += random_f32(name, d, static_cast<uint32_t>(random_()));
    emit("Mul", "%" + name + ", %v" + std::to_string(v), "", dims_[v]);
  }

  void mean(size_t v, size_t axis) {
    Dims d = dims_[v];
    d[axis] = 1;
    emit("Mean", "%v" + std::to_string(v), " {axes=[" + std::to_string(axis) + "]}", d);
  }

  void pad(size_t v, size_t axis) {
    Dims d = dims_[v], before(4, 0), after(4, 0);
    before[axis] = 1;
    ++d[axis];
    emit("Pad", "%v" + std::to_string(v), " {before=" + list(before) + ", after=" + list(after) + ", value=0.5}", d);
  }

  std::mt19937 random_;
  std::string body_;
  std::vector<Dims> dims_;
};

size_t count_transposes(const Graph& g) {
  return static_cast<size_t>(
      std::count_if(g.order().begin(), g.order().end(), [&](NodeId n) { return g.node(n).op == Op::kTranspose; }));
}

TEST_CASE("random graphs keep their numbers and gain no transposes") {
  size_t before = 0, after = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Graph g = parsed(RandomNet(seed).body());
    Rewriter rewriter(g);
    REQUIRE(passes::dead_code(rewriter));
    const size_t had = count_transposes(g);
    const auto numbers = run_graph(g);
    const auto done = passes::cancel_transposes(rewriter);
    REQUIRE_MESSAGE(done, done.error().message);
    const auto ok = verify(g);
    REQUIRE_MESSAGE(ok, ok.error().message);
    CHECK(count_transposes(g) <= had);
    CHECK(relative_difference(run_graph(g), numbers) < 1e-5);
    before += had;
    after += count_transposes(g);
  }
  MESSAGE(before << " transposes became " << after);
  CHECK(after * 3 < before * 2);
}

}  // namespace
}  // namespace lathe::test
