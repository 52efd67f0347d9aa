// A graph as text in which only what it computes shows: nodes stand before those that need them, in the order of operands, values
// are numbered as they are made, constants are a hash of what they hold.
#pragma once
#include <map>
#include <set>
#include <string>

#include "base/hash.h"
#include "graph/attrs_text.h"
#include "graph/ir.h"

namespace lathe::test {

// Nodes that an output needs, operands first; then the others.
inline std::vector<NodeId> canonical_order(const Graph& g) {
  std::vector<NodeId> order, stack;
  std::set<NodeId> done;
  const auto visit = [&](NodeId root) {
    stack.push_back(root);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      bool ready = true;
      for (size_t i = g.node(id).inputs.size(); i-- > 0;) {
        const ValueId v = g.node(id).inputs[i];
        const NodeId made = v == kNoId ? kNoId : g.value(v).producer;
        if (made == kNoId || done.contains(made)) continue;
        stack.push_back(made);
        ready = false;
      }
      if (!ready) continue;
      stack.pop_back();
      if (done.insert(id).second) order.push_back(id);
    }
  };
  for (const ValueId v : g.outputs())
    if (g.value(v).producer != kNoId) visit(g.value(v).producer);
  for (const NodeId id : g.order()) visit(id);
  return order;
}

inline std::string canonical_text(const Graph& g) {
  std::map<ValueId, std::string> names;
  std::string text;
  const auto quant = [](const Value& v) {
    std::string s;
    if (!v.quant) return s;
    s = " quant(" + std::to_string(v.quant->axis);
    for (size_t i = 0; i < v.quant->scales.size(); ++i)
      s += " " + std::to_string(v.quant->scales[i]) + ":" + std::to_string(v.quant->zero_points[i]);
    return s + ")";
  };
  const auto name = [&](ValueId v) -> std::string {
    if (v == kNoId) return "_";
    const Value& value = g.value(v);
    if (value.kind != ValueKind::kConstant) return names[v];
    return print_type(g.dims(), value.type) + quant(value) + " #" + to_hex(hash128(value.constant.bytes));
  };
  for (const ValueId v : g.inputs()) {
    names[v] = g.value(v).name;
    text += "input " + names[v] + " : " + print_type(g.dims(), g.value(v).type) + "\n";
  }
  for (const NodeId id : canonical_order(g)) {
    const Node& n = g.node(id);
    std::string line;
    for (const ValueId v : n.outputs) {
      names[v] = "%" + std::to_string(names.size());
      line += names[v] + " : " + print_type(g.dims(), g.value(v).type) + quant(g.value(v)) + " ";
    }
    line += std::string("= ") + op_name(n.op) + " (";
    for (const ValueId v : n.inputs) line += name(v) + ", ";
    text += line + ") " + print_attrs(n.attrs) + "\n";
  }
  for (const ValueId v : g.outputs()) text += "output " + g.value(v).name + " = " + name(v) + "\n";
  return text;
}

}  // namespace lathe::test
