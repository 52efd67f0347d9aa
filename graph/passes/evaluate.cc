#include "graph/passes/evaluate.h"

#include <algorithm>

#include "graph/lower/load.h"
#include "graph/passes/match.h"

namespace lathe::passes {
namespace {

// What evaluate() takes on: shape arithmetic is much smaller.
constexpr size_t kMaxNodes = 256;
constexpr uint64_t kMaxBytes = 1 << 20;

// Contents that are all numbers, as bytes of the value's type; nothing for other types.
std::optional<Constant> numbers_of(const Graph& graph, const Value& value) {
  if (!value.contents || value.quant || (value.type.dtype != DType::kS64 && value.type.dtype != DType::kS32)) return std::nullopt;
  std::vector<int64_t> wide;
  for (const Dim d : *value.contents) {
    const auto n = graph.dims().value(d);
    if (!n) return std::nullopt;
    wide.push_back(*n);
  }
  if (value.type.dtype == DType::kS64) return Constant::of(wide);
  return Constant::of(std::vector<int32_t>(wide.begin(), wide.end()));
}

// What v is without running anything.
std::optional<Constant> stored(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  return value.kind == ValueKind::kConstant ? value.constant : numbers_of(graph, value);
}

// Nodes that v depends on, appended in no order. False if v depends on anything else than constants, or on too much.
bool collect(const Graph& graph, ValueId v, std::vector<NodeId>& nodes) {
  std::vector<ValueId> open = {v};
  uint64_t bytes = 0;
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (at == kNoId) continue;
    const auto size = known_bytes(graph, at);
    if (graph.value(at).quant || !size || (bytes += *size) > kMaxBytes) return false;
    if (stored(graph, at)) continue;
    const NodeId producer = graph.value(at).producer;
    if (producer == kNoId || !graph.node(producer).regions.empty()) return false;
    if (std::find(nodes.begin(), nodes.end(), producer) != nodes.end()) continue;
    if (nodes.size() == kMaxNodes) return false;
    nodes.push_back(producer);
    open.insert(open.end(), graph.node(producer).inputs.begin(), graph.node(producer).inputs.end());
  }
  return true;
}

// The value in `alone` that stands for v, made on first use.
ValueId constant_in(Graph& alone, const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  const ValueId known = alone.find_value(value.name);
  if (known != kNoId) return known;
  const auto bytes = stored(graph, v);
  return bytes ? alone.add_constant(value.name, value.type, *bytes, value.quant) : kNoId;
}

}  // namespace

std::optional<uint64_t> known_bytes(const Graph& graph, ValueId v) {
  const std::optional<std::vector<int64_t>> dims = known_dims(graph, v);
  uint64_t bytes = dtype_bytes(graph.value(v).type.dtype);
  if (!dims) return std::nullopt;
  for (int64_t d : *dims) {
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return std::nullopt;
  }
  return bytes <= 0x7fffffffu ? std::optional<uint64_t>(bytes) : std::nullopt;
}

Result<Graph> nodes_alone(const Graph& graph, std::span<const NodeId> nodes) {
  Graph alone(graph.dim_table());
  for (const NodeId n : nodes) {
    const Node& node = graph.node(n);
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v == kNoId ? kNoId : constant_in(alone, graph, v));
    std::vector<std::string> names;
    std::vector<std::optional<Quant>> quants;
    for (const ValueId v : node.outputs) {
      names.push_back(graph.value(v).name);
      quants.push_back(graph.value(v).quant);
    }
    LATHE_TRY(const NodeId made, alone.add_node(node.op, node.attrs, std::move(inputs), node.name, names, quants));
    if (n != nodes.back()) continue;
    for (const ValueId v : alone.node(made).outputs) alone.add_output(v);
  }
  return alone;
}

Result<std::vector<Constant>> run_alone(const Graph& alone) {
  LATHE_TRY(ProgramImage image, lower(alone, Target::kHost));
  LATHE_TRY(const auto program, load_program(std::move(image)));
  LATHE_TRY(const auto session, HostSession::create(program, {kernels::kIsaScalar, 1}));
  LATHE_CHECK_OK(session->bind({}));
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> pointers;
  for (ValueId v : alone.outputs()) {
    results.emplace_back(known_bytes(alone, v).value_or(0));
    pointers.push_back(results.back().data());
  }
  LATHE_CHECK_OK(session->run({}, pointers));
  std::vector<Constant> constants;
  for (const std::vector<std::byte>& r : results) constants.push_back(Constant::copy(r));
  return constants;
}

std::optional<Constant> evaluate(const Graph& graph, ValueId v) {
  if (auto known = stored(graph, v)) return known;
  std::vector<NodeId> nodes;
  if (!collect(graph, v, nodes)) return std::nullopt;
  std::sort(nodes.begin(), nodes.end());  // while a graph is being built, ids ascend in its order
  const Result<Graph> alone = nodes_alone(graph, nodes);
  if (!alone) return std::nullopt;
  const Result<std::vector<Constant>> results = run_alone(*alone);
  if (!results) return std::nullopt;
  const std::vector<ValueId>& outputs = graph.node(nodes.back()).outputs;
  return (*results)[static_cast<size_t>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin())];
}

}  // namespace lathe::passes
