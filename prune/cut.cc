// cut(): the graph is built anew, node by node, from what stays.
#include <algorithm>
#include <cstring>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "prune/removal.h"
#include "prune/residue.h"
#include "prune/rewrite.h"

namespace lathe::prune {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const Removal& removal, const Residues& residues)
      : graph_(graph), removal_(removal), residues_(residues), out_(graph.dim_table()), to_(graph.value_count(), kNoId) {}

  Result<Graph> run() {
    out_.metadata = graph_.metadata;
    for (const ValueId v : graph_.inputs())
      to_[v] = out_.add_input(graph_.value(v).name, graph_.value(v).type, graph_.value(v).quant);
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(v);
      if (value.dead) continue;
      if (value.kind == ValueKind::kConstant)
        to_[v] = out_.add_constant(value.name, removal_.type(graph_, v), removal_.bytes(graph_, v));
      if (value.kind == ValueKind::kVariable) to_[v] = out_.add_variable(value.name, value.type, value.constant);
    }
    for (const NodeId id : graph_.order()) LATHE_CHECK_OK(add(id));
    for (const ValueId v : graph_.outputs()) out_.add_output(to_[v]);
    Rewriter(out_).sweep();  // biases, weights and targets that others have replaced
    LATHE_CHECK_OK(verify(out_));
    return std::move(out_);
  }

 private:
  Result<void> add(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v == kNoId ? kNoId : to_[v]);
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) names.push_back(graph_.value(v).name);
    LinkSource source;
    const Links links = node_links(graph_, node, source);
    if (links.shape_operand() >= 0) {
      LATHE_TRY(inputs[static_cast<size_t>(links.shape_operand())], target(node, links));
    }
    add_residue(id, inputs);
    LATHE_TRY(const NodeId made, out_.add_node(node.op, removal_.attrs(graph_, node), std::move(inputs), node.name,
                                               std::move(names), {}, node.regions));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId was = node.outputs[i], is = out_.node(made).outputs[i];
      to_[was] = is;
      const TensorType wanted = removal_.type(graph_, was);
      if (out_.value(is).type != wanted)
        return fail(Code::kInvalidArgument, "node '" + node.name + "': result is " +
                                                print_type(out_.dims(), out_.value(is).type) + " after the cut, must be " +
                                                print_type(out_.dims(), wanted));
    }
    return {};
  }

  // Biases and weights that take in what channels that go have emitted.
  void add_residue(NodeId id, std::vector<ValueId>& inputs) {
    const Node& node = graph_.node(id);
    if (const auto found = residues_.weights.find(id); found != residues_.weights.end()) {
      const ValueId w = node.inputs[found->second.operand];
      const Constant bytes = removal_.bytes(graph_, w, Constant::of(found->second.values));
      inputs[found->second.operand] = out_.add_constant(fresh(graph_.value(w).name + ":merged"), removal_.type(graph_, w), bytes);
    }
    const auto found = residues_.bias.find(id);
    if (found == residues_.bias.end()) return;
    const BiasChange& change = found->second;
    const auto outputs = static_cast<int64_t>(change.values.size());
    std::vector<float> values;
    for (const int64_t i : kept_indices(outputs, removal_.gone(change.weight, change.out_axis)))
      values.push_back(change.values[static_cast<size_t>(i)]);
    if (inputs.size() <= change.operand) inputs.resize(change.operand + 1, kNoId);
    const TensorType type{DType::kF32, {out_.dims().constant(static_cast<int64_t>(values.size()))}};
    inputs[change.operand] = out_.add_constant(fresh(node.name + ":bias"), type, Constant::of(values));
  }

  // A name that neither graph has.
  std::string fresh(const std::string& stem) const {
    std::string name = out_.fresh_name(stem);
    while (graph_.find_value(name) != kNoId) name = out_.fresh_name(name + "'");
    return name;
  }

  ValueId integers(const std::string& stem, DType dtype, const std::vector<int64_t>& values) {
    const TensorType type{dtype, {out_.dims().constant(static_cast<int64_t>(values.size()))}};
    if (dtype == DType::kS64) return out_.add_constant(fresh(stem), type, Constant::of(values));
    return out_.add_constant(fresh(stem), type, Constant::of(std::vector<int32_t>(values.begin(), values.end())));
  }

  // The operand that says result 0's dims, brought up to date.
  Result<ValueId> target(const Node& node, const Links& links) {
    const ValueId old = node.inputs[static_cast<size_t>(links.shape_operand())], y = node.outputs[0];
    const TensorType wanted = removal_.type(graph_, y);
    const std::vector<Dim> before = graph_.value(old).contents.value_or(std::vector<Dim>{});
    const std::optional<std::vector<Dim>>& now = out_.value(to_[old]).contents;
    if (!removal_.touches(y) || !now || before.size() != now->size() || before.size() > wanted.dims.size()) return to_[old];
    // Elements align with the last axes of the result.
    std::vector<Dim> elements = before;
    bool changed = false, numbers = true;
    for (size_t i = 0; i < elements.size(); ++i) {
      const size_t axis = wanted.dims.size() - elements.size() + i;
      const bool follows = before[i] == graph_.value(y).type.dims[axis];
      if (follows) elements[i] = wanted.dims[axis];
      changed = changed || elements[i] != (*now)[i];
      numbers = numbers && out_.dims().value(elements[i]).has_value();
    }
    if (!changed) return to_[old];
    if (!numbers) return joined(node, to_[old], elements, *now);
    std::vector<int64_t> values;
    for (const Dim d : elements) values.push_back(*out_.dims().value(d));
    return integers(graph_.value(old).name, graph_.value(old).type.dtype, values);
  }

  // `target` with the elements that are numbers replaced; of the others, `now`, one may change and is left open.
  Result<ValueId> joined(const Node& node, ValueId target, const std::vector<Dim>& elements, const std::vector<Dim>& now) {
    std::vector<int64_t> open;
    bool changed = false;
    for (size_t i = 0; i < elements.size(); ++i) {
      open.push_back(out_.dims().value(elements[i]).value_or(-1));
      changed = changed || (open[i] == -1 && elements[i] != now[i]);
    }
    if (changed && std::count(open.begin(), open.end(), -1) > 1)
      return fail(Code::kUnsupported, "node '" + node.name + "': several sizes that the network computes would change");
    if (changed) return integers(out_.value(target).name, out_.value(target).type.dtype, open);
    std::vector<ValueId> pieces;
    for (size_t i = 0; i < elements.size(); ++i) {
      const std::string stem = node.name + ":target" + std::to_string(i);
      if (const auto number = out_.dims().value(elements[i])) {
        pieces.push_back(integers(stem, out_.value(target).type.dtype, {*number}));
        continue;
      }
      const auto at = static_cast<int32_t>(i);
      const SliceAttrs slice{.axes = {1, {0}}, .begins = {1, {at}}, .ends = {1, {at + 1}}, .steps = {1, {1}}};
      LATHE_TRY(const NodeId n, out_.add_node(Op::kSlice, slice, {target}, fresh(stem)));
      pieces.push_back(out_.node(n).outputs[0]);
    }
    LATHE_TRY(const NodeId n, out_.add_node(Op::kConcat, AxisAttrs{0}, std::move(pieces), fresh(node.name + ":target")));
    return out_.node(n).outputs[0];
  }

  const Graph& graph_;
  const Removal& removal_;
  const Residues& residues_;
  Graph out_;
  std::vector<ValueId> to_;
};

}  // namespace

Result<CutResult> cut(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts, const CutOptions& options) {
  LATHE_CHECK_OK(check_groups(graph, groups));
  LATHE_CHECK_OK(check_cuts(groups, cuts));
  const Removal removal(groups, cuts);
  LATHE_TRY(Residues residues, find_residues(graph, groups, cuts, removal, options));
  LATHE_TRY(Graph out, Cutter(graph, removal, residues).run());
  return CutResult{std::move(out), std::move(residues.rows)};
}

}  // namespace lathe::prune
