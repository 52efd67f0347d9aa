#include "graph/rewriter.h"

#include <algorithm>

#include "graph/op_def.h"

namespace lathe {

std::vector<NodeId> Rewriter::nodes() const { return graph_.order_; }

Result<void> Rewriter::ok() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

bool Rewriter::fail_edit(Code code, std::string message) {
  if (!error_) error_ = Error{code, std::move(message)};
  return false;
}

// Whether `value` exists where `node` stands (kNoId: at the end).
bool Rewriter::defined_before(ValueId value, NodeId node) const {
  if (value == kNoId || graph_.values_[value].producer == kNoId) return true;
  for (const NodeId n : graph_.order_) {
    if (n == node) return false;
    if (n == graph_.values_[value].producer) return true;
  }
  return false;
}

ValueId Rewriter::insert(NodeId before, Op op, Attrs attrs, std::vector<ValueId> inputs, std::string name,
                         std::optional<Quant> quant) {
  if (error_) return kNoId;
  for (const ValueId v : inputs) {
    if (v != kNoId && (v >= graph_.values_.size() || !defined_before(v, before))) {
      fail_edit(Code::kInvalidArgument, "insert '" + name + "': an operand is not defined before it");
      return kNoId;
    }
  }
  Node node{.op = op, .attrs = std::move(attrs), .inputs = std::move(inputs), .name = graph_.fresh_name(std::move(name))};
  const std::optional<Quant> quants[] = {std::move(quant)};
  auto id = graph_.make_node(std::move(node), {}, quants);
  if (!id) {
    fail_edit(id.error().code, std::move(id.error().message));
    return kNoId;
  }
  graph_.order_.insert(std::find(graph_.order_.begin(), graph_.order_.end(), before), *id);
  ++edits_;
  const Node& made = graph_.nodes_[*id];
  return made.outputs.empty() ? kNoId : made.outputs[0];
}

ValueId Rewriter::constant(std::string name, TensorType type, Constant bytes, std::optional<Quant> quant) {
  if (error_) return kNoId;
  ++edits_;
  return graph_.add_constant(graph_.fresh_name(std::move(name)), std::move(type), std::move(bytes), std::move(quant));
}

void Rewriter::set_constant(ValueId constant, Constant bytes) {
  if (error_) return;
  Value& v = graph_.values_[constant];
  if (v.kind != ValueKind::kConstant || v.contents || v.constant.bytes.size() != bytes.bytes.size()) {
    fail_edit(Code::kInvalidArgument, "'" + v.name + "' cannot become other " + std::to_string(bytes.bytes.size()) + " bytes");
    return;
  }
  v.constant = std::move(bytes);
  ++edits_;
}

bool Rewriter::store_types(Node& node, const std::vector<Inferred>& types) {
  bool changed = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value& v = graph_.values_[node.outputs[i]];
    const Inferred& t = types[i];
    changed |= v.type != t.type || v.contents != t.contents || v.quant != t.quant;
    v.type = t.type;
    v.contents = t.contents;
    v.quant = t.quant;
  }
  return changed;
}

void Rewriter::propagate(std::vector<NodeId> changed) {
  // One walk in topological order suffices: readers stand after what they read.
  std::vector<bool> dirty(graph_.values_.size(), false);
  const auto mark = [&](const Node& n) {
    for (const ValueId v : n.outputs) dirty[v] = true;
  };
  for (const NodeId n : changed) mark(graph_.nodes_[n]);
  for (const NodeId id : graph_.order_) {
    Node& node = graph_.nodes_[id];
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return v != kNoId && dirty[v]; })) continue;
    const auto types = infer_node(graph_, node);
    if (!types) {
      fail_edit(types.error().code, "node '" + node.name + "': " + types.error().message);
      return;
    }
    if (store_types(node, *types)) mark(node);
  }
}

void Rewriter::update(NodeId id, Node changed) {
  const auto types = infer_node(graph_, changed);
  if (!types) {
    fail_edit(types.error().code, "node '" + changed.name + "': " + types.error().message);
    return;
  }
  graph_.nodes_[id] = std::move(changed);
  ++edits_;
  if (store_types(graph_.nodes_[id], *types)) propagate({id});
}

void Rewriter::set_inputs(NodeId id, std::vector<ValueId> inputs) {
  if (!error_) set_node(id, graph_.nodes_[id].attrs, std::move(inputs));
}

void Rewriter::set_moments(NodeId node, ChannelMoments moments) {
  graph_.nodes_[node].moments = std::make_shared<const ChannelMoments>(std::move(moments));
}

void Rewriter::set_node(NodeId id, Attrs attrs, std::vector<ValueId> inputs) {
  if (error_) return;
  for (const ValueId v : inputs) {
    if (v != kNoId && (v >= graph_.values_.size() || !defined_before(v, id))) {
      fail_edit(Code::kInvalidArgument, "node '" + graph_.nodes_[id].name + "': an operand is not defined before it");
      return;
    }
  }
  Node changed = graph_.nodes_[id];
  changed.attrs = std::move(attrs);
  changed.inputs = std::move(inputs);
  update(id, std::move(changed));
}

void Rewriter::move(NodeId id, NodeId before) {
  if (error_ || id == before) return;
  std::vector<NodeId>& order = graph_.order_;
  const auto from = std::find(order.begin(), order.end(), id), to = std::find(order.begin(), order.end(), before);
  for (auto at = from; at < to; ++at) {
    for (const ValueId v : graph_.nodes_[id].outputs) {
      const std::vector<ValueId>& in = graph_.nodes_[*at].inputs;
      if (std::find(in.begin(), in.end(), v) == in.end()) continue;
      fail_edit(Code::kInvalidArgument,
                "move '" + graph_.nodes_[id].name + "': reader '" + graph_.nodes_[*at].name + "' would stand before it");
      return;
    }
  }
  if (from >= to) {
    fail_edit(Code::kInvalidArgument, "move '" + graph_.nodes_[id].name + "': nodes move down only");
    return;
  }
  std::rotate(from, from + 1, to);
  ++edits_;
}

void Rewriter::rename_producer(ValueId result, std::string name) {
  if (error_) return;
  const NodeId id = graph_.values_[result].producer;
  Node& node = graph_.nodes_[id];
  if (const auto it = graph_.node_names_.find(node.name); it != graph_.node_names_.end() && it->second == id)
    graph_.node_names_.erase(it);
  if (graph_.node_names_.contains(name)) name = graph_.fresh_name(name);
  node.name = name;
  graph_.node_names_[name] = id;
  if (node.outputs.size() == 1 && !graph_.is_output(node.outputs[0]) && !graph_.value_names_.contains(name))
    rename(node.outputs[0], name);
}

ValueId Rewriter::substitute(NodeId id, Op op, Attrs attrs, std::vector<ValueId> inputs) {
  const ValueId out = graph_.nodes_[id].outputs[0];
  const std::string name = graph_.nodes_[id].name;
  const ValueId made = insert(id, op, std::move(attrs), std::move(inputs), name, graph_.value(out).quant);
  replace(out, made);
  erase(id);
  rename_producer(made, name);
  return made;
}

void Rewriter::set_input(NodeId id, size_t index, ValueId value) {
  if (error_) return;
  std::vector<ValueId> inputs = graph_.nodes_[id].inputs;
  if (inputs.size() <= index) inputs.resize(index + 1, kNoId);
  inputs[index] = value;
  set_inputs(id, std::move(inputs));
}

void Rewriter::set_attrs(NodeId id, Attrs attrs) {
  if (error_) return;
  Node changed = graph_.nodes_[id];
  changed.attrs = std::move(attrs);
  update(id, std::move(changed));
}

void Rewriter::rename(ValueId value, std::string name) {
  Value& v = graph_.values_[value];
  if (const auto it = graph_.value_names_.find(v.name); it != graph_.value_names_.end() && it->second == value)
    graph_.value_names_.erase(it);
  v.name = std::move(name);
  graph_.value_names_[v.name] = value;
}

void Rewriter::replace(ValueId from, ValueId to) {
  if (error_ || from == to) return;
  if (from >= graph_.values_.size() || to >= graph_.values_.size()) {
    fail_edit(Code::kInvalidArgument, "replace: no such value");
    return;
  }
  const NodeId maker = graph_.values_[to].producer;
  std::vector<NodeId> readers = graph_.consumers(from);
  std::erase(readers, maker);
  for (const NodeId reader : readers) {
    if (!defined_before(to, reader)) {
      fail_edit(Code::kInvalidArgument, "replace '" + graph_.values_[from].name + "': reader '" + graph_.nodes_[reader].name +
                                            "' stands before '" + graph_.values_[to].name + "'");
      return;
    }
  }
  std::vector<NodeId> changed;
  for (const NodeId reader : readers) {
    Node& node = graph_.nodes_[reader];
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    const auto types = infer_node(graph_, node);
    if (!types) {
      fail_edit(types.error().code, "node '" + node.name + "': " + types.error().message);
      return;
    }
    if (store_types(node, *types)) changed.push_back(reader);
  }
  if (!changed.empty()) propagate(std::move(changed));
  if (graph_.is_output(from) && graph_.values_[to].kind == ValueKind::kTemporary && !graph_.is_output(to)) {
    std::replace(graph_.outputs_.begin(), graph_.outputs_.end(), from, to);
    const std::string name = graph_.values_[from].name;
    rename(from, graph_.fresh_name(name));
    rename(to, name);
  }
  ++edits_;
}

void Rewriter::kill_value(ValueId value) {
  Value& v = graph_.values_[value];
  if (const auto it = graph_.value_names_.find(v.name); it != graph_.value_names_.end() && it->second == value)
    graph_.value_names_.erase(it);
  v.dead = true;
  v.constant = {};  // a folded weight's bytes must not live as long as the graph
}

void Rewriter::erase(NodeId id) {
  if (error_) return;
  Node& node = graph_.nodes_[id];
  for (const ValueId v : node.outputs) {
    if (!graph_.is_output(v) && graph_.consumers(v).empty()) continue;
    fail_edit(Code::kInvalidArgument, "erase '" + node.name + "': its result '" + graph_.values_[v].name + "' is still read");
    return;
  }
  for (const ValueId v : node.outputs) kill_value(v);
  node.dead = true;
  if (const auto it = graph_.node_names_.find(node.name); it != graph_.node_names_.end() && it->second == id)
    graph_.node_names_.erase(it);
  std::erase(graph_.order_, id);
  ++edits_;
}

int Rewriter::sweep() {
  if (error_) return 0;
  std::vector<bool> read(graph_.values_.size(), false);
  for (const ValueId v : graph_.outputs_) read[v] = true;
  std::vector<NodeId> doomed;
  for (size_t i = graph_.order_.size(); i-- > 0;) {
    const Node& node = graph_.nodes_[graph_.order_[i]];
    const bool kept =
        node.outputs.empty() || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return read[v]; });
    if (!kept) {
      doomed.push_back(graph_.order_[i]);
      continue;
    }
    for (const ValueId v : node.inputs)
      if (v != kNoId) read[v] = true;
  }
  for (const NodeId n : doomed) erase(n);
  for (ValueId v = 0; v < graph_.values_.size(); ++v)
    if (graph_.values_[v].kind == ValueKind::kConstant && !graph_.values_[v].dead && !read[v]) kill_value(v);
  return static_cast<int>(doomed.size());
}

}  // namespace lathe
