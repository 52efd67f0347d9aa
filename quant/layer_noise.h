// How far the results inside a network are from those of another one, say INT8 from float.
#pragma once
#include <string>
#include <vector>

#include "quant/sample_runner.h"

namespace lathe {

struct LayerNoise {
  std::string node;    // that makes the result
  double sqnr_db = 0;  // of the result, all noise from earlier layers included; infinite: no difference
};

// Every result that has the same name and size in both graphs, in the order of `changed`, over all samples. Activations may be float32,
// float16 or quantized 8-bit. Both graphs went through lowering_passes(). Errors: the runners', the source's.
Result<std::vector<LayerNoise>> layer_noise(const Graph& reference, const Graph& changed, const SampleSource& source,
                                            const SessionOptions& session);

// SQNR of all float32 outputs over all samples, in dB; infinite: no difference. Outputs whose size depends on data are compared as far as
// both go. Errors as above.
Result<double> output_sqnr(const Graph& reference, const Graph& changed, const SampleSource& source, const SessionOptions& session);

}  // namespace lathe
