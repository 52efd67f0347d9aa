#include "prune/absorb.h"

#include <algorithm>

#include "graph/op_def.h"

namespace lathe::prune {
namespace {

size_t extent_of(const Graph& graph, ValueId v, size_t axis) {
  return static_cast<size_t>(graph.dims().value(graph.value(v).type.dims[axis]).value_or(0));
}

bool is_real_constant(const Graph& graph, ValueId v) {
  return graph.value(v).constant.valid() && graph.value(v).type.dtype == DType::kF32;
}

}  // namespace

std::optional<BiasPlace> bias_place(const Graph& graph, NodeId layer, const AbsorbLink& link) {
  const Node& node = graph.node(layer);
  if (link.bias != kNoBias) return BiasPlace{layer, link.bias, link.bias < node.inputs.size() ? node.inputs[link.bias] : kNoId};
  const std::vector<NodeId> readers = graph.consumers(node.outputs[0]);
  if (readers.size() != 1 || graph.is_output(node.outputs[0])) return {};
  const Node& next = graph.node(readers[0]);
  if (!op_def(next.op).sum) return {};
  const uint32_t other = next.inputs[0] == node.outputs[0] ? 1 : 0;
  const ValueId bias = next.inputs[other];
  const size_t outputs = extent_of(graph, node.inputs[link.weight], link.out_axis);
  if (!is_real_constant(graph, bias) || graph.value(bias).constant.as<float>().size() != outputs) return {};
  if (extent_of(graph, bias, graph.value(bias).type.dims.size() - 1) != outputs) return {};
  return BiasPlace{readers[0], other, bias};
}

size_t Absorber::extent(ValueId v, size_t axis) const { return extent_of(graph_, v, axis); }

bool Absorber::is_real(ValueId v) const { return is_real_constant(graph_, v); }

size_t Absorber::stride(ValueId v, size_t axis) const {
  size_t n = 1;
  for (size_t i = axis + 1; i < graph_.value(v).type.dims.size(); ++i) n *= extent(v, i);
  return n;
}

int64_t Absorber::part(const Reader& reader, int64_t index) const {
  return index / static_cast<int64_t>(extent(weight(reader), reader.absorb->in_axis));
}

std::string Absorber::weights_refusal(const Reader& reader) const {
  if (!reader.absorb || reader.absorb->data != reader.operand) return "the layer has no weights that could take them in";
  return is_real(weight(reader)) ? "" : "its weights are no float32 constant";
}

std::string Absorber::bias_refusal(const Reader& reader, bool padded_too) const {
  if (std::string why = weights_refusal(reader); !why.empty()) return why;
  const std::optional<BiasPlace> place = place_of(reader);
  if (!place) return "the layer has no bias";
  if (place->value != kNoId && !is_real(place->value)) return "its bias is no float32 constant";
  if (!reader.absorb->exact && !padded_too) return "the layer is padded";
  return "";
}

void Absorber::note_emitted(const Reader& reader, int64_t index, double value) {
  const std::vector<int64_t>& gone = removal_.gone(reader.value, reader.axis);
  std::vector<float>& emitted = out_.emitted[{reader.node, reader.operand}];
  emitted.resize(gone.size());
  emitted[static_cast<size_t>(std::lower_bound(gone.begin(), gone.end(), index) - gone.begin())] = static_cast<float>(value);
}

template <class F>
void Absorber::each_weight(const Reader& reader, int64_t index, F&& f) const {
  const ValueId w = weight(reader);
  const AbsorbLink& link = *reader.absorb;
  const size_t columns = extent(w, link.in_axis), step = stride(w, link.in_axis), column = static_cast<size_t>(index) % columns;
  const size_t outputs = extent(w, link.out_axis), row = stride(w, link.out_axis);
  const auto parts = static_cast<size_t>(removal_.parts(w, link.in_axis)), own = static_cast<size_t>(index) / columns;
  const size_t count = graph_.value(w).constant.as<float>().size();
  for (size_t outer = column * step; outer < count; outer += columns * step)
    for (size_t at = outer; at < outer + step; ++at) {
      const size_t o = at / row % outputs;
      // In a grouped layer only the outputs of the channel's own part read it.
      if (parts == 1 || o * parts / outputs == own) f(at, o);
    }
}

void Absorber::to_bias(const Reader& reader, int64_t index, double value) {
  const BiasPlace place = *place_of(reader);
  const auto [entry, fresh] = out_.bias.try_emplace(place.node);
  BiasChange& change = entry->second;
  const size_t outputs = extent(weight(reader), reader.absorb->out_axis);
  if (fresh) {
    change = {place.operand, weight(reader), reader.absorb->out_axis, std::vector<float>(outputs)};
    if (place.value != kNoId) {
      const auto old = graph_.value(place.value).constant.as<float>();
      change.values.assign(old.begin(), old.end());
    }
  }
  const auto weights = graph_.value(weight(reader)).constant.as<float>();
  std::vector<double> sums(outputs);
  each_weight(reader, index, [&](size_t at, size_t o) { sums[o] += static_cast<double>(weights[at]); });
  for (size_t o = 0; o < outputs; ++o) change.values[o] += static_cast<float>(value * sums[o]);
  note_emitted(reader, index, value);
}

void Absorber::to_weights(const Reader& reader, int64_t index, double value, int64_t carrier, double carried) {
  const auto [entry, fresh] = out_.weights.try_emplace(reader.node);
  WeightChange& change = entry->second;
  const auto weights = graph_.value(weight(reader)).constant.as<float>();
  if (fresh) change = {reader.absorb->weight, std::vector<float>(weights.begin(), weights.end())};
  const auto step = static_cast<int64_t>(stride(weight(reader), reader.absorb->in_axis));
  each_weight(reader, index, [&](size_t at, size_t) {
    const auto to = static_cast<size_t>(static_cast<int64_t>(at) + (carrier - index) * step);
    change.values[to] += static_cast<float>(static_cast<double>(weights[at]) * (value / carried));
  });
  note_emitted(reader, index, value);
}

}  // namespace lathe::prune
