// Runs every node whose operands are all constants, once, and puts its results in its place: a graph of that node alone is
// lowered and goes through the one executor. What the executor cannot run, what writes variables, and results much larger than
// their operands stay.
#include <algorithm>

#include "graph/lower/load.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// A result may be this many times as large as the node's operands together, or this many bytes: a model does not grow much by
// folding.
constexpr uint64_t kMaxGrowth = 4, kAlwaysBytes = 4096;

bool all_constant(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return v == kNoId || graph.value(v).kind == ValueKind::kConstant; });
}

// Bytes of a dense value, or nothing if its size is unknown or absurd.
std::optional<uint64_t> bytes_of(const Graph& graph, ValueId v) {
  const std::optional<std::vector<int64_t>> dims = known_dims(graph, v);
  uint64_t bytes = dtype_bytes(graph.value(v).type.dtype);
  if (!dims) return std::nullopt;
  for (int64_t d : *dims) {
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return std::nullopt;
  }
  return bytes <= 0x7fffffffu ? std::optional<uint64_t>(bytes) : std::nullopt;
}

bool worth_folding(const Graph& graph, const Node& node) {
  uint64_t in = 0, out = 0;
  for (ValueId v : node.inputs) in += v == kNoId ? 0 : graph.value(v).constant.bytes.size();
  for (ValueId v : node.outputs) {
    const std::optional<uint64_t> bytes = bytes_of(graph, v);
    if (!bytes || graph.is_output(v)) return false;
    out += *bytes;
  }
  return out <= kAlwaysBytes || out <= kMaxGrowth * in;
}

// The node alone, its constants shared.
Result<Graph> graph_of(const Graph& graph, const Node& node) {
  Graph alone(graph.dim_table());
  std::vector<ValueId> inputs;
  for (ValueId v : node.inputs) {
    if (v == kNoId) {
      inputs.push_back(kNoId);
      continue;
    }
    const Value& value = graph.value(v);
    const ValueId known = alone.find_value(value.name);
    inputs.push_back(known != kNoId ? known : alone.add_constant(value.name, value.type, value.constant, value.quant));
  }
  std::vector<std::string> names;
  std::vector<std::optional<Quant>> quants;
  for (ValueId v : node.outputs) {
    names.push_back(graph.value(v).name);
    quants.push_back(graph.value(v).quant);
  }
  LATHE_TRY(const NodeId n, alone.add_node(node.op, node.attrs, std::move(inputs), node.name, names, quants));
  for (ValueId v : alone.node(n).outputs) alone.add_output(v);
  return alone;
}

Result<std::vector<Constant>> run(const Graph& alone) {
  LATHE_TRY(ProgramImage image, lower(alone, Target::kHost));
  LATHE_TRY(const auto program, load_program(std::move(image)));
  // The portable kernels: what is folded must not depend on the machine that folds.
  LATHE_TRY(const auto session, HostSession::create(program, {kernels::kIsaScalar, 1}));
  LATHE_CHECK_OK(session->bind({}));
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> pointers;
  for (ValueId v : alone.outputs()) {
    results.emplace_back(bytes_of(alone, v).value_or(0));
    pointers.push_back(results.back().data());
  }
  LATHE_CHECK_OK(session->run({}, pointers));
  std::vector<Constant> constants;
  for (const std::vector<std::byte>& r : results) constants.push_back(Constant::copy(r));
  return constants;
}

}  // namespace

Result<void> fold_constants(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node node = graph.node(n);
    // Weights on their way to the op that reads them: fuse-quantized wants their integers.
    if (node.op == Op::kDequantize) continue;
    if (node.inputs.empty() || node.outputs.empty() || !node.regions.empty() || !all_constant(graph, node) ||
        !worth_folding(graph, node))
      continue;
    LATHE_TRY(const Graph alone, graph_of(graph, node));
    const Result<std::vector<Constant>> results = run(alone);
    if (!results) {
      if (results.error().code == Code::kUnsupported) continue;
      return tl::unexpected<Error>(with_context(results.error(), "folding '" + node.name + "'"));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value value = graph.value(node.outputs[i]);
      rewriter.replace(node.outputs[i], rewriter.constant(graph.fresh_name(value.name), value.type, (*results)[i], value.quant));
    }
    rewriter.erase(n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
