#include "prune/networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/graph_run.h"
#include "graph/op_def.h"

namespace lathe::test {
namespace {

std::string list(const std::vector<int64_t>& values) {
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) s += (i ? "," : "") + std::to_string(values[i]);
  return s + "]";
}

}  // namespace

std::string Net::input(const std::string& name, const std::string& type) {
  text_ += "input %" + name + " : " + type + "\n";
  return name;
}

std::string Net::constant(const std::string& name, const std::vector<int64_t>& dims, float lo, float hi) {
  text_ += random_f32(name, dims, ++seed_, lo, hi);
  return name;
}

std::string Net::integers(const std::string& name, const std::vector<int64_t>& values) {
  text_ += "constant %" + name + " : s64[" + std::to_string(values.size()) + "] = " + list(values) + "\n";
  return name;
}

std::string Net::node(const std::string& name, const std::string& op, const std::vector<std::string>& operands,
                      const std::string& attrs) {
  text_ += "%" + name + " = " + op + " (";
  for (size_t i = 0; i < operands.size(); ++i) text_ += (i ? ", " : "") + (operands[i] == "_" ? "_" : "%" + operands[i]);
  text_ += ")" + (attrs.empty() ? "" : " {" + attrs + "}") + "\n";
  return name;
}

std::string Net::conv(const std::string& name, const std::string& x, int64_t ic, int64_t oc, const ConvOptions& o) {
  std::vector<std::string> operands{x, constant(name + "_w", {oc, o.kernel, o.kernel, ic / o.groups})};
  if (o.bias) operands.push_back(constant(name + "_b", {oc}));
  const std::string pad = std::to_string(o.padded ? o.kernel / 2 : 0), stride = std::to_string(o.stride);
  return node(name, "Conv2d", operands,
              "groups=" + std::to_string(o.groups) + ", stride=[" + stride + "," + stride + "], pad=[" + pad + "," + pad + "," +
                  pad + "," + pad + "]");
}

std::string Net::batch_norm(const std::string& name, const std::string& x, int64_t channels, int axis) {
  const std::string gamma = constant(name + "_gamma", {channels}, 0.5f, 1.5f),
                    beta = constant(name + "_beta", {channels}, 0.2f, 0.8f);
  const std::string mean = constant(name + "_mean", {channels}), variance = constant(name + "_var", {channels}, 0.5f, 2.0f);
  return node(name, "BatchNorm", {x, gamma, beta, mean, variance}, "axis=" + std::to_string(axis));
}

std::string Net::block(const std::string& name, const std::string& x, int64_t ic, int64_t oc, const ConvOptions& options) {
  return relu(name + "_relu", batch_norm(name + "_bn", conv(name, x, ic, oc, options), oc));
}

std::string Net::linear(const std::string& name, const std::string& x, int64_t in, int64_t out, bool bias) {
  std::vector<std::string> operands{x, constant(name + "_w", {out, in})};
  if (bias) operands.push_back(constant(name + "_b", {out}));
  return node(name, "FullyConnected", operands);
}

std::string Net::layer_norm(const std::string& name, const std::string& x, int64_t channels, int axis) {
  const std::string scale = constant(name + "_scale", {channels}, 0.5f, 1.5f), shift = constant(name + "_shift", {channels});
  return node(name, "LayerNorm", {x, scale, shift}, "axis=" + std::to_string(axis));
}

std::string Net::reshape(const std::string& name, const std::string& x, const std::vector<int64_t>& target) {
  return node(name, "Reshape", {x, integers(name + "_target", target)});
}

std::string Net::transpose(const std::string& name, const std::string& x, const std::string& perm) {
  return node(name, "Transpose", {x}, "perm=[" + perm + "]");
}

std::string Net::slice(const std::string& name, const std::string& x, int axis, int64_t begin, int64_t end, int64_t step) {
  return node(name, "Slice", {x},
              "axes=[" + std::to_string(axis) + "], begins=[" + std::to_string(begin) + "], ends=[" + std::to_string(end) +
                  "], steps=[" + std::to_string(step) + "]");
}

void Net::head(const std::string& x, int64_t channels, int64_t classes) {
  const std::string pooled = node("pooled", "Mean", {x}, "axes=[1,2], keep_dims=0");
  output(linear("classes", pooled, channels, classes));
}

Graph Net::graph() const { return parsed(text_); }

std::vector<prune::Group> groups_of(const Graph& graph, const prune::GroupOptions& options) {
  auto groups = prune::find_groups(graph, options);
  REQUIRE_MESSAGE(groups, groups.error().message);
  return std::move(*groups);
}

size_t group_named(const std::vector<prune::Group>& groups, const std::string& name) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const prune::Group& g) { return g.name == name; });
  REQUIRE_MESSAGE(found != groups.end(), name);
  return static_cast<size_t>(found - groups.begin());
}

std::string described(const std::vector<prune::Group>& groups) {
  std::string s;
  for (const prune::Group& g : groups) {
    s += g.name + " " + std::to_string(g.channels);
    if (!g.segment.empty()) s += " in " + std::to_string(1 + *std::max_element(g.segment.begin(), g.segment.end()));
    s += std::string(g.heads ? " heads" : "") + (g.averaged ? " averaged" : "") +
         (g.frozen.empty() ? "" : " frozen: " + g.frozen) + "\n";
  }
  return s;
}

std::vector<prune::Cut> random_cuts(const std::vector<prune::Group>& groups, double share, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<prune::Cut> cuts;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<uint32_t> ranked(groups[g].channels);
    for (uint32_t c = 0; c < ranked.size(); ++c) ranked[c] = c;
    std::shuffle(ranked.begin(), ranked.end(), random);
    auto channels = prune::allowed_cut(groups[g], ranked, static_cast<size_t>(share * groups[g].channels));
    if (!channels.empty()) cuts.push_back({g, std::move(channels)});
  }
  return cuts;
}

Graph proved(const Graph& graph, const std::vector<prune::Group>& groups, const std::vector<prune::Cut>& cuts, double tolerance) {
  const auto masked = prune::mask(graph, groups, cuts);
  REQUIRE_MESSAGE(masked, masked.error().message);
  auto rewritten = prune::cut(graph, groups, cuts);
  REQUIRE_MESSAGE(rewritten, rewritten.error().message);
  const auto proof = prune::prove(*masked, rewritten->graph, {.tolerance = tolerance});
  REQUIRE_MESSAGE(proof, proof.error().message);
  INFO("difference ", proof->largest_difference, " of ", proof->largest_output, " in ", proof->output, ", ", proof->sqnr_db,
       " dB");
  CHECK(proof->passed);
  CHECK(proof->largest_output > 1e-3);  // else nothing was compared
  return std::move(rewritten->graph);
}

int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!graph.value(v).dead && graph.value(v).type.dtype == DType::kF32)
      count += static_cast<int64_t>(graph.value(v).constant.bytes.size() / sizeof(float));
  return count;
}

std::string dims_of(const Graph& graph, const std::string& value) {
  const ValueId v = graph.find_value(value);
  REQUIRE_MESSAGE(v != kNoId, value);
  const std::string text = print_type(graph.dims(), graph.value(v).type);
  return text.substr(text.find('['));
}

}  // namespace lathe::test
