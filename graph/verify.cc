// The rules that every graph keeps, one function each. A graph may come from a hostile file: nothing is trusted, an id least of
// all.
#include <algorithm>
#include <set>
#include <string>

#include "graph/ir.h"
#include "graph/op_def.h"

namespace lathe {
namespace {

constexpr int kMaxRegionDepth = 16;
// Passes look for the readers of a value among all nodes, so their work grows with the square of this.
constexpr size_t kMaxNodes = 32768;

tl::unexpected<Error> about(const char* what, const std::string& name, std::string message) {
  return fail(Code::kInvalidArgument, std::string(what) + " '" + name + "': " + std::move(message));
}

// Constant bytes of a value: as many as its type says; constant dims only.
Result<void> check_bytes(const Graph& g, const Value& v) {
  if (!v.constant.valid()) return about("value", v.name, "has no bytes");
  int64_t bytes = dtype_bytes(v.type.dtype);
  for (const Dim d : v.type.dims) {
    const auto extent = g.dims().value(d);
    if (!extent) return about("value", v.name, "is a constant with symbolic dimension " + g.dims().text(d));
    if (__builtin_mul_overflow(bytes, *extent, &bytes)) return about("value", v.name, "size overflows");
  }
  if (static_cast<uint64_t>(bytes) == v.constant.bytes.size()) return {};
  return about("value", v.name,
               "has " + std::to_string(v.constant.bytes.size()) + " bytes, its type has " + std::to_string(bytes));
}

Result<void> check_value(const Graph& g, ValueId id) {
  const Value& v = g.value(id);
  if (v.name.empty()) return fail(Code::kInvalidArgument, "value " + std::to_string(id) + " has no name");
  if (auto ok = check_type(g.dims(), v.type); !ok) return about("value", v.name, ok.error().message);
  if (v.quant)
    if (auto ok = check_quant(g.dims(), v.type, *v.quant); !ok) return about("value", v.name, ok.error().message);
  const bool made = v.kind == ValueKind::kTemporary;
  if (made != (v.producer != kNoId))
    return about("value", v.name, made ? "has no producer" : "is not a temporary, but has a producer");
  if (v.kind == ValueKind::kConstant || v.kind == ValueKind::kVariable) LATHE_CHECK_OK(check_bytes(g, v));
  if (v.kind == ValueKind::kInput && std::count(g.inputs().begin(), g.inputs().end(), id) != 1)
    return about("value", v.name, "is an input, but not once in the list of inputs");
  return {};
}

Result<void> check_values(const Graph& g) {
  std::set<std::string_view> names;
  for (ValueId id = 0; id < g.value_count(); ++id) {
    if (g.value(id).dead) continue;
    LATHE_CHECK_OK(check_value(g, id));
    if (!names.insert(g.value(id).name).second) return about("value", g.value(id).name, "name is used twice");
  }
  return {};
}

// Every live value that is made has exactly one maker, which names it once among its results.
Result<void> check_results(const Graph& g, NodeId id, std::vector<bool>& defined) {
  const Node& n = g.node(id);
  for (const ValueId v : n.outputs) {
    if (v >= g.value_count() || g.value(v).dead) return about("node", n.name, "result does not exist");
    if (g.value(v).producer != id) return about("node", n.name, "result '" + g.value(v).name + "' has another producer");
    if (defined[v]) return about("node", n.name, "result '" + g.value(v).name + "' is made twice");
    defined[v] = true;
  }
  return {};
}

Result<void> check_operands(const Graph& g, const Node& n, const std::vector<bool>& defined) {
  for (const ValueId v : n.inputs) {
    if (v == kNoId) continue;
    if (v >= g.value_count() || g.value(v).dead) return about("node", n.name, "operand does not exist");
    if (!defined[v]) return about("node", n.name, "reads '" + g.value(v).name + "' before it is made");
  }
  return {};
}

Result<void> check_types(const Graph& g, const Node& n) {
  const auto types = infer_node(g, n);
  if (!types) return about(op_name(n.op) ? op_name(n.op) : "op", n.name, types.error().message);
  if (types->size() != n.outputs.size())
    return about("node", n.name,
                 "has " + std::to_string(n.outputs.size()) + " results, must have " + std::to_string(types->size()));
  for (size_t i = 0; i < types->size(); ++i) {
    const Value& v = g.value(n.outputs[i]);
    const Inferred& t = (*types)[i];
    if (v.type != t.type)
      return about("node", n.name,
                   "result '" + v.name + "' is " + print_type(g.dims(), v.type) + ", inferred " + print_type(g.dims(), t.type));
    if (v.quant != t.quant)
      return about("node", n.name, "result '" + v.name + "' has other quantization parameters than its op gives");
    if (v.contents != t.contents) return about("node", n.name, "result '" + v.name + "' has other contents than inferred");
  }
  return {};
}

// Weights are quantized per tensor or along the op's channel axis, activations per tensor. A Dequantize of a constant takes any
// parameters: it is a weight on its way to the op that reads it.
Result<void> check_operand_quants(const Graph& g, const Node& n) {
  const OpDef& def = op_def(n.op);
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNoId || !g.value(n.inputs[i]).quant) continue;
    const Value& v = g.value(n.inputs[i]);
    const QuantRule& rule = quant_rule(def, i);
    if (rule.role == QuantRole::kWeight) {
      if (v.quant->axis != -1 && v.quant->axis != rule.axis)
        return about("node", n.name,
                     "weight '" + v.name + "' is quantized along axis " + std::to_string(v.quant->axis) + ", must be " +
                         std::to_string(rule.axis));
    } else if (rule.role != QuantRole::kBias && rule.role != QuantRole::kInteger && v.quant->axis != -1 &&
               !(n.op == Op::kDequantize && v.kind == ValueKind::kConstant)) {
      return about("node", n.name, "operand '" + v.name + "' is quantized per channel, must be per tensor");
    }
  }
  if (n.op == Op::kAssign && (n.inputs[0] == kNoId || g.value(n.inputs[0]).kind != ValueKind::kVariable))
    return about("node", n.name, "assigns to a value that is no variable");
  return {};
}

Result<void> verify_graph(const Graph& g, int depth);

// A region is a graph of its own: captures are its inputs, so it cannot name an outer value; it must count in the same symbols.
Result<void> check_regions(const Graph& g, const Node& n, int depth) {
  for (const auto& region : n.regions) {
    if (!region) return about("node", n.name, "region is missing");
    if (region->dim_table() != g.dim_table()) return about("node", n.name, "region has dimension symbols of its own");
    if (region->inputs().size() > n.inputs.size())
      return about("node", n.name,
                   "region has " + std::to_string(region->inputs().size()) + " inputs, the node passes " +
                       std::to_string(n.inputs.size()));
    if (auto ok = verify_graph(*region, depth + 1); !ok) return about("node", n.name, "region: " + ok.error().message);
  }
  return {};
}

// In order: each node reads what was made before it, so there is no cycle.
Result<void> check_nodes(const Graph& g, int depth) {
  std::vector<bool> defined(g.value_count()), listed(g.node_count());
  for (ValueId v = 0; v < g.value_count(); ++v) defined[v] = !g.value(v).dead && g.value(v).producer == kNoId;
  std::set<std::string_view> names;
  for (const NodeId id : g.order()) {
    if (id >= g.node_count() || g.node(id).dead) return fail(Code::kInvalidArgument, "order names a node that does not exist");
    const Node& n = g.node(id);
    if (listed[id]) return about("node", n.name, "stands twice in the order");
    listed[id] = true;
    if (n.name.empty()) return fail(Code::kInvalidArgument, "node " + std::to_string(id) + " has no name");
    if (!names.insert(n.name).second) return about("node", n.name, "name is used twice");
    LATHE_CHECK_OK(check_operands(g, n, defined));
    LATHE_CHECK_OK(check_results(g, id, defined));
    LATHE_CHECK_OK(check_types(g, n));
    LATHE_CHECK_OK(check_operand_quants(g, n));
    LATHE_CHECK_OK(check_regions(g, n, depth));
  }
  for (NodeId id = 0; id < g.node_count(); ++id)
    if (!g.node(id).dead && !listed[id]) return about("node", g.node(id).name, "is not in the order");
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (!g.value(v).dead && !defined[v]) return about("value", g.value(v).name, "is made by no node");
  return {};
}

Result<void> check_ports(const Graph& g) {
  for (const ValueId v : g.inputs())
    if (v >= g.value_count() || g.value(v).dead || g.value(v).kind != ValueKind::kInput)
      return fail(Code::kInvalidArgument, "the list of inputs names a value that is no input");
  if (g.outputs().empty()) return fail(Code::kInvalidArgument, "graph has no outputs");
  std::set<ValueId> seen;
  for (const ValueId v : g.outputs()) {
    if (v >= g.value_count() || g.value(v).dead) return fail(Code::kInvalidArgument, "graph output does not exist");
    if (!seen.insert(v).second) return about("value", g.value(v).name, "is an output twice");
  }
  return {};
}

Result<void> verify_graph(const Graph& g, int depth) {
  if (depth > kMaxRegionDepth)
    return fail(Code::kUnsupported, "regions are nested deeper than " + std::to_string(kMaxRegionDepth));
  const size_t size = std::max({g.order().size(), g.inputs().size(), g.outputs().size()});
  if (size > kMaxNodes)
    return fail(Code::kUnsupported, "the graph has " + std::to_string(size) + " nodes, inputs or outputs, at most " +
                                        std::to_string(kMaxNodes) + " are supported");
  LATHE_CHECK_OK(check_ports(g));
  LATHE_CHECK_OK(check_values(g));
  return check_nodes(g, depth);
}

}  // namespace

Result<void> verify(const Graph& graph) { return verify_graph(graph, 0); }

}  // namespace lathe
