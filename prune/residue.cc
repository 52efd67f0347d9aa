#include "prune/residue.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "prune/absorb.h"
#include "prune/random_run.h"
#include "prune/slices.h"

namespace lathe::prune {
namespace {

constexpr double kConstantWithin = 1e-6;  // of the number's magnitude

bool makes(const Graph& graph, const Member& m) {
  return m.role == MemberRole::kOutput && graph.value(m.value).type.dtype == DType::kF32 && graph.value(m.value).constant.valid();
}

// Sets to 0 what makes the channels that go.
Result<Graph> without_makers(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts) {
  std::map<ValueId, std::vector<float>> changed;
  for (const Cut& cut : cuts)
    for (const Member& m : groups[cut.group].members) {
      if (!makes(graph, m)) continue;
      const auto [entry, fresh] = changed.try_emplace(m.value);
      const auto now = graph.value(m.value).constant.as<float>();
      if (fresh) entry->second.assign(now.begin(), now.end());
      for (const uint32_t c : cut.channels)
        for (const size_t at : member_elements(graph, m, c)) entry->second[at] = 0;
    }
  Graph out = graph;
  Rewriter rewriter(out);
  for (const auto& [v, values] : changed) {
    const Value value = out.value(v);
    rewriter.replace(v, rewriter.constant(value.name + ":zeroed", value.type, Constant::of(values)));
  }
  LATHE_CHECK_OK(rewriter.ok());
  return out;
}

}  // namespace

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

bool is_dead(const Graph& graph, const Group& group, uint32_t channel) {
  bool dead = true;
  for (const Member& m : group.members) {
    if (m.role != MemberRole::kOutput) continue;
    if (!makes(graph, m)) return false;
    const auto values = graph.value(m.value).constant.as<float>();
    for (const size_t at : member_elements(graph, m, channel)) dead = dead && values[at] == 0;
  }
  return dead;
}

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

Result<std::map<ValueId, RunOutput>> run_readers(Graph graph, std::span<const Reader> readers, uint64_t seed) {
  std::map<ValueId, RunOutput> runs;
  std::vector<ValueId> values;
  for (const Reader& reader : readers)
    if (runs.try_emplace(reader.value).second) values.push_back(reader.value);
  const size_t before = graph.outputs().size();
  for (const ValueId v : values) graph.add_output(v);
  LATHE_TRY(std::vector<RunOutput> outputs, run_random(graph, {.seed = seed}));
  for (size_t i = 0; i < values.size(); ++i) runs[values[i]] = std::move(outputs[before + i]);
  return runs;
}

namespace {

class Finder {
 public:
  Finder(const Graph& graph, std::span<const Group> groups, const Removal& removal, const CutOptions& options)
      : graph_(graph), groups_(groups), removal_(removal), options_(options) {}

  Result<Residues> run(std::span<const Cut> cuts) {
    const std::vector<Reader> readers = find_readers(graph_, removal_);
    LATHE_TRY(Graph without, without_makers(graph_, groups_, cuts));
    LATHE_TRY(const auto runs, run_readers(std::move(without), readers, options_.seed));
    for (const Reader& reader : readers)
      for (const Cut& cut : cuts) note(reader, cut, runs.at(reader.value));
    return std::move(out_);
  }

 private:
  // A channel that stays, emits a constant other than 0 and has no weights of its own: the position with the largest one.
  struct Carrier {
    int64_t index = 0;
    double value = 0;
  };
  // By part of the reader.
  std::map<int64_t, Carrier> carriers(const Reader& reader, const RunOutput& run) const {
    std::map<int64_t, Carrier> best;
    const std::vector<int64_t>& gone = removal_.gone(reader.value, reader.axis);
    for (const Group& group : groups_)
      for (const Member& m : group.activations) {
        if (m.value != reader.value || m.axis != reader.axis) continue;
        for (uint32_t c = 0; c < group.channels; ++c) {
          if (m.indices[c].empty() || std::binary_search(gone.begin(), gone.end(), m.indices[c][0])) continue;
          if (!is_dead(graph_, group, c)) continue;
          for (const int64_t i : m.indices[c]) {
            const double value = single_value(run, reader.axis, i).value_or(0);
            Carrier& carrier = best[absorber_.part(reader, i)];
            if (std::fabs(value) > std::fabs(carrier.value)) carrier = {i, value};
          }
        }
      }
    std::erase_if(best, [](const auto& entry) { return entry.second.value == 0; });
    return best;
  }

  void note(const Reader& reader, const Cut& cut, const RunOutput& run) {
    const Group& group = groups_[cut.group];
    const auto member = std::find_if(group.activations.begin(), group.activations.end(),
                                     [&](const Member& m) { return m.value == reader.value && m.axis == reader.axis; });
    if (member == group.activations.end() || cut.channels.empty()) return;
    ResidueRow row{.group = group.name, .layer = graph_.node(reader.node).name};
    ResidueRow open = row;
    const std::string refused = absorber_.bias_refusal(reader, options_.residue == Residue::kAbsorbPadded);
    std::map<int64_t, Carrier> carry;
    if (options_.residue == Residue::kMerge && !refused.empty() && absorber_.weights_refusal(reader).empty())
      carry = carriers(reader, run);
    for (const uint32_t c : cut.channels)
      for (const int64_t i : member->indices[c]) {
        const std::optional<double> value = single_value(run, reader.axis, i);
        if (value == 0.0) continue;
        const auto carrier = carry.empty() ? carry.end() : carry.find(absorber_.part(reader, i));
        const bool taken = value && (refused.empty() || carrier != carry.end());
        ResidueRow& to = taken ? row : open;
        ++to.channels;
        if (value) to.largest = std::max(to.largest, std::fabs(*value));
        if (!taken) open.why = value ? refused : "what they emit is not one number";
        else if (refused.empty()) absorber_.to_bias(reader, i, *value);
        else absorber_.to_weights(reader, i, *value, carrier->second.index, carrier->second.value);
      }
    row.absorbed = true;
    for (ResidueRow* r : {&row, &open})
      if (r->channels > 0) out_.rows.push_back(std::move(*r));
  }

  const Graph& graph_;
  std::span<const Group> groups_;
  const Removal& removal_;
  const CutOptions& options_;
  Residues out_;
  Absorber absorber_{graph_, removal_, out_};
};

}  // namespace

Result<Residues> find_residues(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts,
                               const Removal& removal, const CutOptions& options) {
  if (options.residue == Residue::kDrop) return Residues{};
  return Finder(graph, groups, removal, options).run(cuts);
}

}  // namespace lathe::prune
