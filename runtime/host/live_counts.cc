#include "runtime/host/live_counts.h"

#include <algorithm>
#include <numeric>

#include "lathe/arith.h"
#include "lathe/float16.h"

namespace lathe {

LiveCounts::LiveCounts(const HostSession& session, const LoadedProgram& loaded, const std::vector<LiveMark>& marks, uint32_t every,
                       uint32_t most)
    : session_(session), program_(loaded.program), of_step_(loaded.program.step_count()), every_(std::max(1u, every)),
      most_(std::max(1u, most)) {
  std::vector<uint32_t> maker(program_.tensor_count(), UINT32_MAX);
  for (uint32_t s = 0; s < program_.step_count(); ++s)
    for (uint32_t i = 0; i < program_.step(s).n_out; ++i)
      if (const uint32_t t = program_.output(program_.step(s), i); t != kNoTensor) maker[t] = s;
  for (const LiveMark& mark : marks) {
    const auto index = static_cast<uint32_t>(counters_.size());
    const ProgramTensor& t = program_.tensor(mark.tensor);
    Counter c;
    c.mark = mark, c.dtype = t.dtype, c.counts.resize(mark.edges.size() + 1);
    // Inside a plan 8-bit values may be stored with their top bit turned (runtime/bound.h).
    const int32_t flip = session.plan().storage == kernels::Storage::kU8 ? 0x80 : 0;
    for (int32_t byte = 0; byte < 256 && t.dtype == DType::kS8; ++byte) {
      const auto q = static_cast<int32_t>(static_cast<int8_t>(byte ^ flip));
      const float value = dequantize(q, t.quant.scale, t.quant.zero_point);
      c.group_of_byte.push_back(static_cast<uint8_t>(group(c, value)));
      c.low_byte.push_back(value < mark.lo);
      c.high_byte.push_back(value >= mark.hi);
    }
    if (maker[mark.tensor] != UINT32_MAX) of_step_[maker[mark.tensor]].push_back(index);
    else of_inputs_.push_back(index);
    tensors_.push_back({mark.name, 0, 0, 0, std::vector<double>(c.counts.size()), std::vector<double>(c.counts.size())});
    counters_.push_back(std::move(c));
  }
}

void LiveCounts::clear() {
  for (LiveTensor& t : tensors_) {
    t.samples = 0, t.below = 0, t.above = 0;
    std::fill(t.share.begin(), t.share.end(), 0.0);
    std::fill(t.square.begin(), t.square.end(), 0.0);
  }
  run_ = 0;
}

uint32_t LiveCounts::group(const Counter& c, float value) const {
  return static_cast<uint32_t>(std::upper_bound(c.mark.edges.begin(), c.mark.edges.end(), value) - c.mark.edges.begin());
}

void LiveCounts::before(void* self, uint32_t step) {
  auto& c = *static_cast<LiveCounts*>(self);
  if (step != 0) return;
  c.counting_ = c.run_++ % c.every_ == 0;
  if (!c.counting_) return;
  for (const uint32_t m : c.of_inputs_) c.count(m);
}

void LiveCounts::after(void* self, uint32_t step) {
  auto& c = *static_cast<LiveCounts*>(self);
  if (!c.counting_) return;
  for (const uint32_t m : c.of_step_[step]) c.count(m);
}

void LiveCounts::count(uint32_t m) {
  Counter& c = counters_[m];
  const uint8_t* data = session_.tensor_data(c.mark.tensor);
  const uint64_t elems = session_.tensor_shape(c.mark.tensor).elems();
  if (data == nullptr || elems == 0) return;
  std::fill(c.counts.begin(), c.counts.end(), 0u);
  // A step that shares no factor with the size visits all channels, columns and rows in turn.
  uint64_t step = (elems + most_ - 1) / most_;
  while (std::gcd(step, elems) != 1) ++step;
  uint64_t seen = 0, below = 0, above = 0;
  for (uint64_t i = 0; i < elems; i += step, ++seen) {
    if (c.dtype == DType::kS8) {
      ++c.counts[c.group_of_byte[data[i]]];
      below += c.low_byte[data[i]];
      above += c.high_byte[data[i]];
      continue;
    }
    const float v = c.dtype == DType::kF32 ? reinterpret_cast<const float*>(data)[i] : half_to_float(reinterpret_cast<const uint16_t*>(data)[i]);
    ++c.counts[group(c, v)];
    below += v < c.mark.lo;
    above += v >= c.mark.hi;
  }
  LiveTensor& t = tensors_[m];
  ++t.samples;
  t.below += static_cast<double>(below) / static_cast<double>(seen);
  t.above += static_cast<double>(above) / static_cast<double>(seen);
  for (size_t g = 0; g < c.counts.size(); ++g) {
    const double share = static_cast<double>(c.counts[g]) / static_cast<double>(seen);
    t.share[g] += share;
    t.square[g] += share * share;
  }
}

}  // namespace lathe
