// A graph as text in which only what it computes shows: values are numbered as they are made, constants are a hash of what they
// hold.
#pragma once
#include <map>
#include <string>

#include "base/hash.h"
#include "graph/attrs_text.h"
#include "graph/ir.h"

namespace lathe::test {

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
  for (const NodeId id : g.order()) {
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
