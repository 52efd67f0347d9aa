// Latencies of any number of requests in fixed memory: exact mean and extremes, quantiles within 0.4 %.
//
// Counts lie in buckets whose width grows with the value, 128 to an octave (G. Tene's HdrHistogram does it so). Plain value: one
// per thread, merged in the end.
#pragma once
#include <cstdint>
#include <vector>

namespace lathe::tools {

class LatencyHistogram {
 public:
  LatencyHistogram();
  // Negative values count as 0.
  void add(int64_t ns);
  void merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  double mean_us() const;
  double max_us() const { return static_cast<double>(max_) * 1e-3; }
  // The smallest latency that at least the share `q` of all requests did not exceed; 0 if there are none. Requires: 0 <= q <= 1.
  double quantile_us(double q) const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

}  // namespace lathe::tools
