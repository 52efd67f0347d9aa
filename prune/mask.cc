// mask(): readers that sum over channels get those that go multiplied by 0; readers that average over them see what stays only,
// and their results are spread to the old places again.
#include <algorithm>
#include <map>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "lathe/float16.h"
#include "prune/removal.h"
#include "prune/residue.h"
#include "prune/rewrite.h"

namespace lathe::prune {
namespace {

Result<Constant> reals(DType dtype, const std::vector<float>& values) {
  if (dtype == DType::kF32) return Constant::of(values);
  if (dtype == DType::kF64) return Constant::of(std::vector<double>(values.begin(), values.end()));
  if (dtype != DType::kF16)
    return fail(Code::kUnsupported, std::string("channels of ") + dtype_name(dtype) + " cannot be masked");
  std::vector<uint16_t> half;
  for (const float v : values) half.push_back(float_to_half(v));
  return Constant::of(half);
}

class Masker {
 public:
  Masker(Graph& graph, const Removal& removal, const Residues& residues)
      : graph_(graph), rewriter_(graph), removal_(removal), residues_(residues) {}

  Result<void> run() {
    for (const NodeId id : rewriter_.nodes()) {
      LinkSource source;
      const Node node = graph_.node(id);
      const Links links = node_links(graph_, node, source);
      if (touched(node, links.averaged_axes())) {
        LATHE_CHECK_OK(narrow(id, node));
        continue;
      }
      for (const AxisRef at : links.reduced_axes())
        if (goes(node, at)) LATHE_CHECK_OK(silence(id, at));
    }
    LATHE_CHECK_OK(rewriter_.ok());
    return verify(graph_);
  }

 private:
  bool goes(const Node& node, AxisRef at) const {
    const ValueId v = node.inputs[at.index];
    return graph_.value(v).producer != kNoId && !removal_.gone(v, at.axis).empty();
  }
  bool touched(const Node& node, const std::vector<AxisRef>& axes) const {
    return std::any_of(axes.begin(), axes.end(), [&](AxisRef at) { return goes(node, at); });
  }

  // A constant that broadcasts along `axis` of v.
  Result<ValueId> along(ValueId v, uint32_t axis, const std::vector<float>& values, const char* what) {
    const TensorType& type = graph_.value(v).type;
    TensorType of{type.dtype, std::vector<Dim>(type.dims.size() - axis, graph_.dims().constant(1))};
    of.dims[0] = type.dims[axis];
    LATHE_TRY(Constant bytes, reals(type.dtype, values));
    return rewriter_.constant(graph_.value(v).name + what, std::move(of), std::move(bytes));
  }

  // Operand `at` of the node becomes 0, or what is emitted, in the positions that go.
  Result<void> silence(NodeId id, AxisRef at) {
    const ValueId x = graph_.node(id).inputs[at.index];
    const std::vector<int64_t>& gone = removal_.gone(x, at.axis);
    std::vector<float> keep(static_cast<size_t>(*graph_.dims().value(graph_.value(x).type.dims[at.axis])), 1.0f);
    for (const int64_t i : gone) keep[static_cast<size_t>(i)] = 0;
    LATHE_TRY(const ValueId mask, along(x, at.axis, keep, ":mask"));
    ValueId y = rewriter_.insert(id, Op::kMul, BinaryAttrs{}, {x, mask}, graph_.value(x).name + ":masked");
    if (const auto emitted = residues_.emitted.find({id, at.index}); emitted != residues_.emitted.end()) {
      std::vector<float> values(keep.size());
      for (size_t i = 0; i < gone.size(); ++i) values[static_cast<size_t>(gone[i])] = emitted->second[i];
      LATHE_TRY(const ValueId residue, along(x, at.axis, values, ":residue"));
      y = rewriter_.insert(id, Op::kAdd, BinaryAttrs{}, {y, residue}, graph_.value(x).name + ":with_residue");
    }
    rewriter_.set_input(id, at.index, y);
    LATHE_CHECK_OK(rewriter_.ok());
    removal_.rename(x, y);  // the same operand may be summed over another axis, too
    return {};
  }

  ValueId indices(const std::string& stem, const std::vector<int64_t>& list) {
    return rewriter_.constant(stem, {DType::kS64, {graph_.dims().constant(static_cast<int64_t>(list.size()))}},
                              Constant::of(list));
  }

  // v without what goes.
  ValueId compressed(NodeId before, ValueId v) {
    const Value value = graph_.value(v);
    if (value.producer == kNoId)
      return rewriter_.constant(value.name + ":kept", removal_.type(graph_, v), removal_.bytes(graph_, v));
    ValueId x = v;
    for (uint32_t axis = 0; axis < value.type.dims.size(); ++axis) {
      const std::vector<int64_t>& gone = removal_.gone(v, axis);
      if (gone.empty()) continue;
      const ValueId list = indices(value.name + ":kept_indices", kept_indices(*graph_.dims().value(value.type.dims[axis]), gone));
      x = rewriter_.insert(before, Op::kGather, AxisAttrs{static_cast<int32_t>(axis)}, {x, list}, value.name + ":kept");
    }
    return x;
  }

  // `small`, in the old places of `v`; what goes is 0.
  ValueId spread(NodeId before, ValueId small, ValueId v) {
    const Value value = graph_.value(v);
    for (uint32_t axis = 0; axis < value.type.dims.size(); ++axis) {
      const std::vector<int64_t>& gone = removal_.gone(v, axis);
      if (gone.empty()) continue;
      const auto extent = *graph_.dims().value(value.type.dims[axis]);
      std::vector<int64_t> places;
      for (int64_t i = 0, next = 0; i < extent; ++i)
        places.push_back(std::binary_search(gone.begin(), gone.end(), i) ? extent - static_cast<int64_t>(gone.size()) : next++);
      PadAttrs pad;
      pad.before.count = pad.after.count = static_cast<int32_t>(value.type.dims.size());
      pad.after.values[axis] = 1;
      small = rewriter_.insert(before, Op::kPad, pad, {small}, value.name + ":padded");
      small = rewriter_.insert(before, Op::kGather, AxisAttrs{static_cast<int32_t>(axis)},
                               {small, indices(value.name + ":places", places)}, value.name + ":spread");
    }
    return small;
  }

  // The node on what stays, in place of the node.
  Result<void> narrow(NodeId id, const Node& node) {
    for (const ValueId v : node.inputs)
      for (uint32_t axis = 0; v != kNoId && axis < graph_.value(v).type.dims.size(); ++axis)
        if (!removal_.gone(v, axis).empty() && !graph_.dims().value(graph_.value(v).type.dims[axis]))
          return fail(Code::kUnsupported,
                      "node '" + node.name + "' averages beside an axis of unknown extent, which cannot be masked");
    if (node.outputs.size() != 1)
      return fail(Code::kUnsupported, "node '" + node.name + "' with several results cannot be masked");
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v == kNoId || !removal_.touches(v) ? v : compressed(id, v));
    const ValueId small = rewriter_.insert(id, node.op, removal_.attrs(graph_, node), std::move(inputs), node.name + ":narrow");
    LATHE_CHECK_OK(rewriter_.ok());
    const ValueId full = spread(id, small, node.outputs[0]);
    if (full == kNoId) return rewriter_.ok();
    return replace(id, node.outputs[0], full);
  }

  // Readers of `from` read `to`; what goes from `from` is said of `to` too, so that later readers find it.
  Result<void> replace(NodeId id, ValueId from, ValueId to) {
    rewriter_.replace(from, to);
    removal_.rename(from, to);
    rewriter_.erase(id);
    return rewriter_.ok();
  }

  Graph& graph_;
  Rewriter rewriter_;
  Removal removal_;
  const Residues& residues_;
};

}  // namespace

Result<Graph> mask(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts, const CutOptions& options) {
  LATHE_CHECK_OK(check_groups(graph, groups));
  LATHE_CHECK_OK(check_cuts(groups, cuts));
  const Removal removal(groups, cuts);
  LATHE_TRY(const Residues residues, find_residues(graph, groups, cuts, removal, options));
  Graph masked = graph;
  LATHE_CHECK_OK(Masker(masked, removal, residues).run());
  return masked;
}

}  // namespace lathe::prune
