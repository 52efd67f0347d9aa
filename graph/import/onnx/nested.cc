#include "graph/import/onnx/nested.h"

#include "graph/import/onnx/node_order.h"

namespace lathe::onnx {
namespace {

bool same_domain(std::string_view a, std::string_view b) {
  const auto is_default = [](std::string_view d) { return d.empty() || d == "ai.onnx"; };
  return a == b || (is_default(a) && is_default(b));
}

const Attribute* find_attribute(const std::vector<Attribute>& list, std::string_view name) {
  for (const Attribute& a : list)
    if (a.name == name) return &a;
  return nullptr;
}

// A node of function `f` as the node `call` makes it: operands that the call leaves out are missing, attributes that refer to the
// call's are those, or the function's defaults, or missing.
NodeProto instance(const NodeProto& node, const FunctionProto& f, const NodeProto& call,
                   const std::set<std::string_view>& missing) {
  NodeProto out = node;
  for (std::string_view& name : out.inputs)
    if (missing.contains(name)) name = {};
  out.attributes.clear();
  for (const Attribute& a : node.attributes) {
    if (a.reference.empty()) {
      out.attributes.push_back(a);
      continue;
    }
    const Attribute* value = find_attribute(call.attributes, a.reference);
    if (value == nullptr) value = find_attribute(f.defaults, a.reference);
    if (value == nullptr) continue;
    out.attributes.push_back(*value);
    out.attributes.back().name = a.name;
  }
  return out;
}

}  // namespace

// The names that hold inside; those outside come back at the end.
class NestedGraphs::Scope {
 public:
  Scope(NestedGraphs& nested, bool sees_outside) : nested_(nested), b_(nested.builder_), names_(b_.names), opset_(b_.opset) {
    was_nested_ = std::exchange(b_.is_nested, true);
    ++nested_.depth_;
    if (sees_outside) return;
    b_.names.clear();
    fixed_ = std::exchange(b_.fixed, {});
    is_function_ = true;
  }
  ~Scope() {
    --nested_.depth_;
    b_.is_nested = was_nested_;
    b_.names = std::move(names_);
    b_.opset = opset_;
    if (is_function_) b_.fixed = std::move(fixed_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  NestedGraphs& nested_;
  Builder& b_;
  std::map<std::string, Binding, std::less<>> names_;
  std::set<std::string, std::less<>> fixed_;
  int64_t opset_;
  bool was_nested_ = false, is_function_ = false;
};

Result<void> NestedGraphs::import_nodes(const std::vector<NodeProto>& nodes, std::set<std::string_view> given) {
  if (over_limit_) return fail(Code::kCancelled, "a limit was passed before");
  nodes_ += nodes.size();
  over_limit_ = depth_ > kMaxNesting || nodes_ > kMaxNestedNodes;
  if (depth_ > kMaxNesting)
    return fail(Code::kUnsupported, "graphs or functions are nested deeper than " + std::to_string(kMaxNesting));
  if (over_limit_)
    return fail(Code::kUnsupported,
                "nested graphs and functions come to more than " + std::to_string(kMaxNestedNodes) + " nodes");
  std::set<std::string_view> made;
  for (const NodeProto& node : nodes) made.insert(node.outputs.begin(), node.outputs.end());
  for (const NodeProto& node : nodes)
    for (std::string_view name : node.inputs) {
      used_.insert(name);
      const bool outside = builder_.names.contains(name) || builder_.reserved.contains(name);
      if (outside && !made.contains(name)) given.insert(name);
    }
  GraphProto graph;
  graph.nodes = nodes;
  LATHE_TRY(const auto order, node_order(graph, given, {}));
  const size_t unsupported = builder_.report.unsupported.size();
  for (size_t i : order) LATHE_CHECK_OK(import_node_(nodes[i]));
  if (builder_.report.unsupported.size() != unsupported) return fail(Code::kCancelled, "a nested node was not imported");
  return {};
}

Result<std::vector<Binding>> NestedGraphs::results(const std::vector<std::string_view>& names) const {
  std::vector<Binding> out;
  for (std::string_view name : names) {
    const auto it = builder_.names.find(name);
    const bool is_missing = it == builder_.names.end();
    // A node whose operands were not imported makes nothing, and is not listed itself.
    if ((is_missing && !builder_.report.unsupported.empty()) || (!is_missing && it->second.blocked()))
      return fail(Code::kCancelled, "an output was not imported");
    if (is_missing)
      return fail(Code::kInvalidArgument, "output '" + std::string(name) + "' of a nested graph is made by no node");
    out.push_back(it->second);
  }
  return out;
}

Result<std::vector<Binding>> NestedGraphs::import_body(const GraphProto& body, const std::vector<Binding>& inputs) {
  if (body.inputs.size() != inputs.size())
    return fail(Code::kInvalidArgument, "the nested graph has " + std::to_string(body.inputs.size()) + " inputs, " +
                                            std::to_string(inputs.size()) + " are expected");
  if (body.sparse_initializers != 0) return fail(Code::kUnsupported, "sparse initializers are not supported");
  const Scope scope(*this, true);
  std::set<std::string_view> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.insert(body.inputs[i].name);
    builder_.names[std::string(body.inputs[i].name)] = inputs[i];
  }
  for (const TensorProto& t : body.initializers) {
    LATHE_TRY(ConstTensor tensor, builder_.reader.read(t));
    given.insert(t.name);
    builder_.names[std::string(t.name)] = Binding{kNoId, std::make_shared<const ConstTensor>(std::move(tensor))};
  }
  std::vector<std::string_view> outputs;
  for (const ValueInfo& v : body.outputs) outputs.push_back(v.name);
  used_.insert(outputs.begin(), outputs.end());
  LATHE_CHECK_OK(import_nodes(body.nodes, std::move(given)));
  return results(outputs);
}

const FunctionProto* NestedGraphs::find(const NodeProto& node) const {
  for (const FunctionProto& f : model_.functions)
    if (f.name == node.op_type && same_domain(f.domain, node.domain) && f.overload == node.overload) return &f;
  return nullptr;
}

Result<void> NestedGraphs::import_function(const FunctionProto& f, const NodeProto& call) {
  if (call.inputs.size() > f.inputs.size() || call.outputs.size() > f.outputs.size())
    return fail(Code::kInvalidArgument, "the function has " + std::to_string(f.inputs.size()) + " inputs and " +
                                            std::to_string(f.outputs.size()) + " outputs, the node " +
                                            std::to_string(call.inputs.size()) + " and " + std::to_string(call.outputs.size()));
  std::map<std::string, Binding, std::less<>> inputs;
  std::set<std::string_view> given, missing;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    if (i >= call.inputs.size() || call.inputs[i].empty()) {
      missing.insert(f.inputs[i]);
      continue;
    }
    const auto it = builder_.names.find(call.inputs[i]);
    if (it == builder_.names.end() || it->second.blocked()) return fail(Code::kCancelled, "an operand was not imported");
    inputs[std::string(f.inputs[i])] = it->second;
    given.insert(f.inputs[i]);
  }
  std::vector<NodeProto> nodes;
  for (const NodeProto& node : f.nodes) nodes.push_back(instance(node, f, call, missing));
  std::vector<Binding> made;
  {
    const Scope scope(*this, false);
    builder_.names = std::move(inputs);
    for (const OpsetProto& o : f.opsets)
      if (same_domain(o.domain, "")) builder_.opset = o.version;
    used_.insert(f.outputs.begin(), f.outputs.end());
    LATHE_CHECK_OK(import_nodes(nodes, std::move(given)));
    LATHE_TRY(made, results({f.outputs.begin(), f.outputs.begin() + static_cast<std::ptrdiff_t>(call.outputs.size())}));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].empty() && !builder_.fixed.contains(call.outputs[i]))
      builder_.names[std::string(call.outputs[i])] = made[i];
  return {};
}

}  // namespace lathe::onnx
