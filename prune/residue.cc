#include "prune/residue.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "prune/random_run.h"

namespace lathe::prune {
namespace {

constexpr double kConstantWithin = 1e-6;  // of the number's magnitude

// An operand that sums over channels of which some go.
struct Reader {
  NodeId node;
  uint32_t operand, axis;
  ValueId value;
  std::optional<AbsorbLink> absorb;
};

std::vector<Reader> find_readers(const Graph& graph, const Removal& removal) {
  std::vector<Reader> readers;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    LinkSource source;
    const Links links = node_links(graph, node, source);
    for (const AxisRef at : links.reduced_axes()) {
      const ValueId v = node.inputs[at.index];
      if (graph.value(v).producer == kNoId || removal.gone(v, at.axis).empty()) continue;
      readers.push_back({id, at.index, at.axis, v, links.absorb()});
    }
  }
  return readers;
}

// Sets to 0 what makes the channels that go.
Result<Graph> without_makers(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts) {
  Graph out = graph;
  Rewriter rewriter(out);
  std::map<ValueId, std::vector<float>> changed;
  for (const Cut& cut : cuts) {
    for (const Member& m : groups[cut.group].members) {
      const Value& value = graph.value(m.value);
      if (m.role != MemberRole::kOutput || value.type.dtype != DType::kF32 || !value.constant.valid()) continue;
      const auto [entry, fresh] = changed.try_emplace(m.value);
      const auto now = value.constant.as<float>();
      if (fresh) entry->second.assign(now.begin(), now.end());
      size_t inner = 1;
      for (size_t i = m.axis + 1; i < value.type.dims.size(); ++i)
        inner *= static_cast<size_t>(graph.dims().value(value.type.dims[i]).value_or(0));
      const auto extent = static_cast<size_t>(graph.dims().value(value.type.dims[m.axis]).value_or(0));
      for (const uint32_t c : cut.channels)
        for (const int64_t i : m.indices[c])
          for (size_t outer = 0; outer < entry->second.size() / (inner * extent); ++outer) {
            const auto at =
                entry->second.begin() + static_cast<std::ptrdiff_t>((outer * extent + static_cast<size_t>(i)) * inner);
            std::fill(at, at + static_cast<std::ptrdiff_t>(inner), 0.0f);
          }
    }
  }
  for (const auto& [v, values] : changed) {
    const Value value = out.value(v);
    rewriter.replace(v, rewriter.constant(value.name + ":zeroed", value.type, Constant::of(values)));
  }
  LATHE_CHECK_OK(rewriter.ok());
  return out;
}

// What position `index` along `axis` is everywhere, or nothing if that is not one number.
std::optional<double> single_value(const RunOutput& run, uint32_t axis, int64_t index) {
  int64_t inner = 1;
  for (size_t i = axis + 1; i < run.dims.size(); ++i) inner *= run.dims[i];
  const int64_t block = inner * run.dims[axis];
  double low = INFINITY, high = -INFINITY;
  for (int64_t start = index * inner; start < static_cast<int64_t>(run.values.size()); start += block)
    for (int64_t i = 0; i < inner; ++i) {
      const double x = run.values[static_cast<size_t>(start + i)];
      low = std::min(low, x), high = std::max(high, x);
    }
  if (!(high - low <= kConstantWithin * std::max(std::fabs(low), std::fabs(high)))) return {};
  return (low + high) / 2;
}

class Finder {
 public:
  Finder(const Graph& graph, std::span<const Group> groups, const Removal& removal, const CutOptions& options)
      : graph_(graph), groups_(groups), removal_(removal), options_(options) {}

  Result<Residues> run(std::span<const Cut> cuts) {
    const std::vector<Reader> readers = find_readers(graph_, removal_);
    LATHE_TRY(const auto runs, observed(readers, cuts));
    for (const Reader& reader : readers)
      for (const Cut& cut : cuts) note(reader, cut, runs.at(reader.value));
    return std::move(out_);
  }

 private:
  // Runs of the values that readers read.
  Result<std::map<ValueId, RunOutput>> observed(const std::vector<Reader>& readers, std::span<const Cut> cuts) {
    LATHE_TRY(Graph graph, without_makers(graph_, groups_, cuts));
    std::map<ValueId, RunOutput> runs;
    std::vector<ValueId> values;
    for (const Reader& reader : readers)
      if (runs.try_emplace(reader.value).second) values.push_back(reader.value);
    const size_t before = graph.outputs().size();
    for (const ValueId v : values) graph.add_output(v);
    LATHE_TRY(std::vector<RunOutput> outputs, run_random(graph, {.seed = options_.seed}));
    for (size_t i = 0; i < values.size(); ++i) runs[values[i]] = std::move(outputs[before + i]);
    return runs;
  }

  // Why the reader cannot take constants in; empty: it can.
  std::string refusal(const Reader& reader) const {
    const Node& node = graph_.node(reader.node);
    if (!reader.absorb || reader.absorb->data != reader.operand) return "the layer has no bias";
    const ValueId w = node.inputs[reader.absorb->weight], b = bias_of(node, *reader.absorb);
    const auto is_real = [&](ValueId v) { return graph_.value(v).constant.valid() && graph_.value(v).type.dtype == DType::kF32; };
    if (!is_real(w) || (b != kNoId && !is_real(b))) return "its weights are no float32 constants";
    if (!reader.absorb->exact && options_.residue != Residue::kAbsorbPadded) return "the layer is padded";
    return "";
  }

  static ValueId bias_of(const Node& node, const AbsorbLink& link) {
    return link.bias < node.inputs.size() ? node.inputs[link.bias] : kNoId;
  }

  void note(const Reader& reader, const Cut& cut, const RunOutput& run) {
    const Group& group = groups_[cut.group];
    const auto member = std::find_if(group.activations.begin(), group.activations.end(),
                                     [&](const Member& m) { return m.value == reader.value && m.axis == reader.axis; });
    if (member == group.activations.end() || cut.channels.empty()) return;
    ResidueRow row{.group = group.name, .layer = graph_.node(reader.node).name};
    ResidueRow open = row;
    const std::string refused = refusal(reader);
    open.why = refused;
    for (const uint32_t c : cut.channels)
      for (const int64_t i : member->indices[c]) {
        const std::optional<double> value = single_value(run, reader.axis, i);
        if (value == 0.0) continue;
        ResidueRow& to = value && refused.empty() ? row : open;
        ++to.channels;
        if (value) to.largest = std::max(to.largest, std::fabs(*value));
        else if (open.why.empty()) open.why = "what they emit is not one number";
        if (value && refused.empty()) absorb(reader, i, *value);
      }
    row.absorbed = true;
    for (ResidueRow& r : {std::ref(row), std::ref(open)})
      if (r.channels > 0) out_.rows.push_back(std::move(r));
  }

  // Adds `value` times the weights of input channel `index` to the reader's bias.
  void absorb(const Reader& reader, int64_t index, double value) {
    const Node& node = graph_.node(reader.node);
    const AbsorbLink& link = *reader.absorb;
    const ValueId w = node.inputs[link.weight];
    const Value& weight = graph_.value(w);
    const std::vector<Dim>& dims = weight.type.dims;
    const auto extent = [&](size_t axis) { return static_cast<size_t>(graph_.dims().value(dims[axis]).value_or(0)); };
    const size_t outputs = extent(link.out_axis), columns = extent(link.in_axis);
    auto [entry, fresh] = out_.bias.try_emplace(reader.node);
    BiasChange& change = entry->second;
    if (fresh) {
      change = {link.bias, w, link.out_axis, std::vector<float>(outputs)};
      if (const ValueId b = bias_of(node, link); b != kNoId) {
        const auto old = graph_.value(b).constant.as<float>();
        change.values.assign(old.begin(), old.end());
      }
    }
    const std::vector<int64_t>& gone = removal_.gone(reader.value, reader.axis);
    std::vector<float>& emitted = out_.emitted[{reader.node, reader.operand}];
    emitted.resize(gone.size());
    emitted[static_cast<size_t>(std::lower_bound(gone.begin(), gone.end(), index) - gone.begin())] = static_cast<float>(value);
    // In a grouped layer only the outputs of the input's own group read it.
    const size_t part = static_cast<size_t>(index) / columns, column = static_cast<size_t>(index) % columns;
    const uint32_t parts = removal_.parts(w, link.in_axis);
    const auto values = weight.constant.as<float>();
    const size_t row = values.size() / outputs;
    for (size_t o = 0; o < outputs; ++o) {
      if (parts > 1 && o * parts / outputs != part) continue;
      double sum = 0;
      for (size_t k = column; k < row; k += columns) sum += static_cast<double>(values[o * row + k]);
      change.values[o] += static_cast<float>(value * sum);
    }
  }

  const Graph& graph_;
  std::span<const Group> groups_;
  const Removal& removal_;
  const CutOptions& options_;
  Residues out_;
};

}  // namespace

Result<Residues> find_residues(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts,
                               const Removal& removal, const CutOptions& options) {
  if (options.residue == Residue::kDrop) return Residues{};
  return Finder(graph, groups, removal, options).run(cuts);
}

}  // namespace lathe::prune
