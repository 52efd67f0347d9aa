// A float model's file made INT8, ready to be written: what `lathe quantize` and `lathe compress` share.
#pragma once
#include <optional>

#include "tools/keep_list.h"
#include "tools/mixed_flags.h"
#include "tools/remedies.h"

namespace lathe::tools {

struct Int8Request {
  std::string model;  // opens errors
  RemedyFlags remedies = {};
  CalibrationFlags calibration = {};
  bool per_channel = true;
  int32_t weight_bits = 8;
  KeepList keep = {};
  MixedFlags mixed = {};
  const Graph* baseline = nullptr;  // of mixed's gates; null: the float model itself
  SessionOptions session = {};

  // Chooses precisions by operator, though no budget of `mixed` asks for it.
  bool choose = false;

  QuantizeOptions options() const { return {.per_channel = per_channel, .weight_bits = weight_bits, .keep_float = keep.entries}; }
};

struct Int8Outcome {
  RemedyResult plain;               // all INT8, remedies included
  std::optional<MixedChoice> mixed;  // what became of it under budgets
  Graph& graph() { return mixed ? mixed->result.graph : plain.quantized.graph; }
};

// Quantizes lowered->graph, which went through lowering_passes() and is changed by remedies. Errors: budgets without data or with
// remedies that fit INT8; those of quantize_with_remedies() and choose_mixed().
Result<Int8Outcome> make_int8(ModelFile* lowered, const Int8Request& request);

// Puts into the metadata what a quantized model was made with, and into *options what its file keeps of calibration, and its self-checks.
Result<void> complete_int8(const KeepList& keep, const Ranges& ranges, const SessionOptions& session, Graph* graph, WriteOptions* options);

}  // namespace lathe::tools
