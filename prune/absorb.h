// Layers that take in what channels emit that they lose. Used by prune/ only.
#pragma once
#include <string>

#include "prune/random_run.h"
#include "prune/residue.h"

namespace lathe::prune {

// An operand that sums over channels of which some go.
struct Reader {
  NodeId node = kNoId;
  uint32_t operand = 0, axis = 0;
  ValueId value = kNoId;
  std::optional<AbsorbLink> absorb = {};
};

std::vector<Reader> find_readers(const Graph& graph, const Removal& removal);
// Runs of the values that readers read.
Result<std::map<ValueId, RunOutput>> run_readers(Graph graph, std::span<const Reader> readers, uint64_t seed);
// What position `index` along `axis` is everywhere, or nothing if that is not one number.
std::optional<double> single_value(const RunOutput& run, uint32_t axis, int64_t index);
// Whether all weights that make the channel are 0.
bool is_dead(const Graph& graph, const Group& group, uint32_t channel);

// Where a layer's bias is read, or would be: the layer's own operand, or the constant that the only reader of its result adds.
struct BiasPlace {
  NodeId node = kNoId;
  uint32_t operand = 0;
  ValueId value = kNoId;  // kNoId: the operand is missing
};
std::optional<BiasPlace> bias_place(const Graph& graph, NodeId layer, const AbsorbLink& link);

class Absorber {
 public:
  // Notes changes in `out`.
  Absorber(const Graph& graph, const Removal& removal, Residues& out) : graph_(graph), removal_(removal), out_(out) {}

  // Why the reader's weights cannot be computed with, or why no bias can take in a constant; empty: they can, it can.
  std::string weights_refusal(const Reader& reader) const;
  std::string bias_refusal(const Reader& reader, bool padded_too) const;

  // Requires of all: no refusal. Position `index` of the reader's axis emits `value`: the bias takes it in.
  void to_bias(const Reader& reader, int64_t index, double value);
  // Or the weights of position `carrier` of the same part, which emits `carried`.
  void to_weights(const Reader& reader, int64_t index, double value, int64_t carrier, double carried);
  // The part of a grouped layer that reads a position.
  int64_t part(const Reader& reader, int64_t index) const;

 private:
  std::optional<BiasPlace> place_of(const Reader& reader) const { return bias_place(graph_, reader.node, *reader.absorb); }
  bool is_real(ValueId v) const;
  ValueId weight(const Reader& reader) const { return graph_.node(reader.node).inputs[reader.absorb->weight]; }
  size_t extent(ValueId v, size_t axis) const;
  size_t stride(ValueId v, size_t axis) const;
  void note_emitted(const Reader& reader, int64_t index, double value);
  // f(element, output) for the weights that read position `index`.
  template <class F>
  void each_weight(const Reader& reader, int64_t index, F&& f) const;

  const Graph& graph_;
  const Removal& removal_;
  Residues& out_;
};

}  // namespace lathe::prune
