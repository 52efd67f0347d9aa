#include "quant/layer_noise.h"

#include <algorithm>
#include <unordered_map>

#include "data/metrics.h"
#include "quant/ptq.h"

namespace lathe {
namespace {

// One result that both graphs make.
struct Pair {
  uint32_t here = 0, there = 0;  // tensors of the reference and of the changed program
  NodeId node = kNoId;           // of the changed graph
  OutputDifference difference;
};

std::vector<Pair> common_results(const Graph& reference, const SampleRunner& a, const Graph& changed, const SampleRunner& b) {
  std::unordered_map<std::string, uint32_t> by_name;
  for (uint32_t t = 0; t < a.activations().size(); ++t)
    if (const ValueId v = a.activations()[t]; v != kNoId) by_name.emplace(reference.value(v).name, t);
  std::vector<Pair> pairs;
  for (uint32_t t = 0; t < b.activations().size(); ++t) {
    const ValueId v = b.activations()[t];
    if (v == kNoId || changed.value(v).producer == kNoId) continue;
    auto found = by_name.find(changed.value(v).name);
    if (found == by_name.end()) found = by_name.find(float_name(changed.value(v).name));
    if (found != by_name.end()) pairs.push_back({found->second, t, changed.value(v).producer, {}});
  }
  std::unordered_map<NodeId, size_t> position;
  for (size_t i = 0; i < changed.order().size(); ++i) position[changed.order()[i]] = i;
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& x, const Pair& y) { return position[x.node] < position[y.node]; });
  return pairs;
}

}  // namespace

Result<std::vector<LayerNoise>> layer_noise(const Graph& reference, const Graph& changed, const SampleSource& source,
                                            const SessionOptions& session) {
  LATHE_TRY(SampleRunner a, SampleRunner::create(reference, session, SampleRunner::Sees::kReal));
  LATHE_TRY(SampleRunner b, SampleRunner::create(changed, session, SampleRunner::Sees::kReal));
  std::vector<Pair> pairs = common_results(reference, a, changed, b);
  std::unordered_map<uint32_t, std::vector<float>> wanted;  // of one sample, by tensor of the reference
  for (const Pair& p : pairs) wanted[p.here];
  std::unordered_map<uint32_t, Pair*> by_tensor;
  for (Pair& p : pairs) by_tensor[p.there] = &p;
  for (uint64_t i = 0; i < source.count; ++i) {
    LATHE_CHECK_OK(a.run(source, i, [&](uint32_t t, std::span<float> values) {
      if (const auto it = wanted.find(t); it != wanted.end()) it->second.assign(values.begin(), values.end());
    }));
    LATHE_CHECK_OK(b.run(source, i, [&](uint32_t t, std::span<float> values) {
      const auto it = by_tensor.find(t);
      if (it == by_tensor.end()) return;
      const std::vector<float>& expected = wanted[it->second->here];
      if (expected.size() == values.size()) it->second->difference.add(expected, values);
    }));
  }
  std::vector<LayerNoise> noise;
  for (const Pair& p : pairs)
    if (p.difference.elems() > 0) noise.push_back({changed.node(p.node).name, p.difference.sqnr_db()});
  return noise;
}

Result<double> output_sqnr(const Graph& reference, const Graph& changed, const SampleSource& source, const SessionOptions& session) {
  LATHE_TRY(SampleRunner a, SampleRunner::create(reference, session));
  LATHE_TRY(SampleRunner b, SampleRunner::create(changed, session));
  const auto nothing = [](uint32_t, std::span<float>) {};
  OutputDifference difference;
  for (uint64_t i = 0; i < source.count; ++i) {
    LATHE_CHECK_OK(a.run(source, i, nothing));
    LATHE_CHECK_OK(b.run(source, i, nothing));
    const auto wanted = a.outputs(), got = b.outputs();
    for (size_t o = 0; o < wanted.size(); ++o) difference.add_common(wanted[o], got[o]);
  }
  return difference.sqnr_db();
}

}  // namespace lathe
