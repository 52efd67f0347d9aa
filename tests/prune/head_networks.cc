#include "prune/head_networks.h"

#include <doctest/doctest.h>

#include <numeric>

#include "graph/rewriter.h"
#include "prune/random_run.h"

namespace lathe::test {

std::string attention_block(Net& n, const std::string& name, const std::string& x, const AttentionOptions& options) {
  constexpr int64_t kHeads = kHeadWidth / kHeadDepth;
  const std::string a = n.layer_norm(name + "_ln", x, kHeadWidth, 2);
  std::vector<std::string> parts;
  for (const std::string letter : {"q", "k", "v"}) {
    const std::string part = name + "_" + letter;
    const int64_t heads = letter == "q" ? kHeads : options.kv_heads, times = kHeads / heads;
    const std::string made = n.linear(part, a, kHeadWidth, heads * kHeadDepth);
    std::string h = n.transpose(part + "_heads", n.reshape(part + "_split", made, {-1, kHeadTokens, heads, kHeadDepth}), "0,2,1,3");
    if (times > 1) {
      const std::string one = n.reshape(part + "_one", h, {-1, heads, 1, kHeadTokens, kHeadDepth});
      const std::string repeated = n.node(part + "_repeat", "Expand", {one, n.integers(part + "_times", {1, 1, times, 1, 1})});
      h = n.reshape(part + "_all", repeated, {-1, kHeads, kHeadTokens, kHeadDepth});
    }
    parts.push_back(h);
  }
  const std::string scores = n.node(name + "_scores", "MatMul", {parts[0], parts[1]}, "b_perm=[0,1,3,2]");
  const std::string o = n.node(name + "_context", "MatMul", {n.node(name + "_shares", "Softmax", {scores}, "axis=3"), parts[2]});
  const std::string joined = n.reshape(name + "_joined", n.transpose(name + "_back", o, "0,2,1,3"), {-1, kHeadTokens, kHeadWidth});
  return n.node(name, "Add", {x, n.linear(name + "_proj", joined, kHeadWidth, kHeadWidth, options.bias)});
}

Graph attention_network(size_t layers, const AttentionOptions& options) {
  Net n;
  std::string x = n.input("x", "f32[N,6,16]");
  for (size_t i = 0; i < layers; ++i) x = attention_block(n, "a" + std::to_string(i), x, options);
  n.output(n.linear("classes", n.node("mean", "Mean", {x}, "axes=[1], keep_dims=0"), kHeadWidth, 3));
  return n.graph();
}

Graph changed(const Graph& graph, const std::string& constant, const Change& change) {
  Graph out = graph;
  Rewriter rewriter(out);
  const ValueId v = out.find_value(constant);
  REQUIRE_MESSAGE(v != kNoId, constant);
  const auto old = out.value(v).constant.as<float>();
  std::vector<float> values(old.begin(), old.end());
  const auto columns = static_cast<size_t>(*out.dims().value(out.value(v).type.dims.back()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = change(i / columns, i % columns, values[i]);
  rewriter.set_constant(v, Constant::of(values));
  REQUIRE(rewriter.ok());
  return out;
}

Graph with_equal_heads(const Graph& graph, const std::string& name, size_t from, size_t to) {
  Graph out = graph;
  for (const std::string part : {"_q", "_k", "_v"})
    for (const bool bias : {false, true}) {
      const std::string constant = name + part + (bias ? "_b" : "_w");
      const auto old = graph.value(graph.find_value(constant)).constant.as<float>();
      const auto columns = static_cast<size_t>(bias ? 1 : kHeadWidth), depth = static_cast<size_t>(kHeadDepth);
      out = changed(out, constant, [&](size_t row, size_t column, float value) {
        const size_t r = bias ? column : row, c = bias ? 0 : column;
        return r / depth == to ? old[(from * depth + r % depth) * columns + c] : value;
      });
    }
  return out;
}

prune::HeadSource random_source(uint64_t samples, std::vector<std::string> groups) {
  prune::HeadSource source;
  source.groups = std::move(groups);
  std::vector<uint32_t> all(source.groups.size());
  std::iota(all.begin(), all.end(), 0u);
  source.run = [samples, all](const Graph& graph, std::span<const ValueId> values, const prune::SampleSink& sink) -> Result<void> {
    Graph run = graph;
    const size_t first = run.outputs().size();
    for (const ValueId v : values) run.add_output(v);
    for (uint64_t seed = 1; seed <= samples; ++seed) {
      LATHE_TRY(const auto outputs, prune::run_random(run, {.seed = seed, .batch = 1}));
      std::vector<std::vector<float>> real;
      for (size_t i = first; i < outputs.size(); ++i) real.emplace_back(outputs[i].values.begin(), outputs[i].values.end());
      sink({real.begin(), real.end()}, all);
    }
    return {};
  };
  return source;
}

}  // namespace lathe::test
