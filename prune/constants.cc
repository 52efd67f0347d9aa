#include "prune/constants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "prune/absorb.h"

namespace lathe::prune {
namespace {

// The dead channels of one group, and what each emits into readers that have no bias for it.
struct Dead {
  size_t group = 0;
  std::vector<uint32_t> channels;
  // By channel: one number for each reader and position of it.
  std::vector<std::vector<double>> emitted;
  std::vector<bool> movable;  // by number: the reader's weights can take it in
};

std::vector<Cut> candidates(const Graph& graph, const std::vector<Group>& groups) {
  std::vector<Cut> cuts;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].frozen.empty() || groups[g].averaged) continue;
    Cut cut{g, {}};
    for (uint32_t c = 0; c < groups[g].channels; ++c)
      if (is_dead(graph, groups[g], c)) cut.channels.push_back(c);
    if (!cut.channels.empty()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

// Notes what the channels emit into `reader`; those that emit no single number are no longer among them.
void note(const Group& group, const Reader& reader, const RunOutput& run, const Absorber& absorber, Dead* dead) {
  for (const Member& m : group.activations) {
    if (m.value != reader.value || m.axis != reader.axis) continue;
    const bool biased = absorber.bias_refusal(reader, false).empty();
    const bool movable = absorber.weights_refusal(reader).empty();
    std::vector<uint32_t> channels;
    std::vector<std::vector<double>> emitted;
    size_t numbers = 0;
    for (size_t k = 0; k < dead->channels.size(); ++k) {
      std::vector<double> all = dead->emitted[k];
      bool constant = true;
      for (const int64_t i : m.indices[dead->channels[k]]) {
        const std::optional<double> value = single_value(run, reader.axis, i);
        constant = constant && value;
        if (value && !biased) all.push_back(*value);
      }
      numbers = std::max(numbers, all.size());
      if (!constant) continue;
      channels.push_back(dead->channels[k]);
      emitted.push_back(std::move(all));
    }
    dead->movable.resize(std::max(numbers, dead->movable.size()), movable);
    dead->channels = std::move(channels);
    dead->emitted = std::move(emitted);
  }
}

bool silent(const std::vector<double>& emitted) {
  return std::all_of(emitted.begin(), emitted.end(), [](double x) { return x == 0; });
}

// The smallest magnitude where any channel emits something: what others are divided by.
double strength(const Dead& dead, size_t k) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t e = 0; e < dead.emitted[k].size(); ++e)
    if (std::any_of(dead.emitted.begin(), dead.emitted.end(), [&](const auto& other) { return other[e] != 0; }))
      least = std::min(least, std::fabs(dead.emitted[k][e]));
  return least;
}

// Those of `dead` that go: all that are silent, and those that one which stays can stand for.
void choose(const Dead& dead, std::vector<uint32_t>* go) {
  const size_t none = dead.channels.size();
  size_t carrier = none;
  for (size_t k = 0; k < dead.channels.size(); ++k)
    if (!silent(dead.emitted[k]) && (carrier == none || strength(dead, k) > strength(dead, carrier))) carrier = k;
  for (size_t k = 0; k < dead.channels.size(); ++k) {
    bool carried = k != carrier;
    for (size_t e = 0; carried && e < dead.emitted[k].size(); ++e)
      carried = dead.emitted[k][e] == 0 || (dead.movable[e] && dead.emitted[carrier][e] != 0);
    if (carried) go->push_back(dead.channels[k]);
  }
}

// A grouped layer takes constants in only within each of its groups: one channel stays in each segment.
Cut chosen(const Group& group, const Dead& dead) {
  std::map<uint32_t, Dead> segments;
  for (size_t k = 0; k < dead.channels.size(); ++k) {
    Dead& part = segments[group.segment.empty() ? 0 : group.segment[dead.channels[k]]];
    part.channels.push_back(dead.channels[k]);
    part.emitted.push_back(dead.emitted[k]);
    part.movable = dead.movable;
  }
  std::vector<uint32_t> go;
  for (const auto& [segment, part] : segments) choose(part, &go);
  return {dead.group, allowed_cut(group, go, go.size())};
}

}  // namespace

Result<std::vector<Cut>> find_constants(const Graph& graph, const std::vector<Group>& groups) {
  const std::vector<Cut> all = candidates(graph, groups);
  std::vector<Cut> cuts;
  if (all.empty()) return cuts;
  const Removal removal(groups, all);
  const std::vector<Reader> readers = find_readers(graph, removal);
  LATHE_TRY(const auto runs, run_readers(graph, readers, 1));
  Residues unused;
  const Absorber absorber(graph, removal, unused);
  for (const Cut& candidate : all) {
    Dead dead{candidate.group, candidate.channels, std::vector<std::vector<double>>(candidate.channels.size()), {}};
    for (const Reader& reader : readers) note(groups[candidate.group], reader, runs.at(reader.value), absorber, &dead);
    Cut cut = chosen(groups[candidate.group], dead);
    if (!cut.channels.empty()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

}  // namespace lathe::prune
