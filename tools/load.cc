#include "tools/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cmath>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cancel.h"
#include "runtime/host/cpu.h"

namespace lathe::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

Clock::duration seconds(double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); }
int64_t ns(Clock::duration d) { return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count(); }

// Requests in the order of their times. take() gives the time of the next one, or nothing when the load is over.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::optional<Time> take() = 0;
  // A request was answered.
  virtual void answered(Time) {}
  virtual void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  std::atomic<bool> closed_{false};
};

// Clients that wait: an answered request becomes the next one.
class ClosedLoop final : public Source {
 public:
  ClosedLoop(uint32_t clients, Time start) : waiting_(clients, start) {}
  std::optional<Time> take() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed() || !waiting_.empty(); });
    if (closed()) return std::nullopt;
    const Time t = waiting_.front();
    waiting_.pop_front();
    return t;
  }
  // Whoever answered takes the next request itself, so nobody needs to be woken.
  void answered(Time t) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(t);
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    Source::close();
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Time> waiting_;
};

// A timer is late by tens of microseconds; the rest of the time passes spinning, where replicas have CPUs of their own. (Yielding
// would be no help: on a busy machine the CPU is gone for milliseconds then.)
constexpr auto kTimerError = std::chrono::microseconds(100);
constexpr auto kLongestSleep = std::chrono::milliseconds(20);

class OpenLoop final : public Source {
 public:
  OpenLoop(const LoadOptions& o, Time start, bool spin)
      : o_(o), start_(start), early_(spin ? Clock::duration(kTimerError) : Clock::duration(0)), state_(o.seed) {}
  std::optional<Time> take() override {
    if (closed()) return std::nullopt;
    const Time t = next();
    for (Time now = Clock::now(); now < t; now = Clock::now()) {
      if (closed()) return std::nullopt;
      if (t - now > early_)
        std::this_thread::sleep_for(std::min<Clock::duration>(t - now - early_, kLongestSleep));
      else
        spin_pause();
    }
    return t;
  }
  // The time of the next request, whether or not it is due.
  Time next() {
    const std::lock_guard lock(mutex_);
    // Times come from the count, not from a sum of rounded steps.
    at_ += o_.arrivals == Arrivals::kFixed ? 1.0 : -std::log1p(-uniform());
    return start_ + seconds(at_ / o_.rate);
  }

 private:
  // In [0, 1). Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
  double uniform() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  const LoadOptions& o_;
  const Time start_;
  const Clock::duration early_;  // before a request is due: when sleeping ends
  std::mutex mutex_;
  uint64_t state_;
  double at_ = 0;
};

struct Window {
  Time begin, end;
  bool has(Time t) const { return begin <= t && t < end; }
};

// What one replica saw.
struct Tally {
  LatencyHistogram latency;
  uint64_t completed = 0;
  int64_t busy_ns = 0;
  Result<void> status;
};

// Serves until the source is over. Only what falls into the window counts.
void serve_all(const Serve& serve, Source& source, const Window& window, Tally* tally) {
  while (const auto asked = source.take()) {
    const Time begun = Clock::now();
    tally->status = serve();
    const Time done = Clock::now();
    if (!tally->status) return source.close();
    source.answered(done);
    if (window.has(*asked)) tally->latency.add(ns(done - *asked));
    if (window.has(done)) ++tally->completed;
    tally->busy_ns += std::max<int64_t>(0, ns(std::min(done, window.end) - std::max(begun, window.begin)));
    if (done >= window.end || cancel_requested()) return source.close();
  }
}

// A load that was cut short was measured up to now.
void add_up(std::vector<Tally>& tallies, const Window& window, LoadResult* out) {
  int64_t busy = 0;
  for (const Tally& t : tallies) {
    out->latency.merge(t.latency);
    out->completed += t.completed;
    busy += t.busy_ns;
  }
  out->interrupted = cancel_requested();
  const Time end = out->interrupted ? std::min(Clock::now(), window.end) : window.end;
  out->seconds = std::max(0.0, std::chrono::duration<double>(end - window.begin).count());
  if (out->seconds > 0) out->busy = static_cast<double>(busy) * 1e-9 / (out->seconds * static_cast<double>(tallies.size()));
}

// Requests that were due before the end and that nobody took: a replica would have been at them then at the earliest.
void count_unserved(OpenLoop& source, const Window& window, LoadResult* out) {
  const Time end = window.begin + seconds(out->seconds);
  for (Time t = source.next(); t < end; t = source.next()) {
    if (t < window.begin) continue;
    ++out->unserved;
    out->latency.add(ns(end - t));
  }
}

}  // namespace

Result<LoadResult> run_load(const std::vector<Serve>& replicas, const LoadOptions& o) {
  for (const Serve& serve : replicas) LATHE_CHECK_OK(serve());  // touches its memory
  const Time start = Clock::now();
  const Window window{start + seconds(o.warmup_seconds), start + seconds(o.warmup_seconds + o.seconds)};
  ClosedLoop closed(o.clients, start);
  OpenLoop open(o, start, replicas.size() <= usable_cpus());
  const bool is_open = o.rate > 0;
  Source& source = is_open ? static_cast<Source&>(open) : closed;
  std::vector<Tally> tallies(replicas.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < replicas.size(); ++i)
      threads.emplace_back([&, i] { serve_all(replicas[i], source, window, &tallies[i]); });
    while (Clock::now() < window.end && !source.closed() && !cancel_requested())
      std::this_thread::sleep_for(std::min<Clock::duration>(window.end - Clock::now(), kLongestSleep));
    source.close();
  }
  for (Tally& t : tallies) LATHE_CHECK_OK(std::move(t.status));
  LoadResult out;
  add_up(tallies, window, &out);
  if (is_open) count_unserved(open, window, &out);
  return out;
}

}  // namespace lathe::tools
