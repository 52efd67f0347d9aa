#include "quant/calibration_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "quant/counted.h"

namespace lathe {
namespace {

constexpr uint64_t kFirstPoint = 25;   // of the curve; each further one has twice the samples
constexpr uint64_t kHeldOutPart = 10;  // one of so many samples of a stratum is held out

// Pseudo-random order that depends on contents alone.
uint64_t rank_of_content(const Hash128& content, uint64_t seed) {
  const uint64_t words[] = {content.high, content.low, seed};
  return hash64(std::as_bytes(std::span(words)));
}

// What an activation held, zero included: every grid has it.
struct Extent {
  float lo = 0, hi = 0;
  double width() const { return static_cast<double>(hi) - lo; }
  void add(const Extent& e) { lo = std::min(lo, e.lo), hi = std::max(hi, e.hi); }
};

// Runs samples and sums each activation of a run up.
class Surveyor {
 public:
  static Result<Surveyor> create(const Graph& graph, const SamplePool& pool, const SessionOptions& session) {
    LATHE_TRY(SampleRunner runner, SampleRunner::create(graph, session));
    return Surveyor(graph, pool, std::make_unique<SampleRunner>(std::move(runner)));
  }

  size_t tensors() const { return extents_.size(); }
  std::string name(size_t tensor) const { return graph_.value(runner_->activations()[tensor]).name; }

  // The extents of all tensors in the run of one sample, valid until the next. bad(): the tensor that held NaN or infinity first.
  Result<std::span<const Extent>> look(uint32_t sample) {
    bad_ = kNone;
    LATHE_CHECK_OK(run(sample, [&](uint32_t t, std::span<const float> values) {
      const bool finite = all_finite(values);
      if (!finite && bad_ == kNone) bad_ = t;
      extents_[t] = {};
      if (finite)
        for (const float v : values) extents_[t].lo = std::min(extents_[t].lo, v), extents_[t].hi = std::max(extents_[t].hi, v);
    }));
    return std::span<const Extent>(extents_);
  }
  bool is_bad() const { return bad_ != kNone; }
  std::string bad() const { return name(bad_); }

  // Counts of the values in the run of one sample and of those outside `ranges`.
  Result<HeldOutSample> count_beyond(uint32_t sample, std::span<const Extent> ranges) {
    HeldOutSample out{sample, 0, 0};
    LATHE_CHECK_OK(run(sample, [&](uint32_t t, std::span<const float> values) {
      out.values += values.size();
      for (const float v : values) out.beyond += !(v >= ranges[t].lo && v <= ranges[t].hi);  // NaN, too
    }));
    return out;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  Surveyor(const Graph& graph, const SamplePool& pool, std::unique_ptr<SampleRunner> runner)
      : graph_(graph),
        pool_(pool),
        runner_(std::move(runner)),
        counted_(graph, *runner_),
        extents_(runner_->activations().size()) {}

  template <class Visit>
  Result<void> run(uint32_t sample, const Visit& visit) {
    LATHE_CHECK_OK(
        runner_->run(pool_.source, sample, [&](uint32_t t, std::span<float> values) { visit(t, counted_.of(t, values)); }));
    if (pool_.source.on_progress) pool_.source.on_progress(++runs_);
    return {};
  }

  const Graph& graph_;
  const SamplePool& pool_;
  std::unique_ptr<SampleRunner> runner_;  // counted_ points to it
  CountedValues counted_;
  std::vector<Extent> extents_;  // by tensor of the program; zero where it is no activation
  uint32_t bad_ = kNone;
  uint64_t runs_ = 0;
};

// The sample of a stratum that reaches farthest on one side of an activation.
struct Farthest {
  float reach = 0;
  uint32_t sample = UINT32_MAX;
};

// What one look at each sample of the pool leaves.
struct Survey {
  std::vector<float> spread;                    // by sample: mean of log2 of the widths of its activations
  std::vector<std::vector<uint32_t>> members;   // by stratum
  std::vector<std::vector<Farthest>> farthest;  // by stratum: two per tensor
  std::vector<Extent> ranges;                   // by tensor, of all samples
  std::vector<RefusedActivation> refused;
};

class Builder {
 public:
  Builder(const SamplePool& pool, const BuildOptions& options, Surveyor surveyor)
      : pool_(pool), options_(options), surveyor_(std::move(surveyor)) {}

  Result<BuiltSet> build() {
    std::vector<uint32_t> held_out;
    divide(&held_out);
    LATHE_CHECK_OK(survey());
    BuiltSet out;
    out.refused = std::move(survey_.refused);
    std::vector<std::vector<uint32_t>> queues;
    for (size_t s = 0; s < survey_.members.size(); ++s) queues.push_back(queue(s));
    out.picked = in_turns(queues);
    if (out.picked.empty()) return fail(Code::kInvalidArgument, "every sample of the pool makes NaN or infinity");
    std::vector<Extent> ranges(surveyor_.tensors());
    LATHE_CHECK_OK(draw_curve(out.picked, &ranges, &out.curve));
    for (const uint32_t i : held_out) {
      LATHE_TRY(out.held_out.emplace_back(), surveyor_.count_beyond(i, ranges));
    }
    return out;
  }

 private:
  // Sets aside what will check the set, before anything is known of it: else the check would be of samples that shaped it.
  void divide(std::vector<uint32_t>* held_out) {
    std::vector<std::vector<uint32_t>> all(pool_.names.size());
    for (uint32_t i = 0; i < pool_.contents.size(); ++i) all[pool_.strata[i]].push_back(i);
    const bool enough = pool_.contents.size() > options_.size;
    for (auto& members : all) {
      members = by_chance(std::move(members));
      const auto end = members.begin() + static_cast<ptrdiff_t>(enough ? members.size() / kHeldOutPart : 0);
      held_out->insert(held_out->end(), members.begin(), end);
      members.erase(members.begin(), end);
    }
    candidates_ = std::move(all);
  }

  Result<void> survey() {
    survey_.members.resize(pool_.names.size());
    survey_.farthest.assign(pool_.names.size(), std::vector<Farthest>(2 * surveyor_.tensors()));
    survey_.spread.resize(pool_.contents.size());
    survey_.ranges.resize(surveyor_.tensors());
    for (const auto& members : candidates_)
      for (const uint32_t i : members) LATHE_CHECK_OK(survey(i));
    std::sort(survey_.refused.begin(), survey_.refused.end(), [](const auto& x, const auto& y) { return x.sample < y.sample; });
    return {};
  }

  Result<void> survey(uint32_t i) {
    LATHE_TRY(const std::span<const Extent> extents, surveyor_.look(i));
    if (surveyor_.is_bad()) {
      survey_.refused.push_back({i, surveyor_.bad()});
      return {};
    }
    survey_.members[pool_.strata[i]].push_back(i);
    double sum = 0, wide = 0;
    for (size_t t = 0; t < extents.size(); ++t) {
      survey_.ranges[t].add(extents[t]);
      keep_farthest(i, 2 * t, -extents[t].lo);
      keep_farthest(i, 2 * t + 1, extents[t].hi);
      if (extents[t].width() > 0) sum += std::log2(extents[t].width()), ++wide;
    }
    survey_.spread[i] = wide > 0 ? static_cast<float>(sum / wide) : 0;
    return {};
  }

  void keep_farthest(uint32_t sample, size_t place, float reach) {
    Farthest& f = survey_.farthest[pool_.strata[sample]][place];
    if (reach > f.reach || (reach == f.reach && reach > 0 && pool_.contents[sample] < pool_.contents[f.sample]))
      f = {reach, sample};
  }

  // Samples of a stratum that are farthest somewhere, those that are it most often first.
  std::vector<uint32_t> extremes(size_t stratum) const {
    std::map<uint32_t, int> times;
    for (const Farthest& f : survey_.farthest[stratum])
      if (f.reach > 0) --times[f.sample];
    std::vector<uint32_t> out;
    for (const auto& [sample, count] : times) out.push_back(sample);
    std::sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(times.at(a), pool_.contents[a]) < std::tuple(times.at(b), pool_.contents[b]);
    });
    return out;
  }

  // All samples of a stratum, the first n of them evenly over the order of their spread whatever n is: positions in the order of
  // their mirrored bits (van der Corput's sequence), turned by a chance.
  std::vector<uint32_t> evenly(size_t stratum) const {
    std::vector<uint32_t> sorted = survey_.members[stratum];
    std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(survey_.spread[a], pool_.contents[a]) < std::tuple(survey_.spread[b], pool_.contents[b]);
    });
    const uint64_t n = sorted.size(), turn = n == 0 ? 0 : rank_of_content(hash128(pool_.names[stratum]), options_.seed) % n;
    uint32_t bits = 0;
    while ((uint64_t{1} << bits) < n) ++bits;
    std::vector<uint32_t> out;
    for (uint64_t j = 0; j < uint64_t{1} << bits; ++j) {
      uint64_t mirrored = 0;
      for (uint32_t b = 0; b < bits; ++b) mirrored |= (j >> b & 1) << (bits - 1 - b);
      if (mirrored < n) out.push_back(sorted[(mirrored + turn) % n]);
    }
    return out;
  }

  // The order in which a stratum gives its samples.
  std::vector<uint32_t> queue(size_t stratum) const {
    const std::vector<uint32_t> far = extremes(stratum), even = evenly(stratum);
    std::vector<bool> in(pool_.contents.size());
    std::vector<uint32_t> out;
    const auto take_next = [&](const std::vector<uint32_t>& from, size_t* at) {
      while (*at < from.size() && in[from[*at]]) ++*at;
      if (*at == from.size()) return;
      in[from[*at]] = true;
      out.push_back(from[*at]);
    };
    for (size_t f = 0, e = 0; out.size() < even.size();) {
      take_next(far, &f);
      take_next(even, &e);
    }
    return out;
  }

  std::vector<uint32_t> by_chance(std::vector<uint32_t> samples) const {
    std::sort(samples.begin(), samples.end(), [&](uint32_t a, uint32_t b) {
      return rank_of_content(pool_.contents[a], options_.seed) < rank_of_content(pool_.contents[b], options_.seed);
    });
    return samples;
  }

  // One from each stratum, then a second from each, until there are enough; where the last turn ends is left to chance.
  std::vector<uint32_t> in_turns(const std::vector<std::vector<uint32_t>>& queues) const {
    std::vector<size_t> order(queues.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto rank = [&](size_t s) { return rank_of_content(hash128(pool_.names[s]), options_.seed); };
      return std::tuple(rank(a), a) < std::tuple(rank(b), b);
    });
    std::vector<uint32_t> out;
    bool more = true;
    for (size_t turn = 0; more; ++turn) {
      more = false;
      for (const size_t s : order) {
        if (turn >= queues[s].size() || out.size() == options_.size) continue;
        out.push_back(queues[s][turn]);
        more = true;
      }
    }
    return out;
  }

  // Mean share of the pool's ranges.
  double covered(std::span<const Extent> ranges, CurvePoint* point) const {
    double sum = 0;
    size_t count = 0;
    point->least = 2;
    for (size_t t = 0; t < ranges.size(); ++t) {
      if (survey_.ranges[t].width() == 0) continue;
      const double share = ranges[t].width() / survey_.ranges[t].width();
      if (share < point->least) point->least = share, point->least_tensor = surveyor_.name(t);
      sum += share, ++count;
    }
    return count == 0 ? 1 : sum / static_cast<double>(count);
  }

  Result<void> draw_curve(const std::vector<uint32_t>& picked, std::vector<Extent>* ranges, std::vector<CurvePoint>* curve) {
    std::vector<uint32_t> all;
    for (const auto& members : survey_.members) all.insert(all.end(), members.begin(), members.end());
    const std::vector<uint32_t> random = by_chance(std::move(all));
    std::vector<Extent> of_random(ranges->size());
    uint64_t next = kFirstPoint;
    for (size_t n = 0; n < picked.size(); ++n) {
      LATHE_CHECK_OK(widen(picked[n], ranges));
      LATHE_CHECK_OK(widen(random[n], &of_random));
      if (n + 1 != next && n + 1 != picked.size()) continue;
      next *= 2;
      CurvePoint point, ignored;
      point.samples = n + 1;
      point.random = covered(of_random, &ignored);
      point.built = covered(*ranges, &point);
      curve->push_back(std::move(point));
    }
    return {};
  }

  Result<void> widen(uint32_t sample, std::vector<Extent>* ranges) {
    LATHE_TRY(const std::span<const Extent> extents, surveyor_.look(sample));
    for (size_t t = 0; t < extents.size(); ++t) (*ranges)[t].add(extents[t]);
    return {};
  }

  const SamplePool& pool_;
  const BuildOptions& options_;
  Surveyor surveyor_;
  std::vector<std::vector<uint32_t>> candidates_;  // by stratum: what is not held out
  Survey survey_;
};

}  // namespace

uint64_t samples_to_run(uint64_t pool, uint64_t size) { return pool + 2 * std::min(pool, size); }

Result<BuiltSet> build_calibration_set(const Graph& graph, const SamplePool& pool, const BuildOptions& options) {
  if (pool.contents.empty()) return fail(Code::kInvalidArgument, "the pool has no usable sample");
  if (pool.names.size() > options.size)
    return fail(Code::kInvalidArgument, std::to_string(pool.names.size()) + " strata for a set of " +
                                            std::to_string(options.size) + " samples: ask for more samples or for fewer columns");
  LATHE_TRY(Surveyor surveyor, Surveyor::create(graph, pool, options.session));
  return Builder(pool, options, std::move(surveyor)).build();
}

}  // namespace lathe
