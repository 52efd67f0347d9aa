// What tensors hold while a network serves: a histogram in few groups and how much saturates, by tensor, at a fixed small cost.
//
//   LiveCounts counts(session, *loaded, marks);
//   session.set_hook(counts.hook());
//   ... runs ...
//   counts.tensors()
//
// Every `every`-th run counts, and of each marked tensor at most `most` elements, spread evenly. A counted run is one sample: its shares
// are kept as sums and sums of squares over runs, so that their variation between runs is known, which elements of one picture do not
// tell. Allocates in the constructor only. One thread at a time, like the session.
#pragma once
#include <string>
#include <vector>

#include "runtime/host/session.h"

namespace lathe {

struct LiveMark {
  std::string name;
  uint32_t tensor = 0;        // float32, float16 or quantized s8
  float lo = 0, hi = 0;       // values below and from `hi` on are counted as ends of the range
  std::vector<float> edges;   // between groups, ascending
};

struct LiveTensor {
  std::string name;
  uint64_t samples = 0;
  double below = 0, above = 0;         // sums over samples of the shares at either end
  std::vector<double> share, square;   // by group: sums over samples of the share, and of its square
};

class LiveCounts {
 public:
  // `session` must be bound. Marks whose tensors are not dense in the plan stay without samples.
  LiveCounts(const HostSession& session, const LoadedProgram& loaded, const std::vector<LiveMark>& marks, uint32_t every = 16,
             uint32_t most = 1024);
  StepHook hook() { return {&before, &after, this}; }
  const std::vector<LiveTensor>& tensors() const { return tensors_; }
  void clear();

 private:
  struct Counter {
    LiveMark mark;
    DType dtype = DType::kF32;
    std::vector<uint8_t> group_of_byte, low_byte, high_byte;  // for 8-bit tensors, by stored byte
    std::vector<uint32_t> counts;
  };
  static void before(void* self, uint32_t step);
  static void after(void* self, uint32_t step);
  void count(uint32_t mark);
  uint32_t group(const Counter& c, float value) const;

  const HostSession& session_;
  const Program& program_;
  std::vector<Counter> counters_;
  std::vector<LiveTensor> tensors_;
  std::vector<uint32_t> of_inputs_;             // marks
  std::vector<std::vector<uint32_t>> of_step_;  // marks of a step's results
  uint32_t every_, most_;
  uint64_t run_ = 0;
  bool counting_ = true;
};

}  // namespace lathe
