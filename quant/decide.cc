#include "quant/decide.h"

#include <algorithm>
#include <cctype>

#include "graph/cost.h"
#include "quant/embedding.h"

namespace lathe {
namespace {

bool moves_data(const OpDef& def) { return def.quant_out.role == QuantRole::kSameAs; }

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Why this node cannot be integer whatever its neighbours are; empty if it can.
std::string obstacle(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (node.outputs.size() != 1 || def.quant_out.role == QuantRole::kFloatOnly || (!def.has_s8 && !def.as_table))
    return "no integer kernel";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoId) continue;
    const Value& v = graph.value(node.inputs[i]);
    const QuantRole role = quant_rule(def, i).role;
    if (role == QuantRole::kInteger) continue;
    if (role == QuantRole::kFloatOnly) return "no integer kernel";
    if (v.type.dtype != DType::kF32) return std::string("works on ") + dtype_name(v.type.dtype);
    const bool constant = role == QuantRole::kWeight || role == QuantRole::kBias || role == QuantRole::kFloatConstant;
    if (constant && v.kind != ValueKind::kConstant)
      return "weights are not constant";
  }
  return graph.value(node.outputs[0]).type.dtype == DType::kF32 ? "" : "result is not a real number";
}

// Per node of order(): whether a node with weights reads, directly or not, what it makes.
std::vector<bool> feeds_weighted_op(const Graph& graph) {
  std::vector<bool> value_feeds(graph.value_count(), false), node_feeds(graph.order().size(), false);
  for (size_t i = graph.order().size(); i-- > 0;) {
    const Node& node = graph.node(graph.order()[i]);
    for (const ValueId v : node.outputs) node_feeds[i] = node_feeds[i] || value_feeds[v];
    if (node_feeds[i] || node_cost_macs(graph, node) > 0)
      for (const ValueId v : node.inputs)
        if (v != kNoId) value_feeds[v] = true;
  }
  return node_feeds;
}

// Data movement follows its input. Where that is float but every reader is integer, the movement is done on bytes, after
// quantizing.
void settle_movement(const Graph& graph, std::vector<Decision>* decisions, const std::vector<bool>& possible) {
  std::vector<bool> value_int8(graph.value_count(), false);
  for (size_t i = 0; i < decisions->size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    Decision& d = (*decisions)[i];
    if (possible[i] && moves_data(op_def(node.op))) {
      const ValueId source = node.inputs[static_cast<size_t>(op_def(node.op).quant_out.index)];
      d = value_int8[source] ? Decision{true, "", false} : Decision{false, "moves float data", false};
    }
    if (d.int8 && !d.by_row) value_int8[node.outputs[0]] = true;
  }
  for (size_t i = decisions->size(); i-- > 0;) {
    const Node& node = graph.node(graph.order()[i]);
    if ((*decisions)[i].int8 || !possible[i] || !moves_data(op_def(node.op)) || graph.is_output(node.outputs[0])) continue;
    const std::vector<NodeId> readers = graph.consumers(node.outputs[0]);
    const bool all = !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId r) {
      const auto at = std::find(graph.order().begin(), graph.order().end(), r) - graph.order().begin();
      return (*decisions)[static_cast<size_t>(at)].int8;
    });
    if (all) (*decisions)[i] = {true, "", false};
  }
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || same_letter(pattern[p], text[t]))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<void> check_is_float(const Graph& graph) {
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!graph.value(v).dead && graph.value(v).quant)
      return fail(Code::kInvalidArgument,
                  "the model is already quantized (tensor '" + graph.value(v).name + "'); quantize the float model");
  return {};
}

Result<std::vector<bool>> kept_float(const Graph& graph, const std::vector<std::string>& patterns) {
  std::vector<bool> kept(graph.order().size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < kept.size(); ++i) {
      const Node& node = graph.node(graph.order()[i]);
      if (!matches_pattern(pattern, node.name) && !matches_pattern(pattern, op_name(node.op))) continue;
      kept[i] = found = true;
    }
    if (!found) return fail(Code::kInvalidArgument, "keep-float entry '" + pattern + "' matches no node name or op type");
  }
  return kept;
}

Result<std::vector<Decision>> decide(const Graph& graph, const QuantizeOptions& options) {
  LATHE_TRY(const std::vector<bool> kept, kept_float(graph, options.keep_float));
  const std::vector<bool> feeds = feeds_weighted_op(graph);
  std::vector<Decision> decisions(graph.order().size());
  std::vector<bool> possible(decisions.size(), false);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    std::string why = obstacle(graph, node);
    const bool asked = kept[i] || options.keep_nodes.contains(graph.order()[i]);
    if (why.empty() && asked) why = "kept float on request";
    possible[i] = why.empty();
    // What follows the last weighted op is cheap and decides the result's resolution.
    if (why.empty() && !moves_data(op_def(node.op)) && !feeds[i] && node_cost_macs(graph, node) == 0)
      why = "after the last weighted op";
    const bool by_row = takes_embedding_rows(graph, node) && !asked;
    if (by_row) why.clear(), possible[i] = false;
    decisions[i] = {why.empty(), why, by_row};
  }
  settle_movement(graph, &decisions, possible);
  return decisions;
}

}  // namespace lathe
